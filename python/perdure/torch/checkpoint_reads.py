"""Items of checkpoints, read out of the pools of the ranks that saved them.

Invariant: bytes count only if the record of each of their pieces has its checksum in what was
read; the piece is the one that the checkpoint names, for its key is the digest of its bytes.
"""

from __future__ import annotations

import io
import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlanner, ReadItem

import perdure
from perdure.torch.checkpoint_list import Listing
from perdure.torch.checkpoint_pools import _CORRUPT, _OK, Beside, Octets, piece_keys
from perdure.torch.piece_names import names_in
from perdure.torch.pieces import DIGEST

_TAILS = 64  # pieces that small items share, kept for the next item


@dataclass(frozen=True)
class Stored:
    """Where the bytes of an item are: whole pieces, and the rest within others."""

    rank: int
    piece: int
    size: int
    dtype: torch.dtype | None  # None: bytes
    shape: tuple[int, ...]
    whole: bytes  # digests
    tail: bytes  # digests
    tail_at: int  # where the rest begins in the first of these

    @property
    def tail_bytes(self) -> int:
        return self.size % self.piece


class Reads:
    """Of one checkpoint."""

    def __init__(self, listing: Listing, number: int) -> None:
        self._listing, self._number = listing, number
        self._pools: dict[int, Beside] = {}
        self._tails: OrderedDict[tuple[int, bytes], Octets] = OrderedDict()

    def one(self, item: ReadItem, stored: Stored, planner: LoadPlanner) -> None:
        if item.type == LoadItemType.BYTE_IO:
            content = np.empty(stored.size, np.uint8)
            self._fill(content, item, stored, 0)
            planner.load_bytes(item, io.BytesIO(content.tobytes()))
            return
        target = planner.resolve_tensor(item).detach()
        if tuple(target.shape) != tuple(item.lengths):
            raise ValueError(
                f"{item.storage_index.fqn}: the tensor to fill has {tuple(target.shape)} elements,"
                f" and {tuple(item.lengths)} are read"
            )
        self._read_tensor(target, item, stored)
        planner.commit_tensor(item, target)

    def _read_tensor(self, target: Tensor, item: ReadItem, stored: Stored) -> None:
        """Rows of the first dimension that are needed, and no others."""
        offsets, lengths = list(item.storage_offsets), list(item.lengths)
        inner = list(stored.shape[1:])
        dtype = stored.dtype
        assert dtype is not None
        row = math.prod(inner) * dtype.itemsize
        first, count = (offsets[0], lengths[0]) if stored.shape else (0, 1)
        begin, size = first * row, count * row
        if _as_it_lies(target, dtype) and lengths[1:] == inner:
            self._fill(target.reshape(-1).view(torch.uint8).numpy(), item, stored, begin)
            return
        octets = torch.empty(size, dtype=torch.uint8)
        self._fill(octets.numpy(), item, stored, begin)
        rows = octets.view(dtype).reshape([count, *inner] if stored.shape else [])
        for axis, (at, length) in enumerate(zip(offsets[1:], lengths[1:], strict=True), start=1):
            rows = rows.narrow(axis, at, length)
        target.copy_(rows)

    def _fill(self, to: Octets, item: ReadItem, stored: Stored, begin: int) -> None:
        """With bytes of an item, from `begin` on."""
        piece, end = stored.piece, begin + to.size
        of_whole = stored.size - stored.tail_bytes
        upto = min(end, of_whole)
        if begin < upto:
            first, last = begin // piece, -(-upto // piece)
            digests = stored.whole[first * DIGEST : last * DIGEST]
            part = to[: upto - begin]
            if begin == first * piece and upto == last * piece:
                self._pieces(part, digests, item, stored)
            else:
                whole = np.empty((last - first) * piece, np.uint8)
                self._pieces(whole, digests, item, stored)
                part[:] = whole[begin - first * piece :][: part.size]
        if end > of_whole:
            from_tail = max(begin, of_whole)
            each = range(0, len(stored.tail), DIGEST)
            parts = [self._tail(stored.tail[at : at + DIGEST], item, stored) for at in each]
            rest = parts[0] if len(parts) == 1 else np.concatenate(parts)
            at = stored.tail_at + from_tail - of_whole
            to[from_tail - begin :] = rest[at : at + end - from_tail]

    def _tail(self, digest: bytes, item: ReadItem, stored: Stored) -> Octets:
        known = self._tails.get((stored.rank, digest))
        if known is None:
            known = np.empty(stored.piece, np.uint8)
            self._pieces(known, digest, item, stored)
            self._tails[stored.rank, digest] = known
            if len(self._tails) > _TAILS:
                self._tails.popitem(last=False)
        return known

    def _pieces(self, to: Octets, digests: bytes, item: ReadItem, stored: Stored) -> None:
        pool, names = self._pool(stored.rank), names_in(digests)
        statuses = pool.read(piece_keys(names), to)
        if (statuses == _OK).all():
            return
        what = f"pool {pool.path}: of {item.storage_index.fqn!r} in checkpoint {self._number}"
        failed, others = int((statuses != _OK).sum()), self._others()
        if self._number not in self._listing.kept():
            raise perdure.Busy(
                f"{what} pieces went while it was read, for newer ones were saved; load again"
            )
        if (statuses == _CORRUPT).any():
            raise perdure.Corrupt(
                f"{what} {failed} of {len(names)} pieces fail their checksum; {others}"
            )
        raise perdure.Corrupt(
            f"{what} {failed} of {len(names)} pieces are missing: this is not the pool that saved"
            f" it, or it was damaged; copy that pool back, or {others}"
        )

    def _pool(self, rank: int) -> Beside:
        if rank not in self._pools:
            path = self._listing.where.rank_pool(rank)
            try:
                self._pools[rank] = Beside(path)
            except (perdure.NotFound, FileNotFoundError) as error:
                raise perdure.NotFound(
                    f"pool {path}: rank {rank} saved a part of checkpoint {self._number}, and its"
                    f" pool is not there; copy it back, or {self._others()}"
                ) from error
        return self._pools[rank]

    def _others(self) -> str:
        others = [str(one) for one in self._listing.kept() if one != self._number]
        if not others:
            return "begin without it: no other checkpoint is kept"
        return f"load another with number=; there is {', '.join(others)}"


def _as_it_lies(target: Tensor, dtype: torch.dtype) -> bool:
    return (
        target.device.type == "cpu"
        and target.dtype == dtype
        and target.layout == torch.strided
        and target.is_contiguous()
        and not target.is_conj()
        and not target.is_neg()
        and target.numel() > 0
    )
