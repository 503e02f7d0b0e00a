"""`perdure doctor --litmus`: which orders of memory accesses and which atomics hold here, between
threads of the host and a GPU.

Invariant: the exit status is 1 if and only if something that Perdure relies on was seen to fail.
"""

from __future__ import annotations

from typing import Any

from perdure import _native
from perdure._doctor_tables import Column, show
from perdure.cli_support import Failure, plural, progress

RUNS, QUICK_RUNS = 10_000_000, 20_000
SECONDS, QUICK_SECONDS = 60.0, 2.0

_COLUMNS = (
    Column("test"),
    Column("between"),
    Column("order"),
    Column("scope"),
    Column("memory"),
    Column("seen", right=True),
    Column("of runs", right=True),
    Column("the model"),
    Column("verdict"),
    Column("relied on by"),
)


def run(
    runs: int | None, seconds: float | None, memory: str, quick: bool, record: bool
) -> dict[str, Any]:
    """All tests, with a progress bar."""
    if runs is not None and runs < 1:
        raise Failure(f"--runs {runs}: give at least 1")
    if seconds is not None and seconds <= 0:
        raise Failure(f"--seconds {seconds}: give more than 0")
    if record and memory != "pinned":
        raise Failure(f"--record: pools lie in pinned memory; leave out --memory {memory}")
    with progress("litmus tests", 1) as done:
        asked = runs or (QUICK_RUNS if quick else RUNS)
        found = _native.litmus(
            asked, seconds or (QUICK_SECONDS if quick else SECONDS), memory, record, done
        )
    return found | {"runs_asked": asked}


def _row(line: dict[str, Any]) -> list[str]:
    return [
        line["test"],
        line["sides"],
        line["order"],
        line["scope"],
        line["memory"],
        f"{line['seen']:,}",
        f"{line['runs']:,}",
        "allows it" if line["allowed"] else "forbids it",
        line["verdict"],
        line["relied_on"],
    ]


def tell(found: dict[str, Any], stream: Any) -> None:
    """The table, and what of it Perdure relies on."""
    show(f"litmus tests: {found['cpu']}", _COLUMNS, map(_row, found["lines"]), stream)
    tested = f"with {found['gpu']}" if found["gpu"] else f"no GPU was tested: {found['why_no_gpu']}"
    print(tested, file=stream)
    for line in found["lines"]:
        if line["relied_on"]:
            state = "FAILED" if line["verdict"] == "BROKEN" else "held"
            print(
                f"{state:6} {line['relied_on']}: {line['test']} {line['sides']} {line['order']}",
                file=stream,
            )
    _tell_weakness(found, stream)
    if found["recorded"]:
        print(f"recorded in {found['recorded']}", file=stream)
    elif not found["sound"]:
        print("with --record stores on this machine refuse what failed", file=stream)


def _tell_weakness(found: dict[str, Any], stream: Any) -> None:
    """What makes these results say less than they seem to."""
    short = sum(line["runs"] < found["runs_asked"] for line in found["lines"])
    if short:
        print(
            f"{plural(short, 'test')} had too little time for {found['runs_asked']:,} runs: give "
            "more --seconds, or cores",
            file=stream,
        )
    for line in found["lines"]:
        if line["test"] == "canary" and line["seen"] == 0:
            print(
                f"canary {line['sides']}: stores in the wrong order were not seen either, so the "
                "tests between these two say little",
                file=stream,
            )


def summary(found: dict[str, Any]) -> str:
    relied = [line for line in found["lines"] if line["relied_on"]]
    broken = [line for line in relied if line["verdict"] == "BROKEN"]
    if broken:
        return f"{len(broken)} of {plural(len(relied), 'thing')} that Perdure relies on FAILED"
    return f"all {plural(len(relied), 'thing')} held that Perdure relies on and this machine has"
