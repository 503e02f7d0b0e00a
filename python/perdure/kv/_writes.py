"""Blocks into the pool, and out of it, in the order that a kill at any point allows: the entry says
CHANGING, the pieces change, the entry says READY or is gone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

import perdure
from perdure import errors
from perdure.kv._entries import CHANGING, READY
from perdure.kv._pieces import Cut, Numbers, Octets
from perdure.kv._reads import GPU, gpu_of, octets_of
from perdure.kv._slots import Held


class Source:
    """Blocks of the caller: each is bytes of a flat array, from an offset on."""

    def __init__(self, blocks: Any, count: int) -> None:
        if isinstance(blocks, (list, tuple)):
            if len(blocks) != count:
                raise errors.InvalidArgument(f"{len(blocks)} blocks for {count} keys")
            self.flats = [_flat(one) for one in blocks]
            self.which = np.arange(count)
            self.offsets = np.zeros(count, np.int64)
            self.sizes = np.array([_length(one) for one in self.flats], np.int64)
        else:
            rows = int(blocks.shape[0])
            if rows != count:
                raise errors.InvalidArgument(f"blocks has {rows} rows for {count} keys")
            self.flats = [_flat(blocks)] if count else []
            row = _length(self.flats[0]) // count if count else 0
            self.which = np.zeros(count, np.int64)
            self.offsets = np.arange(count, dtype=np.int64) * row
            self.sizes = np.full(count, row, np.int64)
        if (self.sizes == 0).any():
            raise errors.InvalidArgument("a block has at least one byte")
        self.gpu = gpu_of(self.flats)

    @classmethod
    def within(cls, buffer: Any, offsets: Numbers, size: int) -> Source:
        """Rows of one buffer, wherever in it they begin."""
        source = cls.__new__(cls)
        source.flats = [_flat(buffer)]
        source.which = np.zeros(len(offsets), np.int64)
        source.offsets = np.asarray(offsets, np.int64)
        source.sizes = np.full(len(offsets), size, np.int64)
        source.gpu = gpu_of(source.flats)
        return source

    def part(self, block: int, begin: int, end: int) -> Any:
        flat, at = self.flats[int(self.which[block])], int(self.offsets[block])
        return flat[at + begin : at + end]

    def joined(self, chosen: Numbers, piece: int) -> npt.NDArray[np.bool_]:
        """Of each of these blocks but the last, whether it is whole pieces and the next one's bytes
        come right behind."""
        which, begins, sizes = self.which[chosen], self.offsets[chosen], self.sizes[chosen]
        follows = (which[1:] == which[:-1]) & (begins[:-1] + sizes[:-1] == begins[1:])
        joined: npt.NDArray[np.bool_] = follows & (sizes[:-1] % piece == 0)
        return joined


def _flat(array: Any) -> Any:
    """Its bytes, in one dimension, without a copy; of a GPU's array there."""
    device = getattr(getattr(array, "device", None), "type", "cpu")
    if device == "cuda":
        import torch

        return array.contiguous().reshape(-1).view(torch.uint8)
    if hasattr(array, "__cuda_array_interface__"):
        return array.reshape(-1).view(np.uint8)
    return octets_of(array)


def _length(flat: Any) -> int:
    return int(flat.shape[0])


class Writes:
    def __init__(self, blocks: perdure.Store, index: perdure.Store, piece: int) -> None:
        self._blocks, self._index, self._piece = blocks, index, piece

    def put(self, new: Held, source: Source, chosen: Numbers) -> None:
        """The pieces of `new`, whose blocks are those of the source that were chosen."""
        self._say(new, CHANGING)
        there = self._blocks.device == "cuda" and getattr(source.gpu, "index", GPU) == GPU
        if source.gpu is None or there:
            self._put_pieces(new, source, chosen)
        else:
            self._put_staged(new, source, chosen)
        self._say(new, READY)

    def _put_staged(self, new: Held, source: Source, chosen: Numbers) -> None:
        """Blocks of a GPU into a pool whose batches run on the CPU."""
        from perdure.kv import _gpu

        if not hasattr(source.gpu, "index"):
            raise errors.Unsupported(
                "a cache on the CPU takes a GPU's blocks as PyTorch tensors; pass those, or "
                "device='cuda'"
            )
        staging, sizes = _gpu.staging(source.gpu, "in"), source.sizes[chosen]
        with staging.call():
            brought = staging.bring(
                source.flats, source.which[chosen], source.offsets[chosen], sizes
            )
            for turn, octets in brought:
                ends = np.cumsum(sizes[turn])
                here = Source.within(octets, ends - sizes[turn], 0)
                here.sizes = sizes[turn]
                self._put_pieces(new.part(turn), here, np.arange(len(ends)))

    def _put_pieces(self, new: Held, source: Source, chosen: Numbers) -> None:
        cut = Cut.of(new.sizes, self._piece)
        keys = cut.keys(new.rows, new.generations)
        ends = np.cumsum(cut.counts)
        begins = [0, *(np.flatnonzero(~source.joined(chosen, self._piece)) + 1).tolist()]
        for first, behind in itertools.pairwise([*begins, len(chosen)]):
            self._put_run(source, chosen, first, behind, keys, ends)

    def erase(self, held: Held) -> None:
        if not len(held.slots):
            return
        self._say(held, CHANGING)
        cut = Cut.of(held.sizes, self._piece)
        self._blocks.erase(cut.keys(held.rows, held.generations))
        self._index.erase(held.rows)

    def _say(self, held: Held, state: int) -> None:
        entries = held.entries.copy()
        entries["state"] = state
        rows = entries.view(np.uint8).reshape(len(entries), -1)
        self._index.put(held.rows, rows)

    def _put_run(
        self,
        source: Source,
        chosen: Numbers,
        run: int,
        behind: int,
        keys: Octets,
        ends: Numbers,
    ) -> None:
        """Blocks from `run` on whose bytes follow each other, all but the last whole pieces, as one
        batch."""
        begin = int(ends[run - 1]) if run else 0
        end = int(ends[behind - 1])
        size = int(source.sizes[chosen[run:behind]].sum())
        whole = size // self._piece
        first = int(chosen[run])
        if whole:
            rows = source.part(first, 0, whole * self._piece).reshape(whole, self._piece)
            self._blocks.put(keys[begin : begin + whole], rows)
        if begin + whole < end:
            rest = source.part(first, whole * self._piece, size)
            self._blocks.put(keys[end - 1 : end], self._padded(rest))

    def _padded(self, rest: Any) -> Any:
        if isinstance(rest, np.ndarray):
            row = np.zeros((1, self._piece), np.uint8)
            row[0, : len(rest)] = rest
            return row
        row = rest.new_zeros((1, self._piece)) if hasattr(rest, "new_zeros") else None
        if row is None:
            raise errors.Unsupported(
                "a GPU's block that is not whole pieces has to be a PyTorch tensor"
            )
        row[0, : rest.shape[0]] = rest
        return row
