"""The rarer options of stores, each defined here once: `GPHash` is how a pool's index is built and
stays in the pool; `Options` is how this process works with an open pool, and nothing of it stays.

Invariant: an object of these classes can be carried out as far as its values go: what is no length,
name or flag was refused when it was made. What pool, machine or medium lacks, the engine refuses.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from perdure import _checks, _native

PathLike = str | os.PathLike[str]
DeviceName = Literal["cpu", "cuda"]
IndexName = Literal["gphash", "dash-eh", "dash-lh", "btree"]
KeyOrderName = Literal["bytes", "unsigned", "signed"]
ValuesName = Literal["heap", "log"]
PersistName = Literal["minimal", "index", "full"]
DurabilityName = Literal["none", "process", "power"]
Operation = Literal["replace", "add", "min", "max"]
LayoutName = Literal["word", "in_place", "log"]
ResidencyName = Literal["automatic", "pm", "mirrored"]
GatherName = Literal["automatic", "at_once", "in_order", "by_host", "shared"]
GetsByName = Literal["automatic", "device", "host", "both", "measured"]
CachePolicyName = Literal["lfu", "lru", "random"]


@dataclass(frozen=True, kw_only=True)
class GPHash:
    """GPHash's index, for `perdure.create(..., index=GPHash(...))`; `index="gphash"` is `GPHash()`.

    Attributes
    ----------
    layout : {"word", "in_place", "log"}
        "word" keeps 8 bytes a slot and the key in the record. "in_place" keeps keys in the buckets,
        as GPHash was published; it has no atomic batches, transactions and steps. "log" makes the
        table in memory at each opening, from a log of 16 bytes an operation (32 with keys of more
        than 8 bytes or of any length, 48 with 25 to 32); each batch of writes is there whole or not
        at all. It takes the default shape alone.
    levels : int
        Levels of the table, each half as large as the one above it.
    hashes : int
        Hash functions: candidate buckets of a key in each level.
    slots : int
        Slots a bucket, a power of two; at most 32 candidates a key (levels x hashes x slots) in
        all.
    """

    layout: LayoutName = "word"
    levels: int = 2
    hashes: int = 2
    slots: int = 8

    def __post_init__(self) -> None:
        self.fill(_native.CreateOptions())

    def fill(self, making: _native.CreateOptions) -> None:
        """Writes itself, checked, into what the engine takes."""
        making.layout = _checks.named("layout", self.layout, _native.Layout)
        making.shape = _native.Shape(
            *(
                _checks.whole(name, getattr(self, name), least=1)
                for name in ("levels", "hashes", "slots")
            )
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """How this process works with an open pool, for `perdure.create`, `open` and `restore`.

    Attributes
    ----------
    verify_reads : bool
        Check each record's CRC-32C on get; a record that fails it has the status `corrupt`.
    count_accesses : bool
        Count accesses to persistent memory, and ordering points, exactly (`Stats.accesses`);
        slower.
    lock_memory : bool
        Lock the pool in memory, so that it is never swapped out; `LockedMemory` is raised where the
        limit (RLIMIT_MEMLOCK) is too low.
    displacement : bool
        Layout "word": move a word to another of its places when every place of a new key is taken,
        before the table grows.
    grow : bool
        Let the table grow. Without, a full table refuses further keys with `NoSpace`.
    residency : {"automatic", "pm", "mirrored"}
        Whether probes go to a copy of the index in the device's memory ("mirrored") or to the pool
        ("pm"). "automatic" mirrors on a GPU as far as the memory budget goes.
    gather : {"automatic", "at_once", "in_order", "by_host", "shared"}
        How values that were found are fetched: by each warp at once, in the order of addresses, by
        the host, or by both sides. "automatic" measures and chooses. Layout "in_place" knows the
        first two; on a GPU it takes the second for batches of 8,192 keys and more.
    gets_by : {"automatic", "device", "host", "both", "measured"}
        Who answers gets whose arrays lie in host memory: the device, the host's threads, which read
        the pool themselves, or both, each a part of the batch. "measured" is the device, unless
        another proves faster for such a batch, measured while running. "automatic" does so
        on a GPU, unless accesses are counted or records cached, and elsewhere leaves gets to the
        device. `Stats.sharing` says what came of it.
    memory_budget : int or None
        Bytes of the device's memory for mirror and cache; None is 7/8 of what is free.
    cache_bytes : int or None
        Of the budget, bytes for whole records, filled by `Store.load_cache`; None is no cache.
    cache_policy : {"lfu", "lru", "random"}
        What `Store.load_cache` takes: the records got most often, most lately, or any.
    collectors : int
        Values "log": threads that collect segments. Without a log, other numbers are refused.
    most_queued : int
        Values "log": segments that may wait for them before writers wait, too. Few keep writers to
        what can be sustained; many let bursts pass, and take more room.

    Examples
    --------
    >>> import perdure
    >>> counted = perdure.Options(count_accesses=True)
    >>> with perdure.create("memfd:counted", 8, 8, options=counted) as store:
    ...     store[1] = 5
    ...     store.stats().accesses.orders
    2
    """

    verify_reads: bool = True
    count_accesses: bool = False
    lock_memory: bool = False
    displacement: bool = True
    grow: bool = True
    residency: ResidencyName = "automatic"
    gather: GatherName = "automatic"
    gets_by: GetsByName = "automatic"
    memory_budget: int | None = None
    cache_bytes: int | None = None
    cache_policy: CachePolicyName = "lfu"
    collectors: int = 1
    most_queued: int = 8

    def __post_init__(self) -> None:
        self.fill(_native.OpenOptions())

    def fill(self, opening: _native.OpenOptions) -> None:
        """Writes itself, checked, into what the engine takes."""
        for name in ("verify_reads", "count_accesses", "lock_memory", "displacement", "grow"):
            setattr(opening, name, _checks.flag(name, getattr(self, name)))
        opening.residency = _checks.named("residency", self.residency, _native.Residency)
        opening.gather = _checks.named("gather", self.gather, _native.Gather)
        opening.gets_by = _checks.named("gets_by", self.gets_by, _native.GetsBy)
        opening.memory_budget = _checks.size("memory_budget", self.memory_budget)
        opening.cache_bytes = _checks.size("cache_bytes", self.cache_bytes)
        opening.cache_policy = _checks.named("cache_policy", self.cache_policy, _native.CachePolicy)
        opening.collectors = _checks.whole("collectors", self.collectors, 1, (1 << 32) - 1)
        opening.most_queued = _checks.whole("most_queued", self.most_queued, 1)
