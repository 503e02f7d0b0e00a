"""Runs perdure-bench or perdure-gpmbench, one process a command, and reads what it found.

Invariant: a result is returned only if every answer that the run checked was right. The programs
check what they read, and say so by exit status 1. A command that several runs have, of one figure
or of several, is run once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from perdure._ending import run_program
from perdure.cli_support import FAULTS, Failure, bench_program

from perdure_figures.model import Results, Run

_SAID_LINES = 3  # of perdure-bench's last words, in an error


Known = dict[tuple[str, ...], Any]  # results by command


def run_all(
    runs: Iterable[Run], folder: Path, show: Callable[[float], None], known: Known
) -> Results:
    results: Results = {}
    for run in runs:
        command = (run.program, *run.command())
        if command not in known:
            known[command] = run_one(run, folder / "result.json")
        results[run.name] = picked(run, known[command])
        show(len(results))
    return results


def picked(run: Run, result: Any) -> Any:
    """The run's own of what its command gave: the one with these fields, of a list."""
    if not run.picks:
        return result
    found = [one for one in result if run.picks.items() <= one.items()]
    if len(found) != 1:
        raise Failure(f"{_shown(run)}: gave {len(found)} results with {dict(run.picks)}, not one")
    return found[0]


def run_one(run: Run, result: Path) -> Any:
    result.unlink(missing_ok=True)  # of the run before: programs replace no file
    command = [str(bench_program(run.program)), *run.command(), "--json", str(result)]
    done = run_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 0:
        return json.loads(result.read_text())
    said = " ".join((done.stderr or done.stdout).strip().splitlines()[-_SAID_LINES:])
    if done.returncode == FAULTS:
        faults = [
            line.strip() for line in done.stdout.splitlines() if "FAULT" in line or "WRONG" in line
        ]
        raise Failure(f"{_shown(run)}: WRONG ANSWERS: {'; '.join(faults) or said}", FAULTS)
    if done.returncode < 0:
        raise Failure(f"{_shown(run)}: ended by signal {-done.returncode}: {said}")
    raise Failure(f"{_shown(run)}: {said}")


def _shown(run: Run) -> str:
    return " ".join((run.program, *run.command()))


def checked_answers(result: Any) -> int:
    """The answers that a result says were compared, of all its systems."""
    systems = result.get("systems", [result])
    return sum(system.get("checked", 0) for system in systems)


def machines(results: Results) -> list[str]:
    """The machines that the results name, each once."""
    found: dict[str, None] = {}
    for result in results.values():
        for part in [result, *result.get("systems", [])]:
            if "machine" in part:
                found[part["machine"]] = None
    return list(found)
