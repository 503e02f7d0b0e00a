"""What the writer knows of all blocks, in memory: read from the index once, when it opens.

Invariants: a slot is of one block at a time; `used` says which slots have one. `look` needs no
lock: of a slot that gets another block meanwhile it sees the new digest wherever it sees the new
entry, for the digest is written first and read last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perdure.kv._entries import CHANGING, ENTRY, READY, as_rows
from perdure.kv._files import Stores
from perdure.kv._pieces import DIGEST, Numbers, Octets


@dataclass(frozen=True)
class Held:
    """Some blocks, by the entries that they have."""

    rows: Octets  # digests
    slots: Numbers
    entries: npt.NDArray[np.void]

    def part(self, which: slice) -> Held:
        return Held(self.rows[which], self.slots[which], self.entries[which])

    @property
    def digests(self) -> list[bytes]:
        return [row.tobytes() for row in self.rows]

    @property
    def sizes(self) -> Numbers:
        return self.entries["size"].astype(np.int64)

    @property
    def generations(self) -> npt.NDArray[np.uint32]:
        return self.entries["generation"].astype(np.uint32)


class Slots:
    def __init__(self, slots: int, piece: int, times: npt.NDArray[np.uint64]) -> None:
        self.times = times
        self.entries = np.zeros(slots, ENTRY)
        self.used = np.zeros(slots, np.bool_)
        self.pieces_used = 0
        self._piece = piece
        self._rows = np.zeros((slots, DIGEST), np.uint8)
        self._of: dict[bytes, int] = {}
        self._free: list[int] = []
        self._generation = 0

    @classmethod
    def of(cls, stores: Stores, piece: int) -> tuple[Slots, Held]:
        """Those of the index, and blocks that were not whole when its writer ended."""
        times = stores.uses.times
        self = cls(len(times), piece, times)
        pages = [(np.asarray(k), np.asarray(v)) for k, v in stores.index.scan()]
        rows = np.concatenate([np.zeros((0, DIGEST), np.uint8), *[k for k, _ in pages]])
        octets = [np.ascontiguousarray(v).reshape(-1).view(ENTRY) for _, v in pages]
        entries = np.concatenate([np.zeros(0, ENTRY), *octets])
        slots = entries["slot"].astype(np.int64)
        whole = (entries["state"] == READY) & (slots < len(times))
        _, first = np.unique(slots, return_index=True)
        alone = np.zeros(len(slots), np.bool_)
        alone[first] = True
        whole &= alone
        self._hold(Held(rows[whole], slots[whole], entries[whole]))
        if len(entries):
            self._generation = int(entries["generation"].max())
        self._free = np.flatnonzero(~self.used)[::-1].tolist()
        return self, Held(rows[~whole], slots[~whole], entries[~whole])

    def _hold(self, held: Held) -> None:
        self.used[held.slots] = True
        self._rows[held.slots] = held.rows
        self.entries[held.slots] = held.entries
        self._of.update(zip(held.digests, held.slots.tolist(), strict=True))
        self.pieces_used += int((-(-held.sizes // self._piece)).sum())

    def __len__(self) -> int:
        return len(self._of)

    def find(self, digests: Sequence[bytes]) -> Numbers:
        """The slot of each; -1: it is not there."""
        of = self._of
        return np.fromiter((of.get(one, -1) for one in digests), np.int64, len(digests))

    def look(self, digests: Sequence[bytes]) -> tuple[Numbers, Held]:
        """Which of them are there, and their entries."""
        slots = self.find(digests)
        chosen = np.flatnonzero(slots >= 0)
        slots = slots[chosen]
        entries = self.entries[slots]
        rows = self._rows[slots]
        same = (rows == as_rows([digests[i] for i in chosen])).all(axis=1)
        return chosen[same], Held(rows[same], slots[same], entries[same])

    def held(self, slots: Numbers) -> Held:
        return Held(self._rows[slots], slots, self.entries[slots])

    def pieces_of(self, slots: Numbers) -> Numbers:
        return -(-self.entries["size"][slots].astype(np.int64) // self._piece)

    def take(self, digests: Sequence[bytes], sizes: Numbers, metas: Sequence[bytes]) -> Held:
        """Slots for blocks that are to be stored: nobody finds them yet."""
        n = len(digests)
        slots = np.array([self._free.pop() for _ in range(n)], np.int64)
        entries = np.zeros(n, ENTRY)
        entries["size"] = sizes
        entries["slot"] = slots
        entries["state"] = CHANGING
        entries["generation"] = (self._generation + 1 + np.arange(n)) & 0xFFFFFFFF
        self._generation = (self._generation + n) & 0xFFFFFFFF
        for i, meta in enumerate(metas):
            if meta:
                entries[i]["meta_bytes"], entries[i]["meta"] = len(meta), meta
        return Held(as_rows(digests), slots, entries)

    def ready(self, new: Held) -> None:
        """All of their pieces are there."""
        new.entries["state"] = READY
        self._hold(new)

    def give(self, slots: Numbers) -> None:
        """Their blocks are gone."""
        gone = slots[self.used[slots]]
        self.used[gone] = False
        for row in self._rows[gone]:
            del self._of[row.tobytes()]
        self.pieces_used -= int(self.pieces_of(gone).sum())
        self._free.extend(slots.tolist())
