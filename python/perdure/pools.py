"""How stores come to be: made, opened, restored from a snapshot.

Invariant: every argument is checked before the engine is called, and so before any file is touched.
"""

from __future__ import annotations

import os
from typing import Any

from perdure import _checks, _native
from perdure.options import DeviceName, DurabilityName, GPHash, IndexName, Options, PathLike
from perdure.store import Store


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
    _checks.set_file(wanted, overwrite, force, mode)
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
    _checks.set_file(wanted, overwrite, force, mode)
    opening = _opening(device, threads, options)
    _set_expected(opening, expect_key_bytes, expect_value_bytes)
    return Store(_native.Store.restore(os.fspath(snapshot), os.fspath(path), wanted, opening))


def devices() -> list[_native.DeviceInfo]:
    """The machines this build and this computer offer."""
    return _native.devices()


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
