"""Dash's evaluation (VLDB '20, section 6): what its figures share, and those that compare speeds:
1, 7, 8, 15, and Dash beside a volatile table. perdure_figures.dash_parts has 9, 10 and 13,
perdure_figures.dash_pools has 11, 12, 14 and table 1.

The paper's ratios come from Optane. Each is measured here on memory that stands in for it, with
real flushes ("DRAM"), on the same under the timing emulation ("emulated"), and as lines of durable
memory an operation ("PM lines", exact counts). A ratio counts as reached where the emulated one is
and the one on DRAM is not below 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

DASH = ("dash-eh", "dash-lh")
BASELINES = ("cceh", "level", "clevel", "seph-like")
RIVALS = ("cceh", "level")  # the paper's

DRAM, EMULATED, COUNTED = "flushed", "emulated", "counted"
SHOWN = {DRAM: "DRAM", EMULATED: "emulated", COUNTED: "PM lines"}
TITLES = {
    "insert": "insert",
    "search": "positive search",
    "negative": "negative search",
    "mixed": "20 % inserts, 80 % searches",
    "delete": "delete",
}
SINGLE = ("insert", "search", "negative", "delete")


def thread_counts() -> list[int]:
    """Powers of two up to the cores, and the cores."""
    cores = os.cpu_count() or 1
    counts = [1]
    while counts[-1] * 2 <= cores:
        counts.append(counts[-1] * 2)
    return [*counts, cores] if counts[-1] < cores else counts


def indexes(
    setting: Setting,
    host: str,
    tables: Iterable[str],
    workloads: Iterable[str],
    *more: str | int,
    keys: str = "inline",
    threads: Sequence[int] = (1,),
) -> Run:
    scale = setting.scale
    arguments: list[str | int] = [
        "indexes",
        "--host",
        host,
        "--keys",
        keys,
        "--index",
        ",".join(tables),
    ]
    arguments += [
        "--records",
        scale.records,
        "--ops",
        scale.records,
        "--workload",
        ",".join(workloads),
    ]
    arguments += [
        "--threads",
        ",".join(map(str, threads)),
        "--repeats",
        1 if host == COUNTED else scale.repeats,
    ]
    return Run(" ".join((host, keys, *map(str, more))), [*arguments, *more])


Speeds = dict[
    tuple[str, str, int], float
]  # (table, workload, threads): Mop/s, or lines read an operation


def speeds_of(result: Any) -> Speeds:
    what = "lines_read" if result["host"] == COUNTED else "mops"
    return {
        (system["system"], row["workload"], row["threads"]): row[what]
        for system in result["systems"]
        for row in system["rows"]
    }


def times(host: str, ours: float, theirs: float) -> float | None:
    """How many times better: more operations, or fewer lines."""
    better, worse = (theirs, ours) if host == COUNTED else (ours, theirs)
    return better / worse if worse else None


def reached(ours: dict[str, float | None], target: float) -> bool:
    emulated, dram = ours.get(SHOWN[EMULATED]), ours.get(SHOWN[DRAM])
    return emulated is not None and dram is not None and emulated >= target and dram >= 1


def ratio(
    what: str, paper: float, of_host: Callable[[str], float | None], hosts: Iterable[str]
) -> Claim:
    ours = {SHOWN[host]: of_host(host) for host in hosts}
    return Claim(what, paper, ours, reached=reached(ours, paper))


def speeds_by_host(results: Results) -> dict[str, Speeds]:
    return {result["host"]: speeds_of(result) for result in results.values()}


def panels_by_threads(results: Results, workloads: Iterable[str]) -> list[Panel]:
    panels = []
    for workload in workloads:
        for host, found in speeds_by_host(results).items():
            panel = Panel(f"{TITLES[workload]}, {SHOWN[host]}", "threads", "Mop/s")
            for (table, of, threads), mops in sorted(found.items(), key=lambda one: one[0][2]):
                if of == workload:
                    panel.add(table, threads, mops)
            panels.append(panel)
    return panels


def over_rival(
    results: Results, what: str, paper: float, workload: str, ours: str, other: str, threads: int
) -> Claim:
    by_host = speeds_by_host(results)

    def of_host(host: str) -> float | None:
        found = by_host[host]
        return times(host, found[ours, workload, threads], found[other, workload, threads])

    return ratio(what, paper, of_host, by_host)


# --- figures 1 and 8 ----------------------------------------------------------------------------


def plan_motivation(setting: Setting) -> list[Run]:
    threads = thread_counts()
    return [
        indexes(setting, host, RIVALS, ("insert", "search"), threads=threads)
        for host in (DRAM, EMULATED)
    ]


def read_motivation(setting: Setting, results: Results) -> Drawn:
    return Drawn(panels_by_threads(results, ("insert", "search")), [])


def plan_scalability(setting: Setting) -> list[Run]:
    threads = thread_counts()
    return [
        indexes(setting, host, (*DASH, *BASELINES), TITLES, threads=threads)
        for host in (DRAM, EMULATED)
    ]


def read_scalability(setting: Setting, results: Results) -> Drawn:
    most = thread_counts()[-1]
    claims = []
    for workload, rival, paper in (
        ("insert", "cceh", 1.3),
        ("insert", "level", 8.9),
        ("mixed", "cceh", 2.7),
        ("mixed", "level", 9.0),
    ):
        what = f"{TITLES[workload]}, {most} threads (paper: 24): Dash-EH over {rival}"
        claims.append(over_rival(results, what, paper, workload, "dash-eh", rival, most))
    for workload in ("search", "negative"):
        ours = {
            SHOWN[host]: found["dash-eh", workload, most] / found["dash-eh", workload, 1]
            for host, found in speeds_by_host(results).items()
        }
        what = f"{TITLES[workload]}: Dash-EH's {most} threads over one (16 threads: 12 at least)"
        claims.append(Claim(what, "near-linear", dict(ours)))
    return Drawn(panels_by_threads(results, TITLES), claims)


# --- figure 7 -----------------------------------------------------------------------------------

_SINGLE_THREAD = {  # keys, workload, rival: the paper's ratio
    ("inline", "search", "cceh"): 1.9,
    ("inline", "search", "level"): 2.6,
    ("inline", "negative", "cceh"): 2.4,
    ("inline", "negative", "level"): 4.4,
    ("inline", "insert", "cceh"): 1.0,
    ("inline", "insert", "level"): 2.5,
    ("inline", "delete", "cceh"): 1.2,
    ("inline", "delete", "level"): 1.9,
    ("variable", "search", "cceh"): 2.0,
    ("variable", "search", "level"): 5.0,
    ("variable", "negative", "cceh"): 5.0,
    ("variable", "negative", "level"): 15.0,
    ("variable", "insert", "cceh"): 2.0,
    ("variable", "insert", "level"): 3.7,
    ("variable", "delete", "cceh"): 1.2,
    ("variable", "delete", "level"): 2.9,
}
_MOST_LINES = 2.0  # the metadata lines of two buckets


def plan_single_thread(setting: Setting) -> list[Run]:
    return [
        indexes(setting, host, (*DASH, *BASELINES), SINGLE, keys=keys)
        for keys in ("inline", "variable")
        for host in (DRAM, EMULATED, COUNTED)
    ]


def read_single_thread(setting: Setting, results: Results) -> Drawn:
    found = {(result["host"], result["keys"]): speeds_of(result) for result in results.values()}
    tables = (*DASH, *BASELINES)
    panels = []
    for (host, keys), speeds in found.items():
        unit = "lines read an operation" if host == COUNTED else "Mop/s"
        panel = Panel(f"{keys} keys, {SHOWN[host]}", "", unit, kind=Kind.bar, names=list(SINGLE))
        for table in tables:
            for at, workload in enumerate(SINGLE):
                panel.add(table, at, speeds[table, workload, 1])
        panels.append(panel)
    claims = []
    for (keys, workload, rival), paper in _SINGLE_THREAD.items():

        def of_host(
            host: str, keys: str = keys, workload: str = workload, rival: str = rival
        ) -> float | None:
            speeds = found[host, keys]
            return times(host, speeds["dash-eh", workload, 1], speeds[rival, workload, 1])

        what = f"{keys} keys, {TITLES[workload]}: Dash-EH over {rival}"
        claims.append(ratio(what, paper, of_host, (DRAM, EMULATED, COUNTED)))
    lines: dict[str, float | None] = {
        one: found[COUNTED, "inline"][one, "negative", 1] for one in DASH
    }
    within = all(value is not None and value <= _MOST_LINES for value in lines.values())
    claims.append(
        Claim(
            "lines read by a negative search, at most",
            2,
            lines,
            "lines",
            reached=within,
            exact=True,
        )
    )
    return Drawn(panels, claims)


# --- figure 15, and a volatile table ------------------------------------------------------------


def plan_allocator(setting: Setting) -> list[Run]:
    threads = thread_counts()
    return [
        indexes(setting, DRAM, DASH, ("insert",), how, threads=threads)
        for how in ("--reserve", "--no-reserve")
    ]


def read_allocator(setting: Setting, results: Results) -> Drawn:
    panel = Panel("insert, DRAM", "threads", "Mop/s")
    most = thread_counts()[-1]
    last: dict[bool, Speeds] = {}
    for result in results.values():
        last[result["reserved"]] = speeds_of(result)
        how = "pool backed beforehand" if result["reserved"] else "pool that grows"
        for (table, _, threads), mops in sorted(last[result["reserved"]].items()):
            panel.add(f"{table}, {how}", threads, mops)
    kept: dict[str, float | None] = {
        one: last[True][one, "insert", most] / last[False][one, "insert", most] for one in DASH
    }
    return Drawn(
        [panel], [Claim(f"insert, {most} threads: backed beforehand over growing", "little", kept)]
    )


_VOLATILE = "boost-flat-map"


def plan_volatile(setting: Setting) -> list[Run]:
    tables = (*DASH, _VOLATILE)
    return [
        indexes(setting, host, tables, TITLES, threads=thread_counts())
        for host in ("ordered", DRAM)
    ]


def read_volatile(setting: Setting, results: Results) -> Drawn:
    by_host = speeds_by_host(results)
    claims = []
    for workload in ("insert", "search", "negative"):
        ours: dict[str, float | None] = {}
        for host, found in by_host.items():
            for threads in thread_counts():
                of = found["dash-eh", workload, threads] / found[_VOLATILE, workload, threads]
                ours[f"{host}, {threads}"] = of
        slow = [one for one in ours.values() if one is None or one < 0.5]
        claims.append(
            Claim(
                f"{TITLES[workload]}: Dash-EH over Boost's concurrent_flat_map, at least",
                0.5,
                ours,
                reached=not slow,
            )
        )
    panels = []
    for workload in TITLES:
        panel = Panel(TITLES[workload], "threads", "Mop/s")
        for host, found in by_host.items():
            for (table, of, threads), mops in sorted(found.items(), key=lambda one: one[0][2]):
                if of == workload and not (table == _VOLATILE and host == DRAM):
                    panel.add(table if table == _VOLATILE else f"{table}, {host}", threads, mops)
        panels.append(panel)
    return Drawn(panels, claims)
