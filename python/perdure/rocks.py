"""RocksDB with memtables that a GPU, or CPU warps, sort and search: batches of arrays in and out.

`open` opens a directory of RocksDB's, or makes one. Large batches go to memtables of perdure's own
and from there to RocksDB as sorted files; few go to RocksDB itself:

>>> import numpy as np, perdure.rocks
>>> with perdure.rocks.open("/dev/shm/db") as db:
...     db.put(np.arange(100_000), np.ones((100_000, 16), np.uint8))
...     db["name"] = "Perdure"
...     found = db.get(np.arange(10)).found
...     list(db.scan(prefix="name"))
[(b'name', b'Perdure')]
>>> bool(found.all())
True

Keys are byte strings in the order of their bytes. Integers are little-endian, as everywhere in
Perdure, so those are not in the order of numbers: where it matters, pass big-endian bytes
(`keys.astype(">u8").view(np.uint8).reshape(-1, 8)`).

After an orderly close plain RocksDB opens the directory and finds the same data. This module needs
the engine's second extension module, which is built where RocksDB is installed.
"""

from __future__ import annotations

from pathlib import Path

from perdure import _checks, _events
from perdure.options import PathLike

try:
    from perdure import _rocks
except ImportError as _error:
    raise ImportError(
        f"perdure.rocks: this package was built without RocksDB, or RocksDB is not here any more "
        f"({_error}); install librocksdb-dev and build again (apt-get install librocksdb-dev; in a "
        "checkout scripts/build.sh, elsewhere pip install with -C cmake.define.PERDURE_ROCKS=ON)",
        name="perdure._rocks",
    ) from _error
from perdure._rocks_database import Database, Snapshot
from perdure._rocks_options import (
    DeviceName,
    DurabilityName,
    Families,
    Texts,
    families_of,
    small,
    texts_of,
)
from perdure._rocks_reads import Ranges

__all__ = ["Database", "Ranges", "Snapshot"]  # but `open`, as in perdure


def open(
    path: PathLike,
    *,
    options: Texts | None = None,
    merge_operator: str | None = None,
    create: bool = True,
    read_only: bool = False,
    families: Families | None = None,
    device: DeviceName = "auto",
    threads: int | None = None,
    log_dir: PathLike | None = None,
    durability: DurabilityName = "process",
    power_log_dir: PathLike | None = None,
    power_log_bytes: int | None = None,
    memtable_bytes: int | None = None,
    memtable_value_bytes: int | None = None,
    immutable_memtables: int | None = None,
    threshold: int | None = None,
    block_cache_bytes: int | None = None,
    block_cache_entry_bytes: int | None = None,
    flushed_memtable_bytes: int | None = None,
    idle_millis: int | None = None,
    hand_overs_a_second: int | None = None,
) -> Database:
    """Opens a directory of RocksDB's, with all of its column families, or makes it.

    Parameters
    ----------
    path : str or path-like
        The directory.
    options : dict or str, optional
        RocksDB's own options of databases and column families, by their names, for example
        `{"max_open_files": 1000, "compression": "kNoCompression"}`; or as RocksDB writes them,
        "max_open_files=1000;compression=kNoCompression".
    merge_operator : str, optional
        Of every column family whose options name none: "uint64add", "stringappend", "max", "put".
    create : bool
        Make what is not there, the directory and `families`.
    read_only : bool
        Change no file and lock none: all that RocksDB and the log of memtables hold is seen, and
        writes are refused. Another process may have the database open, and is seen as it was at a
        moment of this opening.
    families : list of str, or dict of names to options, optional
        Column families to make, and options of those that are there. All that are there are
        opened anyhow.
    device : {"auto", "cpu", "cuda"}
        Who sorts and searches memtables; "auto" is the GPU where there is one.
    threads : int, optional
        Workers of the CPU; one a core unless given.
    log_dir : str or path-like, optional
        A directory for the log of memtables (G-WAL), of this database alone and outside of its
        directory; by default `path` with ".gwal" behind it.
    durability : {"process", "power"}
        What a write that returned outlives: a process that is killed, or a power loss. With
        "power" what goes to memtables is logged on a disk, and what RocksDB serves is synced.
    power_log_dir : str or path-like, optional
        With "power", a directory for that log in place of `log_dir`, on a disk; by default `path`
        with ".power" behind it.
    power_log_bytes : int, optional
        Of that log, where it is made; four memtables unless given.
    memtable_bytes : int, default 512 MiB
        After so many bytes of keys and values a memtable is sealed and flushed.
    memtable_value_bytes : int, default 8
        Of the largest values that lie in memtables themselves, where all of a batch have one size;
        at most 1,024.
    immutable_memtables : int, default 5
        Sealed memtables that wait for their flush before writers wait for it.
    threshold : int, optional
        Operations that have to come together for memtables to take them rather than RocksDB;
        measured unless given.
    block_cache_bytes : int, default 256 MiB
        Memory for values that reads found in RocksDB, and for keys that it does not have; 0 for
        none.
    block_cache_entry_bytes : int, default 128
        Of an entry of it, a multiple of 64.
    flushed_memtable_bytes : int, default 1 GiB
        Memory, of the host and the machine together, for memtables that RocksDB has by now, in
        which reads of many keys still find what was written last; 0 for none.
    idle_millis : int, default 200
        Time without a large batch after which memtables are flushed, and RocksDB serves what comes.
    hand_overs_a_second : int, default 3
        How often that happens at most.

    Returns
    -------
    Database
        A context manager that closes it.

    Raises
    ------
    TypeError, ValueError
        An argument is none of those that it may be; no file was touched.
    InvalidArgument
        RocksDB knows no such option, or refuses its value.
    NotFound
        There is no database, and `create` is False; or its parent directory is not there.
    Busy
        The database is open already, here or in another process; with `read_only`, another process
        changed it all the while.
    Corrupt
        A file of it is damaged.
    Unsupported, DeviceFailure
        This build or machine has no such device; or the process was forked from one that had opened
        a database.
    NoSpace, SystemFailure
        The disk is full, or failed.

    Examples
    --------
    >>> import perdure.rocks
    >>> with perdure.rocks.open("/dev/shm/counts", merge_operator="uint64add",
    ...                         options={"write_buffer_size": 1 << 20},
    ...                         families={"users": {"num_levels": 4}}) as db:
    ...     db.families
    ('default', 'users')
    """
    opening = _rocks.Opening()
    opening.options = texts_of("options", options)
    opening.families = families_of(families)
    opening.merge_operator = merge_operator or ""
    opening.create = _checks.flag("create", create)
    opening.read_only = _checks.flag("read_only", read_only)
    opening.device = _checks.named("device", device, _rocks.Device)
    opening.threads = small("threads", threads)
    if log_dir is not None:
        opening.log_dir = _outside(path, "log_dir", log_dir)
    opening.durability = _checks.named("durability", durability, _rocks.Durability)
    if power_log_dir is not None:
        opening.power_log_dir = _outside(path, "power_log_dir", power_log_dir)
    if power_log_bytes is not None:
        opening.power_log_bytes = _checks.size("power_log_bytes", power_log_bytes)
    if memtable_bytes is not None:
        opening.memtable_bytes = _checks.size("memtable_bytes", memtable_bytes)
    if memtable_value_bytes is not None:
        opening.memtable_value_bytes = small("memtable_value_bytes", memtable_value_bytes, least=0)
    if immutable_memtables is not None:
        opening.immutable_memtables = small("immutable_memtables", immutable_memtables)
    opening.threshold = _checks.size("threshold", threshold)
    if block_cache_bytes is not None:
        opening.block_cache_bytes = _checks.whole("block_cache_bytes", block_cache_bytes)
    if block_cache_entry_bytes is not None:
        opening.block_cache_entry_bytes = small("block_cache_entry_bytes", block_cache_entry_bytes)
    if flushed_memtable_bytes is not None:
        opening.flushed_memtable_bytes = _checks.whole(
            "flushed_memtable_bytes", flushed_memtable_bytes
        )
    if idle_millis is not None:
        opening.idle_millis = small("idle_millis", idle_millis, least=0)
    if hand_overs_a_second is not None:
        opening.hand_overs_a_second = small("hand_overs_a_second", hand_overs_a_second)
    with _events.refusals(at := _checks.path("path", path)):
        return Database(_rocks.Database.open(at, opening))


def _outside(path: PathLike, name: str, log_dir: PathLike) -> str:
    """RocksDB removes from its directory what it does not know."""
    at = _checks.path(name, log_dir)
    database, log = Path(_checks.path("path", path)).resolve(), Path(at).resolve()
    if log.is_relative_to(database):
        raise ValueError(f"{name}: {log_dir} lies in the database's directory; name another")
    return at
