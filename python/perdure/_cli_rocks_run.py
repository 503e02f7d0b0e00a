"""`perdure rocks bench` and `perdure rocks run`: programs, ours and the user's.

Invariant: `run` begins no program that would go on with plain RocksDB unseen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure import _native
from perdure._cli_rocks_options import (
    DurabilityOption,
    LogDirOption,
    RocksDevice,
    RocksDeviceOption,
    RocksDurability,
)
from perdure.cli_support import Failure, bench_program, parse_size, run_to_its_end

_PRELOADED = "libperdure_rocks_preload.so"

# What GpuOptions has; without them it is as there.
_ThresholdOption = Annotated[
    int | None,
    typer.Option(min=1, help="Operations that come together for memtables to take them; measured."),
]
_MemtableBytesOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="After which a memtable is sealed; 512MiB."),
]
_MemtableValueBytesOption = Annotated[
    int | None,
    typer.Option(min=0, max=1024, help="Of the largest values that lie in memtables; 8."),
]
_BlockCacheBytesOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of values that reads found in RocksDB; 256MiB, 0 for none."),
]
_BlockCacheEntryBytesOption = Annotated[
    int | None, typer.Option(min=1, help="Of an entry of it; 128.")
]
_FlushedMemtableBytesOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of memtables that RocksDB has by now; 1GiB, 0 for none."),
]
_IdleMillisOption = Annotated[
    int | None,
    typer.Option(min=0, help="Without a large batch, before memtables are flushed; 200."),
]
_HandOversOption = Annotated[
    int | None, typer.Option(min=1, help="How often that happens at most; 3.")
]


def bench(context: typer.Context) -> None:
    """Run perdure-bench-rocks with the arguments given (perdure rocks bench --help lists them)."""
    run_to_its_end(bench_program("perdure-bench-rocks"), context.args)


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM [ARGUMENTS]...", help="What to run; write -- before it."),
    ],
    device: RocksDeviceOption = RocksDevice.auto,
    threshold: _ThresholdOption = None,
    memtable_bytes: _MemtableBytesOption = None,
    memtable_value_bytes: _MemtableValueBytesOption = None,
    block_cache_bytes: _BlockCacheBytesOption = None,
    block_cache_entry_bytes: _BlockCacheEntryBytesOption = None,
    flushed_memtable_bytes: _FlushedMemtableBytesOption = None,
    idle_millis: _IdleMillisOption = None,
    hand_overs_a_second: _HandOversOption = None,
    log_dir: LogDirOption = None,
    durability: DurabilityOption = RocksDurability.process,
) -> None:
    """Run an unchanged program that uses RocksDB's shared library, with perdure's memtables in its
    databases; its exit status is the program's."""
    program = _program(command[0])
    check_uses_rocksdb(program)
    library = preloaded_library()
    given = {
        "DEVICE": device.value,
        "THRESHOLD": threshold,
        "MEMTABLE_BYTES": _size("--memtable-bytes", memtable_bytes),
        "MEMTABLE_VALUE_BYTES": memtable_value_bytes,
        "BLOCK_CACHE_BYTES": _size("--block-cache-bytes", block_cache_bytes),
        "BLOCK_CACHE_ENTRY_BYTES": block_cache_entry_bytes,
        "FLUSHED_MEMTABLE_BYTES": _size("--flushed-memtable-bytes", flushed_memtable_bytes),
        "IDLE_MILLIS": idle_millis,
        "HAND_OVERS_A_SECOND": hand_overs_a_second,
        "LOG_DIR": log_dir,
        "DURABILITY": durability.value,
    }
    environment = os.environ | {
        f"PERDURE_ROCKS_{name}": str(value) for name, value in given.items() if value is not None
    }
    others = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = f"{library}:{others}" if others else str(library)
    sys.stdout.flush()
    os.execve(program, command, environment)


def _size(option: str, text: str | None) -> int | None:
    return None if text is None else parse_size(option, text)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Failure(f"{name}: no such program, or it may not be run")
    return found


def preloaded_library() -> Path:
    library = Path(_native.__file__).parent / _PRELOADED
    if not library.is_file():
        raise Failure(
            f"{library} is not there; this package was built without it (install librocksdb-dev; "
            "in a checkout, scripts/build.sh builds it then)"
        )
    return library


def check_uses_rocksdb(program: str) -> None:
    """Only calls into a shared library can be taken over, so it has to be one that the program's
    start loads."""
    with open(program, "rb") as file:
        first = file.read(4)
    if first[:2] == b"#!":
        raise Failure(f"{program}: is a script; name the program that it runs, which uses RocksDB")
    if first != b"\x7fELF":
        raise Failure(f"{program}: is no program of this system (no ELF file)")
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if told.returncode:
        raise Failure(
            f"{program}: is linked statically, so its RocksDB cannot be exchanged; link it with "
            "librocksdb.so, or call perdure::rocks::open in it"
        )
    loaded = [line.split()[0] for line in told.stdout.splitlines() if line.split()]
    if not any(Path(name).name.startswith("librocksdb.so") for name in loaded):
        raise Failure(
            f"{program}: does not load librocksdb.so when it starts: it has RocksDB linked in, "
            "loads it later, or uses none; link it with librocksdb.so, or call "
            "perdure::rocks::open in it"
        )


def register(rocks: typer.Typer) -> None:
    unchanged = {"allow_extra_args": True, "ignore_unknown_options": True}
    rocks.command(context_settings=unchanged, add_help_option=False)(bench)
    rocks.command(context_settings={"ignore_unknown_options": False})(run)
