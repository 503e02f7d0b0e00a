"""GPM's evaluation (ASPLOS '22, sections 3.2 and 6): figures 1, 3, 9, 10, 11 and 12, tables 4 and
5.

An application's figures come from runs with the same input on each path to durability; a run whose
result differs from the others' ends the command.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from typing import Any

from perdure import demo
from perdure.cli_support import FAULTS, Failure

from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

PROGRAM = "perdure-gpmbench"

TRANSACTIONAL = ("kvs", "kvs-95-5", "db-insert", "db-update")
CHECKPOINTING = ("dnn", "cfd", "black-scholes", "hotspot")
NATIVE = ("bfs", "srad", "prefix-sum")
APPS = (*TRANSACTIONAL, *CHECKPOINTING, *NATIVE)
_ROUNDING = (
    *CHECKPOINTING,
    "srad",
)  # of floating-point numbers; each run is compared with plain loops, too

# Real inputs, as they are called unpacked; the others are generated, as in the paper.
_INPUTS = {
    "dnn": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    "cfd": ("mesh-wing.metis.graph",),
    "hotspot": ("hotspot_temp_512", "hotspot_power_512"),
    "srad": ("srad_image.pgm",),
    "bfs": ("road-usa-NY.pace.gr",),
}
_OF_SIZE = {
    "bfs": ("tiny", "small"),
    "cfd": ("tiny", "small"),
}  # table 1's graph and mesh are larger: generated

# At table 1's sizes a few iterations tell what one costs; of bfs, levels.
_ITERATIONS = {
    "kvs": 4,
    "kvs-95-5": 8,
    "dnn": 100,
    "cfd": 100,
    "black-scholes": 20,
    "hotspot": 20,
    "bfs": 400,
    "srad": 4,
}
_DISK = "cap-fs, disk"


def _size(setting: Setting) -> str:
    small, large = ("tiny", "small") if setting.device == "cpu" else ("small", "paper")
    return small if setting.scale.repeats == 1 else large


def _unpacked(setting: Setting, app: str) -> list[str]:
    """--data for an application with a real input."""
    if app not in _INPUTS or _size(setting) not in _OF_SIZE.get(app, ("tiny", "small", "paper")):
        return []
    names = [f"{name}.xz" for name in _INPUTS[app]]
    data = demo.find_data(setting.data, tuple(names))
    for name in names:
        to = setting.folder / name.removesuffix(".xz")
        if not to.exists():
            to.write_bytes(lzma.decompress((data / name).read_bytes()))
    return ["--data", str(setting.folder)]


def _run(setting: Setting, app: str, path: str, *more: str | int) -> Run:
    disk = path == _DISK
    files = setting.folder / "files" if disk else "/dev/shm/perdure-figure"
    arguments: list[str | int] = [
        app,
        "--device",
        setting.device,
        "--path",
        "cap-fs" if disk else path,
    ]
    arguments += ["--size", _size(setting), "--files", str(files), *_unpacked(setting, app), *more]
    if _size(setting) == "paper" and app in _ITERATIONS and "--iterations" not in more:
        arguments += ["--iterations", _ITERATIONS[app]]
    return Run(" ".join(map(str, (app, path, *more))), arguments, PROGRAM)


def _micro(setting: Setting, name: str) -> Run:
    arguments: list[str | int] = [
        name,
        "--device",
        setting.device,
        "--files",
        "/dev/shm/perdure-figure",
    ]
    arguments += ["--repeats", setting.scale.repeats]
    if setting.device == "cuda":
        large = _size(setting) == "paper"
        arguments += ["--bytes", 1 << 30 if large else 1 << 26, "--kernel-threads", 1 << 20]
    elif setting.scale.repeats == 1:
        arguments += ["--bytes", 1 << 20, "--kernel-threads", 1 << 10]
    return Run(name, arguments, PROGRAM)


def _seconds(app: str, result: Any) -> float:
    """What paths differ in: of checkpointing applications the checkpoints, of the others all of
    it."""
    return float(result["durable_s" if app in CHECKPOINTING else "run_s"])


def _stored(result: Any) -> float:
    """Bytes that kernels stored to durable memory, without filling a table before the first
    batch."""
    return float(result.get("batches_stored_bytes", result["stored_bytes"]))


def _same_results(results: Results) -> None:
    """Paths change how results become durable, and nothing of them. Machines round differently."""
    first: dict[tuple[str, str], int] = {}
    for name, result in results.items():
        app = result["app"]
        who = app, result["machine"] if app in _ROUNDING else ""
        if "digest" in result and first.setdefault(who, result["digest"]) != result["digest"]:
            raise Failure(
                f"{name}: WRONG ANSWERS: the result is not that of the other runs", FAULTS
            )


def _times(results: Results, paths: Iterable[str]) -> dict[str, dict[str, float]]:
    """Seconds by path and application."""
    return {path: {app: _seconds(app, results[f"{app} {path}"]) for app in APPS} for path in paths}


def _over(
    times: dict[str, dict[str, float]], path: str, other: str, apps: Iterable[str]
) -> dict[str, float | None]:
    """How many times faster `path` is, a ratio an application."""
    return {app: times[other][app] / times[path][app] for app in apps}


_RATIO = "times"  # the unit of how much faster one is than another


def _bars(title: str, y: str, series: dict[str, dict[str, float]], log_y: bool = True) -> Panel:
    apps = list(next(iter(series.values())))
    panel = Panel(
        title, "", y, kind=Kind.bar, log_y=log_y, names=apps, baseline=1.0 if y == _RATIO else None
    )
    for name, values in series.items():
        for at, app in enumerate(apps):
            panel.add(name, at, values[app])
    return panel


def _over_cap_fs(times: dict[str, dict[str, float]]) -> Panel:
    shown = {
        path: {app: times["cap-fs"][app] / seconds[app] for app in APPS}
        for path, seconds in times.items()
        if path != "cap-fs"
    }
    return _bars("speedup over cap-fs on tmpfs", _RATIO, shown)


# --- figure 9: GPM against CPU-assisted persistence
# -------------------------------------------------

_NINE = ("cap-fs", _DISK, "cap-mm", "gpm")


def plan_paths(setting: Setting) -> list[Run]:
    return [_run(setting, app, path) for app in APPS for path in _NINE]


def read_paths(setting: Setting, results: Results) -> Drawn:
    _same_results(results)
    times = _times(results, _NINE)
    return Drawn(
        [_over_cap_fs(times)],
        [
            Claim(
                "gpm over cap-fs (tmpfs), gpKVS",
                "7 to 8",
                _over(times, "gpm", "cap-fs", ("kvs", "kvs-95-5")),
            ),
            Claim(
                "gpm over cap-fs (disk), gpKVS",
                "7 to 8",
                _over(times, "gpm", _DISK, ("kvs", "kvs-95-5")),
            ),
            Claim("gpm over cap-mm, gpKVS", 4.0, _over(times, "gpm", "cap-mm", ("kvs",))),
            Claim(
                "gpm over cap-mm, gpDB insert", 3.6, _over(times, "gpm", "cap-mm", ("db-insert",))
            ),
            Claim(
                "gpm over cap-mm, gpDB update", 2.6, _over(times, "gpm", "cap-mm", ("db-update",))
            ),
            Claim(
                "gpm over cap-fs (tmpfs), checkpoints",
                "11 to 18",
                _over(times, "gpm", "cap-fs", CHECKPOINTING),
            ),
            Claim(
                "gpm over cap-fs (disk), checkpoints",
                "11 to 18",
                _over(times, "gpm", _DISK, CHECKPOINTING),
            ),
            Claim(
                "gpm over cap-fs (tmpfs), native", "5 to 85", _over(times, "gpm", "cap-fs", NATIVE)
            ),
            Claim("gpm over cap-fs (disk), native", "5 to 85", _over(times, "gpm", _DISK, NATIVE)),
        ],
    )


# --- figure 10: persisting in kernels, and what eADR would bring
# ------------------------------------

_TEN = (
    "cap-fs",
    "gpm",
    "ndp",
    "cap-eadr",
)  # gpm stands for gpm-eadr too: the same stores and fences


def plan_direct(setting: Setting) -> list[Run]:
    return [_run(setting, app, path) for app in APPS for path in _TEN]


def read_direct(setting: Setting, results: Results) -> Drawn:
    _same_results(results)
    times = _times(results, _TEN)
    ratios = [times["cap-eadr"][app] / times["gpm"][app] for app in APPS]
    return Drawn(
        [_over_cap_fs(times)],
        [
            Claim(
                "gpm over ndp, at most",
                6.0,
                {"gpm": max(times["ndp"][app] / times["gpm"][app] for app in APPS)},
            ),
            Claim("gpm-eadr over cap-eadr, on average", 24.0, {"gpm": sum(ratios) / len(ratios)}),
        ],
    )


# --- figure 1: against the CPU alone
# ----------------------------------------------------------------

_ONE = ("kvs", "db-insert", "db-update", *NATIVE)


def plan_cpu(setting: Setting) -> list[Run]:
    runs = []
    for app in _ONE:
        on_gpu = _run(setting, app, "gpm")
        on_cpu = ["cpu" if one == "cuda" else one for one in on_gpu.arguments]
        runs += [on_gpu, Run(f"{app} on the CPU", on_cpu, PROGRAM)]
    return runs


def read_cpu(setting: Setting, results: Results) -> Drawn:
    _same_results(results)
    times = {
        app: results[f"{app} on the CPU"]["run_s"] / results[f"{app} gpm"]["run_s"] for app in _ONE
    }
    paper = {"kvs": "2.7 to 5.8", "db-insert": 3.1, "db-update": 6.9}
    claims = [
        Claim(f"GPU over the CPU's cores, {app}", paper.get(app, "2.8 to 27"), {app: times[app]})
        for app in _ONE
    ]
    return Drawn([_bars("GPU over the CPU's cores", _RATIO, {"gpm": times})], claims)


# --- figure 3: how persisting scales
# ----------------------------------------------------------------


def plan_scaling(setting: Setting) -> list[Run]:
    return [_micro(setting, "persist")]


def read_scaling(setting: Setting, results: Results) -> Drawn:
    rows = results["persist"]["rows"]
    panels = []
    for who, title in (("cap_mm_threads", "CAP-mm"), ("gpm_threads", "GPM, 8 bytes a persist")):
        panel = Panel(title, "threads", "GB/s", log_x=True)
        for row in rows:
            if who in row:
                panel.add(title, row[who], row["bytes_per_s"] / 1e9)
        panels.append(panel)
    cap = [row["bytes_per_s"] for row in rows if "cap_mm_threads" in row]
    gpm = [row for row in rows if "gpm_threads" in row]
    best = max(row["bytes_per_s"] for row in gpm)
    return Drawn(
        panels,
        [
            Claim("CAP-mm, more threads over one, at most", 1.47, {"cap-mm": max(cap) / cap[0]}),
            Claim("GPM over CAP-mm with one thread", 4.0, {"gpm": best / cap[0]}),
            Claim(
                "GPM at the most threads, of streaming stores",
                "-",
                {"gpm": 100 * gpm[-1]["of_streaming"]},
                "%",
            ),
        ],
    )


# --- figure 11: logging
# -----------------------------------------------------------------------------

_LOGGING = ("kvs", "db-update")


def plan_logging(setting: Setting) -> list[Run]:
    return [
        _run(setting, app, "gpm", "--log", log)
        for app in _LOGGING
        for log in ("hcl", "conventional")
    ]


def read_logging(setting: Setting, results: Results) -> Drawn:
    _same_results(results)
    times = {
        app: results[f"{app} gpm --log conventional"]["run_s"]
        / results[f"{app} gpm --log hcl"]["run_s"]
        for app in _LOGGING
    }
    return Drawn(
        [_bars("HCL over conventional logging", _RATIO, {"hcl": times}, log_y=False)],
        [
            Claim("HCL over conventional logging, gpKVS", 3.3, {"hcl": times["kvs"]}),
            Claim("HCL over conventional logging, gpDB update", 6.1, {"hcl": times["db-update"]}),
        ],
    )


def plan_log_scaling(setting: Setting) -> list[Run]:
    return [_micro(setting, "log-scaling"), _micro(setting, "log-append")]


def read_log_scaling(setting: Setting, results: Results) -> Drawn:
    rows = results["log-scaling"]["rows"]
    panel = Panel("one entry of each thread", "threads", "us", log_x=True, log_y=True)
    for row in rows:
        panel.add("HCL", row["threads"], row["hcl_us"])
        panel.add("conventional", row["threads"], row["conventional_us"])
    (append,) = results["log-append"]["rows"]
    return Drawn(
        [panel],
        [
            Claim(
                "conventional over HCL, latency, on average",
                3.6,
                {"hcl": sum(row["ratio"] for row in rows) / len(rows)},
            ),
            Claim(
                "HCL append of 16 bytes, of streaming stores",
                "-",
                {
                    "entries": 100 * append["payload_of_streaming"],
                    "with checks": 100 * append["log_of_streaming"],
                },
                "%",
            ),
        ],
    )


# --- figure 12: bandwidth; table 4: write amplification; table 5: recovery
# --------------------------


def plan_bandwidth(setting: Setting) -> list[Run]:
    counted = [_run(setting, app, "gpm", "--count") for app in APPS]
    return [_micro(setting, "stream"), *(_run(setting, app, "gpm") for app in APPS), *counted]


def read_bandwidth(setting: Setting, results: Results) -> Drawn:
    rates = {}
    for app in APPS:
        rates[app] = (
            _stored(results[f"{app} gpm --count"]) / _seconds(app, results[f"{app} gpm"]) / 1e9
        )
    (limit,) = results["stream"]["rows"]
    paper = {
        "kvs": "well below the link",
        "db-update": "well below the link",
        "hotspot": "near the link",
    }
    whole = limit["write_bytes_per_s"] / 1e9
    claims = [
        Claim(
            f"write bandwidth of {app}, of streaming stores",
            paper[app],
            {app: 100 * rates[app] / whole},
            "%",
        )
        for app in paper
    ]
    panel = _bars(f"stores to durable memory (streaming: {whole:.1f} GB/s)", "GB/s", {"gpm": rates})
    return Drawn([panel], claims)


def plan_amplification(setting: Setting) -> list[Run]:
    runs = []
    for app in (*TRANSACTIONAL[:1], *TRANSACTIONAL[2:], *CHECKPOINTING[-1:], *NATIVE):
        runs += [_run(setting, app, "gpm", "--count"), _run(setting, app, "cap-mm")]
    return runs


def read_amplification(setting: Setting, results: Results) -> Drawn:
    _same_results(results)
    apps = [name.removesuffix(" cap-mm") for name in results if name.endswith(" cap-mm")]
    more = {
        app: results[f"{app} cap-mm"]["durable_bytes"] / _stored(results[f"{app} gpm --count"])
        for app in apps
    }
    paper = {"kvs": 39.38, "db-insert": 1.27, "db-update": 19.88}
    claims = [
        Claim(f"bytes that CAP persists over GPM's, {app}", paper.get(app, 1.0), {app: more[app]})
        for app in apps
    ]
    return Drawn([_bars("write amplification of CAP", _RATIO, {"cap-mm": more})], claims)


_RESTORATION = {
    "kvs": 18.96,
    "db-insert": 0.01,
    "db-update": 10.43,
    "dnn": 0.12,
    "cfd": 0.30,
    "black-scholes": 0.80,
    "hotspot": 1.65,
}


# Table 1's iterations, or batches, of which large sizes run fewer.
_WHOLE = {"kvs": 25, "dnn": 10_000, "cfd": 5_000, "black-scholes": 1_024, "hotspot": 4_000}


def _share(app: str, result: Any) -> float:
    """Recovery in percent of a run; of one of table 1's length, where runs are shortened to measure
    them."""
    whole = _WHOLE[app] / result["steps"] if result["steps"] == _ITERATIONS.get(app) else 1
    return float(100 * result["recovery_s"] / (result["run_s"] * whole))


def plan_recovery(setting: Setting) -> list[Run]:
    return [_run(setting, app, "gpm") for app in _RESTORATION]


def read_recovery(setting: Setting, results: Results) -> Drawn:
    shares = {app: _share(app, results[f"{app} gpm"]) for app in _RESTORATION}
    claims = [
        Claim(f"recovery of the run's time, {app}", paper, {app: shares[app]}, "%")
        for app, paper in _RESTORATION.items()
    ]
    return Drawn(
        [_bars("recovery of the run's time", "%", {"paper": dict(_RESTORATION), "ours": shares})],
        claims,
    )
