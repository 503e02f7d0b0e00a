"""When each block was last used: a file of a number a slot, mapped by writer and readers alike.

Nothing depends on it but the order in which blocks are evicted, so nobody locks it, nothing of it
has a checksum, and two processes that stamp at once may give two blocks the same time. It outlives
its writers with the pools: an opening finds the order that there was.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from perdure.kv._pieces import Numbers

_MAGIC = 0x31_73_65_73_75_76_6B_70  # "pkvuses1"
_HEAD = 8  # words before the slots: magic, unused, clock


class Uses:
    def __init__(self, path: Path, least: int, *, anew: bool = False) -> None:
        """Of at least so many slots. `anew`, or where the file is none: all are equally old."""
        there = 0 if anew else _slots_in(path)
        if there == 0:
            path.unlink(missing_ok=True)
            path.touch(0o600)  # as pools are
            os.truncate(path, 8 * (_HEAD + least))
        elif there < least:
            os.truncate(path, 8 * (_HEAD + least))
        self._words = np.asarray(np.memmap(path, "<u8", "r+"))
        self._words[0] = _MAGIC
        self.times = self._words[_HEAD:]

    def stamp(self, slots: Numbers) -> None:
        """They are used now, the first of them last: of a chain of blocks the end goes first."""
        if len(slots) == 0:
            return
        now = int(self._words[2]) + len(slots)
        self._words[2] = now
        slots = slots[slots < len(self.times)]
        self.times[slots[::-1]] = np.arange(now - len(slots) + 1, now + 1, dtype=np.uint64)


def _slots_in(path: Path) -> int:
    """0: it is no such file."""
    try:
        head = np.fromfile(path, "<u8", 1)
        size = path.stat().st_size
    except OSError:
        return 0
    if len(head) == 0 or head[0] != _MAGIC or size % 8 != 0:
        return 0
    return size // 8 - _HEAD
