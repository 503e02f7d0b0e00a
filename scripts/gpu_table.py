"""Prints what scripts/bench_gpu.sh measured, each figure beside its target.

usage: gpu_table.py FOLDER     the folder with the runs' JSON
"""

import json
import statistics
import sys
from pathlib import Path

# M/s: (uniform gets at 2^12, 2^16, 2^20, 2^24), misses at 2^20, Zipf at (2^20, 2^24), inserts,
# updates.
TARGETS = {
    "none": ((45, 125, 400, 600), 6500, (600, 900), 300, 300),
    "fifth": ((55, 150, 450, 700), 6500, (1500, 2000), 300, 300),
    "all": ((180, 1800, 4300, 5000), 6500, (4500, 5200), 300, 300),
}
TITLES = {
    "none": "no cache",
    "fifth": "a fifth of the records cached",
    "all": "all records cached",
}
HITS, MISSES, ZIPF = "get, all hit, uniform", "get, all miss", "get, Zipf"


def rates(folder: Path, name: str) -> dict[tuple[str, int], float]:
    """Of a run of `batches`: (what, operations a batch) to M/s."""
    run = json.loads((folder / f"{name}.json").read_text())
    faults = sum(row["faults"] for row in run["rows"])
    if faults:
        sys.exit(f"gpu_table: {faults} wrong answers in {name}.json")
    return {(row["what"], row["batch"].bit_length() - 1): row["mops"] for row in run["rows"]}


def show(
    what: str, got: float, target: float | None, unit: str = "M/s", most: bool = False
) -> None:
    """One line; `most`: the figure is to stay below the target."""
    verdict = ""
    if target is not None:
        good = got <= target if most else got >= target
        sign = "<=" if most else ">="
        verdict = f"   {sign} {target:<7g} {'reached' if good else 'MISSED'}"
    print(
        f"  {what:<34} {got:>10.1f} {unit}{verdict}"
        if got >= 10
        else f"  {what:<34} {got:>10.3f} {unit}{verdict}"
    )


def show_batches(folder: Path, name: str) -> None:
    hits, misses, zipf, inserts, updates = TARGETS[name]
    got = rates(folder, name)
    print(TITLES[name])
    for log2, target in zip((12, 16, 20, 24), hits, strict=True):
        show(f"get, uniform, 2^{log2}", got[HITS, log2], target)
    show("get, miss, 2^20", got[MISSES, 20], misses)
    for log2, target in zip((20, 24), zipf, strict=True):
        show(f"get, Zipf 0.99, 2^{log2}", got[ZIPF, log2], target)
    show("insert, 2^20", got["insert", 20], inserts)
    show("update, 2^20", got["update", 20], updates)


def show_large(folder: Path) -> None:
    got = rates(folder, "large")
    print("the large pool, no cache")
    show("get, uniform, 2^20", got[HITS, 20], 100)
    show("get, uniform, 2^22", got[HITS, 22], 300)
    for what, target in (("insert", 250), ("update", 250), ("erase", 300)):
        show(f"{what}, 2^22", got[what, 22], target)


def show_in_place(folder: Path) -> None:
    # What GPHash's published code reaches there with its cache; targets are 0.8 to 1.5 times that.
    published = {
        (HITS, 12): 21,
        (HITS, 16): 48,
        (HITS, 20): 42,
        ("insert", 20): 31,
        ("update", 20): 35,
    }
    for name, title in (
        ("in_place", "no cache"),
        ("in_place_fifth", "a fifth of the buckets cached"),
    ):
        got = rates(folder, name)
        print(f"layout in_place, GPHash as published, {title}")
        for (what, log2), theirs in published.items():
            show(f"{what}, 2^{log2}", got[what, log2], 0.8 * theirs)


def show_growth(folder: Path) -> None:
    run = json.loads((folder / "fill.json").read_text())["systems"][0]
    seconds = [sample[2] for sample in run["records_load_factor_seconds"]][
        :-1
    ]  # the last is a smaller batch
    # No verdict: most batches wait for the pool's own growth, which hides a resize
    # (docs/benchmarks/batches-gpu.md).
    print("a load that doubles the table five times, in a pool that grows too")
    show("slowest batch over the median", max(seconds) / statistics.median(seconds), None, "times")
    reopened = json.loads((folder / "reopen.json").read_text())
    print(f"reopening {reopened['records']:,} records after SIGKILL")
    opened = reopened["open_seconds"] - reopened["map_seconds"]
    show("beyond mapping, until open returns", opened, None, "s")
    first = opened + reopened["first_gets_seconds"]
    show("and until the first gets are answered", first, 0.5, "s", most=True)
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
    for name in TARGETS:
        show_batches(folder, name)
    show_large(folder)
    show_in_place(folder)
    show_growth(folder)
    show_baselines(folder)


if __name__ == "__main__":
    main()
