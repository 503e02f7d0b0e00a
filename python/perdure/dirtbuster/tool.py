"""Steps 2 and 3: the program under Valgrind, with our own tool, whose C source comes with Perdure.

Invariant: a tool that was built from other source, or for another Valgrind, is not used: its folder
is named by both. Building it takes a second or two.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure._ending import run_program
from perdure.cli_support import Failure
from perdure.dirtbuster import objects
from perdure.dirtbuster.programs import Program
from perdure.dirtbuster.sampling import Hot

_INSTALL = "Debian, Ubuntu: apt-get install valgrind gcc"
_SAID = 400  # characters of what Valgrind said last
# Valgrind runs repeated instructions one step at a time, so the C library is to use others.
_TUNABLES = (
    "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff"
)


@dataclass
class Limits:
    cache_bytes: int
    fence_window: int
    seconds: float | None
    start_at: list[str] = field(default_factory=list)  # functions; none: those that are watched


def source_folder() -> Path:
    """In a clone beside python/; in an installed package inside of it."""
    here = Path(__file__).resolve().parent
    for folder in (here / "source", here.parents[2] / "dirtbuster"):
        if (folder / "build.sh").is_file():
            return folder
    raise Failure(
        "dirtbuster: the C source of its Valgrind tool is not there; install perdure"
        " again, or run it from a clone"
    )


def valgrind_program() -> str:
    found = shutil.which("valgrind")
    if found is None:
        raise Failure(
            f"dirtbuster: no valgrind, which steps 2 and 3 need ({_INSTALL}); or stop"
            " after step 1: --steps 1"
        )
    return found


def build() -> Path:
    """The folder with the tool, which is built where it is not there yet."""
    source = source_folder()
    asked = [valgrind_program(), "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=False)
    if version.returncode != 0:
        raise Failure(f"dirtbuster: {asked[0]} does not run: {version.stderr.strip()} ({_INSTALL})")
    digest = hashlib.sha256(version.stdout.encode())
    for file in sorted(source.iterdir()):
        if file.suffix in (".c", ".h", ".sh"):
            digest.update(file.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "perdure" / "dirtbuster" / digest.hexdigest()[:16]
    if not (folder / "dirtbuster-amd64-linux").is_file():
        done = subprocess.run(
            [str(source / "build.sh"), str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failure(f"dirtbuster: its Valgrind tool cannot be built: {done.stderr.strip()}")
    return folder


def lines_of(functions: Sequence[Hot | str]) -> list[str]:
    """The tool's list, one function a line. A name by hand may say in which object: LIB:NAME.

    A function may have several names, and Valgrind choose another than perf, so its addresses are
    there too; not those of the C library's variants, which are others under Valgrind."""
    lines: list[str] = []
    for one in functions:
        if isinstance(one, str):
            where, _, name = one.rpartition(":") if "::" not in one else ("", "", one)
            lines.append(f"{where}\t{objects.pattern_by_hand(name)}\t0\t0")
            continue
        where, symbol = os.path.basename(one.first.object), one.first.symbol
        pattern = objects.watched_name(symbol)
        first, end = one.first.span if one.first.span and pattern == symbol else (0, 0)
        lines.append(f"{where}\t{pattern if one.first.named else ''}\t{first:x}\t{end:x}")
    return list(dict.fromkeys(lines))


def _write_list(path: Path, functions: Sequence[Hot | str]) -> None:
    path.write_text("".join(line + "\n" for line in lines_of(functions)))


def run(
    program: Program,
    functions: Sequence[Hot | str],
    folder: Path,
    limits: Limits,
    stdin: Path | None,
) -> tuple[dict[str, Any], int]:
    """What the tool counted, and the program's exit status. What the program prints is dropped: it
    has been seen in step 1."""
    library = build()
    listed = folder / "functions"
    _write_list(listed, functions)
    command = [
        valgrind_program(),
        "--tool=dirtbuster",
        "-q",
        "--demangle=no",
        "--trace-children=yes",
        "--read-inline-info=yes",
        "--fullpath-after=",
        f"--functions={listed}",
        f"--out={folder}/counts.%p.json",
        f"--cache-bytes={limits.cache_bytes}",
        f"--fence-window={limits.fence_window}",
    ]
    if limits.start_at:
        _write_list(folder / "start-at", limits.start_at)
        command.append(f"--start-at={folder}/start-at")
    if limits.seconds is not None:
        command.append(f"--milliseconds={max(1, round(limits.seconds * 1000))}")
    tunables = ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), _TUNABLES)))
    environment = {**os.environ, "VALGRIND_LIB": str(library), "GLIBC_TUNABLES": tunables}
    with open(stdin or os.devnull, "rb") as given:
        done = run_program(
            [*command, *program.command],
            stdin=given,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            errors="replace",
        )
    counted = [json.loads(one.read_text()) for one in sorted(folder.glob("counts.*.json"))]
    if not counted:
        raise Failure(
            f"dirtbuster: Valgrind could not run {program.path}: {done.stderr.strip()[-_SAID:]}"
        )
    if done.returncode < 0:
        print(
            f"perdure: under Valgrind {program.path.name} was ended by"
            f" {signal.Signals(-done.returncode).name}, so what is counted is of the time before:"
            f" {done.stderr.strip()[-_SAID:]}",
            file=sys.stderr,
        )
    return _merged(counted), done.returncode


_KEY = ("symbol", "object", "file", "line", "is_call", "caller", "on_stack")


def _merged(counted: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all processes that the program was."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in counted:
        for group in one["groups"]:
            key = tuple(group[name] for name in _KEY)
            groups[key] = summed(groups[key], group) if key in groups else group
    return {
        "instructions": sum(one["instructions"] for one in counted),
        "functions": _seen_in_any(counted, "functions"),
        "starts": _seen_in_any(counted, "starts"),
        "groups": list(groups.values()),
    }


def _seen_in_any(counted: list[dict[str, Any]], of: str) -> list[dict[str, Any]]:
    def key(function: dict[str, Any]) -> tuple[Any, ...]:
        return function["object"], function["pattern"], function["first"]

    seen = {key(one) for process in counted for one in process[of] if one["seen"]}
    return [{**one, "seen": key(one) in seen} for one in counted[0][of]]


def summed(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two groups' counts as one's; what names them is the first's."""
    total = dict(first)
    for name, value in second.items():
        if name in _KEY or name == "address":
            continue
        if name == "fenced_min":
            least = [one["fenced_min"] for one in (first, second) if one["fenced"]]
            total[name] = min(least, default=0)
        elif isinstance(value, list):
            longer = max(len(value), len(first[name]))
            padded = [one + [0] * (longer - len(one)) for one in (first[name], value)]
            total[name] = [a + b for a, b in zip(*padded, strict=True)]
        else:
            total[name] = first[name] + value
    return total
