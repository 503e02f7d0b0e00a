"""The store as Python sees it, put together from its parts.

Thread safety is the engine's: any number of threads may call any method; a write batch is alone.
A store belongs to the process that opened it: in one forked from it (os.fork, multiprocessing's
"fork") every call raises Closed, and losing the store there does nothing. Workers open stores of
their own.

Signals: while a batch of more than 65,536 keys or 32 MiB, a scan's page as large, or `verify` runs
on the main thread of a store on device "cpu", signal handlers run as ever, within some 20 ms, and
may use the store. If one raises (Ctrl-C: KeyboardInterrupt), the call ends within some 100 ms: a
prefix of the batch has been done, in array order, of as many keys as the exception's
`operations_done` says, and its note. (With a Dash index other threads may see less of it at a time,
as ever; with the other they see that prefix or nothing.) Atomic batches, those of a transaction,
and writes with durability "power" run to their end before the exception comes, and are then there
whole. In every case the store can be used afterwards.

Invariant: no part knows another; what they share is in perdure._handle.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from perdure import _checks, _native
from perdure._mixed import Mixed
from perdure._scan import Scans
from perdure._single import SingleKeys
from perdure._steps import Steps
from perdure._table_batches import TableBatches
from perdure.options import KeyOrderName, PathLike


class Store(TableBatches, Mixed, Scans, SingleKeys, Steps):
    """An open pool. Made by `perdure.create`, `open` and `restore`; a context manager that closes
    it.

    Batches of arrays go through `get`, `put`, `update`, `erase` and `apply`; one key at a time, a
    store is used as a dictionary of bytes: `store[key] = value`, `store[key]`, `key in store`, `del
    store[key]`.

    Notes
    -----
    Threads: any number may call any method; a write batch is alone. A store belongs to the process
    that opened it: in a forked one every call raises `Closed`, and losing the store there does
    nothing.

    Arrays: contiguous ones go to the engine and come back where they lie, in host memory at any
    alignment; slices with strides, integer keys narrower than the pool's and lists are copied. They
    are yours again when the call returns, but those of `register_dense`, which have to stay.

    Absent keys: a key that is absent is no error. Batches answer it with the status
    `KeyStatus.not_found`, and false in `found` or `done`; `store[key]` raises KeyError.
    `perdure.NotFound` is another thing: there is no pool where one was to be opened.

    `check=`: every batch has a status a key (`KeyStatus`). With `check=True`, the default, a key
    that failed otherwise than by being absent raises: `Corrupt` for a record that fails its
    checksum, `InvalidArgument` for one that is too long or an operand of another length. The other
    keys of the batch have taken effect; the exception's `outcome` has all statuses. With
    `check=False` the batch returns, and the statuses are yours to look at. What fails as a whole
    (`NoSpace`, `Closed`, a wrong dtype) raises either way.

    Examples
    --------
    >>> import numpy as np, perdure
    >>> with perdure.create("memfd:store", key_bytes=8, value_bytes=128) as store:
    ...     outcome = store.put(np.arange(3), np.ones((3, 32), np.float32))
    ...     store.get([2, 3], dtype=np.float32)
    ...     store
    <Result of 2 keys: 1 ok, 1 not_found; values: float32 of shape (2, 32)>
    <perdure.Store 'memfd:store': keys of 8 bytes, values of 128 bytes, on cpu>
    """

    @property
    def path(self) -> str:
        """Of the pool, as it was given."""
        return self._path

    @property
    def key_bytes(self) -> int | None:
        """Bytes of every key; None where they vary."""
        return self._key_width

    @property
    def key_order(self) -> KeyOrderName:
        """Which of two keys comes first; "bytes" with every index but "btree"."""
        return self._key_order

    @property
    def value_bytes(self) -> int | None:
        """Bytes of every value; None where they vary."""
        return self._value_width

    @property
    def dtype(self) -> str | None:
        """Name of the dtype of values; None where the pool does not know it (see
        `perdure.create`)."""
        return self._row_type.name if self._row_type else None

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """Shape of a value in elements of `dtype`, () where it is one; None where that is."""
        return self._row_type.shape if self._row_type else None

    @property
    def device(self) -> str:
        """Where batches run: "cpu" or "cuda"."""
        return self._device

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._native is None

    def snapshot(
        self,
        path: PathLike,
        *,
        overwrite: bool = False,
        force: bool = False,
        mode: int | None = None,
    ) -> None:
        """Writes the store, as it is between two batches, into one file that `perdure.restore`
        takes.

        Writers wait meanwhile, readers do not.

        Parameters
        ----------
        path : str or path-like
            The file is there whole or not at all.
        overwrite : bool
            Replace an older snapshot.
        force : bool
            Replace whatever file is there.
        mode : int, default 0o600
            As in `create`.

        Raises
        ------
        AlreadyExists
            A file is there, and is not to be replaced.
        NoSpace, NotFound, SystemFailure
            The file cannot be written.
        Busy
            A transaction is open on this thread.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        See `perdure.restore`.
        """
        options = _native.SnapshotOptions()
        _checks.set_file(options, overwrite, force, mode)
        self._engine.snapshot(_checks.path("path", path), options)

    def load_cache(self) -> _native.CacheReport:
        """Fills the record cache anew with the records that `Options.cache_policy` chooses.

        Only loads choose what is in it: a record that is replaced stays, one that is erased or
        computed leaves. Gets go on meanwhile, writers wait. Layout "log" has it for pools whose
        values have one size, and whose keys have one of at most 32 bytes.

        Returns
        -------
        CacheReport
            Records and bytes that it holds, records left out because they fail their checksum,
            seconds.

        Raises
        ------
        Unsupported
            The store was opened without `Options.cache_bytes`, or its index has no cache.
        DeviceFailure, Closed
            The GPU failed; the store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> options = perdure.Options(residency="mirrored", cache_bytes=1 << 20)
        >>> store = perdure.create("memfd:cache", 8, 8, options=options)
        >>> store[1] = 5
        >>> store.load_cache().records
        1
        """
        return self._engine.load_cache()

    def verify(self) -> _native.VerifyReport:
        """Checks every record's checksum, key and place in the index.

        Returns
        -------
        VerifyReport
            Good records, and faults by place and kind. What a repair changed is a fault, too, until
            it is acknowledged.

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:verify", key_bytes=8, value_bytes=8)
        >>> store[1] = 5
        >>> store.verify().records, store.verify().faults
        (1, [])
        """
        return self._engine.verify(self._mine() is not None)

    def acknowledge_repair(self) -> None:
        """Says that what repairs changed (see `perdure.open`) has been seen to.

        Raises
        ------
        InvalidArgument
            The store is read-only.
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> perdure.create("memfd:acknowledge", 8, 8).acknowledge_repair()
        """
        self._engine.acknowledge_repair()

    def stats(self) -> _native.Stats:
        """How full the table is, what it is made of, and where it runs.

        Returns
        -------
        Stats
            `as_dict()` has it as plain data. Of a Dash index that was not closed in order, records
            are counted when this is first asked.

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:stats", key_bytes=8, value_bytes=8)
        >>> store[1] = 5
        >>> stats = store.stats()
        >>> stats.records, stats.as_dict()["index"]
        (1, 'gphash')
        """
        return self._engine.stats()

    def reset_counts(self) -> None:
        """Sets the access counts of `stats` to zero (see `Options.count_accesses`).

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:counts", 8, 8,
        ...                        options=perdure.Options(count_accesses=True))
        >>> store[1] = 5
        >>> store.reset_counts()
        >>> store.stats().accesses.pm_writes
        0
        """
        self._engine.reset_counts()

    def recovery(self) -> _native.RecoveryReport:
        """What opening found.

        Returns
        -------
        RecoveryReport
            Whether the pool was closed cleanly, records, what was dropped and why, seconds.

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> perdure.create("memfd:recovery", 8, 8).recovery().clean
        True
        """
        return self._engine.recovery()

    def survives(self) -> _native.Survival:
        """Which events acknowledged operations outlive, and on whose word.

        Returns
        -------
        Survival

        Raises
        ------
        Closed
            The store is closed, or was opened by another process.

        Examples
        --------
        >>> import perdure
        >>> survival = perdure.create("memfd:survives", 8, 8).survives()
        >>> survival.kernel_abort, survival.process_kill
        (True, False)
        """
        return self._engine.survives()

    def close(self) -> None:
        """Marks the pool clean and unmaps it. Closing twice is harmless.

        A trainer's commit that is under way (`perdure.torch`) ends first.

        Raises
        ------
        SystemFailure
            The disk failed (durability "power"): what the log has is still there.
        Closed
            The store was opened by another process.
        Busy
            A trainer's commit is under way, and waits for the transaction that is open on this
            thread: the store stays open. End the transaction first.

        Examples
        --------
        >>> import perdure
        >>> store = perdure.create("memfd:close", 8, 8)
        >>> store.close()
        >>> store.closed
        True
        """
        for one in self._beside:
            one.check_end()
        with ExitStack() as ends:  # the store closes, whatever the others raise
            ends.callback(self._close)
            for one in self._beside:
                ends.callback(one.end)

    def _close(self) -> None:
        if self._native is not None:
            self._native.close()
            self._native = None
            self._dense = []
            # The last reference but those of calls still returning: unmaps, unlocks.
            self._forget_row_number()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().records

    def __bool__(self) -> bool:
        return True  # an empty store is still a store

    def __repr__(self) -> str:
        def lengths(width: int | None) -> str:
            return "varying length" if width is None else f"{width} byte{'s' if width > 1 else ''}"

        values = self._row_type or f"of {lengths(self._value_width)}"
        what = f"keys of {lengths(self._key_width)}, values {values}"
        state = "closed" if self.closed else f"on {self._device}"
        return f"<perdure.Store {self._path!r}: {what}, {state}>"
