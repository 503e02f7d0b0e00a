"""Step 1: which functions write, by samples of Linux perf (3.6.2.1 of the thesis).

Where the processor's counters can be sampled, stores are, and all instructions beside them, whose
numbers say what share of them stores have. Elsewhere (virtual machines) perf's clock interrupts the
program, and what it was at is decoded; the share of stores is then a share of time.
Invariant: `Samples.way` says which of the two it was.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from perdure._ending import run_program
from perdure.cli_support import Failure
from perdure.dirtbuster import decoding, objects
from perdure.dirtbuster.programs import Program

CLOCK = "clock"
COUNTERS = "counters"
_STORES, _ALL = "mem_inst_retired.all_stores", "instructions"
_HERTZ = "997"  # a prime: in step with no loop
_STACK_BYTES, _FRAMES = 4096, 8
_CALLERS = 3  # of a function, that the report names
_FRAME = re.compile(r"\s+([0-9a-f]+) (.+?)(?:\+0x([0-9a-f]+))? \((.*)\)$")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_INSTALL_PERF = "Debian: apt-get install linux-perf; Ubuntu: linux-tools-generic"


@dataclass
class Frame:
    offset: int
    symbol: str  # as linked, not demangled; the address of one that has no name
    object: str
    named: bool
    span: tuple[int, int] | None = None  # addresses that its function begins and ends at


@dataclass
class Hot:
    """A function that writes, and who called it how often when it did."""

    first: Frame
    samples: int = 0
    stores: int = 0
    callers: Counter[str] = field(default_factory=Counter)


@dataclass
class Samples:
    way: str
    total: int = 0
    stores: int = 0  # in the clock's moments, or in store instructions
    passed: int = 0  # moments, or instructions
    functions: dict[tuple[str, str], Hot] = field(default_factory=dict)
    status: int = 0
    stopped: bool = False

    @property
    def store_share(self) -> float:
        return self.stores / self.passed if self.passed else 0.0

    def hottest(self, most: int, least_share: float) -> list[Hot]:
        enough = [
            one
            for one in self.functions.values()
            if one.stores >= max(1, least_share * self.stores)
        ]
        return sorted(enough, key=lambda one: -one.stores)[:most]


def perf_program() -> str:
    found = shutil.which("perf")
    if found is None:
        raise Failure(
            f"dirtbuster: no perf, which step 1 samples with ({_INSTALL_PERF});"
            " or name the functions: --functions NAME,NAME"
        )
    return found


def check_permission() -> None:
    try:
        level = int(_PARANOID.read_text())
    except (OSError, ValueError):
        raise Failure(
            "dirtbuster: this kernel has no perf events; run where it has, or name the"
            " functions: --functions NAME,NAME"
        ) from None
    if level > 2 and os.geteuid() != 0:
        raise Failure(
            f"dirtbuster: {_PARANOID} is {level}, so only root may sample; lower it"
            " (sudo sysctl kernel.perf_event_paranoid=2), or name the functions:"
            " --functions NAME,NAME"
        )


def has_counters(perf: str) -> bool:
    tried = subprocess.run(
        [perf, "record", "-q", "-e", f"{_STORES}:u", "-o", "/dev/null", "--", "true"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def record(program: Program, folder: Path, seconds: float | None, stdin: Path | None) -> Samples:
    """Runs the program under perf. Its output goes to standard error."""
    perf = perf_program()
    way = COUNTERS if has_counters(perf) else CLOCK
    names = (_ALL, _STORES) if way == COUNTERS else ("cpu-clock",)
    events = [part for name in names for part in ("-e", f"{name}:u")]
    data, status = folder / "perf.data", folder / "status"
    command = [
        perf,
        "record",
        "-q",
        "--no-buildid-cache",  # which copies each library into ~/.debug
        "-F",
        _HERTZ,
        *events,
        "--call-graph",
        f"dwarf,{_STACK_BYTES}",
        "-o",
        str(data),
        "--",
        *_limited(program.command, status, seconds),
    ]
    with open(stdin or os.devnull, "rb") as given:
        done = run_program(command, stdin=given, stdout=2, stderr=subprocess.PIPE, errors="replace")
    if not status.exists():
        raise Failure(f"dirtbuster: perf could not run {program.path}: {done.stderr.strip()}")
    _pass_on(done.stderr)
    samples = _read(perf, data, way, _starter(program))
    samples.status = int(status.read_text())
    samples.stopped = seconds is not None and samples.status == 124
    return samples


def _limited(command: list[str], status: Path, seconds: float | None) -> list[str]:
    """The program, with its exit status in a file: perf's own would hide it. What it writes to
    standard error goes where its output goes, which is ours, at once and byte by byte; perf's own
    messages are apart."""
    limit = [] if seconds is None else ["timeout", "--foreground", "-k", "5", str(seconds)]
    script = 'out=$1; shift; "$@" 2>&1; echo $? > "$out"'
    return ["sh", "-c", script, "sh", str(status), *limit, *command]


def _pass_on(errors: str) -> None:
    """What perf has to say, and the shell of a program that a signal ended."""
    if errors:
        os.write(2, errors.encode())


def _starter(program: Program) -> str:
    """The shell that starts the program, unless it is the program."""
    shell = Path(shutil.which("sh") or "/bin/sh").resolve()
    return "" if shell == program.path else str(shell)


def _read(perf: str, data: Path, way: str, starter: str) -> Samples:
    with subprocess.Popen(
        [
            perf,
            "script",
            "-i",
            str(data),
            "--no-demangle",
            "--no-inline",
            "--max-stack",
            str(_FRAMES),
            "-F",
            "event,period,ip,sym,symoff,dso",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    ) as script:
        assert script.stdout is not None
        return read_lines(script.stdout, way, starter)


def read_lines(lines: Iterable[str], way: str, starter: str = "") -> Samples:
    """What perf script prints: for each sample a line with its period and event, then a line a
    frame, innermost first, then an empty one. Those in `starter` are none of the program's."""
    samples = Samples(way)
    header, frames = "", list[Frame]()
    for line in lines:
        if match := _FRAME.match(line):
            if len(frames) <= _CALLERS:
                frames.append(_frame(match, is_leaf=not frames))
        elif line.strip():
            header = line
        else:
            _count(samples, header, frames, starter)
            frames = []
    _count(samples, header, frames, starter)
    return samples


def _frame(match: re.Match[str], is_leaf: bool) -> Frame:
    """Of a caller that has a name, nothing else is needed: its file is not opened."""
    offset, symbol, path = int(match[1], 16), match[2].split("@", 1)[0], match[4]
    named = symbol != "[unknown]"
    code = objects.load(path) if is_leaf or not named else None
    span = code.function_at(offset) if code else None
    if not named and span:
        symbol = f"{span[0]:#x}"
    return Frame(offset, symbol, path, named, span)


def _count(samples: Samples, header: str, frames: list[Frame], starter: str) -> None:
    if not frames or frames[0].object == starter:
        return
    leaf = frames[0]
    stores, passed = _weights(samples.way, header, leaf)
    samples.total += 1
    samples.stores += stores
    samples.passed += passed
    hot = samples.functions.setdefault((leaf.object, objects.watched_name(leaf.symbol)), Hot(leaf))
    hot.samples += 1
    hot.stores += stores
    if stores:
        hot.callers[" < ".join(frame.symbol for frame in frames[1 : 1 + _CALLERS])] += 1


def _weights(way: str, header: str, leaf: Frame) -> tuple[int, int]:
    """For how many stores a sample stands, and for how many instructions, or moments, in all."""
    if way == CLOCK:
        return int(decoding.is_store(leaf.object, leaf.offset)), 1
    period = int(header.split()[0])
    return (period, 0) if _STORES in header else (0, period)


def ended_by(status: int) -> str:
    if status > 128 and status - 128 in {one.value for one in signal.Signals}:
        return f"ended by {signal.Signals(status - 128).name}"
    return f"exit status {status}"
