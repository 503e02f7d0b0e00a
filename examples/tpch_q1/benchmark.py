"""TPC-H Q1 over lineitem in a pool of Perdure's, and over the same columns in DuckDB and PyArrow.

    python examples/tpch_q1/benchmark.py PROGRAM FOLDER [--scale 1] [--source generate|dbgen]
        [--threads N] [--runs 5] [--forms columns,rows] [--modes cpu,gpu,both,gpu-memory]
        [--json FILE]

PROGRAM is the built tpch_q1. FOLDER, in /dev/shm, gets the columns and the pools, and loses the
pools at the end. Each system has its data in memory and runs once before the runs that count, of
which the middle one is reported. All must answer alike, sums to the last digit; the exit status
says so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import column_files
import systems

DAY = 10471  # 1998-09-02, as TPC-H's validation has it
FORMS, MODES = ("columns", "rows"), ("cpu", "gpu", "both", "gpu-memory")
LIMIT = 60  # seconds of one command
AVERAGES_DIFFER = 1e-13  # at most, relatively: the order in which doubles are divided


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(one) for one in arguments], capture_output=True, text=True, timeout=LIMIT, check=False
    )


def must(*arguments: object) -> None:
    done = command(*arguments)
    if done.returncode != 0:
        raise SystemExit(f"{arguments[1]}: {done.stderr.strip()}")


def answer_of(report: list[dict[str, str]]) -> systems.Answer:
    """What the program printed, in numbers."""
    return [
        (
            row["l_returnflag"],
            row["l_linestatus"],
            *(int(row[name].replace(".", "")) for name in systems.DIGITS),
            *(float(row[name]) for name in systems.AVERAGES),
            int(row["count_order"]),
        )
        for row in report
    ]


def alike(one: systems.Answer, other: systems.Answer) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return abs(a - b) <= AVERAGES_DIFFER * abs(a)
        return a == b

    return len(one) == len(other) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(one, other, strict=True)
    )


def run_perdure(program: Path, pool: Path, mode: str, args: argparse.Namespace) -> dict[str, Any]:
    try:
        done = command(program, "run", pool, mode, args.runs, args.threads, DAY)
    except subprocess.TimeoutExpired:
        return {"why_not": f"it took more than {LIMIT} s"}
    if done.returncode != 0:
        return {"why_not": done.stderr.strip()}
    report: dict[str, Any] = json.loads(done.stdout)
    report["answer"] = answer_of(report["answer"])
    return report


def run_other(make: Callable[[], systems.Query], runs: int) -> dict[str, Any]:
    try:
        begin = time.perf_counter()
        query = make()
        loaded = time.perf_counter() - begin
    except ImportError as missing:
        return {"why_not": str(missing)}
    query()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        answer = query()
        seconds.append(time.perf_counter() - begin)
    return {"query_s": statistics.median(seconds), "load_s": loaded, "answer": answer}


def make_columns(args: argparse.Namespace) -> None:
    if args.source == "generate":
        must(args.program, "generate", args.folder, args.scale)
    else:
        import lineitem

        lineitem.make(args.folder, args.scale)


class Found(dict[str, dict[str, Any]]):
    """What each system answered; says so as it comes."""

    def __setitem__(self, name: str, one: dict[str, Any]) -> None:
        super().__setitem__(name, one)
        said = f"{1000 * one['query_s']:.2f} ms" if "query_s" in one else one["why_not"]
        print(f"  {name}: {said}", file=sys.stderr, flush=True)


def run_all(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    found = Found()
    for form in args.forms:
        pool = args.folder / f"{form}.pool"
        begin = time.perf_counter()
        must(args.program, "load", args.folder, pool, form)
        loaded = time.perf_counter() - begin
        for mode in args.modes:
            one = run_perdure(args.program, pool, mode, args)
            found[f"perdure {form}, {mode}"] = {**one, "load_s": loaded}
        pool.unlink()
    columns = column_files.read(args.folder)
    duckdb, acero = systems.duckdb, systems.acero
    others: dict[str, Callable[[], systems.Query]] = {
        "duckdb": lambda: duckdb(columns, args.threads, DAY, False),
        "duckdb, narrow integers": lambda: duckdb(columns, args.threads, DAY, True),
        "pyarrow acero": lambda: acero(columns, args.threads, DAY),
    }
    for name, make in others.items():
        found[name] = run_other(make, args.runs)
    return found


def print_table(found: dict[str, dict[str, Any]]) -> bool:
    """Whether all that ran answered alike."""
    base = found["duckdb"].get("query_s")
    first = next((one["answer"] for one in found.values() if "answer" in one), None)
    good = first is not None
    print(f"{'':<28} {'read':>9} {'filter':>9} {'query':>9} {'duckdb = 1':>11}  answer")
    for name, one in found.items():
        if "why_not" in one:
            print(f"{name:<28} not run: {one['why_not']}")
            continue
        same = alike(first, one["answer"])
        good = good and same
        cells = [f"{1000 * one[key]:.2f}" if key in one else "" for key in ("read_s", "filter_s")]
        ratio = f"{base / one['query_s']:.2f} x" if base else ""
        print(
            f"{name:<28} {cells[0]:>9} {cells[1]:>9} {1000 * one['query_s']:>9.2f} {ratio:>11}"
            f"  {'the same' if same else 'ANOTHER'}"
        )
    print("milliseconds; read: out of the pool, once; query: the middle run, with its filter")
    return good


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=lambda path: Path(path).resolve())
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--source", choices=("generate", "dbgen"), default="generate")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--forms", type=lambda text: text.split(","), default=list(FORMS))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> int:
    args = options()
    args.folder.mkdir(parents=True, exist_ok=True)
    make_columns(args)
    found = run_all(args)
    good = print_table(found)
    if args.json:
        setting = {"scale": args.scale, "source": args.source, "threads": args.threads}
        args.json.write_text(json.dumps({"setting": setting, "systems": found}, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
