"""What a cache has done since it was opened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counts:
    """Of one process. `hits` and `misses` are of blocks that were read; `corrupt` of them failed a
    checksum, and count as misses too."""

    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    stored: int = 0
    evicted: int = 0
    dropped: int = 0  # of blocks that were begun when a writer ended, found at the opening
