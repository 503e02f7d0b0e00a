"""The store as Python sees it: batches of arrays in, arrays out.

Thread safety is the engine's: any number of threads may call any method; a write batch is alone.
A store belongs to the process that opened it: in one forked from it (os.fork, multiprocessing's "fork")
every call raises Closed, and losing the store there does nothing. Workers open stores of their own.
Invariant: a call either did what it says for every key, or raises; statuses are for those who ask
with check=False.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from perdure import _checks, _native, errors
from perdure._deferred import Deferred
from perdure._single import SingleKeys
from perdure.options import GPHash, Options
from perdure.results import Outcome, Result, done_mask, raise_for_keys

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrays, _arrow
    from perdure.results import Statuses, TooLong
else:
    np, _arrays, _arrow = Deferred("numpy"), Deferred("perdure._arrays"), Deferred("perdure._arrow")

DeviceName = Literal["cpu", "cuda"]
IndexName = Literal["gphash", "dash-eh", "dash-lh"]
DurabilityName = Literal["none", "process", "power"]
Operation = Literal["replace", "add", "min", "max"]
PathLike = str | os.PathLike[str]
Answer = TypeVar("Answer", Result, Outcome)


def create(
    path: PathLike,
    key_bytes: int | None = 8,
    value_bytes: int | None = None,
    *,
    expected_records: int = 1 << 16,
    max_bytes: int | None = None,
    index: IndexName | GPHash = "gphash",
    durability: DurabilityName = "process",
    log_dir: PathLike | None = None,
    log_bytes: int | None = None,
    overwrite: bool = False,
    force: bool = False,
    mode: int | None = None,
    device: DeviceName = "cpu",
    threads: int | None = None,
    options: Options | None = None,
) -> Store:
    """Makes a pool and opens it.

    `key_bytes` and `value_bytes` are fixed lengths; None means varying length (Arrow binary
    arrays). The path's file system is the medium: /dev/shm, hugetlbfs, or a file; "memfd:NAME" is
    memory that dies with the process. `index` "dash-eh" or "dash-lh" is Dash's extendible or linear
    hashing: for many host threads that call beside each other, each operation by itself; on device
    "cpu", without transactions, steps and caches. `perdure.GPHash` chooses layout and shape of the other.
    Durability "power" needs `log_dir`, a directory on a disk, for a log of `log_bytes` (256 MiB)
    and two images of the pool, and no "memfd:".

    `overwrite` replaces a file that is there if it is a pool, of whatever version; with `force`
    whatever file it is; never one that is open, and no symbolic link is followed. Files have mode
    0o600, or that of the file they replace; `mode` sets other permission bits, at least 0o600, less
    those that the umask takes away.

    `threads` are the CPU's workers, one a core unless given. The rarer options are in `perdure.Options`.
    """
    wanted = _native.CreateOptions()
    wanted.key_bytes = _checks.width("key_bytes", key_bytes)
    wanted.value_bytes = _checks.width("value_bytes", value_bytes)
    wanted.expected_records = _checks.whole("expected_records", expected_records)
    wanted.max_bytes = _checks.size("max_bytes", max_bytes)
    _set_index(wanted, index)
    wanted.durability = _checks.named("durability", durability, _native.Durability)
    _set_log(wanted, log_dir, log_bytes)
    _set_file(wanted, overwrite, force, mode)
    return Store(_native.Store.create(os.fspath(path), wanted, _opening(device, threads, options)))


def open(
    path: PathLike,
    *,
    read_only: bool = False,
    repair: bool = False,
    log_dir: PathLike | None = None,
    expect_key_bytes: int | None = None,
    expect_value_bytes: int | None = None,
    device: DeviceName = "cpu",
    threads: int | None = None,
    options: Options | None = None,
) -> Store:
    """Opens a pool, recovering it where it was not closed cleanly (see `Store.recovery`).

    A pool that was closed cleanly and is not as that close left it is damaged, and raises `Corrupt`.
    With `repair` what can be mended is, and `Store.recovery().changes` says what was found, mended
    and dropped; `Store.verify` finds faults until `Store.acknowledge_repair`.

    `expect_key_bytes` and `expect_value_bytes` refuse a pool made with other sizes. A pool of
    durability "power" is made anew at `path` from its `log_dir`.
    """
    opening = _opening(device, threads, options)
    _set_expected(opening, expect_key_bytes, expect_value_bytes)
    opening.read_only = _checks.flag("read_only", read_only)
    opening.repair = _checks.flag("repair", repair)
    opening.log_dir = "" if log_dir is None else os.fspath(log_dir)
    return Store(_native.Store.open(os.fspath(path), opening))


def restore(
    snapshot: PathLike,
    path: PathLike,
    *,
    durability: DurabilityName | None = None,
    log_dir: PathLike | None = None,
    log_bytes: int | None = None,
    overwrite: bool = False,
    force: bool = False,
    mode: int | None = None,
    expect_key_bytes: int | None = None,
    expect_value_bytes: int | None = None,
    device: DeviceName = "cpu",
    threads: int | None = None,
    options: Options | None = None,
) -> Store:
    """Makes a pool at `path` from a snapshot (see `Store.snapshot`), on any medium, and opens it.

    `durability` is the snapshot's unless given; `overwrite`, `force` and `mode` are as in `create`. The
    pool has an identity of its own: no log directory but the one made here is its.
    """
    wanted = _native.RestoreOptions()
    if durability is not None:
        wanted.durability = _checks.named("durability", durability, _native.Durability)
    _set_log(wanted, log_dir, log_bytes)
    _set_file(wanted, overwrite, force, mode)
    opening = _opening(device, threads, options)
    _set_expected(opening, expect_key_bytes, expect_value_bytes)
    return Store(_native.Store.restore(os.fspath(snapshot), os.fspath(path), wanted, opening))


class Store(SingleKeys):
    """An open pool. Made by `perdure.create`, `open` and `restore`; a context manager that closes it.

    Batches of arrays go through `get`, `put`, `update`, `erase` and `apply`; one key at a time, a store is
    used as a dictionary of bytes: `store[key] = value`, `store[key]`, `key in store`, `del store[key]`.
    """

    def __init__(self, native: _native.Store) -> None:
        self._native: _native.Store | None = native
        self._of_thread = threading.local()  # `.transaction`: the one that is open on it
        self._dense: list[tuple[Any, _native.MutableColumn]] = []  # the engine points into these
        self._path = native.path()
        self._key_width = native.key_bytes() or None
        self._value_width = native.value_bytes() or None
        self._device = native.device().name

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

    # --- batches --------------------------------------------------------------------------------

    def get(
        self,
        keys: Any,
        *,
        out: Any = None,
        dtype: Any = None,
        shape: Any = None,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        """The values of `keys`.

        Fixed-width values come as rows of `dtype` (uint8) and row shape `shape`, in `out` or in a
        new array of the keys' library; rows of absent keys are left as they are (zero in a new
        array). Values of varying length come as a pyarrow.LargeBinaryArray, null where absent.
        One key instead of an array is answered by one row, here as in the calls below.
        """
        if _arrays.is_scalar(keys):
            return _first(self.get([keys], out=out, dtype=dtype, shape=shape, stream=stream, check=check))
        handle = _arrays.stream_of(stream, keys, out)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        statuses = np.zeros(given.count, np.uint8)
        if self._value_width is None:
            self._refuse_rows(out=out, dtype=dtype, shape=shape)
            offsets, data = self._engine.get_variable(given.column, statuses, handle)
            found = done_mask(statuses)
            answer = Result(_arrow.to_array(offsets, data, found), found, statuses)
        else:
            values, column = self._destination(given, out, dtype, shape, handle)
            self._engine.get(given.column, column, statuses, handle)
            answer = Result(values, done_mask(statuses), statuses)
        return _checked("get", answer, check)

    def put(
        self, keys: Any, values: Any, *, atomic: bool = False, stream: Any = None, check: bool = True
    ) -> Outcome:
        """Inserts each key with its value, or replaces the value that is there.

        With `atomic`, here and in `update`, `erase` and `apply`, the batch takes effect whole or not at
        all, whatever happens meanwhile (layout "word").
        """
        if _arrays.is_scalar(keys):
            return _first(
                self.put([keys], _arrays.one_row(values), atomic=atomic, stream=stream, check=check)
            )
        handle = _arrays.stream_of(stream, keys, values)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        rows = _arrays.values_input("values", values, self._value_width, given.count, handle, self._device)
        return self._write(
            "put",
            (given, rows),
            check,
            lambda statuses: self._engine.put(
                given.column, rows.column, statuses, handle, atomic, self._mine()
            ),
        )

    def update(
        self,
        keys: Any,
        operands: Any,
        op: Operation = "add",
        *,
        element: Any = None,
        atomic: bool = False,
        stream: Any = None,
        check: bool = True,
    ) -> Outcome:
        """Combines each stored value with its operand; absent keys stay absent (`done` is false).

        Values are seen as arrays of the operands' dtype: uint8, int32, uint32, int64, uint64,
        float32 or float64. `element` names it where the operands are bytes. "min" and "max" treat NaN as
        NumPy's minimum and maximum do: it stays, and it takes effect.
        """
        if _arrays.is_scalar(keys):
            row = _arrays.one_row(operands)
            return _first(
                self.update([keys], row, op, element=element, atomic=atomic, stream=stream, check=check)
            )
        handle = _arrays.stream_of(stream, keys, operands)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        rows = _arrays.values_input(
            "operands", operands, self._value_width, given.count, handle, self._device
        )
        rmw = _checks.named("op", op, _native.Rmw)
        kind = _element("operands", rows, rmw, element)
        return self._write(
            "update",
            (given, rows),
            check,
            lambda statuses: self._engine.update(
                given.column, rows.column, rmw, kind, statuses, handle, atomic, self._mine()
            ),
        )

    def erase(self, keys: Any, *, atomic: bool = False, stream: Any = None, check: bool = True) -> Outcome:
        """Removes each key; `done` is false where it was absent."""
        if _arrays.is_scalar(keys):
            return _first(self.erase([keys], atomic=atomic, stream=stream, check=check))
        handle = _arrays.stream_of(stream, keys)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        return self._write(
            "erase",
            (given,),
            check,
            lambda statuses: self._engine.erase(given.column, statuses, handle, atomic, self._mine()),
        )

    def apply(
        self,
        keys: Any,
        kinds: Any,
        values: Any = None,
        *,
        op: Operation = "replace",
        element: Any = None,
        out: Any = None,
        dtype: Any = None,
        shape: Any = None,
        atomic: bool = False,
        stream: Any = None,
        check: bool = True,
    ) -> Result:
        """A mixed batch: operation i of `kinds` (OpKind, or its name) on key i, in array order.

        `values` holds the operand of every put and update; rows of gets and erases are ignored.
        What `update` does is `op`. Gets need a pool of fixed-width values; theirs arrive as in `get`.
        """
        handle = _arrays.stream_of(stream, keys, values, out)
        given = _arrays.keys_input(keys, self._key_width, handle, self._device)
        codes = _kinds(kinds, given.count)
        rmw = _checks.named("op", op, _native.Rmw)
        operands, kind = self._operands(values, codes, rmw, element, given.count, handle)
        gathered, column = self._gathered(codes, given, out, dtype, shape, handle)
        statuses = np.zeros(given.count, np.uint8)

        def answer() -> Result:
            return Result(gathered, done_mask(statuses), statuses)

        _with_outcome(
            answer,
            lambda: self._engine.apply(
                given.column,
                codes,
                operands[0].column if operands else _native.Column.empty(),
                rmw,
                kind,
                column,
                statuses,
                handle,
                atomic,
                self._mine(),
            ),
        )
        return _checked("apply", answer(), check, self._lengths((given, *operands)))

    @contextmanager
    def transaction(self, max_operations: int = 1 << 16) -> Iterator[None]:
        """The batches that this thread writes in the block take effect together, or, where the block raises,
        not at all; a kill in between leaves none of them (layout "word").

        Gets of this thread see them; other threads wait. Room for `max_operations` in all is made first: a
        batch beyond it raises NoSpace, has no effect, and leaves the others as they are.
        """
        native = self._engine.begin(_checks.whole("max_operations", max_operations, least=1))
        mine = self._of_thread
        mine.transaction = native
        try:
            yield
        except BaseException:
            mine.transaction = None
            native.abort()
            raise
        mine.transaction = None
        native.commit()

    def register_dense(self, /, **arrays: Any) -> None:
        """Names the arrays that `step` saves and `restore_step` fills: all of them, in one call.

        Each is a C-contiguous, writable array of any shape and dtype: NumPy, or of a library with DLPack
        (CuPy, PyTorch), in device memory where the store runs on a GPU. Their bytes are read and written
        where they are: change them in place, or register the arrays that take their place. The first call
        that a pool sees makes room in it for two copies of each; from then on names and sizes in bytes must
        be the same, else InvalidArgument names the first array that differs (dtypes and shapes are not
        kept). Unsupported with layout "in_place" and with durability "power".
        """
        handle = _arrays.stream_of(None, *arrays.values())
        columns = {name: _arrays.whole(name, array, handle, self._device) for name, array in arrays.items()}
        self._engine.register_dense(list(columns.items()))
        self._dense = [(array, columns[name]) for name, array in arrays.items()]

    @contextmanager
    def step(self, number: int, max_operations: int = 1 << 16, *, stream: Any = None) -> Iterator[None]:
        """A `transaction` that ends with a training step: what this thread writes in the block, the
        registered arrays as they are at its end, and `number` (0 to 2^63 - 2) take effect together.

        Where the block raises, or the process dies in it, nothing does: the table and `restore_step` are
        those of the step before. (The arrays themselves stay as the block left them.) Device arrays are
        saved once `stream`, by default their library's current one, has come here. Raises InvalidArgument
        without registered arrays.
        """
        number = _checks.whole("number", number)
        self._check_registered()
        with self.transaction(max_operations):
            yield
            mine = self._mine()
            assert mine is not None
            mine.write_step(number, self._dense_stream(stream))

    def restore_step(self, *, stream: Any = None) -> int | None:
        """Fills the registered arrays with what the last `step` saved, and returns its number.

        None, and the arrays stay as they are, where there has been no step yet. Raises InvalidArgument
        without registered arrays.
        """
        self._check_registered()
        return self._engine.restore_step(self._dense_stream(stream))

    def scan(
        self, page_size: int = 65536, *, key_dtype: Any = None, dtype: Any = None, shape: Any = None
    ) -> Iterator[tuple[Any, Any]]:
        """Every record, in pages of (keys, values), in the index's order.

        Fixed-width keys come as uint64 (8 bytes) or uint8 rows, or as `key_dtype`; values as in
        `get`. Raises Busy if the table grew meanwhile: start again.
        """
        if self._key_width is None:
            self._refuse_rows(key_dtype=key_dtype)
        if self._value_width is None:
            self._refuse_rows(dtype=dtype, shape=shape)
        limit = _checks.whole("page_size", page_size, least=1)
        return self._pages(limit, key_dtype, dtype, shape)

    # --- the pool -------------------------------------------------------------------------------

    def snapshot(
        self, path: PathLike, *, overwrite: bool = False, force: bool = False, mode: int | None = None
    ) -> None:
        """Writes the store, as it is between two batches, into one file that `perdure.restore` takes.

        The file is there whole or not at all. Writers wait meanwhile, readers do not. `overwrite`
        replaces an older snapshot, `force` whatever file is there; `mode` is as in `create`.
        """
        options = _native.SnapshotOptions()
        _set_file(options, overwrite, force, mode)
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

    @property
    def _engine(self) -> _native.Store:
        native = self._native
        if native is None:
            raise errors.Closed(f"pool {self._path}: this store is closed; open it again with perdure.open")
        return native

    def _mine(self) -> _native.Transaction | None:
        """The transaction that is open on this thread."""
        return getattr(self._of_thread, "transaction", None)

    def _check_registered(self) -> None:
        if not self._dense:
            raise errors.InvalidArgument(
                f"pool {self._path}: no dense arrays are registered in this store; call register_dense first"
            )

    def _dense_stream(self, stream: Any) -> int:
        return _arrays.stream_of(stream, *(array for array, _ in self._dense))

    # --- parts of the above ---------------------------------------------------------------------

    def _write(
        self, call: str, columns: tuple[_arrays.Input, ...], check: bool, run: Callable[[Statuses], None]
    ) -> Outcome:
        statuses = np.zeros(columns[0].count, np.uint8)

        def answer() -> Outcome:
            return Outcome(done_mask(statuses), statuses)

        _with_outcome(answer, lambda: run(statuses))
        return _checked(call, answer(), check, self._lengths(columns))

    def _lengths(self, columns: tuple[_arrays.Input, ...]) -> TooLong:
        """Of a row of keys, or of keys and values."""
        return lambda row: self._too_long(*(column.length(row) for column in columns))

    def _destination(
        self, keys: _arrays.Input, out: Any, dtype: Any, shape: Any, stream: int
    ) -> tuple[Any, _native.MutableColumn]:
        assert self._value_width is not None
        if out is None:
            out = _arrays.zeros(keys.rows, keys.count, self._value_width, dtype, shape)
        elif dtype is not None or shape is not None:
            raise ValueError("out: has its own dtype and shape; pass either out=, or dtype= and shape=")
        return out, _arrays.output(out, self._value_width, keys.count, stream, self._device)

    def _gathered(
        self, codes: Any, keys: _arrays.Input, out: Any, dtype: Any, shape: Any, stream: int
    ) -> tuple[Any, _native.MutableColumn]:
        if not (codes == int(_native.OpKind.get)).any():
            return out, _native.MutableColumn.empty()
        if self._value_width is None:
            raise ValueError(
                "kinds: a mixed batch cannot get values of varying length; call get() for those keys"
            )
        return self._destination(keys, out, dtype, shape, stream)

    def _operands(
        self, values: Any, codes: Any, rmw: _native.Rmw, element: Any, count: int, stream: int
    ) -> tuple[tuple[_arrays.Input, ...], _native.Element]:
        updates = bool((codes == int(_native.OpKind.update)).any())
        if values is None:
            if updates or (codes == int(_native.OpKind.put)).any():
                raise ValueError("values: the batch has puts or updates; pass one row a key")
            return (), _native.Element.uint8
        rows = _arrays.values_input("values", values, self._value_width, count, stream, self._device)
        kind = _element("values", rows, rmw, element) if updates else _native.Element.uint8
        return (rows,), kind

    def _pages(self, limit: int, key_dtype: Any, dtype: Any, shape: Any) -> Iterator[tuple[Any, Any]]:
        if key_dtype is None and self._key_width == 8:
            key_dtype = np.uint64
        cursor = _native.ScanCursor()
        while not cursor.done:
            key_ends, keys, value_ends, values, cursor = self._engine.scan(cursor, limit)
            if len(key_ends) < 2:
                continue
            # Rows of one element are a plain column, which is what integer keys look like elsewhere.
            key_shape = (
                () if key_dtype is not None and np.dtype(key_dtype).itemsize == self._key_width else None
            )
            yield (
                self._column(key_ends, keys, self._key_width, key_dtype, key_shape, "keys"),
                self._column(value_ends, values, self._value_width, dtype, shape, "values"),
            )

    @staticmethod
    def _column(ends: Any, data: Any, width: int | None, dtype: Any, shape: Any, what: str) -> Any:
        if width is None:
            return _arrow.to_array(ends, data)
        return _arrays.as_rows(data, len(ends) - 1, width, dtype, shape, what)

    @staticmethod
    def _refuse_rows(**options: Any) -> None:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise ValueError(
                f"{given[0]}: lengths vary in this pool, so they come as an Arrow large_binary array;"
                f" leave {given[0]}= away"
            )


def devices() -> list[_native.DeviceInfo]:
    """The machines this build and this computer offer."""
    return _native.devices()


# --- options ------------------------------------------------------------------------------------


def _set_index(wanted: _native.CreateOptions, index: IndexName | GPHash) -> None:
    if isinstance(index, GPHash):
        index.fill(wanted)
    elif isinstance(index, str) and index in _INDEXES:
        wanted.index = _INDEXES[index]
    else:
        raise ValueError(
            f"index: {index!r} is not one of {', '.join(map(repr, _INDEXES))}, and no perdure.GPHash"
        )


_INDEXES: dict[Any, _native.Index] = {
    "gphash": _native.Index.gphash,
    "dash-eh": _native.Index.dash_eh,
    "dash-lh": _native.Index.dash_lh,
}


def _set_log(
    wanted: _native.CreateOptions | _native.RestoreOptions, log_dir: PathLike | None, log_bytes: int | None
) -> None:
    if log_dir is not None:
        wanted.log_dir = os.fspath(log_dir)
    elif log_bytes is not None:
        raise ValueError('log_bytes: is of use with log_dir only, for durability "power"')
    if log_bytes is not None:
        wanted.log_bytes = _checks.whole("log_bytes", log_bytes, least=1)


def _set_file(
    wanted: _native.CreateOptions | _native.RestoreOptions | _native.SnapshotOptions,
    overwrite: bool,
    force: bool,
    mode: int | None,
) -> None:
    """How a new file, a pool or a snapshot, comes to be at its path."""
    wanted.overwrite = _checks.flag("overwrite", overwrite)
    wanted.force = _checks.flag("force", force)
    wanted.mode = _checks.permissions(mode)


def _set_expected(opening: _native.OpenOptions, key_bytes: int | None, value_bytes: int | None) -> None:
    opening.expect_key_bytes = _checks.width("expect_key_bytes", key_bytes)
    opening.expect_value_bytes = _checks.width("expect_value_bytes", value_bytes)


def _opening(device: DeviceName, threads: int | None, options: Options | None) -> _native.OpenOptions:
    """What create, open and restore share."""
    opening = _native.OpenOptions()
    opening.device = _checks.named("device", device, _native.Device)
    opening.threads = _checks.size("threads", threads)
    if not isinstance(options, Options | None):
        raise TypeError(f"options: expected perdure.Options, not {options!r}")
    if options is not None:
        options.fill(opening)
    return opening


def _element(name: str, rows: _arrays.Input, rmw: _native.Rmw, element: Any) -> _native.Element:
    if rmw is _native.Rmw.replace:
        return _native.Element.uint8  # bytes are replaced as they are
    if element is None and rows.rows is None:
        raise TypeError(f"element: {name} are byte strings; say what they hold, for example element='int64'")
    given = rows.rows.dtype if element is None and rows.rows is not None else np.dtype(element).name
    if given not in _native.Element.__members__:
        known = ", ".join(_native.Element.__members__)
        raise TypeError(f"{name}: cannot {rmw.name} elements of {given}; use one of {known}, or element=")
    return _native.Element[given]


def _kinds(kinds: Any, count: int) -> Any:
    if isinstance(kinds, list | tuple):
        kinds = [
            _checks.named("kinds", kind, _native.OpKind) if isinstance(kind, str) else kind for kind in kinds
        ]
    codes = np.asarray(kinds)
    if codes.size and codes.dtype.kind not in "iu":
        raise TypeError(
            f"kinds: dtype {codes.dtype}; pass OpKind numbers or the names get, put, erase, update"
        )
    if codes.shape != (count,):
        raise ValueError(f"kinds: shape {codes.shape} for {count} keys; pass one a key")
    last = max(map(int, _native.OpKind))
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) <= last:
        raise ValueError(f"kinds: numbers must be OpKind's, 0 to {last}")
    return np.ascontiguousarray(codes, np.uint8)


# --- answers ------------------------------------------------------------------------------------


def _with_outcome(answer: Callable[[], Any], run: Callable[[], None]) -> None:
    """Runs a write; when the pool ran out of space the exception tells key by key how far it came."""
    try:
        run()
    except errors.NoSpace as error:
        error.outcome = answer()
        raise


def _first(answer: Answer) -> Answer:
    """The answer for one key, as its first row."""
    return type(answer)(*(column[0] for column in answer))


def _checked(call: str, answer: Answer, check: bool, too_long: TooLong | None = None) -> Answer:
    if check:
        raise_for_keys(call, answer, too_long)
    return answer
