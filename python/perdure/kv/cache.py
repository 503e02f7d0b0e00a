"""The writer of a cache: puts blocks, evicts the oldest, and reads.

Invariants: an entry of the index says READY only while all pieces of its block are in the pool; it
says CHANGING from before the first of them is put until after the last of them is, and from before
the first is erased. So whatever a kill leaves, the next opening knows which blocks were half there,
and drops them, without looking at any block's bytes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from perdure import errors
from perdure.kv import _files
from perdure.kv._counts import Counts
from perdure.kv._entries import BlockInfo, Key, check_meta, digests_of, info_of
from perdure.kv._files import Paths, Plan, log
from perdure.kv._oldest import Oldest
from perdure.kv._pieces import Numbers
from perdure.kv._reads import Blocks, Found, Target
from perdure.kv._slots import Slots
from perdure.kv._writes import Source, Writes
from perdure.options import DeviceName, PathLike


class BlockCache:
    """A cache of blocks in a directory, of which this process is the one writer.

    Any thread may call it. Processes that only read open a `BlockReader`.

    Examples
    --------
    >>> import numpy as np
    >>> from perdure.kv import BlockCache
    >>> cache = BlockCache("/dev/shm/doc.kv", budget_bytes=64 << 20, block_bytes=1 << 16)
    >>> blocks = np.arange(2 << 16, dtype=np.uint8).reshape(2, -1)
    >>> cache.put(["a", "b"], blocks).tolist()
    [True, True]
    >>> out = np.zeros_like(blocks)
    >>> cache.get(["b", "none"], out).tolist()
    [True, False]
    >>> bool((out[0] == blocks[1]).all())
    True
    >>> cache.close()
    >>> import shutil; shutil.rmtree("/dev/shm/doc.kv")
    """

    def __init__(
        self,
        directory: PathLike,
        budget_bytes: int,
        block_bytes: int,
        *,
        threads: int | None = None,
        device: DeviceName = "cpu",
        on_damage: Literal["raise", "discard"] = "raise",
    ) -> None:
        """Opens the cache that is there, or makes one.

        Parameters
        ----------
        directory : str or path-like
            Of the cache alone. On /dev/shm blocks outlive the process; on a disk too, through the
            system's page cache.
        budget_bytes : int
            Of all files. Blocks that were used longest ago go when it is used up.
        block_bytes : int
            What most blocks have: they are cut so that such a block wastes least. Others may have
            more or fewer. A cache is opened with what it was made with.
        threads : int, optional
            That copy and sum; one a core unless given.
        device : {"cpu", "cuda"}
            Where batches of the pool run. Blocks in a GPU's memory are put and got either way;
            with "cuda" at the link's rate, for the GPU sums them up itself.
        on_damage : {"raise", "discard"}
            What an opening does that finds a pool damaged: raise `Corrupt`, or begin empty and log
            a warning.

        Raises
        ------
        Busy
            Another process writes the cache.
        """
        self._paths = Paths(_files.Path(directory))
        self._plan = Plan.of(budget_bytes, block_bytes, device, threads)
        self._on_damage = on_damage
        self._lock = threading.RLock()  # of whoever puts, evicts or closes
        self._pinning = threading.Lock()  # guards _pinned; taken last
        self._counting = threading.Lock()  # guards _counts; taken last
        self._counts = Counts()
        self._closed = False
        if _files.is_there(self._paths):
            try:
                self._plan = self._plan.as_made(self._paths)
                self._adopt(_files.open_there(self._paths, self._plan))
            except errors.Corrupt as error:
                self._begin_empty(error)
        else:
            self._adopt(_files.make(self._paths, self._plan))
        if self._slots.pieces_used > self._stores.pieces:
            with self._lock:
                self._make_room(0, frozenset())

    def put(self, keys: Sequence[Key], blocks: Any, metas: Sequence[bytes] | None = None) -> Found:
        """Stores the blocks of keys that are not there yet.

        Parameters
        ----------
        keys : sequence of bytes or str
            What says which block it is: a hash of its tokens and of all before them, with what else
            its bytes depend on. A key stands for its bytes for good: of one that is there, nothing
            is stored.
        blocks : array of a row a key, or a sequence of buffers
            Contiguous. A GPU's as PyTorch's tensors, or as any arrays with device="cuda".
        metas : sequence of bytes, optional
            Up to 104 bytes to remember with each: `find` answers them.

        Returns
        -------
        array of bool
            Whether the block was stored: it was not there, and there was room for it.

        Notes
        -----
        What is stored is durable when the call returns. Of a batch the first blocks count as used
        last, so the end of a chain goes first. Where not all of a batch finds room, its first
        blocks do.
        """
        return self.put_from(keys, Source(blocks, len(keys)), metas)

    def put_from(
        self, keys: Sequence[Key], source: Source, metas: Sequence[bytes] | None = None
    ) -> Found:
        digests = digests_of(keys)
        meta = [b""] * len(keys) if metas is None else [check_meta(one) for one in metas]
        stored = np.zeros(len(keys), np.bool_)
        with self._lock:
            self._check_open()
            writes = self._writing()
            chosen = self._admit(digests, source)
            if not len(chosen):
                return stored
            new = self._slots.take(
                [digests[i] for i in chosen],
                source.sizes[chosen],
                [meta[i] for i in chosen],
            )
            try:
                writes.put(new, source, chosen)
            except BaseException:
                writes.erase(new)
                self._slots.give(new.slots)
                raise
            self._slots.ready(new)
            self._stores.uses.stamp(new.slots)
            self._count(stored=len(chosen))
        stored[chosen] = True
        return stored

    def get(self, keys: Sequence[Key], out: Any) -> Found:
        """Reads blocks into the caller's memory, and says which were there.

        `out` is an array of a row a key, or a buffer a key, in host memory, or PyTorch's tensors
        in a GPU's, whose stream goes on after the copies. Each block is verified as it is copied;
        of one that is not found, its row may hold anything.
        """
        return self.get_into(keys, Target(out, len(keys)))

    def get_into(self, keys: Sequence[Key], target: Target) -> Found:
        self._check_open()
        found = np.zeros(len(keys), np.bool_)
        chosen, held = self._slots.look(digests_of(keys))
        pool = self._stores.blocks_if_open if self._plan.device == "cuda" else None
        whole, damaged = self._blocks.read(held, target, chosen, pool)
        found[chosen] = whole
        self._stores.uses.stamp(held.slots[whole])
        hits = int(found.sum())
        self._count(hits=hits, misses=len(keys) - hits)
        if damaged.any():
            with self._lock:
                if not self._closed:
                    self._drop_damaged(held.digests, held.generations, np.flatnonzero(damaged))
        return found

    def contains(self, keys: Sequence[Key]) -> Found:
        """Whether the blocks are there. It is no use of them."""
        self._check_open()
        return self._slots.find(digests_of(keys)) >= 0

    def find(self, keys: Sequence[Key]) -> list[BlockInfo | None]:
        """Size and meta of each block that is there."""
        self._check_open()
        infos: list[BlockInfo | None] = [None] * len(keys)
        chosen, held = self._slots.look(digests_of(keys))
        for i, entry in zip(chosen.tolist(), held.entries, strict=True):
            infos[i] = info_of(entry)
        return infos

    def touch(self, keys: Sequence[Key]) -> None:
        """Counts as a use of the blocks, the first of them last."""
        self._check_open()
        slots = self._slots.find(digests_of(keys))
        self._stores.uses.stamp(slots[slots >= 0])

    def pin(self, keys: Sequence[Key]) -> Found:
        """Keeps blocks from being evicted until they are unpinned as often, or the cache closes."""
        self._check_open()
        with self._pinning:
            slots = self._slots.find(digests_of(keys))
            self._pinned.update(slots[slots >= 0].tolist())
            return slots >= 0

    def unpin(self, keys: Sequence[Key]) -> Found:
        self._check_open()
        with self._pinning:
            slots = self._slots.find(digests_of(keys)).tolist()
            was: list[bool] = []
            for slot in slots:
                was.append(slot >= 0 and self._pinned[slot] > 0)
                if slot >= 0:
                    self._pinned[slot] -= 1
                    if self._pinned[slot] <= 0:
                        del self._pinned[slot]
            return np.array(was, np.bool_)

    def remove(self, keys: Sequence[Key]) -> Found:
        """Takes blocks away, pinned ones too, and says which were there."""
        with self._lock:
            self._check_open()
            there = self._slots.find(digests_of(keys))
            slots = np.unique(there[there >= 0])
            self._evict(slots)
            return there >= 0

    def clear(self) -> None:
        """Takes all blocks away."""
        with self._lock:
            self._check_open()
            self._evict(np.flatnonzero(self._slots.used))

    def counts(self) -> Counts:
        with self._counting:
            return replace(self._counts)

    @property
    def capacity_bytes(self) -> int:
        """Of blocks that there is room for, cut without a rest."""
        return self._stores.pieces * self._blocks.piece

    @property
    def used_bytes(self) -> int:
        with self._lock:
            return self._slots.pieces_used * self._blocks.piece

    def __len__(self) -> int:
        with self._lock:
            return len(self._slots)

    def close(self) -> None:
        """Closes the pools in order. Calling it again has no effect."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._stores.close()

    def __enter__(self) -> BlockCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _adopt(self, stores: _files.Stores) -> None:
        """These pools are the cache from now on. Those of its blocks that are not whole are erased
        before anything else is written."""
        try:
            blocks = Blocks(self._paths.blocks, self._plan.threads or 0)
            slots, self._half_there = Slots.of(stores, blocks.piece)
        except BaseException:
            stores.close()
            raise
        self._stores, self._slots, self._blocks = stores, slots, blocks
        self._writes: Writes | None = None
        self._pinned: Counter[int] = Counter()
        self._oldest = Oldest(slots.times, slots.used)
        self._count(dropped=len(self._half_there.slots))

    def _begin_empty(self, error: errors.Corrupt) -> None:
        if self._on_damage != "discard":
            raise error
        log.warning("%s: begins empty, for %s", self._paths.directory, error)
        self._adopt(_files.make(self._paths, self._plan))

    def _writing(self) -> Writes:
        """Waits for the pool of blocks; what is found damaged then counts as at the opening."""
        if self._writes is None:
            try:
                blocks = self._stores.blocks
            except errors.Corrupt as error:
                if self._on_damage == "discard":
                    self._stores.close()
                self._begin_empty(error)
                blocks = self._stores.blocks
            self._writes = Writes(blocks, self._stores.index, self._plan.piece)
            self._writes.erase(self._half_there)
        return self._writes

    def _count(self, **more: int) -> None:
        with self._counting:
            for name, by in more.items():
                setattr(self._counts, name, getattr(self._counts, name) + by)

    def _check_open(self) -> None:
        if self._closed:
            raise errors.Closed(f"{self._paths.directory}: this cache is closed; open it again")

    def _admit(self, digests: Sequence[bytes], source: Source) -> Numbers:
        """Which blocks are to be stored, and room for all of them. Those that are there count as
        used."""
        there = self._slots.find(digests)
        self._stores.uses.stamp(there[there >= 0])
        first: dict[bytes, int] = {}
        for i in np.flatnonzero(there < 0).tolist():
            first.setdefault(digests[i], i)
        chosen = np.fromiter(first.values(), np.int64, len(first))
        needed = np.cumsum(-(-source.sizes[chosen] // self._blocks.piece))
        kept = frozenset(there[there >= 0].tolist())
        fits = self._make_room(int(needed[-1]) if len(needed) else 0, kept)
        return chosen[: int(np.searchsorted(needed, fits, "right"))]

    def _make_room(self, pieces: int, kept: frozenset[int]) -> int:
        """Evicts until so many pieces fit, if they can; how many then fit."""
        over = self._slots.pieces_used + pieces - self._stores.pieces
        with self._pinning:
            taken = np.fromiter({*kept, *self._pinned}, np.int64)
        victims = self._oldest.take(over, self._slots.pieces_of, taken)
        self._evict(victims)
        self._count(evicted=len(victims))
        return self._stores.pieces - self._slots.pieces_used

    def _evict(self, slots: npt.NDArray[Any]) -> None:
        if not len(slots):
            return
        writes = self._writing()
        slots = slots[slots < len(self._slots.used)]
        slots = slots[self._slots.used[slots]]  # none of them where the cache has begun empty
        held = self._slots.held(slots)
        writes.erase(held)
        self._slots.give(held.slots)
        with self._pinning:
            for slot in held.slots.tolist():
                self._pinned.pop(slot, None)

    def _drop_damaged(
        self,
        digests: Sequence[bytes],
        generations: npt.NDArray[np.uint32],
        which: Iterable[int],
    ) -> None:
        """Blocks of which a piece fails its checksum: their bytes are lost, their room is not."""
        for i in which:
            slot = int(self._slots.find([digests[i]])[0])
            if slot < 0 or int(self._slots.entries[slot]["generation"]) != int(generations[i]):
                continue  # by now it is another storing of it
            self._count(corrupt=1)
            log.warning(
                "%s: block %s fails its checksum, and is dropped",
                self._paths.directory,
                digests[i].hex(),
            )
            self._evict(np.array([slot]))
