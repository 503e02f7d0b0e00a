"""Which blocks to evict next: those that were used longest ago.

Times only grow, so the oldest few, once sorted, stay the oldest as long as theirs have not changed.
Invariant: `_slots` are in the order of `_at`, their times when they were sorted; no slot in use
that is not among them was used before the last of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from perdure.kv._pieces import Numbers

_AT_ONCE = 4096


class Oldest:
    def __init__(self, times: npt.NDArray[np.uint64], used: npt.NDArray[np.bool_]) -> None:
        self._times, self._used = times, used
        self._slots = np.empty(0, np.int64)
        self._at = times[:0]

    def take(self, pieces: int, pieces_of: Callable[[Numbers], Numbers], kept: Numbers) -> Numbers:
        """The oldest slots in use that are not kept, with so many pieces together; all of them,
        where they have fewer."""
        taken = np.empty(0, np.int64)
        for refill in (None, _AT_ONCE, len(self._used)):
            if pieces <= 0:
                break
            if refill is not None:
                self._refill(refill, taken)
            more = self._first(pieces, pieces_of, kept)
            pieces -= int(pieces_of(more).sum())
            taken = np.concatenate([taken, more])
        return taken

    def _first(
        self, pieces: int, pieces_of: Callable[[Numbers], Numbers], kept: Numbers
    ) -> Numbers:
        same = self._used[self._slots] & (self._times[self._slots] == self._at)
        self._slots, self._at = self._slots[same], self._at[same]
        may = np.flatnonzero(~np.isin(self._slots, kept))
        together = np.cumsum(pieces_of(self._slots[may]))
        chosen = may[: int(np.searchsorted(together, pieces)) + 1]
        slots = self._slots[chosen]
        self._slots, self._at = np.delete(self._slots, chosen), np.delete(self._at, chosen)
        return slots

    def _refill(self, most: int, taken: Numbers) -> None:
        slots = np.flatnonzero(self._used)
        slots = slots[~np.isin(slots, taken)]
        times = self._times[slots]
        if len(slots) > most:
            least = np.argpartition(times, most)[:most]
            slots, times = slots[least], times[least]
        order = np.lexsort((slots, times))
        self._slots, self._at = slots[order], times[order]
