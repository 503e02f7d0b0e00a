"""How large a measurement is, on which device, and where its data lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Scale:
    """Sizes. The paper: 16 M records, 16 M (micro) and 64 M (YCSB) operations, batches of 2^12 by
    default."""

    records: int
    ops: int  # a repeat
    batches: tuple[int, ...]  # of throughput-latency curves
    repeats: int

    @property
    def batch(self) -> int:
        """The batch of figures that have but one: the paper's, unless there are fewer records."""
        return min(1 << 12, self.ops)


_SCALES = {
    ("cpu", False): Scale(500_000, 1 << 17, (1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16), 3),
    ("cpu", True): Scale(50_000, 1 << 14, (1 << 8, 1 << 12, 1 << 14), 1),
    ("cuda", False): Scale(
        16_000_000, 1 << 22, (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20), 5
    ),
    ("cuda", True): Scale(1_000_000, 1 << 18, (1 << 10, 1 << 13, 1 << 16), 1),
}


def scale_for(device: str, quick: bool, records: int | None = None) -> Scale:
    """The default sizes; `records` changes their number, and with fewer of them batches are smaller
    too."""
    scale = _SCALES[device, quick]
    if records is None:
        return scale
    ops = min(scale.ops, records)
    batches = tuple(batch for batch in scale.batches if batch <= ops) or (ops,)
    return replace(scale, records=records, ops=ops, batches=batches)


@dataclass(frozen=True)
class Setting:
    scale: Scale
    device: str
    folder: Path  # for files that runs read
    data: Path | None = None  # the folder with the samples; found by itself unless given

    def as_dict(self) -> dict[str, Any]:
        return {"device": self.device, **vars(self.scale)}
