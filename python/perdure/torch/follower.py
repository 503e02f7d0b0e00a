"""A pool's tables beside the process that trains them, for inference.

Invariant: nothing here writes, locks or is waited for; each row that is answered was in the pool,
whole (perdure/pool_reader.h). Two rows of a call may be of two steps, and a row of a step whose
commit is under way; a row that moves at that moment may be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

import perdure
from perdure import _arrays, _checks, _named, _native
from perdure._named import KEY_BYTES, Layout
from perdure._table_reads import TableReads
from perdure.options import PathLike
from perdure.results import Result, checked, done_mask, worst_of


class Follower(TableReads):
    """Reads tables that another process trains, and sees each commit as soon as it is there.

    Stands for a store in EmbeddingBagCollection and EmbeddingCollection, on the host. Nobody waits
    for it. Where the pool was made anew under its name, collections go over to that; as long as
    none is there, they read the old one.

    Attributes
    ----------
    generation : int
        How often it went over to another pool: tables that were taken before are that pool's.

    Parameters
    ----------
    path : path
        Of a pool of `perdure.torch.create`, of durability "process"; or of another pool of named
        tables, whose values have one size or any length.
    threads : int
        That look rows up; 0: one a core.

    Raises
    ------
    NotFound, Unsupported, Corrupt
        There is no pool, or none that can be read so.
    """

    device = "cpu"

    def __init__(self, path: PathLike, *, threads: int = 0) -> None:
        self._path = self.path = _checks.path("path", path)
        self._threads, self.generation = threads, 0
        self._open()

    def __reduce__(self) -> str:
        raise TypeError(
            f"pool {self._path}: a follower is of one process, and is neither pickled nor copied;"
            " pass the path, and make one where it is needed"
        )

    def refresh(self) -> None:
        """Goes over to the pool that has the name now."""
        if self._engine.replaced():
            with suppress(perdure.NotFound):
                self._open()
                self.generation += 1

    def _rows_source(self) -> _native.PoolReader:
        return self._engine

    def _open(self) -> None:
        self._engine = _native.PoolReader.open(self._path, self._threads)
        self._forget_row_number()
        self.key_bytes = self._engine.key_bytes()
        self._value_width = self.value_bytes = self._engine.value_bytes() or None
        self._catalogue_made = None

    def get(
        self,
        keys: Any,
        *,
        out: Any = None,
        dtype: Any = None,
        shape: Any = None,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        """Rows of the pool's keys, as `Store.get`, as bytes; `out` and the rest are not taken."""
        if self.value_bytes is None:
            raise perdure.InvalidArgument(
                f"pool {self._path}: its values have any length; look up rows of its tables"
            )
        return self._get_rows(keys, self.value_bytes, check=check)

    def _get_rows(
        self,
        keys: Any,
        width: int,
        *,
        dtype: Any = None,
        shape: Any = None,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        given = _arrays.keys_column(keys, KEY_BYTES, 0, "cpu")
        count = given.count
        octets, statuses = np.zeros((count, width), np.uint8), np.zeros(count, np.uint8)
        which, starts = np.zeros(count, np.int64), np.arange(count) * width
        lengths = np.zeros(count, np.uint32)
        self._engine.get(given, [octets], which, starts, np.full(count, width), statuses, lengths)
        if self.value_bytes is None:
            statuses[done_mask(statuses) & (lengths != width)] = _native.KeyStatus.size_mismatch
        found = done_mask(statuses)
        octets[~found] = 0  # of a key that is not there a target may hold anything
        rows = torch.from_numpy(octets) if isinstance(keys, torch.Tensor) else octets
        rows = _named.narrowed(rows, width, dtype, shape)
        answer = Result(rows, found, statuses)
        return checked(self._path, "get", answer, worst_of(statuses), check)

    def table(self, name: str, value_bytes: int | None = None) -> perdure.Table:
        self.refresh()
        return super().table(name, value_bytes)

    def tables(self) -> dict[str, perdure.Table]:
        self.refresh()
        return super().tables()

    def _layout(self, tables: Sequence[perdure.Table], ids: Any, offsets: Any) -> Layout:
        self.refresh()
        known = super().tables()
        for table in tables:
            if known.get(table.name) is not table:
                raise perdure.InvalidArgument(
                    f"pool {self._path}: it was made anew since table {table.name!r} was taken from"
                    " it; take it again"
                )
        return super()._layout(tables, ids, offsets)
