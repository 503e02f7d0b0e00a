"""`perdure bench figure`: the traces that real-world figures replay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from perdure_figures import real_world

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


def test_lookups_are_numbered_by_first_appearance():
    trace = real_world.lookups(DATA / real_world.LOOKUPS)
    assert len(trace) == 150_000 and trace[0] == 0 and int(trace.max()) + 1 == 48_497
    _, first = np.unique(trace, return_index=True)
    assert (np.diff(first) > 0).all()


def test_pagerank_gets_both_ends_of_every_edge_and_updates_each_node_last():
    trace = real_world.pagerank(DATA / real_world.GRAPH)
    update = (trace >> np.uint64(63)).astype(bool)
    assert len(trace) == 2 * 365_050 + 264_346 and update.sum() == 264_346
    assert (trace[update] & ~np.uint64(1 << 63)).tolist() == list(range(264_346))
    # Its first edges are 1-2, 1-12, 1-1363: node 0 gets 1, 11 and 1362, in the order of the file.
    assert trace[:3].tolist() == [1, 11, 1362] and update[3]
