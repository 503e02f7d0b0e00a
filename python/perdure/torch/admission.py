"""Which ids get a row: those that earlier steps have seen often enough.

Sightings of ids without a row are counted in a count-min sketch: four counters an id, of which the
least is its estimate. That is too many where others share all four of them, and never too few.
After as many sightings as a row of it has counters all are halved, so that it stays sparse, and
what was seen once, long ago, is forgotten.

Of several processes each has sketches of its own, of the ids of its buckets. Where buckets go to
other processes, sketches become one by the most of each counter: an id was counted in one of them,
and its counters there are not less in that.

Invariant: counts change in a step's commit alone, and are of its dense state; so a training that is
resumed admits what it would have admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from perdure.torch.new_rows import mixed, shifted
from perdure.torch.tables import TableConfig

PART = "sightings"  # of the dense state
_ROWS = 4
_SEED = 0x632BE59BD9B4E019  # apart from the weights'


class Sketch:
    """Counters of one table."""

    def __init__(self, counters: int) -> None:
        self.cells = torch.zeros((_ROWS, counters), dtype=torch.uint8)
        self.total = 0  # sightings; halved with the counts

    def estimate(self, ids: Tensor) -> Tensor:
        """How often each was seen; 255 at most."""
        self.cells = self.cells.to(ids.device)
        return self.cells.gather(1, self._at(ids)).amin(dim=0)

    def add(self, ids: Tensor, times: Tensor) -> None:
        self.cells = self.cells.to(ids.device)
        width = self.cells.shape[1]
        rows = torch.arange(_ROWS, device=ids.device)[:, None] * width
        at, inverse = torch.unique(self._at(ids) + rows, return_inverse=True)
        added = torch.zeros(at.shape, dtype=torch.int64, device=ids.device)
        added.scatter_add_(0, inverse.reshape(-1), times.repeat(_ROWS))
        flat = self.cells.view(-1)
        flat[at] = (flat[at] + added).clamp(max=255).to(torch.uint8)
        self.total += int(times.sum())
        self._stay_sparse()

    def take(self, several: Sequence[dict[str, Any]]) -> None:
        """What sketches of ids of their own have counted, each as `state_dict` has it."""
        self.cells = torch.stack([one["cells"] for one in several]).amax(dim=0)
        most = self.cells.sum(dim=1, dtype=torch.int64).max()
        self.total = max(int(most), *(one["total"] for one in several))
        self._stay_sparse()

    def state_dict(self) -> dict[str, Any]:
        return {"cells": self.cells.clone(), "total": self.total}

    def _stay_sparse(self) -> None:
        while self.total > self.cells.shape[1]:
            self.cells, self.total = self.cells >> 1, self.total >> 1

    def _at(self, ids: Tensor) -> Tensor:
        seeds = mixed(torch.arange(1, _ROWS + 1, device=ids.device) * _SEED)
        return shifted(mixed(ids + seeds[:, None]), 1) % self.cells.shape[1]


class Sightings:
    """Sketches of the tables that admit, by name: a part of the trainer's dense state."""

    def __init__(self, tables: Iterable[TableConfig]) -> None:
        self.of = {
            one.name: Sketch(one.admit_counters) for one in tables if one.admit_after is not None
        }

    def state_dict(self) -> dict[str, Any]:
        return {name: one.state_dict() for name, one in self.of.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        shapes = {name: list(one["cells"].shape) for name, one in state.items()}
        expected = {name: list(one.cells.shape) for name, one in self.of.items()}
        if shapes != expected:
            raise ValueError(
                f"this pool's steps have counted sightings in {shapes}; the tables have {expected}:"
                " admit_after or admit_counters was another"
            )
        for name, one in self.of.items():
            one.cells, one.total = state[name]["cells"].clone(), state[name]["total"]

    def forget(self) -> None:
        """As before the first step."""
        for one in self.of.values():
            one.cells, one.total = torch.zeros_like(one.cells), 0


def together(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of Sightings of several processes those of one that has buckets of all of them."""
    whole = {}
    for name, first in states[0].items():
        sketch = Sketch(first["cells"].shape[1])
        sketch.take([one[name] for one in states])
        whole[name] = sketch.state_dict()
    return whole
