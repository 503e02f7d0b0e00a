"""Dash's evaluation, figures 9, 10 and 13: Dash-EH with and without fingerprints, overflow metadata
and optimistic locks."""

from __future__ import annotations

from collections.abc import Iterable

from perdure_figures.dash import (
    DRAM,
    EMULATED,
    SHOWN,
    SINGLE,
    TITLES,
    Speeds,
    indexes,
    over_rival,
    panels_by_threads,
    ratio,
    speeds_by_host,
    speeds_of,
    thread_counts,
    times,
)
from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

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
        indexes(setting, host, ("dash-eh", _WITHOUT_PRINTS), SINGLE, keys=keys, threads=most)
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

            what = f"{keys} keys, {TITLES[workload]}: with fingerprints over without"
            claims.append(ratio(what, paper, of_host, (DRAM, EMULATED)))
    return Drawn(_bars(found, ("dash-eh", _WITHOUT_PRINTS), most), claims)


def _bars(found: dict[tuple[str, str], Speeds], tables: Iterable[str], threads: int) -> list[Panel]:
    panels = []
    for (host, keys), speeds in found.items():
        title = f"{keys} keys, {threads} threads, {SHOWN[host]}"
        panel = Panel(title, "", "Mop/s", kind=Kind.bar, names=list(SINGLE))
        for table in tables:
            for at, workload in enumerate(SINGLE):
                panel.add(table, at, speeds[table, workload, threads])
        panels.append(panel)
    return panels


def plan_hints(setting: Setting) -> list[Run]:
    tables = [table for pair in _STASHES.values() for table in pair]
    most = thread_counts()[-1:]
    return [indexes(setting, host, tables, SINGLE, threads=most) for host in (DRAM, EMULATED)]


def read_hints(setting: Setting, results: Results) -> Drawn:
    most = thread_counts()[-1]
    found = {(result["host"], result["keys"]): speeds_of(result) for result in results.values()}
    with_hints, without = _STASHES[2]
    claims = [
        over_rival(
            results,
            f"two stash buckets, {TITLES[workload]}: with overflow metadata over without",
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
            SHOWN[host]: found["dash-eh", workload, most]
            / found["dash-eh-pessimistic", workload, most]
            for host, found in speeds_by_host(results).items()
        }
        what = f"{TITLES[workload]}, {most} threads: optimistic over pessimistic"
        claims.append(Claim(what, "more and more", dict(ours)))
    return Drawn(panels_by_threads(results, ("search", "negative")), claims)
