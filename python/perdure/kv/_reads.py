"""Blocks read where they lie, whoever writes them: the one way in which writer and readers get
bytes out of the pool.

Invariant: a block counts as found only if each of its pieces was in the pool under the key of this
storing of it, and had its checksum in the bytes that the caller got, or that were sent to the
caller's GPU from pinned memory. Where the entry came from, and how old it is, does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import perdure
from perdure import _native, errors
from perdure.kv._pieces import Cut, Numbers, Octets
from perdure.kv._slots import Held

Found = npt.NDArray[np.bool_]
GPU = 0  # that batches of a pool run on
EMPTY = np.empty(0, np.uint8)


class Target:
    """Where blocks go: a buffer and an offset for each. All buffers are the host's, or all are
    PyTorch tensors of one GPU, flat."""

    def __init__(self, out: Any, count: int) -> None:
        """`out`: an array of a row a block, or a buffer for each; contiguous."""
        self.buffers: list[Any]
        self.which = np.zeros(count, np.int64)
        if isinstance(out, (list, tuple)):
            if len(out) != count:
                raise errors.InvalidArgument(f"{len(out)} buffers for {count} keys")
            self.buffers = [_room_of(one) for one in out]
            self.which = np.arange(count, dtype=np.int64)
            self.offsets = np.zeros(count, np.int64)
            self.room = np.array([len(one) for one in self.buffers], np.int64)
        else:
            if count and out.shape[0] != count:
                raise errors.InvalidArgument(f"out has {out.shape[0]} rows for {count} keys")
            self.buffers = [_room_of(out)] if count else []
            row = len(self.buffers[0]) // count if count else 0
            self.offsets = np.arange(count, dtype=np.int64) * row
            self.room = np.full(count, row, np.int64)
        self.gpu = gpu_of(self.buffers)

    @classmethod
    def within(cls, buffer: Any, offsets: Numbers, room: int) -> Target:
        """Rows of one buffer, wherever in it they begin."""
        target = cls.__new__(cls)
        target.buffers = [octets_of(buffer, writable=True)]
        target.which = np.zeros(len(offsets), np.int64)
        target.offsets = np.asarray(offsets, np.int64)
        target.room = np.full(len(offsets), room, np.int64)
        target.gpu = None
        return target


def gpu_of(flats: Sequence[Any]) -> Any:
    """The torch.device of blocks that are PyTorch tensors of a GPU; None: the host has them."""
    gpus = {None if isinstance(one, np.ndarray) else getattr(one, "device", None) for one in flats}
    if len(gpus) > 1:
        raise errors.InvalidArgument("blocks of one call are the host's, or one GPU's")
    return next(iter(gpus), None)


def _room_of(buffer: Any) -> Any:
    """A buffer's bytes to write to: of the host, or a GPU's tensor in one dimension."""
    if getattr(getattr(buffer, "device", None), "type", "cpu") != "cuda":
        return octets_of(buffer, writable=True)
    import torch

    if not buffer.is_contiguous():
        raise errors.InvalidArgument("a block is contiguous: its bytes would go to a copy")
    return buffer.detach().view(-1).view(torch.uint8)


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
        self, held: Held, target: Target, chosen: Numbers, pool: perdure.Store | None = None
    ) -> tuple[Found, Found]:
        """Of each block whether it was found, and whether a piece of it is damaged. Block i goes to
        row `chosen[i]` of the target. `pool` is the same one, where this process has it open on a
        GPU: blocks go to that GPU by its batches."""
        short = np.flatnonzero(target.room[chosen] < held.sizes)
        if len(short):
            first = int(short[0])
            raise errors.InvalidArgument(
                f"key {int(chosen[first])}: its block has {int(held.sizes[first])} bytes, the"
                f" buffer {int(target.room[chosen[first]])}"
            )
        if target.gpu is None:
            return self._read(held, target, chosen)
        if pool is not None and target.gpu.index == GPU:
            return self._read_there(held, target, chosen, pool)
        return self._read_staged(held, target, chosen)

    def _read_there(
        self, held: Held, target: Target, chosen: Numbers, pool: perdure.Store
    ) -> tuple[Found, Found]:
        from perdure.kv import _gpu

        cut = Cut.of(held.sizes, self.piece)
        keys = cut.keys(held.rows, held.generations)
        to = target.buffers, target.which[chosen], target.offsets[chosen], held.sizes
        return cut.judge(_gpu.read_there(pool, keys, cut, *to) if len(chosen) else EMPTY)

    def _read_staged(self, held: Held, target: Target, chosen: Numbers) -> tuple[Found, Found]:
        from perdure.kv import _gpu

        sizes = held.sizes
        whole, damaged = np.zeros(len(sizes), np.bool_), np.zeros(len(sizes), np.bool_)
        staging = _gpu.staging(target.gpu, "out")
        with staging.call():
            for turn in _gpu.turns_of(sizes):
                part, rows = sizes[turn], chosen[turn]
                room = staging.room(int(part.sum()))
                here = Target.within(room.octets, np.cumsum(part) - part, 0)
                here.room = part
                whole[turn], damaged[turn] = self._read(held.part(turn), here, np.arange(len(part)))
                staging.send(room, target.buffers, target.which[rows], target.offsets[rows], part)
        return whole, damaged

    def _read(self, held: Held, target: Target, chosen: Numbers) -> tuple[Found, Found]:
        cut = Cut.of(held.sizes, self.piece)
        rows = chosen[cut.owner]
        statuses = np.empty(len(rows), np.uint8)
        keys = cut.keys(held.rows, held.generations)
        self._reader.get(
            _native.Column.rows(keys, keys.shape[1], len(keys)),
            target.buffers,
            target.which[rows],
            target.offsets[rows] + cut.offsets,
            cut.lengths,
            statuses,
        )
        return cut.judge(statuses)


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
