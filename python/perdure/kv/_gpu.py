"""Blocks between a pool and a GPU's memory: through pinned memory of the host, where they are
copied and verified while others cross the link; or, where the pool's batches run on that GPU, by
those.

Invariants: pinned memory is written again only after what was sent from it has left; copies come
after what the caller's stream has under way, and the caller's stream goes on after them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

import perdure
from perdure.kv._pieces import Cut, Numbers, Octets

ROOM = 32 << 20  # bytes that are copied while as many cross the link
_ROOMS = 2


class Room:
    """Pinned memory, and the event after which the copies to or from it are done."""

    def __init__(self, octets: int) -> None:
        self.tensor = torch.empty(octets, dtype=torch.uint8, pin_memory=True)
        self.octets: Octets = self.tensor.numpy()
        self.done = torch.cuda.Event()


class Staging:
    """Of one GPU, one way. One call's at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._stream = torch.cuda.Stream(device)
        self._rooms: list[Room | None] = [None] * _ROOMS
        self._turn = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        with self._lock:
            callers = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(callers)
            try:
                yield
            finally:
                callers.wait_stream(self._stream)

    def room(self, octets: int) -> Room:
        """One that may be written."""
        self._turn = (self._turn + 1) % _ROOMS
        room = self._rooms[self._turn]
        if room is not None:
            room.done.synchronize()
        if room is None or len(room.octets) < octets:
            room = self._rooms[self._turn] = Room(max(octets, ROOM))
        return room

    def send(
        self,
        room: Room,
        to: Sequence[torch.Tensor],
        which: Numbers,
        offsets: Numbers,
        sizes: Numbers,
    ) -> None:
        """What lies one after the other in the room, to `which` tensor from `offsets` on."""
        with torch.cuda.stream(self._stream):
            at = 0
            for tensor in _runs(to, which, offsets, sizes):
                tensor.copy_(room.tensor[at : at + len(tensor)], non_blocking=True)
                tensor.record_stream(self._stream)
                at += len(tensor)
            room.done.record(self._stream)

    def bring(
        self, tensors: Sequence[torch.Tensor], which: Numbers, offsets: Numbers, sizes: Numbers
    ) -> Iterator[tuple[slice, Octets]]:
        """Blocks one after the other in pinned memory, turn by turn; the next turn's are on their
        way meanwhile."""
        turns = list(turns_of(sizes))
        coming = self._begin(turns[0], tensors, which, offsets, sizes)
        for turn, following in itertools.zip_longest(turns, turns[1:]):
            here = coming
            if following is not None:
                coming = self._begin(following, tensors, which, offsets, sizes)
            here.done.synchronize()
            yield turn, here.octets

    def _begin(
        self,
        turn: slice,
        tensors: Sequence[torch.Tensor],
        which: Numbers,
        offsets: Numbers,
        sizes: Numbers,
    ) -> Room:
        room = self.room(int(sizes[turn].sum()))
        with torch.cuda.stream(self._stream):
            at = 0
            for tensor in _runs(tensors, which[turn], offsets[turn], sizes[turn]):
                room.tensor[at : at + len(tensor)].copy_(tensor, non_blocking=True)
                at += len(tensor)
            room.done.record(self._stream)
        return room


_made: dict[tuple[torch.device, str], Staging] = {}
_making = threading.Lock()


def staging(device: torch.device, way: str) -> Staging:
    """Of this process."""
    with _making:
        if (device, way) not in _made:
            _made[device, way] = Staging(device)
        return _made[device, way]


def turns_of(sizes: Numbers) -> Iterator[slice]:
    """Blocks of together about ROOM bytes."""
    first, octets = 0, 0
    for i, size in enumerate(sizes.tolist()):
        if i > first and octets + size > ROOM:
            yield slice(first, i)
            first, octets = i, 0
        octets += size
    if first < len(sizes):
        yield slice(first, len(sizes))


def read_there(
    pool: perdure.Store,
    keys: Octets,
    cut: Cut,
    to: Sequence[torch.Tensor],
    which: Numbers,
    offsets: Numbers,
    sizes: Numbers,
) -> Octets:
    """The status of each piece of blocks that the pool's device, this GPU, copies and verifies."""
    device = to[0].device
    piece = pool.value_bytes
    pieces = torch.empty(len(keys), piece, dtype=torch.uint8, device=device)
    got = pool.get(torch.from_numpy(keys).to(device), out=pieces, check=False)
    octets = pieces.view(-1)
    if (sizes % piece == 0).all():
        at = 0
        for tensor in _runs(to, which, offsets, sizes):
            tensor.copy_(octets[at : at + len(tensor)])
            at += len(tensor)
    else:
        begins = ((np.cumsum(cut.counts) - cut.counts) * piece).tolist()
        for i, (begin, size) in enumerate(zip(begins, sizes.tolist(), strict=True)):
            at = int(offsets[i])
            to[int(which[i])][at : at + size].copy_(octets[begin : begin + size])
    statuses: Octets = np.asarray(got.statuses)
    return statuses


def _runs(
    tensors: Sequence[torch.Tensor], which: Numbers, offsets: Numbers, sizes: Numbers
) -> Iterator[torch.Tensor]:
    """Those bytes in order, blocks that follow each other as one."""
    ends = offsets + sizes
    follows = (which[1:] == which[:-1]) & (offsets[1:] == ends[:-1])
    begins = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(sizes)]
    for first, behind in itertools.pairwise(begins):
        yield tensors[int(which[first])][int(offsets[first]) : int(ends[behind - 1])]
