"""Figures 5 and 6: throughput and latency of all systems over batch sizes; 8: the parts of a
call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure_figures.model import Claim, Drawn, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

OURS = ("in_place", "word")  # what stands where GPHash does
OTHER_GPM = ("slabhash-gpm", "clevel-gpm")
DASH_ASSISTED = ("cpu-assisted-dash-eh", "cpu-assisted-dash-lh")
# The paper's: Clevel, Dash and SEPH on the CPU.
PAPERS_ASSISTED = (*DASH_ASSISTED, "cpu-assisted-clevel", "cpu-assisted-seph")
CPU_ASSISTED = ("cpu-assisted", *PAPERS_ASSISTED)
OTHERS = (*OTHER_GPM, *CPU_ASSISTED)
SYSTEMS = (*OTHERS, *OURS)

SEARCH = {"get-hit": "positive search", "get-miss": "negative search", "zipf": "YCSB C"}
WRITE = {"insert": "insertion", "update": "update", "delete": "deletion"}
MIXED = {"ycsb-a": "YCSB A", "ycsb-b": "YCSB B", "ycsb-d": "YCSB D", "ycsb-f": "YCSB F"}
WORKLOADS = SEARCH | WRITE | MIXED
LOAD = "YCSB LOAD"

# The GPM baselines take the operations on a hot key one after the other, so that a batch with many
# writes takes seconds on a GPU, and one four times as large far more than four times as long.
_MOST_OF_MIXTURE = 1 << 16  # operations a batch there
_SECONDS = 1  # a repeat

Speeds = dict[tuple[str, str], dict[int, float]]  # (workload, system): Mop/s by batch


def numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


def baselines(
    setting: Setting, system: str, key_bytes: int, workloads: Iterable[str], *more: str | int
) -> Run:
    """A run of `perdure-bench baselines` of one system, with arrays where the device has them
    nearest."""
    scale = setting.scale
    arguments = [
        "baselines",
        "--system",
        system,
        "--device",
        setting.device,
        "--key-bytes",
        key_bytes,
    ]
    arguments += ["--records", scale.records, "--ops", scale.ops, "--repeat", scale.repeats]
    arguments += ["--workload", ",".join(workloads), "--no-count-accesses", "--seconds", _SECONDS]
    return Run(system, [*arguments, *(more if "--arrays" in more else ("--arrays", "near", *more))])


# --- figures 5 and 6 ----------------------------------------------------------------------------


def plan(key_bytes: int) -> Callable[[Setting], list[Run]]:
    def runs(setting: Setting) -> list[Run]:
        scale = setting.scale
        listed = []
        for system in SYSTEMS:
            alone = SEARCH | WRITE
            batches = numbers(scale.batches)
            listed.append(baselines(setting, system, key_bytes, alone, "--batch", batches))
            mixed = baselines(
                setting,
                system,
                key_bytes,
                MIXED,
                "--batch",
                numbers(_mixed_batches(setting, system)),
            )
            listed.append(Run(f"{system} mixed", mixed.arguments))
            for batch in scale.batches:
                load = [
                    "fill",
                    "--system",
                    system,
                    "--device",
                    setting.device,
                    "--key-bytes",
                    key_bytes,
                ]
                load += ["--records", scale.records, "--batch", batch]
                listed.append(Run(f"{system} load {batch}", load))
        return listed

    return runs


def _mixed_batches(setting: Setting, system: str) -> list[int]:
    bounded = system in OTHER_GPM and setting.device == "cuda"
    return [batch for batch in setting.scale.batches if not bounded or batch <= _MOST_OF_MIXTURE]


def speeds_of(results: Results) -> Speeds:
    """Whole calls, with arrays where the device has them nearest."""
    speeds: Speeds = {}
    for result in results.values():
        for found in result["systems"]:
            if result["command"] == "fill":
                speeds.setdefault((LOAD, found["system"]), {})[result["batch"]] = found["mops"]
            for row in found.get("rows", []):
                title = WORKLOADS.get(row["workload"], row["workload"])
                speeds.setdefault((title, found["system"]), {})[row["batch"]] = row["mops_near"]
    return speeds


def curves(speeds: Speeds) -> list[Panel]:
    """A panel a workload. Batches follow one another: their mean latency is their size by the
    throughput."""
    panels: dict[str, Panel] = {}
    for (workload, system), by_batch in speeds.items():
        panel = panels.setdefault(
            workload,
            Panel(workload, "Mop/s", "mean latency of a batch (us)", log_x=True, log_y=True),
        )
        for batch, mops in sorted(by_batch.items()):
            panel.add(system, mops, batch / mops)
    for panel in panels.values():
        _add_batches(panel, sorted({batch for by_batch in speeds.values() for batch in by_batch}))
    return list(panels.values())


def _add_batches(panel: Panel, batches: Iterable[int]) -> None:
    """All points of one batch size lie on a line, latency times throughput: it is drawn with the
    size."""
    speeds = [x for points in panel.series.values() for x, _ in points]
    for batch in batches:
        panel.guides[f"{batch:,}"] = [(mops, batch / mops) for mops in (min(speeds), max(speeds))]


def read(setting: Setting, results: Results) -> Drawn:
    speeds = speeds_of(results)
    search = SEARCH.values()
    return Drawn(
        curves(speeds),
        [
            Claim(
                "search: highest throughput of a GPM index over CPU-assisted, at most",
                13.84,
                {
                    ours: peak_ratio(speeds, search, (ours, *OTHER_GPM), CPU_ASSISTED)
                    for ours in OURS
                },
            ),
            Claim(
                "search: latency of CPU-assisted over a GPM index's, at most",
                27.62,
                {
                    ours: latency_ratio(speeds, search, (ours, *OTHER_GPM), CPU_ASSISTED)
                    for ours in OURS
                },
            ),
            _over(
                speeds, "search: GPHash over SlabHash-GPM, at most", 4.28, search, ("slabhash-gpm",)
            ),
            _over(
                speeds,
                "insertion, LOAD: GPHash over the others, at most",
                5.79,
                (WRITE["insert"], LOAD),
                OTHERS,
            ),
            _over(
                speeds,
                "YCSB D: GPHash over the other GPM indexes, at most",
                2.16,
                (MIXED["ycsb-d"],),
                OTHER_GPM,
            ),
            _over(
                speeds, "update: GPHash over the others, at most", 9.23, (WRITE["update"],), OTHERS
            ),
            _over(
                speeds,
                "deletion: GPHash over the others, at most",
                10.37,
                (WRITE["delete"],),
                OTHERS,
            ),
            _over(
                speeds,
                "YCSB A, B: GPHash over the others, at most",
                4.75,
                (MIXED["ycsb-a"], MIXED["ycsb-b"]),
                OTHERS,
            ),
        ],
    )


def _over(
    speeds: Speeds, what: str, paper: float, workloads: Iterable[str], others: tuple[str, ...]
) -> Claim:
    return Claim(
        what, paper, {ours: peak_ratio(speeds, workloads, (ours,), others) for ours in OURS}
    )


def peak_ratio(
    speeds: Speeds, workloads: Iterable[str], ours: tuple[str, ...], others: tuple[str, ...]
) -> float:
    """The most, over workloads and pairs, by which one's highest throughput exceeds another's."""
    return max(
        max(speeds[workload, one].values()) / max(speeds[workload, other].values())
        for workload in workloads
        for one in ours
        for other in others
    )


def latency_ratio(
    speeds: Speeds, workloads: Iterable[str], ours: tuple[str, ...], others: tuple[str, ...]
) -> float:
    """The most by which another's latency exceeds ours at the same batch size."""
    return max(
        speeds[workload, one][batch] / speeds[workload, other][batch]
        for workload in workloads
        for one in ours
        for other in others
        for batch in speeds[workload, one]
    )


# --- figure 8 -----------------------------------------------------------------------------------

_BROKEN_DOWN = ("get-hit", "insert", "update")


def plan_breakdown(setting: Setting) -> list[Run]:
    more = ("--batch", setting.scale.batch, "--arrays", "both")
    return [baselines(setting, system, 8, _BROKEN_DOWN, *more) for system in SYSTEMS]


def read_breakdown(setting: Setting, results: Results) -> Drawn:
    panels = []
    shares: dict[str, list[float]] = {}
    for workload in _BROKEN_DOWN:
        panel = Panel(
            WORKLOADS[workload], "", "us of a batch", kind=Kind.stack, names=list(SYSTEMS)
        )
        for at, system in enumerate(SYSTEMS):
            (row,) = [r for r in results[system]["systems"][0]["rows"] if r["workload"] == workload]
            parts = breakdown(row, system)
            for part, microseconds in parts.items():
                panel.add(part, at, microseconds)
            if system in CPU_ASSISTED:
                share = parts["between GPU and CPU"] / sum(parts.values())
                shares.setdefault(system, []).append(share)
        panels.append(panel)
    claim = Claim(
        "CPU-assisted: share of a call that moves data between GPU and CPU, at least",
        30.1,
        {system: 100 * min(each) for system, each in shares.items()},
        "%",
    )
    return Drawn(panels, [claim])


def breakdown(row: dict[str, Any], system: str) -> dict[str, float]:
    """The parts of a call whose arrays lie in GPU memory, from throughputs of one batch size.

    The CPU-assisted path with arrays in host memory does without the GPU: what a call takes longer
    with arrays in GPU memory is moving them. The GPM baselines tell their kernels apart; Perdure's
    calls do not.
    """
    whole = row["batch"] / row["mops_near"]
    if system in CPU_ASSISTED:
        index = min(whole, row["batch"] / row["mops_host"])
        return {"index on the CPU": index, "between GPU and CPU": whole - index}
    if row["mops_kernel"] is None:
        return {"whole call": whole}
    kernel = min(whole, row["batch"] / row["mops_kernel"])
    return {"kernels": kernel, "rest of the call": whole - kernel}
