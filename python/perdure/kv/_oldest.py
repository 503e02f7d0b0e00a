"""Which block to evict next: the one that was used longest ago.

Times only grow, so the oldest few, once sorted, stay the oldest as long as theirs have not changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container

import numpy as np
import numpy.typing as npt

_AT_ONCE = 4096


class Oldest:
    def __init__(self, times: npt.NDArray[np.uint64], used: npt.NDArray[np.bool_]) -> None:
        self._times, self._used = times, used
        self._next: deque[tuple[int, int]] = deque()  # time, slot; ascending

    def forget(self) -> None:
        """Some slot may be taken now that was passed over."""
        self._next.clear()

    def take(self, kept: Container[int]) -> int | None:
        """The oldest slot in use that is not kept; none: there is none."""
        passed: list[tuple[int, int]] = []
        found = self._first(kept, passed)
        self._next.extendleft(reversed(passed))
        if found is None:
            self._refill()
            passed.clear()
            found = self._first(kept, passed)
            self._next.extendleft(reversed(passed))
        if found is None and len(passed) < int(self._used.sum()):
            self._refill(everything=True)
            found = self._first(kept, [])
            self.forget()
        return found

    def _first(self, kept: Container[int], passed: list[tuple[int, int]]) -> int | None:
        while self._next:
            time, slot = self._next.popleft()
            if not self._used[slot] or int(self._times[slot]) != time:
                continue
            if slot not in kept:
                return slot
            passed.append((time, slot))
        return None

    def _refill(self, *, everything: bool = False) -> None:
        slots = np.flatnonzero(self._used)
        times = self._times[slots]
        if len(slots) > _AT_ONCE and not everything:
            least = np.argpartition(times, _AT_ONCE)[:_AT_ONCE]
            slots, times = slots[least], times[least]
        order = np.lexsort((slots, times))
        self._next = deque(zip(times[order].tolist(), slots[order].tolist(), strict=True))
