"""How often a reader of a put crosses from one file to another: scripts/crossings.py [SOURCE]

Builds the library of SOURCE (default: this clone) without optimisation, traces one put, one get and
one put of durability `power` (scripts/crossings.cpp), and counts. A crossing is a call from one
module to another, each such call once however often it is made: a module is a header and its source
together, templates count once, and constructors, destructors and calls back into a module that
waits for the answer do not count, nor does what an assertion calls. `path` has the rooms that hold
the path (store, batch, index, wal), whose functions one reads to follow it; `all` has the verbs of
exec and pm, too. base, fault and the public Status are vocabulary.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTRUMENTED = (
    "-O0 -g -finstrument-functions -finstrument-functions-exclude-file-list=/usr/include,/usr/lib"
)
WHERE = re.compile(r"/((?:src|include)/\S+?)\.(?:hpp|cpp|h):")
IN_SOURCE = re.compile(r"/((?:src|include)/[^:]+):(\d+)")
PATH = re.compile(r"^src/(?:store|batch|index|wal|log)/")  # log/ was wal/ once
VOCABULARY = re.compile(r"^src/(?:base|fault)/|^include/perdure/(?:status|export)$")
TARGETS = {"put": 60, "get": 40, "power": 75}


def build(source: Path, into: Path) -> Path:
    """The program that traces, with the library of `source` in it."""
    off = [f"-DPERDURE_{what}=OFF" for what in ("CUDA", "TESTS", "BENCH", "EXAMPLES", "SHARED")]
    configure = ["cmake", "-G", "Ninja", "-S", source, "-B", into, *off, "-DPERDURE_EXPLORE=OFF"]
    configure += ["-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={INSTRUMENTED}"]
    configure += ["-DPERDURE_CPU_ENGINES=avx2"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", into, "perdure"], check=True, stdout=subprocess.DEVNULL)
    program = into / "crossings"
    compile_it = ["g++", "-std=c++20", "-O0", "-g", "-no-pie", f"-I{source}/include"]
    compile_it += [ROOT / "scripts/crossings.cpp", *into.rglob("libperdure.a"), "-o", program]
    libraries = ["-lpthread", "-lisal", "-luring", "-lhwy", "-lhwy_contrib"]
    subprocess.run([*compile_it, *libraries], check=True)
    return program


def without_templates(name: str) -> str:
    depth, kept = 0, ""
    for letter in name:
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter != ">":
            kept += letter
    return kept.split("(")[0]


def functions(program: Path, addresses: list[str]) -> dict[str, tuple[str, str | None]]:
    """Address -> name, and module where it is one of Perdure's."""
    command = ["addr2line", "-f", "-C", "-e", program, *addresses]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {}
    for address, name, where in zip(addresses, lines[::2], lines[1::2], strict=True):
        match = WHERE.search(where)
        module = match[1] if match and not VOCABULARY.match(match[1]) else None
        found[address] = (without_templates(name), module)
    return found


def callers_in_assertions(source: Path, program: Path, callers: list[str]) -> set[str]:
    """Of return addresses, those behind a call that a PERDURE_ASSERT makes."""
    # The call itself lies before the address to which it returns.
    command = ["addr2line", "-e", program, *(hex(int(caller, 16) - 1) for caller in callers)]
    places = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = set()
    for caller, place in zip(callers, places, strict=True):
        match = IN_SOURCE.search(place)
        if not match or not (source / match[1]).is_file():
            continue
        before = (source / match[1]).read_text().splitlines()[: int(match[2])]
        statement = re.split(r"[;{}]", "\n".join(before[-4:]))[-1] or before[-1]
        if "PERDURE_ASSERT(" in before[-1] or statement.lstrip().startswith("PERDURE_ASSERT("):
            found.add(caller)
    return found


def is_special(name: str) -> bool:
    """A constructor, a destructor, an assignment."""
    parts = name.split("::")
    return len(parts) > 1 and (parts[-1].startswith(("~", "operator=")) or parts[-1] == parts[-2])


def count(
    source: Path, program: Path, trace: Path, rooms: re.Pattern[str] | None
) -> tuple[int, int]:
    """Crossings, and modules."""
    events = [line.split() for line in trace.read_text().splitlines()]
    known = functions(program, sorted({address for _, address, _ in events}))
    asserted = callers_in_assertions(source, program, sorted({caller for _, _, caller in events}))
    inside = 0  # calls that an assertion makes, and that have not returned
    stack: list[tuple[str, str | None]] = []
    crossings, modules = set(), set()
    for what, address, caller in events:
        if inside or (what == "E" and caller in asserted):
            inside += 1 if what == "E" else -1
            continue
        name, module = known[address]
        if module and rooms and not rooms.match(module):
            module = None
        if what == "X":
            stack.pop()
            continue
        callers = [frame for frame in stack if frame[1]]
        stack.append((name, module))
        if not module:
            continue
        modules.add(module)
        calls_back = module in {frame[1] for frame in callers}
        if callers and not calls_back and not is_special(name):
            crossings.add((*callers[-1], name, module))
    return len(crossings), len(modules)


def main() -> int:
    source = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    with tempfile.TemporaryDirectory(prefix="perdure-crossings-") as folder:
        into = Path(folder)
        program = build(source, into / "build")
        print("           path: crossings  modules    all: crossings  modules   target")
        for what, target in TARGETS.items():
            trace = into / what
            subprocess.run([program, what, into / "pool", into / "log", trace], check=True)
            path = count(source, program, trace, PATH)
            every = count(source, program, trace, None)
            row = f"{path[0]:14d} {path[1]:8d} {every[0]:18d} {every[1]:8d} {target:8d}"
            print(f"{what:10s} {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
