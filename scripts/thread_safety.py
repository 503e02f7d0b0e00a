"""Lets clang check the annotations of locks in the library's sources: -Wthread-safety, as errors.

    scripts/thread_safety.py TREE      a configured tree, whose compile_commands.json says how

No code is made, only looked at. Each source is looked at once, whatever it is compiled for, and all
that have the same flags together, for most of the time goes to headers. Their names of file scope
must differ, then, as they must where the tree compiles sources together (PERDURE_TOGETHER). Of the
flags the include paths, definitions and instruction sets count; warnings are gcc's business. Other
errors of clang's count too: a source that it does not take has not been checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
KEPT = ("-I", "-D", "-m", "-isystem", "-iquote")
CHECK = (
    "-std=c++20",
    "-fsyntax-only",
    "-ferror-limit=0",
    "-Wno-everything",
    "-Wthread-safety",
    "-Werror=thread-safety",
)


def sources_of(file: Path) -> list[Path]:
    """Those that CMake's source of a unity build includes, or the file itself."""
    if file.parent.name != "Unity":
        return [file]
    return [Path(name) for name in INCLUDED.findall(file.read_text(encoding="utf-8"))]


def is_checked(source: Path) -> bool:
    """Host sources of the library."""
    return (
        source.suffix == ".cpp"
        and source.is_relative_to(SOURCES)
        and not source.is_relative_to(SOURCES / "explore")
    )


def flags_of(command: str) -> tuple[str, ...]:
    words = shlex.split(command)
    kept: list[str] = []
    for i, word in enumerate(words):
        if word in ("-isystem", "-iquote"):
            kept += [word, words[i + 1]]
        elif word.startswith(KEPT):
            kept.append(word)
    return tuple(kept)


@dataclass
class Unit:
    """What is looked at together."""

    flags: tuple[str, ...]
    files: list[str] = field(default_factory=list)
    sources: int = 0  # which the files are or include


def units(tree: Path) -> list[Unit]:
    """Each source of the library in one of them, and the longest first."""
    entries = [
        (entry, list(filter(is_checked, sources_of(Path(entry["file"])))))
        for entry in json.loads((tree / "compile_commands.json").read_text(encoding="utf-8"))
        # The explorer compiles the same once more.
        if "perdure_explored" not in entry["command"] and " -x cu " not in entry["command"]
    ]
    found: dict[tuple[str, ...], Unit] = {}
    seen: set[Path] = set()
    # A test may compile one alone that the library compiles with others: those come first.
    for entry, sources in sorted(entries, key=lambda one: -len(one[1])):
        new = set(sources) - seen
        if new:
            flags = flags_of(entry["command"])
            unit = found.setdefault(flags, Unit(flags))
            unit.files.append(entry["file"])
            unit.sources += len(new)
            seen |= new
    return sorted(found.values(), key=lambda unit: -unit.sources)


def command_of(clang: str, unit: Unit) -> list[str]:
    *before, last = unit.files
    return [clang, *CHECK, *unit.flags, *(f"-include{file}" for file in before), last]


def check(command: list[str]) -> str:
    """What clang has against a unit; empty: nothing."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def main() -> int:
    tree = Path(sys.argv[1])
    version = subprocess.run(
        ["scripts/clang.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if version.returncode:
        print(version.stderr, file=sys.stderr)
        return 1
    to_do = units(tree)
    if not to_do:
        print(f"{tree} names no source of the library", file=sys.stderr)
        return 1
    clang = f"clang++-{version.stdout.strip()}"
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        said = pool.map(check, (command_of(clang, unit) for unit in to_do))
        faults = list(filter(None, said))
    print(*faults, sep="\n", end="")
    sources = sum(unit.sources for unit in to_do)
    print(f"{sources} sources in {len(to_do)} units, {len(faults)} of them with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
