"""Figures about the table: 7, load factors; 13, configurations; 14, what resizing and recovery
cost."""

from __future__ import annotations

import math
from typing import Any

from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting
from perdure_figures.throughput import DASH_ASSISTED, OTHER_GPM, OURS, PAPERS_ASSISTED

_SAMPLE = 1 << 14  # the paper samples the load factor after so many insertions
_SAMPLES = 64  # and we so many times at least
_TABLES = (*OTHER_GPM, *PAPERS_ASSISTED, *OURS)  # cpu-assisted itself has the same index as word


def fill(setting: Setting, system: str) -> Run:
    records = setting.scale.records
    batch = max(1, min(_SAMPLE, records // _SAMPLES))
    arguments = ["fill", "--system", system, "--device", setting.device]
    return Run(system, [*arguments, "--records", records, "--batch", batch])


# --- figure 7 -----------------------------------------------------------------------------------


def plan_load_factors(setting: Setting) -> list[Run]:
    return [fill(setting, system) for system in _TABLES]


def read_load_factors(setting: Setting, results: Results) -> Drawn:
    panel = Panel("load factor during a load", "records", "load factor")
    most: dict[str, float] = {}
    for system, result in results.items():
        (found,) = result["systems"]
        most[system] = found["load_factor_most"]
        for records, load_factor, _ in found["records_load_factor_seconds"]:
            panel.add(system, records, load_factor)
    claims = [
        Claim("highest load factor of GPHash", 92, {one: 100 * most[one] for one in OURS}, "%")
    ]
    for title, systems, paper in (
        ("SlabHash-GPM", ("slabhash-gpm",), 82),
        ("Clevel-GPM", ("clevel-gpm",), 85),
        ("Dash on the CPU", DASH_ASSISTED, 85),
        ("Clevel on the CPU", ("cpu-assisted-clevel",), 85),
        ("SEPH on the CPU", ("cpu-assisted-seph",), 85),
    ):
        theirs: dict[str, float | None] = {one: 100 * most[one] for one in systems}
        claims.append(Claim(f"highest load factor of {title}", paper, theirs, "%"))
    return Drawn([panel], claims)


# --- figure 13 ----------------------------------------------------------------------------------

# Those that one warp sees at once (levels x hashes x slots is 32) and the store allows.
SHAPES = (
    "1L-1H-32S",
    "1L-2H-16S",
    "2L-1H-16S",
    "1L-4H-8S",
    "2L-2H-8S",
    "2L-4H-4S",
    "4L-2H-4S",
    "4L-4H-2S",
)
_DEFAULT = "2L-2H-8S"


def plan_configurations(setting: Setting) -> list[Run]:
    runs = []
    for shape in SHAPES:
        fullest = [
            "load-factor",
            "--layout",
            "both",
            "--shape",
            shape,
            "--seeds",
            setting.scale.repeats,
        ]
        runs.append(
            Run(f"{shape} load factor", [*fullest, "--top-levels", top_level(setting, shape)])
        )
        for layout in OURS:
            for workload in ("c", "load"):
                run = ycsb(
                    setting, workload, "--layout", layout, "--shape", shape, "--residency", "pm"
                )
                runs.append(Run(f"{shape} {layout} {workload}", run))
    return runs


def ycsb(setting: Setting, workload: str, *more: str | int | float) -> list[str | int | float]:
    """The arguments of `perdure-bench ycsb` at the setting's sizes, without counting, and with
    arrays where the device has them nearest."""
    scale = setting.scale
    arguments = [
        "ycsb",
        "--workload",
        workload,
        "--device",
        setting.device,
        "--records",
        scale.records,
    ]
    arguments += ["--ops", scale.ops, "--batch", scale.batch, "--repeats", scale.repeats]
    arguments += ["--arrays", "near"]
    return [*arguments, *(more if "--count-accesses" in more else ("--no-count-accesses", *more))]


def top_level(setting: Setting, shape: str) -> int:
    """For as many slots as records, whatever the shape; the load-factor command tells its sizes by
    it."""
    slots_a_bucket = int(shape.split("-")[2][:-1])
    return max(8, round(math.log2(setting.scale.records / slots_a_bucket)))


def read_configurations(setting: Setting, results: Results) -> Drawn:
    panels = []
    for workload, title in (("c", "YCSB C"), ("load", "YCSB LOAD")):
        for layout in OURS:
            panel = Panel(f"{title}, {layout}", "highest load factor", "Mop/s", kind=Kind.scatter)
            for shape in SHAPES:
                mops = results[f"{shape} {layout} {workload}"]["mops"]
                panel.add(shape, highest(results[f"{shape} load factor"], layout), mops)
            panels.append(panel)
    ours: dict[str, float | None] = {
        layout: 100 * highest(results[f"{_DEFAULT} load factor"], layout) for layout in OURS
    }
    return Drawn(panels, [Claim(f"highest load factor of {_DEFAULT}, the default", 92, ours, "%")])


def highest(result: Any, layout: str) -> float:
    """The mean load factor before the first forced growth; of `word` with displacement, as it
    runs."""
    (row,) = [
        row
        for row in result["rows"]
        if row["layout"] == layout and row["displacement"] == (layout == "word")
    ]
    return row["load_factor"]


# --- figure 14 ----------------------------------------------------------------------------------

_RECOVERED = (8, 4, 2, 1)  # shares of the records: one eighth and so on


def plan_overheads(setting: Setting) -> list[Run]:
    runs = [Run(f"grow {layout}", fill(setting, layout).arguments) for layout in OURS]
    for layout in OURS:
        for share in _RECOVERED:
            records = max(1, setting.scale.records // share)
            reopen = [
                "reopen",
                "--layout",
                layout,
                "--device",
                setting.device,
                "--records",
                records,
            ]
            runs.append(Run(f"reopen {layout} {records}", reopen))
    return runs


def read_overheads(setting: Setting, results: Results) -> Drawn:
    resize = Panel("resizing", "slots before", "ms", log_x=True, log_y=True)
    recover = Panel("coming back after SIGKILL", "records", "ms", log_x=True, log_y=True)
    last: dict[str, Any] = {}
    longest: dict[str, float | None] = {}
    for name, result in results.items():
        kind, layout = name.split()[:2]
        if kind == "grow":
            growths = result["systems"][0]["growths"]
            longest[layout] = max((1e3 * one["seconds"] for one in growths), default=None)
            for (
                one
            ) in growths:  # one that took no longer than other batches has no place on a log axis
                resize.add(layout, one["slots_before"], 1e3 * one["seconds"] or None)
        else:
            last[layout] = result
            recover.add(f"{layout}, recovery", result["records"], 1e3 * result["recover_seconds"])
            recover.add(f"{layout}, whole opening", result["records"], 1e3 * result["open_seconds"])
    opening: dict[str, float | None] = {one: 1e3 * last[one]["open_seconds"] for one in OURS}
    mapping: dict[str, float | None] = {
        one: 100 * last[one]["map_seconds"] / last[one]["open_seconds"] for one in OURS
    }
    return Drawn(
        [resize, recover],
        [
            Claim("longest resizing", "hundreds of ms", longest, "ms"),
            Claim("coming back with all records", "hundreds of ms", opening, "ms"),
            Claim("share of mapping in it", "over 99", mapping, "%"),
        ],
    )
