"""Blocks read where they lie, whoever writes them: the one way in which writer and readers get
bytes out of the pool.

Invariant: a block counts as found only if each of its pieces was in the pool under the key of this
storing of it, and had its checksum in the bytes that the caller got. Where the entry came from, and
how old it is, does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perdure import _native, errors
from perdure.kv._pieces import Cut, Numbers, Octets

Found = npt.NDArray[np.bool_]


class Target:
    """Where blocks go: a buffer and an offset for each."""

    def __init__(self, out: Any, count: int) -> None:
        """`out`: an array of a row a block, or a buffer for each; contiguous, in host memory."""
        if isinstance(out, (list, tuple)):
            if len(out) != count:
                raise errors.InvalidArgument(f"{len(out)} buffers for {count} keys")
            self.buffers = [octets_of(one, writable=True) for one in out]
            self.which = np.arange(count, dtype=np.int64)
            self.offsets = np.zeros(count, np.int64)
            self.room = np.array([len(one) for one in self.buffers], np.int64)
            return
        if count == 0:
            rows = np.empty((0, 0), np.uint8)
        else:
            flat = octets_of(out, writable=True)
            if out.shape[0] != count:
                raise errors.InvalidArgument(f"out has {out.shape[0]} rows for {count} keys")
            rows = flat.reshape(count, -1)
        self.buffers = [rows.reshape(-1)]
        self.which = np.zeros(count, np.int64)
        self.offsets = np.arange(count, dtype=np.int64) * rows.shape[1]
        self.room = np.full(count, rows.shape[1], np.int64)

    @classmethod
    def within(cls, buffer: Any, offsets: Numbers, room: int) -> Target:
        """Rows of one buffer, wherever in it they begin."""
        target = cls.__new__(cls)
        target.buffers = [octets_of(buffer, writable=True)]
        target.which = np.zeros(len(offsets), np.int64)
        target.offsets = np.asarray(offsets, np.int64)
        target.room = np.full(len(offsets), room, np.int64)
        return target


def octets_of(array: Any, *, writable: bool = False) -> Octets:
    """The bytes of a contiguous array, as they lie."""
    if hasattr(array, "numpy") and hasattr(array, "untyped_storage"):  # of PyTorch, on the host
        array = _torch_octets(array)
    view = memoryview(array)
    if not view.c_contiguous or (writable and view.readonly):
        raise errors.InvalidArgument(
            "a block is contiguous bytes, and writable where it is read to"
        )
    return np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8)


def _torch_octets(tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise errors.Unsupported("blocks are read into host memory: pass a buffer there")
    if not tensor.is_contiguous():
        raise errors.InvalidArgument("a block is contiguous: pass tensor.contiguous()")
    import torch

    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


class Blocks:
    """The pool of pieces, for reading."""

    def __init__(self, path: Path, threads: int) -> None:
        self._path, self._threads = path, threads
        self._reader = _native.PoolReader.open(str(path), threads)
        self.piece = self._reader.value_bytes()

    def replaced(self) -> bool:
        return self._reader.replaced()

    def read(
        self,
        digests: Octets,
        sizes: Numbers,
        generations: npt.NDArray[np.uint32],
        target: Target,
        chosen: Numbers,
    ) -> tuple[Found, Found]:
        """Of each block whether it was found, and whether a piece of it is damaged. Block i goes to
        row `chosen[i]` of the target."""
        short = np.flatnonzero(target.room[chosen] < sizes)
        if len(short):
            first = int(short[0])
            raise errors.InvalidArgument(
                f"key {int(chosen[first])}: its block has {int(sizes[first])} bytes, the buffer "
                f"{int(target.room[chosen[first]])}"
            )
        cut = Cut.of(sizes, self.piece)
        rows = chosen[cut.owner]
        statuses = np.empty(len(rows), np.uint8)
        keys = cut.keys(digests, generations)
        self._reader.get(
            _native.Column.rows(keys, keys.shape[1], len(keys)),
            target.buffers,
            target.which[rows],
            target.offsets[rows] + cut.offsets,
            cut.lengths,
            statuses,
        )
        damaged = ~cut.whole(statuses != int(_native.KeyStatus.corrupt))
        return cut.whole(statuses == int(_native.KeyStatus.ok)), damaged


def lookup(
    reader: _native.PoolReader, keys: Octets, entry: np.dtype[Any]
) -> tuple[npt.NDArray[Any], Found]:
    """Entries of an index, and whether they are there."""
    entries = np.zeros(len(keys), entry)
    statuses = np.empty(len(keys), np.uint8)
    n = len(keys)
    reader.get(
        _native.Column.rows(keys, keys.shape[1], n),
        [entries.view(np.uint8)],
        np.zeros(n, np.int64),
        np.arange(n, dtype=np.int64) * entry.itemsize,
        np.full(n, entry.itemsize, np.int64),
        statuses,
    )
    return entries, statuses == int(_native.KeyStatus.ok)


def chosen_of(found: Sequence[bool] | Found) -> Numbers:
    return np.flatnonzero(np.asarray(found, np.bool_))
