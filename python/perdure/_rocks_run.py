"""`perdure rocks run`: a program that uses RocksDB, with perdure::rocks in its place.

libperdure_rocks_preload.so answers RocksDB's openings in programs that are linked to librocksdb.so
dynamically. Invariant: a program that it cannot serve is refused before it starts, with the reason;
a script may run any program, so of it nothing is told beforehand.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

LIBRARY = "libperdure_rocks_preload.so"
_LOADER = Path("/lib64/ld-linux-x86-64.so.2")
_ROCKSDB = re.compile(r"\blibrocksdb\.so[.\d]*")


class CannotServe(Exception):
    """The message names the program, the reason and the way out."""


def find_program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise CannotServe(f"{name}: no such program; give its path, or install it")
    return Path(found)


def is_script(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(4) != b"\x7fELF"


def check(program: Path, library: Path) -> None:
    """Raises CannotServe unless the library can serve the program."""
    if not library.is_file():
        raise CannotServe(
            f"{library} is not there: build the target perdure_rocks_preload where librocksdb-dev"
            " is installed, and name it with --library"
        )
    if is_script(program):
        return
    if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise CannotServe(f"{program} runs as another user: the loader preloads nothing into it")
    linked = _rocksdb_of(program)
    if not linked:
        raise CannotServe(_why_none(program))
    if other := _rocksdb_of(library) - linked:
        raise CannotServe(
            f"{program} uses {', '.join(sorted(linked))}, and {library} was built for"
            f" {', '.join(sorted(other))}: build Perdure against the RocksDB that the program uses"
        )


def _rocksdb_of(file: Path) -> set[str]:
    """The libraries of RocksDB that the loader would load with it; it runs nothing."""
    listed = subprocess.run(
        [_LOADER, "--list", file], capture_output=True, text=True, check=False
    ).stdout
    return {found[0] for line in listed.splitlines() if (found := _ROCKSDB.search(line))}


def _why_none(program: Path) -> str:
    if b"N7rocksdb" in program.read_bytes():
        return (
            f"{program} has RocksDB linked into it statically, where nothing can be put in its"
            " place: link it to librocksdb.so"
        )
    return f"{program} is not linked to librocksdb.so, so there is nothing to be served"


def environment(
    library: Path,
    *,
    device: str | None = None,
    threshold: int | None = None,
    memtable_bytes: int | None = None,
    log_dir: str | None = None,
) -> dict[str, str]:
    """This process's, and what the program's is to have besides."""
    added = {
        "PERDURE_ROCKS_DEVICE": device,
        "PERDURE_ROCKS_THRESHOLD": threshold,
        "PERDURE_ROCKS_MEMTABLE_BYTES": memtable_bytes,
        "PERDURE_ROCKS_LOG_DIR": log_dir,
    }
    # the loader takes both spaces and colons as the end of a name
    before = os.environ.get("LD_PRELOAD", "")
    return {
        **os.environ,
        **{name: str(value) for name, value in added.items() if value is not None},
        "LD_PRELOAD": f"{library.resolve()}:{before}" if before else str(library.resolve()),
    }


def run(program: str, arguments: list[str], library: Path, **options: str | int | None) -> None:
    """Becomes the program. Raises CannotServe."""
    found = find_program(program)
    check(found, library)
    os.execve(found, [program, *arguments], environment(library, **options))  # type: ignore[arg-type]
