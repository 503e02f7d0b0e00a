"""One rank's part of a checkpoint: its items' bytes, cut into pieces, of which the pool gets those
that it has not.

Items are digested and compared many at a time, so a save takes as many steps of Python and
operators as it has items and GiB, whatever the number of pieces. Of a tensor on a GPU digests alone
come to the host, and pieces that are new.

Invariant: what of an item makes no whole piece follows that of the item before it, in pieces that
they share; the order of items is the same in every save.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from perdure.torch.checkpoint_pools import RankPool
from perdure.torch.checkpoint_reads import Stored
from perdure.torch.piece_names import NONE, Names
from perdure.torch.pieces import Digests, octets_of

_DIGESTED = 1 << 30  # bytes of items that are held, and digested, together


@dataclass
class _Item:
    """As it is saved."""

    item: WriteItem
    octets: Tensor
    dtype: torch.dtype | None  # None: bytes
    shape: tuple[int, ...]


class Saving:
    """One rank's part.

    Attributes
    ----------
    put : int
        Pieces that were written.
    """

    def __init__(self, pool: RankPool, rank: int, digests: Digests) -> None:
        self._pool, self._rank, self._digests = pool, rank, digests
        self._tails: list[Tensor] = []
        self._tail_bytes = 0
        self.put = 0

    def all(self, items: Sequence[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        saved: list[tuple[WriteItem, Stored]] = []
        resolved = (_resolved(one, planner) for one in sorted(items, key=_order))
        for several in _together(resolved):
            saved += zip([one.item for one in several], self._stored(several), strict=True)
        [tails] = self._cut([self._padded()])
        results = []
        for item, stored in saved:
            if stored.tail_bytes:
                first = stored.tail_at // stored.piece
                end = -(-(stored.tail_at + stored.tail_bytes) // stored.piece)
                at = stored.tail_at - first * stored.piece
                stored = replace(stored, tail=tails[first:end].tobytes(), tail_at=at)
            results.append(WriteResult(item.index, stored.size, stored))
        return results

    def _stored(self, several: Sequence[_Item]) -> list[Stored]:
        piece, found = self._pool.piece, []
        names = self._cut([one.octets for one in several])
        for one, mine in zip(several, names, strict=True):
            size, at = one.octets.numel(), self._tail_bytes
            stored = Stored(self._rank, piece, size, one.dtype, one.shape, mine.tobytes(), b"", at)
            if stored.tail_bytes:
                self._tails.append(one.octets[size - stored.tail_bytes :].clone())
                self._tail_bytes += stored.tail_bytes
            found.append(stored)
        return found

    def _cut(self, several: Sequence[Tensor]) -> list[Names]:
        """Names of the whole pieces of each, which are in the pool then."""
        piece = self._pool.piece
        wholes = [one[: one.numel() // piece * piece].reshape(-1, piece) for one in several]
        names = self._digests.of_each(wholes)
        rows = _Rows(wholes)
        self.put += self._pool.put(np.concatenate([NONE, *names]), rows.at)
        return names

    def _padded(self) -> Tensor:
        lacking = -self._tail_bytes % self._pool.piece
        return torch.cat([*_on_host(self._tails), torch.zeros(lacking, dtype=torch.uint8)])


class _Rows:
    """Of several tensors, numbered through."""

    def __init__(self, several: Sequence[Tensor]) -> None:
        self._several = several
        self._begins = np.cumsum([0, *(one.shape[0] for one in several)])

    def at(self, positions: Any) -> list[Tensor]:
        """Some rows, ascending, in host memory: of a GPU's those of all tensors by one copy."""
        ends = np.searchsorted(positions, self._begins)
        found = []
        for n in np.flatnonzero(np.diff(ends)):
            mine = positions[ends[n] : ends[n + 1]] - self._begins[n]
            found.append(_some(self._several[n], mine))
        parts: list[Tensor] = []
        for device, several in itertools.groupby(found, key=lambda one: one.device):
            mine = list(several)
            parts += mine if device.type == "cpu" else [_copied(mine)]
        return parts


def _some(rows: Tensor, at: Any) -> Tensor:
    if at[-1] - at[0] + 1 == len(at):
        return rows[at[0] : at[-1] + 1]
    return rows[torch.from_numpy(at).to(rows.device)]


def _copied(several: list[Tensor]) -> Tensor:
    """From a GPU, by one copy into memory that it writes directly."""
    whole = several[0] if len(several) == 1 else torch.cat(several)
    to = torch.empty(whole.shape, dtype=whole.dtype, pin_memory=whole.is_cuda)
    return to.copy_(whole)


def _on_host(several: Sequence[Tensor]) -> list[Tensor]:
    """By one copy a device."""
    found = list(several)
    for device in {one.device for one in several if one.device.type != "cpu"}:
        mine = [n for n, one in enumerate(several) if one.device == device]
        whole = torch.cat([several[n] for n in mine]).cpu()
        for n, one in zip(mine, whole.split([len(several[n]) for n in mine]), strict=True):
            found[n] = one
    return found


def _together(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """So many items at a time as are digested together."""
    several: list[_Item] = []
    octets = 0
    for one in items:
        if several and octets + one.octets.numel() > _DIGESTED:
            yield several
            several, octets = [], 0
        several.append(one)
        octets += one.octets.numel()
    if several:
        yield several


def _resolved(item: WriteItem, planner: SavePlanner) -> _Item:
    data = planner.resolve_data(item)
    if item.type == WriteItemType.BYTE_IO:
        content = bytearray(data.getbuffer())
        octets = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0)
        return _Item(item, octets.view(torch.uint8), None, (len(content),))
    return _Item(item, octets_of(data), data.dtype, tuple(data.shape))


def _order(item: WriteItem) -> tuple[Any, ...]:
    """The same in every save: what often changes its length is last."""
    return item.type == WriteItemType.BYTE_IO, item.index.fqn, tuple(item.index.offset or ())
