"""Lets clang check the annotations of locks in the library's sources: -Wthread-safety, as errors.

    scripts/thread_safety.py TREE      a configured tree, whose compile_commands.json says how

No code is made, only looked at, for each source once, whatever it is compiled for. Of the flags the
include paths, definitions and instruction sets count; warnings are gcc's business. Other errors of
clang's count too: a source that it does not take has not been checked.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
KEPT = ("-I", "-D", "-m", "-isystem", "-iquote")
CHECK = (
    "-std=c++20",
    "-fsyntax-only",
    "-Wno-everything",
    "-Wthread-safety",
    "-Werror=thread-safety",
)


def is_checked(entry: dict[str, str]) -> bool:
    """Host sources of the library: the explorer compiles the same once more."""
    file = Path(entry["file"])
    return (
        file.suffix == ".cpp"
        and file.is_relative_to(SOURCES)
        and not file.is_relative_to(SOURCES / "explore")
        and "perdure_explored" not in entry["command"]
        and " -x cu " not in entry["command"]
    )


def flags_of(command: str) -> list[str]:
    words = shlex.split(command)
    kept = []
    for i, word in enumerate(words):
        if word in ("-isystem", "-iquote"):
            kept += [word, words[i + 1]]
        elif word.startswith(KEPT):
            kept.append(word)
    return kept


def commands(tree: Path, clang: str) -> list[list[str]]:
    entries = json.loads((tree / "compile_commands.json").read_text(encoding="utf-8"))
    once = {entry["file"]: entry["command"] for entry in entries if is_checked(entry)}
    return [[clang, *CHECK, *flags_of(command), file] for file, command in once.items()]


def check(command: list[str]) -> str:
    """What clang has against a source; empty: nothing."""
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
    to_do = commands(tree, f"clang++-{version.stdout.strip()}")
    if not to_do:
        print(f"{tree} names no source of the library", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        faults = [said for said in pool.map(check, to_do) if said]
    print(*faults, sep="\n", end="")
    print(f"{len(to_do)} sources, {len(faults)} with faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
