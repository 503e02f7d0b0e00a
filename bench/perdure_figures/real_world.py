"""Figure 10: accesses of real applications, as traces that `perdure-bench baselines` plays.

Lookups: the keys that a production recommender looked up, in arrival order, as DLRM looks up
embedding vectors. PageRank: in each iteration every node gets its neighbours' ranks and updates its
own.
"""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from perdure import demo

from perdure_figures.model import Claim, Drawn, Results, Run
from perdure_figures.setting import Setting
from perdure_figures.throughput import (
    OTHERS,
    OURS,
    SYSTEMS,
    Speeds,
    baselines,
    curves,
    latency_ratio,
    numbers,
    peak_ratio,
)

LOOKUPS = "scarab_recs.rows0-150K.u64be.xz"
GRAPH = demo.ROADS
_UPDATE = np.uint64(1 << 63)  # as perdure-bench baselines --trace has it
_TITLES = {"lookups": "recommender lookups (DLRM)", "pagerank": "PageRank"}

Trace = npt.NDArray[np.uint64]


def lookups(path: Path) -> Trace:
    """A key's row is its place among the keys by first appearance."""
    with lzma.open(path) as packed:
        keys = np.frombuffer(packed.read(), ">u8")
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    by_appearance = np.empty(len(first), np.uint64)
    by_appearance[np.argsort(first)] = np.arange(len(first), dtype=np.uint64)
    return by_appearance[row]


def pagerank(path: Path) -> Trace:
    """One iteration: node by node, a get of each neighbour's rank, then an update of its own."""
    ends = demo.read_ids(path).reshape(-1, 2) - np.uint64(1)
    node = np.concatenate([ends[:, 0], ends[:, 1]])
    neighbour = np.concatenate([ends[:, 1], ends[:, 0]])
    nodes = np.arange(int(ends.max()) + 1, dtype=np.uint64)
    of = np.concatenate([node, nodes])
    operation = np.concatenate([neighbour, nodes | _UPDATE])
    return operation[np.argsort(of, kind="stable")]  # stable: a node's update comes after its gets


def plan(setting: Setting) -> list[Run]:
    data = demo.find_data(setting.data, (LOOKUPS, GRAPH))
    traces = {"lookups": lookups(data / LOOKUPS), "pagerank": pagerank(data / GRAPH)}
    runs = []
    for name, trace in traces.items():
        file = setting.folder / f"{name}.u64"
        trace.astype("<u8").tofile(file)
        runs += _plan_trace(setting, name, file, int((trace & ~_UPDATE).max()) + 1)
    return runs


def _plan_trace(setting: Setting, name: str, file: Path, records: int) -> list[Run]:
    """The table is as large as the trace's; operations and batches are the setting's, where they
    fit."""
    scale = setting.scale
    ops = min(scale.ops, records)
    fitted = replace(setting, scale=replace(scale, records=records, ops=ops))
    batches = numbers([batch for batch in scale.batches if batch <= ops] or [ops])
    more = ["--trace", str(file), "--batch", batches]
    runs = [baselines(fitted, system, 8, ["trace"], *more) for system in SYSTEMS]
    return [Run(f"{name} {run.name}", run.arguments) for run in runs]


def read(setting: Setting, results: Results) -> Drawn:
    speeds: Speeds = {}
    for name, result in results.items():
        (found,) = result["systems"]
        of_trace = speeds.setdefault((_TITLES[name.split()[0]], found["system"]), {})
        of_trace.update({row["batch"]: row["mops_near"] for row in found["rows"]})
    titles = _TITLES.values()
    return Drawn(
        curves(speeds),
        [
            Claim(
                "throughput of GPHash over the others, at most",
                7.09,
                {ours: peak_ratio(speeds, titles, (ours,), OTHERS) for ours in OURS},
            ),
            Claim(
                "latency of the others over GPHash's, at most",
                7.91,
                {ours: latency_ratio(speeds, titles, (ours,), OTHERS) for ours in OURS},
            ),
        ],
    )
