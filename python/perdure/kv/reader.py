"""A reader of a cache, beside its writer and other readers.

Invariant: a reader writes nothing but times of use. It trusts no entry: `_reads` says why what it
answers is a block's bytes, whatever the writer does meanwhile, or has not come to do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perdure import _native, errors
from perdure.kv._counts import Counts
from perdure.kv._entries import (
    ENTRY,
    READY,
    BlockInfo,
    Key,
    as_rows,
    digests_of,
    info_of,
)
from perdure.kv._files import Paths, log
from perdure.kv._reads import Blocks, Found, Target, lookup
from perdure.kv._slots import Held
from perdure.kv._uses import Uses
from perdure.options import PathLike


class BlockReader:
    """Reads the blocks of a `BlockCache` that another process writes, or has written.

    It takes no lock, and nobody waits for it. While no process writes the cache, or after
    its writer was killed, it answers what is there. Where the cache was made anew, it goes over
    to that.

    Examples
    --------
    >>> import numpy as np
    >>> from perdure.kv import BlockCache, BlockReader
    >>> cache = BlockCache("/dev/shm/doc.kv", budget_bytes=64 << 20, block_bytes=1 << 16)
    >>> reader = BlockReader("/dev/shm/doc.kv")
    >>> _ = cache.put(["a"], np.full((1, 1 << 16), 7, np.uint8))
    >>> out = np.zeros((1, 1 << 16), np.uint8)
    >>> reader.get(["a"], out).tolist(), int(out.min())
    ([True], 7)
    >>> cache.close()
    >>> import shutil; shutil.rmtree("/dev/shm/doc.kv")
    """

    def __init__(self, directory: PathLike, *, threads: int | None = None) -> None:
        """`threads` copy and sum; one a core unless given."""
        self._paths, self._threads = Paths(Path(directory)), threads or 0
        self._lock = threading.Lock()
        self._counts = Counts()
        self._open()

    def get(self, keys: Sequence[Key], out: Any) -> Found:
        """As `BlockCache.get`."""
        return self.get_into(keys, Target(out, len(keys)))

    def get_into(self, keys: Sequence[Key], target: Target) -> Found:
        found = np.zeros(len(keys), np.bool_)
        rows = as_rows(digests_of(keys))
        blocks, uses, entries, there = self._look(rows)
        chosen = np.flatnonzero(there)
        mine = entries[chosen]
        held = Held(rows[chosen], mine["slot"].astype(np.int64), mine)
        whole, damaged = blocks.read(held, target, chosen)
        found[chosen] = whole
        uses.stamp(held.slots[whole])
        with self._lock:
            self._counts.hits += int(found.sum())
            self._counts.misses += len(keys) - int(found.sum())
            self._counts.corrupt += int(damaged.sum())
        return found

    def contains(self, keys: Sequence[Key]) -> Found:
        return self._look(as_rows(digests_of(keys)))[3]

    def find(self, keys: Sequence[Key]) -> list[BlockInfo | None]:
        _, _, entries, there = self._look(as_rows(digests_of(keys)))
        return [
            info_of(entry) if one else None
            for entry, one in zip(entries, there.tolist(), strict=True)
        ]

    def touch(self, keys: Sequence[Key]) -> None:
        _, uses, entries, there = self._look(as_rows(digests_of(keys)))
        uses.stamp(entries["slot"].astype(np.int64)[there])

    def counts(self) -> Counts:
        with self._lock:
            return replace(self._counts)

    def close(self) -> None:
        """For symmetry with the writer: nothing is held that others wait for."""

    def _open(self) -> None:
        try:
            index = _native.PoolReader.open(str(self._paths.index), 1)
            blocks = Blocks(self._paths.blocks, self._threads)
            uses = Uses(self._paths.uses, 0)
        except (FileNotFoundError, errors.NotFound) as error:
            raise errors.NotFound(
                f"{self._paths.directory}: there is no cache; its writer makes one (BlockCache)"
            ) from error
        self._parts = index, blocks, uses

    def _look(self, rows: npt.NDArray[np.uint8]) -> tuple[Blocks, Uses, Any, Found]:
        """The entries of those that are ready."""
        index, blocks, uses = self._parts
        if index.replaced() or blocks.replaced():
            index, blocks, uses = self._reopened()
        entries, there = lookup(index, rows, ENTRY)
        return blocks, uses, entries, there & (entries["state"] == READY)

    def _reopened(self) -> tuple[_native.PoolReader, Blocks, Uses]:
        """What was made in place of what is open; while it is being made, what is open."""
        with self._lock:
            try:
                self._open()
            except errors.Error as error:
                log.debug("%s: is being made anew: %s", self._paths.directory, error)
            return self._parts
