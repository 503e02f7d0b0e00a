"""`perdure bench figure hetero-*`: what rows of a table that CPU and GPU share come to, and a tiny
figure end to end."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from perdure import _native
from perdure_figures import hetero
from perdure_figures.setting import Setting, scale_for

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"

needs_bench = pytest.mark.skipif(
    not BENCH.is_file(), reason="this package was built without perdure-bench"
)
needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def setting(folder: Path) -> Setting:
    return Setting(scale_for("cpu", quick=True), "cpu", folder)


@needs_bench
@needs_plots
def test_a_tiny_figure_of_the_shared_table(cli, tmp_path):
    tiny = ["--quick", "--records", 2048]
    done = cli("bench", "figure", "hetero-4.20", *tiny, "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert "thesis" in found["paper"] and found["checked"] > 0
    assert set(found["panels"][0]["series"]) == {"uniform", "zipf"}
    assert (tmp_path / "out" / "hetero-4.20.png").read_bytes().startswith(b"\x89PNG")


def handed(mops: dict[int, float], memory: str = "host") -> dict:
    rows = [
        {"memory": memory, "device_threads": k, "mops": m, "dist": "uniform", "wait_us": 100.0 * k}
        for k, m in mops.items()
    ]
    return {"rows": rows}


def test_approach_1_is_compared_with_both_groups_alone_at_each_number_of_threads(tmp_path):
    results = {
        "alone": handed({0: 10.0, 1: 20.0, 2: 40.0}),
        "approach1": handed({0: 30.0, 1: 16.0, 2: 30.0}),
    }
    (claim,) = hetero.read_approach_1(setting(tmp_path), results).claims
    assert claim.ours == {"one table": 0.8}  # that nobody handed over says nothing


def test_waits_are_those_of_the_fewest_and_the_most_threads(tmp_path):
    results = {"alone": handed({0: 1.0, 1: 2.0, 16: 3.0}, "twice")}
    drawn = hetero.read_waits(setting(tmp_path), results)
    assert drawn.claims[0].ours == {"one thread": 0.1, "all threads": 1.6}
    assert drawn.panels[0].series["wait"] == [(1, 0.1), (16, 1.6)]


def test_prefetching_counts_at_the_smallest_batch(tmp_path):
    rows = [
        {"dist": "uniform", "batch": batch, "ahead": ahead, "mops": mops}
        for batch, ahead, mops in ((256, 0, 10.0), (256, 20, 17.0), (4096, 0, 1.0), (4096, 20, 9.0))
    ]
    (claim,) = hetero.read_ahead(setting(tmp_path), {"ahead": {"rows": rows}}).claims
    assert claim.ours == {"both": pytest.approx(70)}


def test_a_split_is_as_good_as_its_worst_batch_wherever_the_table_lies(tmp_path):
    measured = (
        ("uniform", "twice", 256, 0.98),
        ("uniform", "twice", 4096, 1.2),
        ("uniform", "host", 256, 1.1),
    )
    rows = [
        {
            "dist": d,
            "memory": m,
            "batch": b,
            "host_mops": 1,
            "device_mops": 2,
            "mops": 2,
            "ratio": r,
        }
        for d, m, b, r in measured
    ]
    drawn = hetero.read_split(setting(tmp_path), {"split": {"rows": rows}})
    assert [claim.ours for claim in drawn.claims] == [
        {"uniform, twice": 0.98, "uniform, host": 1.1},
        {"uniform, twice": 1.2, "uniform, host": 1.1},
    ]
    titles = [panel.title for panel in drawn.panels]
    assert titles == ["gets, uniform, twice", "gets, uniform, host"]
