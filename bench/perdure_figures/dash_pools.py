"""Dash's evaluation, figures 11, 12 and 14 and table 1: how full tables become, and how soon they
answer after a crash."""

from __future__ import annotations

from perdure_figures.dash import DASH, DRAM, EMULATED, RIVALS, SHOWN, thread_counts
from perdure_figures.model import Claim, Drawn, Panel, Results, Run
from perdure_figures.setting import Setting

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
    for system in results["load"]["systems"]:
        most[system["system"]] = 100 * system["load_factor_most"]
        for records, load_factor in system["records_load_factor"]:
            panel.add(system["system"], records, load_factor)
    targets = {"dash-eh": 80, "dash-eh-stash4": 90, "dash-lh": 80}
    claims = [
        Claim(
            f"highest load factor of {one}",
            paper,
            {one: most[one]},
            "%",
            reached=most[one] >= paper,
            exact=True,
        )
        for one, paper in targets.items()
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
            f"{threads} {SHOWN[host]}",
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
        for system in result["systems"]:
            curve = system["seconds_mops"]
            for seconds, mops in curve:
                panel.add(system["system"], seconds, mops)
            normal[f"{system['system']}, {threads} threads, {host}"] = back_to_normal(curve)
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
        for system in result["systems"]:
            found.setdefault((system["system"], system["records"]), []).append(system)
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
