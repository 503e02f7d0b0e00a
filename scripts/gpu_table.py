"""Prints what scripts/bench_gpu.sh measured, each figure beside its target, and beside what the
machine reached in the same run where that bounds it.

usage: gpu_table.py FOLDER     the folder with the runs' JSON
"""

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """A figure of a run, its target and what bounds it; None where it has none."""

    what: str  # of the run
    log2: int  # of the operations in a batch
    target: float | None
    limit: str = ""  # what of the machine bounds it: see Limits


HITS, MISSES, ZIPF = "get, all hit, uniform", "get, all miss", "get, Zipf"
RUNS = {
    "none": (
        "no cache",
        Row(HITS, 12, 46, "random"),
        Row(HITS, 16, 125, "reads"),
        Row(HITS, 20, 385, "reads"),
        Row(HITS, 24, 590, ""),  # values that are asked for twice cross the link once
        Row(MISSES, 20, 6500),
        Row(ZIPF, 20, 600),
        Row(ZIPF, 24, 900),
        Row("insert", 20, None),
        Row("update", 20, None),
    ),
    "fifth": (
        "a fifth of the records cached",
        Row(HITS, 12, 55),
        Row(HITS, 20, 450),
        Row(HITS, 24, 700),
        Row(ZIPF, 20, 1500),
        Row(ZIPF, 24, 2000),
    ),
    "all": (
        "all records cached",
        Row(HITS, 12, 180),
        Row(HITS, 16, 1800),
        Row(HITS, 20, 4300),
        Row(HITS, 24, 5000),
        Row(ZIPF, 20, 4500),
        Row(ZIPF, 24, 5200),
    ),
    "host": (
        "ordinary host arrays, no cache",
        Row(HITS, 20, 194, "copies"),
        Row("insert", 20, 150, "copies"),
        Row("update", 20, 150, "copies"),
    ),
    "log": (
        "layout log, no cache",
        Row("insert", 20, 320, "writes"),
        Row("update", 20, 320, "writes"),
        Row("erase", 20, None),
        Row("update, steady", 20, 300, "writes"),
    ),
    "log_large": (
        "layout log, the large pool",
        Row("insert", 22, 300, "writes"),
        Row("update", 22, 300, "writes"),
        Row("erase", 22, 450),
        Row(HITS, 20, 100),
        Row(HITS, 22, 300),
    ),
    "in_place": (
        "layout in_place, GPHash as published, no cache",
        Row(HITS, 20, None),
        Row("insert", 20, 25),
    ),
    "in_place_fifth": (
        "the same, a fifth of the buckets cached; targets: the published code's, at 2^12 0.8 of it",
        Row(HITS, 12, 17),
        Row(HITS, 16, 29),
        Row(HITS, 20, 23),
        Row("update", 20, 32),
    ),
}
MIXED_OVER_PARTS, ATOMIC_OVER_PLAIN, SLOWEST_OVER_MEDIAN = 0.8, 1.1, 5


class Limits:
    """What the machine reached in the same run, as operations a second of 8 + 128 bytes."""

    def __init__(self, folder: Path) -> None:
        found = json.loads((folder / "limits.json").read_text())
        self.gpu, self._rows = found["gpu"], found["rows"]

    def _value(self, what: str, how: str, access: int = 0) -> float | None:
        """Over the most bytes that were measured."""
        rows = [r for r in self._rows if (r["what"], r["how"]) == (what, how)]
        rows = [r for r in rows if r["access_bytes"] == access]
        return max(rows, key=lambda r: r["span_bytes"])["value"] if rows else None

    def of(self, bound: str) -> float | None:
        """M/s: of random reads of 128 bytes, of reads and writes by kernels (a value; a value and
        an entry of 16 bytes), or of copies of a value and its key."""
        if bound == "random":
            took = self._value("random", "GPU reads host memory", 128)
            return None if took is None else 1e3 / took
        how, size = {
            "reads": ("GPU reads host memory", 128),
            "writes": ("GPU writes host memory", 144),
            "copies": ("host to GPU, copy engine", 136),
            "": ("", 0),
        }[bound]
        rate = self._value("link", how) if how else None
        return None if rate is None else rate * 1e3 / size


def rates(folder: Path, name: str) -> dict[tuple[str, int], float]:
    """Of a run of `batches`: (what, operations a batch) to M/s."""
    run = json.loads((folder / f"{name}.json").read_text())
    faults = sum(row["faults"] for row in run["rows"])
    if faults:
        sys.exit(f"gpu_table: {faults} wrong answers in {name}.json")
    return {(row["what"], row["batch"].bit_length() - 1): row["mops"] for row in run["rows"]}


def show(
    what: str,
    got: float,
    target: float | None,
    unit: str = "M/s",
    most: bool = False,
    limit: float | None = None,
) -> None:
    """One line; `most`: the figure is to stay below the target."""
    verdict = ""
    if target is not None:
        good = got <= target if most else got >= target
        sign = "<=" if most else ">="
        verdict = f"{sign} {target:<7g} {'reached' if good else 'MISSED'}"
    bound = "" if limit is None else f"limit {limit:.0f}"
    digits = 1 if got >= 10 else 3
    print(f"  {what:<34} {got:>10.{digits}f} {unit:<6} {verdict:<20} {bound}".rstrip())


def show_runs(folder: Path, limits: Limits) -> None:
    for name, (title, *rows) in RUNS.items():
        print(title)
        got = rates(folder, name)
        for row in rows:
            what = f"{row.what}, 2^{row.log2}"
            show(what, got[row.what, row.log2], row.target, limit=limits.of(row.limit))


def show_calls(folder: Path) -> None:
    calls = json.loads((folder / "calls.json").read_text())
    if calls["faults"]:
        sys.exit(f"gpu_table: {calls['faults']} wrong answers in calls.json")
    print("single calls, no cache")
    for row in calls["rows"]:
        n, atomic = row["batch"], row["atomic_put_us"] / row["put_us"]
        show(f"get of {n}", row["get_us"], None, "us")
        show(f"put of {n}", row["put_us"], None, "us")
        show(f"atomic put over a plain one, {n}", atomic, ATOMIC_OVER_PLAIN, "times", most=True)
        show(f"YCSB A mixed over its parts, {n}", row["apart_over_mixed"], MIXED_OVER_PARTS, "")
    mix = calls["steady"]
    what = f"p99.9 over the median, {mix['batches']} mixed batches of {mix['batch']}"
    show(what, mix["p999_us"] / mix["p50_us"], SLOWEST_OVER_MEDIAN, "times", most=True)


def show_growth(folder: Path) -> None:
    run = json.loads((folder / "fill.json").read_text())["systems"][0]
    seconds = [sample[2] for sample in run["records_load_factor_seconds"]][
        :-1
    ]  # the last is a smaller batch
    print("a load that doubles the table five times, in a pool that grows too")
    slowest = max(seconds) / statistics.median(seconds)
    show("slowest batch over the median", slowest, 2, "times", most=True)
    reopened = json.loads((folder / "reopen.json").read_text())
    print(f"reopening {reopened['records']:,} records after SIGKILL")
    opened = reopened["open_seconds"] - reopened["map_seconds"]
    show("beyond mapping, until open returns", opened, None, "s")
    first = opened + reopened["first_gets_seconds"]
    show("and until the first gets are answered", first, 0.4, "s", most=True)
    full = json.loads((folder / "load_factor.json").read_text())["rows"][0]
    print("a table that may not grow, 2L-2H-8S")
    show("load factor", full["load_factor"], 0.97, "")
    show(
        "last tenth's rate over that at 0.5",
        full["mops_in_last_tenth"] / full["mops_at_half"],
        0.5,
        "times",
    )


def show_baselines(folder: Path) -> None:
    # The paper's factors, here a target of the layout that we would choose, over the better of the
    # two.
    targets = {"ycsb-a": 4.75, "ycsb-b": 4.75, "ycsb-d": 2.16, "ycsb-f": 4.75}
    systems = json.loads((folder / "baselines.json").read_text())["systems"]
    if faults := sum(system["faults"] for system in systems):
        sys.exit(f"gpu_table: {faults} wrong answers in baselines.json")
    # Of a baseline its kernels alone, where it tells them apart; of Perdure whole calls.
    mops = {
        s["system"]: {r["workload"]: max(r["mops_kernel"] or 0, r["mops_near"]) for r in s["rows"]}
        for s in systems
    }
    print("YCSB beside the baselines, batches of 2^16")
    for workload, factor in targets.items():
        theirs = {who: mops[who][workload] for who in ("slabhash-gpm", "clevel-gpm")}
        shown = ", ".join(f"{who} {rate:.2f}" for who, rate in theirs.items())
        show(
            f"{workload} ({shown}; in_place {mops['in_place'][workload]:.1f})",
            mops["word"][workload],
            None,
        )
        show(
            f"{workload}, over the better of them",
            mops["word"][workload] / max(theirs.values()),
            factor,
            "times",
        )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    limits = Limits(folder)
    print(limits.gpu)
    show_runs(folder, limits)
    show_calls(folder)
    show_growth(folder)
    show_baselines(folder)


if __name__ == "__main__":
    main()
