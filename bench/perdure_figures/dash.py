"""Dash's evaluation (VLDB '20, section 6): figures 1 and 7 to 15, table 1, and Dash beside a
volatile table.

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
_SHOWN = {DRAM: "DRAM", EMULATED: "emulated", COUNTED: "PM lines"}
_TITLES = {
    "insert": "insert",
    "search": "positive search",
    "negative": "negative search",
    "mixed": "20 % inserts, 80 % searches",
    "delete": "delete",
}
_SINGLE = ("insert", "search", "negative", "delete")


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
        (subject["subject"], row["workload"], row["threads"]): row[what]
        for subject in result["subjects"]
        for row in subject["rows"]
    }


def times(host: str, ours: float, theirs: float) -> float | None:
    """How many times better: more operations, or fewer lines."""
    better, worse = (theirs, ours) if host == COUNTED else (ours, theirs)
    return better / worse if worse else None


def reached(ours: dict[str, float | None], wanted: float) -> bool:
    emulated, dram = ours.get(_SHOWN[EMULATED]), ours.get(_SHOWN[DRAM])
    return emulated is not None and dram is not None and emulated >= wanted and dram >= 1


def ratio(
    what: str, paper: float, of_host: Callable[[str], float | None], hosts: Iterable[str]
) -> Claim:
    ours = {_SHOWN[host]: of_host(host) for host in hosts}
    return Claim(what, paper, ours, reached=reached(ours, paper))


# --- figures 1 and 8 ----------------------------------------------------------------------------


def plan_motivation(setting: Setting) -> list[Run]:
    threads = thread_counts()
    return [
        indexes(setting, host, RIVALS, ("insert", "search"), threads=threads)
        for host in (DRAM, EMULATED)
    ]


def read_motivation(setting: Setting, results: Results) -> Drawn:
    return Drawn(_by_threads(results, ("insert", "search")), [])


def plan_scalability(setting: Setting) -> list[Run]:
    threads = thread_counts()
    return [
        indexes(setting, host, (*DASH, *BASELINES), _TITLES, threads=threads)
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
        what = f"{_TITLES[workload]}, {most} threads (paper: 24): Dash-EH over {rival}"
        claims.append(_over(results, what, paper, workload, "dash-eh", rival, most))
    for workload in ("search", "negative"):
        ours = {
            _SHOWN[host]: found["dash-eh", workload, most] / found["dash-eh", workload, 1]
            for host, found in _by_host(results).items()
        }
        what = f"{_TITLES[workload]}: Dash-EH's {most} threads over one (16 threads: 12 at least)"
        claims.append(Claim(what, "near-linear", dict(ours)))
    return Drawn(_by_threads(results, _TITLES), claims)


def _by_host(results: Results) -> dict[str, Speeds]:
    return {result["host"]: speeds_of(result) for result in results.values()}


def _by_threads(results: Results, workloads: Iterable[str]) -> list[Panel]:
    panels = []
    for workload in workloads:
        for host, found in _by_host(results).items():
            panel = Panel(f"{_TITLES[workload]}, {_SHOWN[host]}", "threads", "Mop/s")
            for (table, of, threads), mops in sorted(found.items(), key=lambda one: one[0][2]):
                if of == workload:
                    panel.add(table, threads, mops)
            panels.append(panel)
    return panels


def _over(
    results: Results, what: str, paper: float, workload: str, ours: str, other: str, threads: int
) -> Claim:
    by_host = _by_host(results)

    def of_host(host: str) -> float | None:
        found = by_host[host]
        return times(host, found[ours, workload, threads], found[other, workload, threads])

    return ratio(what, paper, of_host, by_host)


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
        indexes(setting, host, (*DASH, *BASELINES), _SINGLE, keys=keys)
        for keys in ("inline", "variable")
        for host in (DRAM, EMULATED, COUNTED)
    ]


def read_single_thread(setting: Setting, results: Results) -> Drawn:
    found = {(result["host"], result["keys"]): speeds_of(result) for result in results.values()}
    tables = (*DASH, *BASELINES)
    panels = []
    for (host, keys), speeds in found.items():
        unit = "lines read an operation" if host == COUNTED else "Mop/s"
        panel = Panel(f"{keys} keys, {_SHOWN[host]}", "", unit, kind=Kind.bar, names=list(_SINGLE))
        for table in tables:
            for at, workload in enumerate(_SINGLE):
                panel.add(table, at, speeds[table, workload, 1])
        panels.append(panel)
    claims = []
    for (keys, workload, rival), paper in _SINGLE_THREAD.items():

        def of_host(
            host: str, keys: str = keys, workload: str = workload, rival: str = rival
        ) -> float | None:
            speeds = found[host, keys]
            return times(host, speeds["dash-eh", workload, 1], speeds[rival, workload, 1])

        what = f"{keys} keys, {_TITLES[workload]}: Dash-EH over {rival}"
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


# --- figures 9, 10 and 13 -----------------------------------------------------------------------

_WITHOUT_PRINTS = "dash-eh-no-fingerprints"
_FINGERPRINTS = {
    "inline": {"insert": 1.04, "search": 1.19, "negative": 1.72, "delete": 1.02},
    "variable": {"insert": 1.88, "search": 3.13, "negative": 7.04, "delete": 1.52},
}
_HINTS = {"insert": 1.07, "search": 1.29, "negative": 1.70, "delete": 1.16}
_STASHES = {2: ("dash-eh", "dash-eh-no-hints"), 4: ("dash-eh-stash4", "dash-eh-no-hints-stash4")}


def plan_fingerprints(setting: Setting) -> list[Run]:
    most = thread_counts()[-1:]
    return [
        indexes(setting, host, ("dash-eh", _WITHOUT_PRINTS), _SINGLE, keys=keys, threads=most)
        for keys in _FINGERPRINTS
        for host in (DRAM, EMULATED)
    ]


def read_fingerprints(setting: Setting, results: Results) -> Drawn:
    most = thread_counts()[-1]
    found = {(result["host"], result["keys"]): speeds_of(result) for result in results.values()}
    claims = []
    for keys, papers in _FINGERPRINTS.items():
        for workload, paper in papers.items():

            def of_host(host: str, keys: str = keys, workload: str = workload) -> float | None:
                speeds = found[host, keys]
                return times(
                    host, speeds["dash-eh", workload, most], speeds[_WITHOUT_PRINTS, workload, most]
                )

            what = f"{keys} keys, {_TITLES[workload]}: with fingerprints over without"
            claims.append(ratio(what, paper, of_host, (DRAM, EMULATED)))
    return Drawn(_bars(found, ("dash-eh", _WITHOUT_PRINTS), most), claims)


def _bars(found: dict[tuple[str, str], Speeds], tables: Iterable[str], threads: int) -> list[Panel]:
    panels = []
    for (host, keys), speeds in found.items():
        title = f"{keys} keys, {threads} threads, {_SHOWN[host]}"
        panel = Panel(title, "", "Mop/s", kind=Kind.bar, names=list(_SINGLE))
        for table in tables:
            for at, workload in enumerate(_SINGLE):
                panel.add(table, at, speeds[table, workload, threads])
        panels.append(panel)
    return panels


def plan_hints(setting: Setting) -> list[Run]:
    tables = [table for pair in _STASHES.values() for table in pair]
    most = thread_counts()[-1:]
    return [indexes(setting, host, tables, _SINGLE, threads=most) for host in (DRAM, EMULATED)]


def read_hints(setting: Setting, results: Results) -> Drawn:
    most = thread_counts()[-1]
    found = {(result["host"], result["keys"]): speeds_of(result) for result in results.values()}
    with_hints, without = _STASHES[2]
    claims = [
        _over(
            results,
            f"two stash buckets, {_TITLES[workload]}: with overflow metadata over without",
            paper,
            workload,
            with_hints,
            without,
            most,
        )
        for workload, paper in _HINTS.items()
    ]
    return Drawn(
        _bars(found, [table for pair in _STASHES.values() for table in pair], most), claims
    )


def plan_locks(setting: Setting) -> list[Run]:
    tables = ("dash-eh", "dash-eh-pessimistic")
    return [
        indexes(setting, host, tables, ("search", "negative"), threads=thread_counts())
        for host in (DRAM, EMULATED)
    ]


def read_locks(setting: Setting, results: Results) -> Drawn:
    most = thread_counts()[-1]
    claims = []
    for workload in ("search", "negative"):
        ours = {
            _SHOWN[host]: found["dash-eh", workload, most]
            / found["dash-eh-pessimistic", workload, most]
            for host, found in _by_host(results).items()
        }
        what = f"{_TITLES[workload]}, {most} threads: optimistic over pessimistic"
        claims.append(Claim(what, "more and more", dict(ours)))
    return Drawn(_by_threads(results, ("search", "negative")), claims)


# --- figures 11 and 12 --------------------------------------------------------------------------

_LOADED = ("dash-eh", "dash-eh-stash4", "dash-lh", "cceh", "level", "clevel", "seph-like")


def plan_segments(setting: Setting) -> list[Run]:
    return [Run("segments", ["index-segments", "--seeds", max(3, 3 * setting.scale.repeats)])]


def read_segments(setting: Setting, results: Results) -> Drawn:
    panel = Panel("one segment, when it first has no room", "KiB", "load factor", log_x=True)
    fills = {}
    for row in results["segments"]["rows"]:
        panel.add(row["technique"], row["kib"], row["load_factor"])
        fills[row["technique"], row["kib"]] = row["load_factor"]
    more: dict[str, float | None] = {
        "Dash-EH": 100 * (fills["probing", 128] - fills["bucketized", 128]),
    }
    least: dict[str, float | None] = {
        "Dash-EH": 100 * min(fills["stash4", kib] for kib in (1, 2, 4, 8, 16))
    }
    return Drawn(
        [panel],
        [
            Claim("bucketized, 1 KiB", 80, {"Dash-EH": 100 * fills["bucketized", 1]}, "%"),
            Claim("bucketized, 128 KiB", 40, {"Dash-EH": 100 * fills["bucketized", 128]}, "%"),
            Claim("probing, 128 KiB: points more", 20, more, "%"),
            Claim("with four stash buckets, 1 to 16 KiB, at least", "close to 100", least, "%"),
        ],
    )


def plan_load_factors(setting: Setting) -> list[Run]:
    load = ["index-load", "--records", setting.scale.records, "--index", ",".join(_LOADED)]
    return [Run("load", load)]


def read_load_factors(setting: Setting, results: Results) -> Drawn:
    panel = Panel("load factor during a load", "records", "load factor")
    most: dict[str, float] = {}
    for subject in results["load"]["subjects"]:
        most[subject["subject"]] = 100 * subject["load_factor_most"]
        for records, load_factor in subject["records_load_factor"]:
            panel.add(subject["subject"], records, load_factor)
    wanted = {"dash-eh": 80, "dash-eh-stash4": 90, "dash-lh": 80}
    claims = [
        Claim(
            f"highest load factor of {one}",
            paper,
            {one: most[one]},
            "%",
            reached=most[one] >= paper,
            exact=True,
        )
        for one, paper in wanted.items()
    ]
    others = (("cceh", 43), ("level", 90))
    claims += [
        Claim(f"highest load factor of {one}", paper, {one: most[one]}, "%")
        for one, paper in others
    ]
    return Drawn([panel], claims)


# --- figure 14 and table 1 ----------------------------------------------------------------------

_REOPENED = (*DASH, *RIVALS)
_MOST_MS = 60.0


def plan_restart(setting: Setting) -> list[Run]:
    reopen = ["index-reopen", "--index", ",".join(DASH), "--records", setting.scale.records]
    seconds = 2 if setting.scale.repeats > 1 else 0.5
    return [
        Run(
            f"{threads} {_SHOWN[host]}",
            [*reopen, "--threads", threads, "--host", host, "--seconds", seconds],
        )
        for threads in sorted({1, thread_counts()[-1]})
        for host in (DRAM, EMULATED)
    ]


def read_restart(setting: Setting, results: Results) -> Drawn:
    panels = []
    normal: dict[str, float | None] = {}
    for name, result in results.items():
        threads, host = name.split()
        panel = Panel(f"searches after SIGKILL, {threads} threads, {host}", "s", "Mop/s")
        for subject in result["subjects"]:
            curve = subject["seconds_mops"]
            for seconds, mops in curve:
                panel.add(subject["subject"], seconds, mops)
            normal[f"{subject['subject']}, {threads} threads, {host}"] = back_to_normal(curve)
        panels.append(panel)
    return Drawn(
        panels,
        [Claim("throughput is back to normal after", "0.9 s, 24 threads 0.2 s", normal, "s")],
    )


def back_to_normal(curve: list[list[float]]) -> float | None:
    """When 90 % of the last half's median is reached first."""
    last = sorted(mops for _, mops in curve[len(curve) // 2 :])
    return next((seconds for seconds, mops in curve if mops >= 0.9 * last[len(last) // 2]), None)


def reopened_records(setting: Setting) -> list[int]:
    """A hundredth, a tenth and all of the records."""
    return [max(1000, setting.scale.records // share) for share in (100, 10, 1)]


def plan_recovery(setting: Setting) -> list[Run]:
    sizes = ",".join(map(str, reopened_records(setting)))
    reopen = ["index-reopen", "--index", ",".join(_REOPENED), "--records", sizes, "--seconds", 0.2]
    return [Run("reopen", [*reopen, "--repeats", setting.scale.repeats])]


def read_recovery(setting: Setting, results: Results) -> Drawn:
    opening = Panel("after SIGKILL until it answers", "records", "ms", log_x=True, log_y=True)
    recovery = Panel("of that, without mapping the pool", "records", "ms", log_x=True, log_y=True)
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for result in results.values():
        for subject in result["subjects"]:
            found.setdefault((subject["subject"], subject["records"]), []).append(subject)
    ms: dict[tuple[str, int, str], float] = {}
    for (table, records), repeats in found.items():
        for what, panel in (("open_seconds", opening), ("recover_seconds", recovery)):
            values = sorted(1e3 * repeat[what] for repeat in repeats)
            ms[table, records, what] = values[len(values) // 2]
            panel.add(table, records, ms[table, records, what])
    sizes = reopened_records(setting)
    claims = []
    for what, title in (
        ("open_seconds", "opening"),
        ("recover_seconds", "recovery, without mapping"),
    ):
        longest: dict[str, float | None] = {
            one: max(ms[one, n, what] for n in sizes) for one in DASH
        }
        within = all(value is not None and value <= _MOST_MS for value in longest.values())
        claims.append(Claim(f"{title}, at most", 57, longest, "ms", reached=within))
        spread: dict[str, float | None] = {
            one: 100
            * (max(ms[one, n, what] for n in sizes) / min(ms[one, n, what] for n in sizes) - 1)
            for one in _REOPENED
        }
        claims.append(Claim(f"{title}: longest over shortest, more by", 0, spread, "%"))
    return Drawn([opening, recovery], claims)


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
        indexes(setting, host, tables, _TITLES, threads=thread_counts())
        for host in ("ordered", DRAM)
    ]


def read_volatile(setting: Setting, results: Results) -> Drawn:
    by_host = _by_host(results)
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
                f"{_TITLES[workload]}: Dash-EH over Boost's concurrent_flat_map, at least",
                0.5,
                ours,
                reached=not slow,
            )
        )
    panels = []
    for workload in _TITLES:
        panel = Panel(_TITLES[workload], "threads", "Mop/s")
        for host, found in by_host.items():
            for (table, of, threads), mops in sorted(found.items(), key=lambda one: one[0][2]):
                if of == workload and not (table == _VOLATILE and host == DRAM):
                    panel.add(table if table == _VOLATILE else f"{table}, {host}", threads, mops)
        panels.append(panel)
    return Drawn(panels, claims)
