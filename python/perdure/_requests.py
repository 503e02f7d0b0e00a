"""What a trace's readers hand on: requests in columns, the operations and formats there are, and
the lines that were no requests.

Invariant: all columns of a `Requests` are as long as its keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MALFORMED_KEPT = 20
INT64_MAX = (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1


class TraceError(ValueError):
    """The trace cannot be read at all: missing, damaged, or of no known format."""


class TraceFormat(StrEnum):
    auto = "auto"
    cache3 = "cache3"
    cache7 = "cache7"
    keys = "keys"
    arc = "arc"
    lirs = "lirs"
    msr = "msr"
    cloudphysics = "cloudphysics"
    csv = "csv"
    oraclegeneral = "oraclegeneral"
    u32le = "u32le"
    u32be = "u32be"
    u64le = "u64le"
    u64be = "u64be"


class Op(IntEnum):
    """Operations of the seven-column trace, in the order of ``OP_NAMES``."""

    get = 0
    gets = 1
    set = 2
    add = 3
    replace = 4
    cas = 5
    append = 6
    prepend = 7
    delete = 8
    incr = 9
    decr = 10


OP_NAMES = [op.name for op in Op]


@dataclass(frozen=True)
class Requests:
    """Columns of consecutive requests. Columns that the trace's form does not have are None."""

    keys: pa.Array  # uint64 or large_binary
    times: npt.NDArray[np.int64] | None = None
    sizes: npt.NDArray[np.int64] | None = None  # of the value; with `key_counted`, of key and value
    ops: npt.NDArray[np.uint8] | None = None
    ttls: npt.NDArray[np.int64] | None = None
    key_counted: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> Requests:
        return self._rows(self.keys.slice(start, stop - start), slice(start, stop))

    def take(self, rows: npt.NDArray[np.intp]) -> Requests:
        return self._rows(self.keys.take(pa.array(rows)), rows)

    def _rows(self, keys: pa.Array, rows: slice | npt.NDArray[np.intp]) -> Requests:
        columns = (self.times, self.sizes, self.ops, self.ttls)
        return Requests(keys, *(None if c is None else c[rows] for c in columns), self.key_counted)


def join(parts: list[Requests]) -> Requests:
    if len(parts) == 1:
        return parts[0]

    def column(name: str) -> npt.NDArray | None:
        held = [getattr(part, name) for part in parts]
        return None if held[0] is None else np.concatenate(held)

    keys = pa.concat_arrays([part.keys for part in parts])
    columns = [column(name) for name in ("times", "sizes", "ops", "ttls")]
    return Requests(keys, *columns, parts[0].key_counted)


@dataclass
class Malformed:
    """Lines that were skipped: how many, and where the first few stand and why they were
    refused."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str) -> None:
        self.count += 1
        if len(self.first) < MALFORMED_KEPT:
            self.first.append((line, reason))

    def extend(self, later: Malformed) -> None:
        self.count += later.count
        self.first += later.first[: MALFORMED_KEPT - len(self.first)]


class Refused(ValueError):
    """One line is no request; the message says why."""
