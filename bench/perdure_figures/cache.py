"""Figures about the cache and what it depends on: 9, factors; 11, policies and sizes; 12, key size
and skew; 15, loading it.

Two caches stand where GPHash's does: `in_place` has its buckets, as published; mirrored `word` has
records.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting
from perdure_figures.tables import ycsb
from perdure_figures.throughput import OTHERS, OURS, SYSTEMS, baselines

_DEFAULT_CACHE = 0.2
_MIRRORED = ("--layout", "word", "--residency", "mirrored")
_PUBLISHED = ("--layout", "in_place", "--residency", "pm")
_WITH_CACHES = {"in_place": _PUBLISHED, "word": _MIRRORED}


def percent_more(after: float, before: float) -> float:
    return 100 * (after / before - 1)


# --- figure 9 -----------------------------------------------------------------------------------

_FACTORS = {
    "keys in records (word, on PM)": ("--layout", "word", "--residency", "pm"),
    "keys in slots (in_place, on PM)": _PUBLISHED,
    "and 20 % of the buckets cached (in_place)": (*_PUBLISHED, "--cache", _DEFAULT_CACHE),
    "slots mirrored (word)": _MIRRORED,
    "and 20 % of the records cached (word)": (*_MIRRORED, "--cache", _DEFAULT_CACHE),
}
_RECORDS, _SLOTS, _BUCKETS, _MIRROR, _CACHE = _FACTORS
_WORKLOADS = ("load", "a", "b", "c", "d", "f")


def plan_factors(setting: Setting) -> list[Run]:
    room = (
        "--expected-records",
        2 * setting.scale.records,
    )  # for what D inserts: growing is another figure
    return [
        Run(
            f"{workload} {factor}",
            ycsb(setting, workload, *options, *(room if workload == "d" else ())),
        )
        for workload in _WORKLOADS
        for factor, options in _FACTORS.items()
        if not (
            workload == "load" and factor in (_BUCKETS, _CACHE)
        )  # it gets nothing to learn from
    ]


def read_factors(setting: Setting, results: Results) -> Drawn:
    mops = {name: result["mops"] for name, result in results.items()}
    panel = Panel(
        f"batches of {setting.scale.batch:,}",
        "YCSB",
        "Mop/s",
        kind=Kind.bar,
        names=list(_WORKLOADS),
    )
    for factor in _FACTORS:
        for at, workload in enumerate(_WORKLOADS):
            panel.add(factor, at, mops.get(f"{workload} {factor}"))
    placed = max(percent_more(mops[f"{w} {_SLOTS}"], mops[f"{w} {_RECORDS}"]) for w in _WORKLOADS)
    claims = [Claim("in-place keys, more throughput, at most", 13.7, {"in_place": placed}, "%")]
    for what, workloads, paper in (
        ("YCSB A, B, C, at most", "abc", 40.9),
        ("YCSB A", "a", 17.6),
        ("YCSB B", "b", 35.5),
        ("YCSB D", "d", 7.6),
    ):
        more = {
            system: max(
                percent_more(mops[f"{w} {cached}"], mops[f"{w} {without}"]) for w in workloads
            )
            for system, cached, without in (
                ("in_place", _BUCKETS, _SLOTS),
                ("word", _CACHE, _MIRROR),
            )
        }
        claims.append(Claim(f"cache of 20 %, more throughput, {what}", paper, dict(more), "%"))
    return Drawn([panel], claims)


# --- figure 11 ----------------------------------------------------------------------------------

_POLICIES = ("lfu", "lru", "random")
_SIZES = (0, 0.05, 0.1, 0.2, 0.4)


def plan_policies(setting: Setting) -> list[Run]:
    """Of the paper's cache all policies; of records the one that it recommends. What no policy
    changes is done once: a process loads a pool, and measures all its caches."""
    runs = []
    for workload in ("a", "c"):
        for system, policies in (("in_place", _POLICIES), ("word", ("lfu",))):
            caches = ["--cache-policy", _listed(policies), "--cache", _listed(_SIZES)]
            counted = ["--count-accesses"] if workload == "c" else []
            command = ycsb(setting, workload, *_WITH_CACHES[system], *caches, *counted)
            for policy in policies:
                for size in _SIZES:
                    own = {"cache": size} | ({"cache_policy": policy} if size else {})
                    run = Run(f"{workload} {system} {policy} {size}", command, picks=own)
                    runs.append(run)
    return runs


def _listed(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def read_policies(setting: Setting, results: Results) -> Drawn:
    panels = {
        workload: Panel(f"YCSB {workload.upper()}", "cache (%)", "Mop/s") for workload in "ac"
    }
    hits = Panel("YCSB C, from exact counts", "cache (%)", "hit rate of the cache")
    for name, result in results.items():
        workload, system, policy, size = name.split()
        panels[workload].add(f"{policy}, {system}", 100 * float(size), result["mops"])
        if workload == "c":
            hits.add(f"{policy}, {system}", 100 * float(size), hit_rate(result))

    def more(after: float, before: float) -> dict[str, float | None]:
        def mops(system: str, size: float) -> float:
            return results[f"c {system} lfu {size}"]["mops"]

        return {one: percent_more(mops(one, after), mops(one, before)) for one in _WITH_CACHES}

    return Drawn(
        [*panels.values(), hits],
        [
            Claim("LFU, YCSB C: cache of 10 % over none", 45.7, more(0.1, 0), "%"),
            Claim("LFU, YCSB C: cache of 40 % over one of 10 %", 16.0, more(0.4, 0.1), "%"),
        ],
    )


def hit_rate(result: dict[str, float]) -> float:
    """Gets whose record, or whose key's bucket, was in the cache."""
    return result["cache_hits_per_get"] if result["cache"] else 0.0


# --- figure 12 ----------------------------------------------------------------------------------

_KEY_BYTES = (8, 16, 32, 64, 128)
_BASELINE_KEY_BYTES = (8, 32)
_THETAS = (0, 0.5, 0.8, 0.9, 0.99)
_CACHED = {
    "in_place": "in_place, 20 % of the buckets cached",
    "word": "word, mirrored, 20 % of the records cached",
}


def plan_sensitivity(setting: Setting) -> list[Run]:
    runs = []
    batch = ("--batch", setting.scale.batch)
    for layout in OURS:
        for width in _KEY_BYTES:
            run = ycsb(setting, "c", "--layout", layout, "--residency", "pm", "--key-bytes", width)
            runs.append(Run(f"key {width} {layout}", run))
    for system in OTHERS:
        for width in _BASELINE_KEY_BYTES:
            run = baselines(setting, system, width, ["zipf"], *batch)
            runs.append(Run(f"key {width} {system}", run.arguments))
    for theta in _THETAS:
        for system in SYSTEMS:
            run = baselines(setting, system, 8, ["zipf"], "--theta", theta, *batch)
            runs.append(Run(f"theta {theta} {system}", run.arguments))
        for system, options in _WITH_CACHES.items():
            cached = ycsb(setting, "c", *options, "--cache", _DEFAULT_CACHE, "--theta", theta)
            runs.append(Run(f"theta {theta} {_CACHED[system]}", cached))
    return runs


def read_sensitivity(setting: Setting, results: Results) -> Drawn:
    keys = Panel("YCSB C", "key (bytes)", "Mop/s")
    skew = Panel("YCSB C", "theta", "Mop/s")
    speed: dict[str, float] = {}
    for name, result in results.items():
        kind, value, system = name.split(maxsplit=2)
        speed[name] = (
            result["mops"] if "mops" in result else result["systems"][0]["rows"][0]["mops_near"]
        )
        (keys if kind == "key" else skew).add(system, float(value), speed[name])
    falls = {one: -percent_more(speed[f"key 128 {one}"], speed[f"key 8 {one}"]) for one in OURS}
    slab = -percent_more(speed["key 32 slabhash-gpm"], speed["key 8 slabhash-gpm"])
    return Drawn(
        [keys, skew],
        [
            Claim("GPHash: throughput lost from 8 to 128-byte keys", 13.1, dict(falls), "%"),
            Claim("SlabHash-GPM: the same (ours: to 32 bytes)", 38.6, {"slabhash-gpm": slab}, "%"),
        ],
    )


# --- figure 15 ----------------------------------------------------------------------------------

_LOADED = (0.05, 0.1, 0.2, 0.4)
_LOADS = 5  # each is over after a few batches of gets


def plan_loading(setting: Setting) -> list[Run]:
    scale = setting.scale
    runs = []
    for layout in _WITH_CACHES:
        for size in _LOADED:
            load = ["cache-load", "--layout", layout, "--cache", size, "--device", setting.device]
            sizes = [
                "--records",
                scale.records,
                "--batch",
                scale.batch,
                "--loads",
                max(scale.repeats, _LOADS),
            ]
            runs.append(Run(f"{layout} {size}", [*load, *sizes]))
    return runs


def read_loading(setting: Setting, results: Results) -> Drawn:
    batch = setting.scale.batch
    timelines = []
    for layout in _WITH_CACHES:
        timeline = Panel(
            f"{layout}, cache of {_DEFAULT_CACHE:.0%}", "s", "Mop/s of a batch", kind=Kind.dots
        )
        for end, seconds, loading in results[f"{layout} {_DEFAULT_CACHE}"]["end_seconds_loading"]:
            timeline.add("beside a load" if loading else "no load", end, batch / seconds * 1e-6)
        timelines.append(timeline)
    took = Panel("loading", "cache (%)", "ms")
    kept = Panel(
        "throughput beside a load", "cache (%)", "share of that before it (%)", baseline=100.0
    )
    for name, result in results.items():
        layout, size = name.split()
        took.add(layout, 100 * float(size), 1e3 * result["load_seconds"])
        kept.add(layout, 100 * float(size), 100 * result["mops_during"] / result["mops_before"])
    longest: dict[str, float | None] = {
        one: max(y for _, y in took.series[one]) for one in _WITH_CACHES
    }
    least: dict[str, float | None] = {
        one: min(y for _, y in kept.series[one]) for one in _WITH_CACHES
    }
    beside = "throughput beside a load, of that before, at least"
    return Drawn(
        [*timelines, took, kept],
        [
            Claim("loading the cache, at most", "hundreds of ms", longest, "ms"),
            Claim(beside, "not significantly lower", least, "%"),
        ],
    )
