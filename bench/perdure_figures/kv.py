"""Designs of key-value stores (X. Wu's thesis, chapter 2): figures 2.1 to 2.7, tables 2.1 and 2.2.

The thesis's machine has Optane modules. Here each ratio is measured on DRAM with real flushes
("DRAM"), under the timing emulation ("emulated"), and, where counts can tell, as lines of durable
memory that an operation writes ("PM lines", exact). One operation is one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure_figures.model import Claim, Drawn, Evaluation, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

_HEAP, _LOG, _INDEX, _FULL = "heap", "log", "heap-index", "heap-full"
_LOG_INDEX = "log-index"
_DESIGNS = (_HEAP, _LOG, _INDEX, _LOG_INDEX, _FULL)
_AGED = 1.2  # updates of each record before a sustained run: from then on logs are collected
_SHOWN = {"flushed": "DRAM", "emulated": "emulated", "counted": "PM lines"}
_HOSTS = ("flushed", "emulated")
_MEDIA = ("optane", "optane-module", "cmm-h", "cxl-ssd", "cxl-switch")  # table 2.2
_PARTS = ("index", "space", "value")
_COUNTED_RECORDS = 20_000  # counts do not depend on how many there are

Row = dict[str, Any]


def _sizes(setting: Setting) -> tuple[int, ...]:
    return (64, 1024) if setting.scale.repeats == 1 else (64, 128, 256, 512, 1024)


def _kv(setting: Setting, name: str, host: str, **options: str | float) -> Run:
    """Options by their names on the command line, with _ for -; none: a flag."""
    arguments: list[str | float] = ["kv", "--host", host]
    given: dict[str, str | float] = {
        "records": setting.scale.records if host != "counted" else _COUNTED_RECORDS,
        "repeats": 1 if host == "counted" else setting.scale.repeats,
        "design": f"{_HEAP},{_LOG}",
        "value_bytes": ",".join(map(str, _sizes(setting))),
    }
    if host == "emulated":  # takes its time over each line
        given["records"] = max(1, setting.scale.records // 4)
    for option, value in (given | options).items():
        arguments += [f"--{option.replace('_', '-')}", *([] if value == "" else [value])]
    return Run(f"{name} {host}", arguments)


def _rows(results: Results, host: str, **like: str | int) -> list[Row]:
    return [
        row
        for result in results.values()
        if result["host"] == host
        for row in result["rows"]
        if all(row[key] == value for key, value in like.items())
    ]


def _speed(results: Results, host: str, **like: str | int) -> float | None:
    rows = _rows(results, host, **like)
    return float(rows[0]["mops"]) if rows else None


def _ratio(
    what: str,
    paper: float | str,
    results: Results,
    ours: dict[str, str | int],
    other: dict[str, str | int],
) -> Claim:
    found: dict[str, float | None] = {}
    for host in _HOSTS:
        a, b = _speed(results, host, **ours), _speed(results, host, **other)
        found[_SHOWN[host]] = a / b if a is not None and b else None
    return Claim(what, paper, {where: one for where, one in found.items() if one is not None})


def _lines(results: Results, workload: str, size: int) -> Claim:
    ours: dict[str, float | None] = {
        row["design"]: float(row["lines_flushed"])
        for row in _rows(results, "counted", workload=workload, value_bytes=size)
    }
    return Claim(f"lines flushed, {workload}, {size} bytes", "-", ours, "lines", exact=True)


def _by_size(results: Results, workload: str) -> list[Panel]:
    panels: list[Panel] = []
    for host in _HOSTS:
        for mode in ("burst", "sustained"):
            panel = Panel(
                f"{workload}, {mode}, {_SHOWN[host]}", "bytes of a value", "Mop/s", log_x=True
            )
            for row in _rows(results, host, workload=workload, mode=mode):
                panel.add(row["design"], row["value_bytes"], row["mops"])
            panels.append(panel)
    return [panel for panel in panels if panel.series]


# --- figures 2.1, 2.3 and 2.4 ---------------------------------------------------------------------


def _plan_sizes(*workloads: str) -> Callable[[Setting], list[Run]]:
    def plan(setting: Setting) -> list[Run]:
        named = ",".join(workloads)
        runs = [
            _kv(setting, "sizes", host, workload=named, mode="burst,sustained") for host in _HOSTS
        ]
        return [*runs, _kv(setting, "sizes", "counted", workload=named, ops=1000)]

    return plan


def _plan_large(setting: Setting) -> list[Run]:
    """Ten times as many, as in the thesis; a store is filled once for all its workloads."""
    records = 10 * setting.scale.records
    options: dict[str, str | float] = {"workload": "update,delete", "share": "", "ops": records}
    sizes = _sizes(setting)
    options |= {"value_bytes": ",".join(map(str, sizes[:: max(1, len(sizes) // 2)]))}
    options |= {"records": records, "seconds": 1 if setting.scale.repeats == 1 else 5}
    return [
        _kv(setting, "burst", "flushed", mode="burst", **options),
        _kv(setting, "sustained", "flushed", mode="sustained", age=_AGED, **options),
    ]


def _over_heap(results: Results, workload: str, size: int, mode: str, paper: float | str) -> Claim:
    like: dict[str, str | int] = {"workload": workload, "value_bytes": size, "mode": mode}
    ours, other = (_LOG, _HEAP) if mode == "burst" else (_HEAP, _LOG)
    return _ratio(
        f"{workload}, {mode}, {size} bytes: {ours} over {other}",
        paper,
        results,
        like | {"design": ours},
        like | {"design": other},
    )


def _read_sizes(
    workload: str, burst: float | str, sustained: float | str
) -> Callable[[Setting, Results], Drawn]:
    def read(setting: Setting, results: Results) -> Drawn:
        claims: list[Claim] = []
        for size in _sizes(setting):
            claims.append(_over_heap(results, workload, size, "burst", burst))
            claims.append(_over_heap(results, workload, size, "sustained", sustained))
            claims.append(_lines(results, workload, size))
        return Drawn(_by_size(results, workload), claims)

    return read


def _read_large(setting: Setting, results: Results) -> Drawn:
    claims = [
        _over_heap(results, workload, size, mode, paper)
        for workload, papers in (
            ("update", {"burst": "up to 1.19", "sustained": "2 to 4"}),
            ("delete", {"burst": "up to 1.33", "sustained": "2 to 4"}),
        )
        for size in _sizes(setting)
        for mode, paper in papers.items()
        if _rows(results, "flushed", value_bytes=size)
    ]
    return Drawn([*_by_size(results, "update"), *_by_size(results, "delete")], claims)


# --- figure 2.2 -----------------------------------------------------------------------------------


def _plan_time(setting: Setting) -> list[Run]:
    every = 1 if setting.scale.repeats == 1 else 20
    options: dict[str, str | int] = {"workload": "update", "mode": "sustained", "value_bytes": 256}
    options |= {"ops": 4 * setting.scale.records, "series_ms": every, "repeats": 1, "threads": 2}
    return [_kv(setting, "time", "flushed", **options)]


def _read_time(_: Setting, results: Results) -> Drawn:
    panel = Panel("updates of a thread, DRAM", "ms", "Mop/s")
    longest: dict[str, float | None] = {}
    (result,) = results.values()
    every = result["series_ms"]
    for row in result["rows"]:
        done = row["series"][0]
        for at in range(1, len(done)):
            panel.add(row["design"], at * every, (done[at] - done[at - 1]) / every / 1e3)
        longest[row["design"]] = row["longest_call_us"] / 1e3
    return Drawn([panel], [Claim("longest that an update took", "26", longest, "ms")])


# --- figure 2.5 -----------------------------------------------------------------------------------


def _plan_persistence(setting: Setting) -> list[Run]:
    return [
        _kv(
            setting,
            "persistence",
            host,
            design=",".join(_DESIGNS),
            workload="update,recover",
            value_bytes=256,
        )
        for host in _HOSTS
    ]


def _read_persistence(_: Setting, results: Results) -> Drawn:
    panels: list[Panel] = []
    claims: list[Claim] = []
    names = list(_DESIGNS)
    seconds: dict[str, dict[str, float | None]] = {name: {} for name in names}
    for host in _HOSTS:
        panel = Panel(f"recovery, {_SHOWN[host]}", "", "s", kind=Kind.stack, names=names)
        for row in _rows(results, host, workload="recover"):
            for part in ("read", "index", "space"):
                at = names.index(row["design"])
                panel.add(part, at, row["recovery"][f"{part}_seconds"])
            parts = (row["recovery"][f"{part}_seconds"] for part in ("read", "index", "space"))
            seconds[row["design"]][_SHOWN[host]] = 1000 * sum(parts)
        panels.append(panel)
    update: dict[str, str | int] = {"workload": "update"}
    for index, minimal in ((_INDEX, _HEAP), (_LOG_INDEX, _LOG)):
        what = f"update: {index} over {minimal}"
        ours, other = update | {"design": index}, update | {"design": minimal}
        claims.append(_ratio(what, 0.5, results, ours, other))
    claims.append(
        _ratio(
            "update: minimal over full persistence",
            9,
            results,
            update | {"design": _HEAP},
            update | {"design": _FULL},
        )
    )
    claims += [
        Claim(f"recovery, {name}", paper, seconds[name], "ms")
        for name, paper in (
            (_HEAP, "middle"),
            (_LOG, "less"),
            (_INDEX, "most"),
            (_LOG_INDEX, "more than log"),
            (_FULL, "near 0"),
        )
    ]
    return Drawn(panels, claims)


# --- figure 2.6 -----------------------------------------------------------------------------------


def _plan_ycsb(setting: Setting) -> list[Run]:
    """Bursts of all designs; sustained, of stores in which logs are collected all the time."""
    options: dict[str, str | float] = {"keys": "uniform,zipf", "value_bytes": 256, "share": ""}
    options["ops"] = max(1, setting.scale.records // 2)
    every, aged = ",".join(_DESIGNS), {"mode": "sustained", "age": _AGED}
    return [
        *(
            _kv(setting, "ycsb", host, design=every, workload="a,b,c,d,e", **options)
            for host in _HOSTS
        ),
        _kv(setting, "sustained ycsb", "flushed", workload="a,b,d", **(options | aged)),
    ]


def _read_ycsb(_: Setting, results: Results) -> Drawn:
    panels: list[Panel] = []
    names = list("abcde")
    for host, mode in ((_HOSTS[0], "burst"), (_HOSTS[1], "burst"), (_HOSTS[0], "sustained")):
        for keys in ("uniform", "zipf"):
            title = f"YCSB, {keys}, {mode}, {_SHOWN[host]}"
            panel = Panel(title, "", "Mop/s", kind=Kind.bar, names=names)
            for row in _rows(results, host, keys=keys, mode=mode):
                panel.add(row["design"], names.index(row["workload"]), row["mops"])
            panels.append(panel)
    claims: list[Claim] = []
    for workload, keys, mode, ours, other, paper in (
        ("a", "uniform", "burst", _HEAP, _INDEX, 2.0),
        ("b", "uniform", "burst", _HEAP, _INDEX, 1.5),
        ("b", "zipf", "burst", _HEAP, _INDEX, 1.8),
        ("c", "uniform", "burst", _HEAP, _INDEX, 1.6),
        ("c", "zipf", "burst", _HEAP, _INDEX, 1.3),
        ("c", "uniform", "burst", _HEAP, _LOG, 1.0),
        ("e", "uniform", "burst", _HEAP, _INDEX, "less than b"),
        ("a", "uniform", "burst", _LOG, _LOG_INDEX, "-"),
        ("a", "zipf", "burst", _HEAP, _FULL, "up to 22, of 100 M keys"),
        ("b", "zipf", "burst", _HEAP, _FULL, "up to 3.6"),
        ("a", "uniform", "sustained", _HEAP, _LOG, "above 1"),
        ("a", "zipf", "sustained", _HEAP, _LOG, "more above 1"),
        ("b", "uniform", "sustained", _HEAP, _LOG, 1.0),
        ("b", "zipf", "sustained", _HEAP, _LOG, "above 1"),
    ):
        like: dict[str, str | int] = {"workload": workload, "keys": keys, "mode": mode}
        what = f"YCSB {workload.upper()}, {keys}, {mode}: {ours} over {other}"
        claims.append(
            _ratio(what, paper, results, like | {"design": ours}, like | {"design": other})
        )
    return Drawn(panels, claims)


# --- figure 2.7 -----------------------------------------------------------------------------------


def _plan_caches(setting: Setting) -> list[Run]:
    options: dict[str, str | int] = {"workload": "a,c", "keys": "uniform,zipf", "design": _HEAP}
    return [_kv(setting, "caches", host, caches="flushed,kept", **options) for host in _HOSTS]


def _read_caches(setting: Setting, results: Results) -> Drawn:
    panels: list[Panel] = []
    claims: list[Claim] = []
    for workload in ("a", "c"):
        for keys in ("uniform", "zipf"):
            title = f"YCSB {workload.upper()}, {keys}, emulated"
            panel = Panel(title, "bytes of a value", "Mop/s", log_x=True)
            for row in _rows(results, "emulated", workload=workload, keys=keys):
                panel.add(row["caches"], row["value_bytes"], row["mops"])
            panels.append(panel)
    for workload, keys, size, paper in (
        ("a", "uniform", _sizes(setting)[-1], 1.5),
        ("a", "uniform", 64, "1 or above"),
        ("a", "zipf", _sizes(setting)[-1], "above 1"),
        ("a", "zipf", 64, "0.88 or above"),
        ("c", "uniform", 64, 1.0),
    ):
        like: dict[str, str | int] = {"workload": workload, "keys": keys, "value_bytes": size}
        what = f"YCSB {workload.upper()}, {keys}, {size} bytes: flushed over kept"
        ours, other = like | {"caches": "flushed"}, like | {"caches": "kept"}
        claims.append(_ratio(what, paper, results, ours, other))
    return Drawn(panels, claims)


# --- tables 2.1 and 2.2 ---------------------------------------------------------------------------

_SHARES = {  # of the thesis, at 64 bytes: index, allocator or log, value
    _HEAP: (59.6, 22.3, 18.1),
    _LOG: (66.7, 19.1, 14.3),
}


def _plan_parts(setting: Setting) -> list[Run]:
    return [_kv(setting, "parts", host, workload="update", parts="") for host in _HOSTS]


def _read_parts(setting: Setting, results: Results) -> Drawn:
    panels: list[Panel] = []
    claims: list[Claim] = []
    names = [f"{design} {size}" for design in (_HEAP, _LOG) for size in _sizes(setting)]
    for host in _HOSTS:
        panel = Panel(f"an update, {_SHOWN[host]}", "", "ns", kind=Kind.stack, names=names)
        for row in _rows(results, host):
            at = names.index(f"{row['design']} {row['value_bytes']}")
            for part in _PARTS:
                panel.add(part, at, row[f"{part}_ns"])
        panels.append(panel)
    for design, shares in _SHARES.items():
        for part, paper in zip(_PARTS, shares, strict=True):
            ours: dict[str, float | None] = {}
            for host in _HOSTS:
                (row,) = _rows(results, host, design=design, value_bytes=64)
                whole = sum(row[f"{one}_ns"] for one in _PARTS)
                ours[_SHOWN[host]] = 100 * row[f"{part}_ns"] / whole
            claims.append(Claim(f"{design}, 64 bytes: {part}", paper, ours, "%"))
    return Drawn(panels, claims)


def _plan_media(setting: Setting) -> list[Run]:
    options: dict[str, str | int] = {"workload": "update,get,recover", "value_bytes": 256}
    options["design"] = f"{_HEAP},{_LOG},{_INDEX}"
    return [_kv(setting, medium, "emulated", medium=medium, **options) for medium in _MEDIA]


def _read_media(_: Setting, results: Results) -> Drawn:
    panels: list[Panel] = []
    claims: list[Claim] = []
    for workload in ("update", "get"):
        panel = Panel(f"{workload}, emulated", "", "Mop/s", kind=Kind.bar, names=list(_MEDIA))
        for result in results.values():
            at = _MEDIA.index(result["medium"])
            for row in result["rows"]:
                if row["workload"] == workload:
                    panel.add(row["design"], at, row["mops"])
        panels.append(panel)
    for medium in _MEDIA:
        only = {name: one for name, one in results.items() if one["medium"] == medium}
        like: dict[str, str | int] = {"workload": "update"}
        for ours, other in ((_LOG, _HEAP), (_INDEX, _HEAP)):
            what = f"{medium}: update, {ours} over {other}"
            claims.append(
                _ratio(what, "-", only, like | {"design": ours}, like | {"design": other})
            )
    return Drawn(panels, claims)


_THESIS = "Optimizing the Use of Heterogeneous Memory (X. Wu, thesis; chapter 2)"
_STANDS_IN = (
    "DRAM stands in for Optane, with real flushes, and timing emulated; fewer records and cores. "
    "The emulation lets a collector's own emulating be waited for, so sustained logs look slower."
)
_figure = Evaluation(
    _THESIS, _STANDS_IN, ("cpu",), "the designs are for threads of the host"
).figure

FIGURES = (
    _figure(
        "kv-1",
        "Updates",
        "2.3.1",
        "update throughput by the size of values, bursts and sustained",
        _plan_sizes("update"),
        _read_sizes("update", "up to 1.25", "up to 2.2"),
    ),
    _figure(
        "kv-2",
        "Updates over time",
        "2.3.1",
        "throughput of a thread while logs are collected",
        _plan_time,
        _read_time,
    ),
    _figure(
        "kv-3",
        "Deletes",
        "2.3.2",
        "delete throughput by the size of values, bursts and sustained",
        _plan_sizes("delete"),
        _read_sizes("delete", "up to 1.42", "up to 4.5"),
    ),
    _figure(
        "kv-4",
        "A larger store",
        "2.3.3",
        "updates and deletes of ten times as many records",
        _plan_large,
        _read_large,
    ),
    _figure(
        "kv-5",
        "Persistence and recovery",
        "2.4",
        "what a durable index costs, and what recovery consists of",
        _plan_persistence,
        _read_persistence,
    ),
    _figure(
        "kv-6", "YCSB", "2.5", "YCSB A to E by design, uniform and Zipf", _plan_ycsb, _read_ycsb
    ),
    _figure(
        "kv-7",
        "Flushed and kept",
        "2.5",
        "YCSB A and C by the size of values, caches flushed or kept",
        _plan_caches,
        _read_caches,
    ),
    _figure(
        "kv-table-1",
        "Parts of an update",
        "2.3.1",
        "time in the index, in the allocator or the log, and for the value",
        _plan_parts,
        _read_parts,
    ),
    _figure(
        "kv-table-2",
        "Other devices",
        "2.6.1",
        "updates, gets and recovery on CXL devices, emulated",
        _plan_media,
        _read_media,
    ),
)
