"""How stores come to be: made, opened, restored from a snapshot.

Invariant: every argument is checked before the engine is called, and so before any file is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import _checks, _hooks, _native, _typed
from perdure.options import (
    DeviceName,
    DurabilityName,
    GPHash,
    IndexName,
    KeyOrderName,
    Options,
    PathLike,
    PersistName,
    ValuesName,
)
from perdure.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from perdure.typing import DType, RowShape


def create(
    path: PathLike,
    key_bytes: int | None = 8,
    value_bytes: int | None = None,
    *,
    dtype: DType | None = None,
    shape: RowShape | None = None,
    expected_records: int = 1 << 16,
    max_bytes: int | None = None,
    index: IndexName | GPHash = "gphash",
    key_order: KeyOrderName = "bytes",
    values: ValuesName = "heap",
    persist: PersistName = "minimal",
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

    Parameters
    ----------
    path : str or path-like
        Its file system is the medium: /dev/shm, hugetlbfs, or a file. "memfd:NAME" is memory that
        dies with the process.
    key_bytes, value_bytes : int or None
        Length of every key, and of every value; None is varying length (byte strings).
    dtype : dtype, optional
        The pool remembers that values are of it: bool, integers, float16 to float64, bfloat16 or
        complex, of whatever byte order. `value_bytes` follows, `get` and `scan` answer with it, and
        what is put must be of it, or be cast without loss.
    shape : tuple of int, optional
        Of the array that a value is; else it is one element of `dtype`.
    expected_records : int
        Room is made for so many at once; the table grows past them.
    max_bytes : int, optional
        The pool never grows past this size.
    index : {"gphash", "dash-eh", "dash-lh", "btree"} or GPHash
        GPHash, for batches and GPUs (`perdure.GPHash` chooses layout and shape); or Dash's
        extendible or linear hashing, for many host threads that call beside each other, each
        operation by itself: on device "cpu", without transactions, steps and caches; or a B+-tree,
        likewise, whose keys are in order (`Store.scan`, `items`, `count`).
    key_order : {"bytes", "unsigned", "signed"}
        Of index "btree": keys are compared byte by byte, or are integers of 1, 2, 4 or 8 bytes.
    values : {"heap", "log"}
        Of index "btree": records are in a heap, or one behind the other in log segments whose
        outdated records threads collect (`Options.collectors`).
    persist : {"minimal", "index", "full"}
        Of index "btree": only records are durable, and each opening makes the tree of them; or its
        leaves as well, so that an opening goes through those and not through the records ("index");
        or all of it and what is free, so that an opening looks at nothing and a batch of writes is
        there whole or not at all after a crash ("full", with values "heap").
    durability : {"process", "none", "power"}
        What acknowledged operations outlive: the process; nothing; or a power loss, by a log on a
        disk.
    log_dir : str or path-like, optional
        For durability "power", which needs it, and no "memfd:": a directory on a disk, for a log
        and two images of the pool.
    log_bytes : int, default 256 MiB
        Size of that log.
    overwrite : bool
        Replace a file that is there if it is a pool, of whatever version; never one that is open,
        and no symbolic link is followed.
    force : bool
        Replace whatever file is there.
    mode : int, default 0o600
        Permission bits of the files, at least 0o600, less those that the umask takes away. A file
        that is replaced hands on its own.
    device : {"cpu", "cuda"}
        Where batches run.
    threads : int, optional
        Workers of the CPU; one a core unless given.
    options : Options, optional
        The rarer ones.

    Returns
    -------
    Store
        Open, and empty.

    Raises
    ------
    TypeError, ValueError
        An argument is none of those that it may be; no file was touched.
    AlreadyExists
        A file is there, and `overwrite` or `force` does not replace it.
    Busy
        The pool that is to be replaced is open.
    InvalidArgument
        Sizes or options do not go together.
    NotFound
        The directory is not there.
    NoSpace
        The medium, or `max_bytes`, is too small.
    Unsupported, DeviceFailure
        This build, machine or medium cannot do it.
    LockedMemory
        The pool could not be pinned in memory (a GPU, or `Options.lock_memory`).
    SystemFailure
        The operating system refused.

    Examples
    --------
    >>> import numpy as np, perdure
    >>> sizes = {"key_bytes": 8, "value_bytes": 128}
    >>> with perdure.create("/dev/shm/table.pool", **sizes, overwrite=True) as store:
    ...     outcome = store.put(np.arange(1000), np.zeros((1000, 32), np.float32))
    ...     len(store)
    1000
    """
    making = _native.CreateOptions()
    making.key_bytes = _checks.width("key_bytes", key_bytes)
    making.value_bytes = _checks.width("value_bytes", value_bytes)
    if (value_type := _typed.value_type(dtype, shape)) is not None:
        making.value_type = value_type
    making.expected_records = _checks.whole("expected_records", expected_records)
    making.max_bytes = _checks.size("max_bytes", max_bytes)
    _set_index(making, index)
    making.key_order = _checks.named("key_order", key_order, _native.KeyOrder)
    making.values = _checks.named("values", values, _native.Values)
    making.persist = _checks.named("persist", persist, _native.Persist)
    making.durability = _checks.named("durability", durability, _native.Durability)
    _set_log(making, log_dir, log_bytes)
    _checks.set_file(making, overwrite, force, mode)
    opening = _opening(device, threads, options)
    return _made("create", path, lambda at: _native.Store.create(at, making, opening))


def open(
    path: PathLike,
    *,
    read_only: bool = False,
    live: bool = False,
    repair: bool = False,
    log_dir: PathLike | None = None,
    expect_key_bytes: int | None = None,
    expect_value_bytes: int | None = None,
    device: DeviceName = "cpu",
    threads: int | None = None,
    options: Options | None = None,
) -> Store:
    """Opens a pool, recovering it where it was not closed cleanly (see `Store.recovery`).

    Parameters
    ----------
    path : str or path-like
        Of the pool.
    read_only : bool
        Several processes may have a pool open read-only, beside no writer.
    live : bool
        Look at a pool beside the process that has it open for writing, which neither waits nor
        notices: at a copy in memory, as the pool was between two changes. What changes later is not
        in it, and it takes no writes. Index "gphash", durability "none" or "process".
    repair : bool
        Mend what can be mended of a pool that is damaged, and do without acknowledged batches that
        a damaged log has lost: `Store.recovery().changes` says what was found, mended, dropped and
        lost, and `Store.verify` finds faults until `Store.acknowledge_repair`. Without, a pool that
        was closed cleanly and is not as that close left it, or whose log has lost such batches,
        raises `Corrupt`.
    log_dir : str or path-like, optional
        Of a pool of durability "power", which is made anew at `path` from there.
    expect_key_bytes, expect_value_bytes : int, optional
        Refuse a pool made with other sizes.
    device, threads, options
        As in `create`.

    Returns
    -------
    Store

    Raises
    ------
    TypeError, ValueError
        An argument is none of those that it may be; no file was touched.
    NotFound
        There is no pool at `path`, or no log in `log_dir`. (A *key* that is absent raises nothing:
        its status is `KeyStatus.not_found`.)
    Busy
        It is open for writing elsewhere, or open at all where this is to write; with `live`, no
        moment between two changes came within two seconds (a transaction or device session is one
        change).
    Corrupt
        It is truncated, no pool, or damaged.
    InvalidArgument
        It was made with other sizes than expected, or its log belongs to another pool.
    Unsupported, DeviceFailure
        This build, machine or medium cannot do it; a pool of another version; one that has to be
        recovered, with `read_only`.
    NoSpace, LockedMemory, SystemFailure
        As in `create`.

    Examples
    --------
    >>> import perdure
    >>> perdure.create("/dev/shm/table.pool", key_bytes=8, value_bytes=8, overwrite=True).close()
    >>> with perdure.open("/dev/shm/table.pool") as store:
    ...     store[1] = 5
    ...     store.recovery().clean
    True
    """
    opening = _opening(device, threads, options)
    _set_expected(opening, expect_key_bytes, expect_value_bytes)
    opening.read_only = _checks.flag("read_only", read_only)
    opening.live = _checks.flag("live", live)
    opening.repair = _checks.flag("repair", repair)
    opening.log_dir = "" if log_dir is None else _checks.path("log_dir", log_dir)
    return _made("open", path, lambda at: _native.Store.open(at, opening))


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
    """Makes a pool from a snapshot (see `Store.snapshot`), on any medium, and opens it.

    The pool has an identity of its own: no log directory but the one made here is its.

    Parameters
    ----------
    snapshot : str or path-like
        The file that `Store.snapshot` wrote.
    path : str or path-like
        Of the pool.
    durability : {"process", "none", "power"}, optional
        As in `create`; the snapshot's unless given.
    log_dir, log_bytes, overwrite, force, mode
        As in `create`.
    expect_key_bytes, expect_value_bytes
        As in `open`.
    device, threads, options
        As in `create`.

    Returns
    -------
    Store

    Raises
    ------
    NotFound
        There is no such snapshot, or no directory for the pool.
    Corrupt
        It is no snapshot, or damaged; no pool was made.
    TypeError, ValueError, AlreadyExists, Busy, InvalidArgument, NoSpace, Unsupported
        As in `create`.
    DeviceFailure, LockedMemory, SystemFailure
        As in `create`.

    Examples
    --------
    >>> import perdure
    >>> with perdure.create("/dev/shm/table.pool", 8, 8, overwrite=True) as store:
    ...     store[1] = 5
    ...     store.snapshot("/dev/shm/table.snapshot", overwrite=True)
    >>> kept = "/dev/shm/table.snapshot"
    >>> with perdure.restore(kept, "/dev/shm/other.pool", overwrite=True) as store:
    ...     int.from_bytes(store[1], "little")
    5
    """
    making = _native.RestoreOptions()
    if durability is not None:
        making.durability = _checks.named("durability", durability, _native.Durability)
    _set_log(making, log_dir, log_bytes)
    _checks.set_file(making, overwrite, force, mode)
    opening = _opening(device, threads, options)
    _set_expected(opening, expect_key_bytes, expect_value_bytes)
    source = _checks.path("snapshot", snapshot)
    return _made("restore", path, lambda at: _native.Store.restore(source, at, making, opening))


def _made(what: str, path: PathLike, make: Callable[[str], _native.Store]) -> Store:
    at = _checks.path("path", path)
    if _hooks.around is None:
        return Store(make(at))
    with _hooks.around(what, at) as made:
        store = Store(make(at))
        made(store)
        return store


def _set_index(making: _native.CreateOptions, index: object) -> None:
    if isinstance(index, GPHash):
        index.fill(making)
    elif isinstance(index, str) and index in _INDEXES:
        making.index = _INDEXES[index]
    else:
        raise ValueError(
            f"index: {index!r} is not one of {', '.join(map(repr, _INDEXES))}, and no "
            "perdure.GPHash"
        )


_INDEXES: dict[object, _native.Index] = {
    "gphash": _native.Index.gphash,
    "dash-eh": _native.Index.dash_eh,
    "dash-lh": _native.Index.dash_lh,
    "btree": _native.Index.btree,
}


def _set_log(
    making: _native.CreateOptions | _native.RestoreOptions,
    log_dir: PathLike | None,
    log_bytes: int | None,
) -> None:
    if log_dir is not None:
        making.log_dir = _checks.path("log_dir", log_dir)
    elif log_bytes is not None:
        raise ValueError('log_bytes needs log_dir, for durability "power"')
    if log_bytes is not None:
        making.log_bytes = _checks.whole("log_bytes", log_bytes, least=1)


def _set_expected(
    opening: _native.OpenOptions, key_bytes: int | None, value_bytes: int | None
) -> None:
    opening.expect_key_bytes = _checks.width("expect_key_bytes", key_bytes)
    opening.expect_value_bytes = _checks.width("expect_value_bytes", value_bytes)


def _opening(device: object, threads: object, options: object) -> _native.OpenOptions:
    """What create, open and restore share."""
    opening = _native.OpenOptions()
    opening.device = _checks.named("device", device, _native.Device)
    opening.threads = _checks.size("threads", threads)
    if not isinstance(options, Options | None):
        raise TypeError(f"options: expected perdure.Options, not {options!r}")
    if options is not None:
        options.fill(opening)
    return opening
