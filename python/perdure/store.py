"""The store as Python sees it, put together from its parts.

Thread safety is the engine's: any number of threads may call any method; a write batch is alone.
A store belongs to the process that opened it: in one forked from it (os.fork, multiprocessing's "fork")
every call raises Closed, and losing the store there does nothing. Workers open stores of their own.
Invariant: no part knows another; what they share is in perdure._handle.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from perdure import _checks, _native
from perdure._batches import Batches
from perdure._scan import Scans
from perdure._single import SingleKeys
from perdure._steps import Steps
from perdure.options import PathLike


class Store(Batches, Scans, SingleKeys, Steps):
    """An open pool. Made by `perdure.create`, `open` and `restore`; a context manager that closes it.

    Batches of arrays go through `get`, `put`, `update`, `erase` and `apply`; one key at a time, a store is
    used as a dictionary of bytes: `store[key] = value`, `store[key]`, `key in store`, `del store[key]`.
    """

    @property
    def path(self) -> str:
        return self._path

    @property
    def key_bytes(self) -> int | None:
        """Bytes of every key; None where they vary."""
        return self._key_width

    @property
    def value_bytes(self) -> int | None:
        """Bytes of every value; None where they vary."""
        return self._value_width

    @property
    def device(self) -> str:
        return self._device

    @property
    def closed(self) -> bool:
        return self._native is None

    def snapshot(
        self, path: PathLike, *, overwrite: bool = False, force: bool = False, mode: int | None = None
    ) -> None:
        """Writes the store, as it is between two batches, into one file that `perdure.restore` takes.

        The file is there whole or not at all. Writers wait meanwhile, readers do not. `overwrite`
        replaces an older snapshot, `force` whatever file is there; `mode` is as in `create`.
        """
        options = _native.SnapshotOptions()
        _checks.set_file(options, overwrite, force, mode)
        self._engine.snapshot(os.fspath(path), options)

    def load_cache(self) -> _native.CacheReport:
        """Fills the record cache anew with the records that `cache_policy` chooses (see `perdure.create`).

        Until the next load its contents are frozen; a record that is changed leaves it. Gets go on
        meanwhile, writers wait.
        """
        return self._engine.load_cache()

    def verify(self) -> _native.VerifyReport:
        """Checks every record's checksum, key and place in the index.

        What a repair changed is a fault, too, until it is acknowledged.
        """
        return self._engine.verify()

    def acknowledge_repair(self) -> None:
        """Says that what repairs changed (see `perdure.open`) has been seen to."""
        self._engine.acknowledge_repair()

    def stats(self) -> _native.Stats:
        return self._engine.stats()

    def reset_counts(self) -> None:
        """Sets the access counts of `stats` to zero (see count_accesses)."""
        self._engine.reset_counts()

    def recovery(self) -> _native.RecoveryReport:
        """What opening found: records, what was dropped and why, seconds."""
        return self._engine.recovery()

    def survives(self) -> _native.Survival:
        """Which events acknowledged operations outlive, and on whose word."""
        return self._engine.survives()

    def close(self) -> None:
        """Marks the pool clean and unmaps it. Closing twice is harmless."""
        if self._native is not None:
            self._native.close()
            self._native = None  # the last reference but those of calls still returning: unmaps, unlocks
            self._dense = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().records

    def __bool__(self) -> bool:
        return True  # an empty store is still a store

    def __repr__(self) -> str:
        sizes = f"keys {self._key_width or 'var'} B, values {self._value_width or 'var'} B"
        return f"<perdure.Store {self._path!r}, {sizes}, {self._device}{', closed' if self.closed else ''}>"
