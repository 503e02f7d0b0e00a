"""Figures about the cache: what figure 11 runs, and what its counts come to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from perdure import _native
from perdure.cli_support import Failure
from perdure_figures import cache, runner
from perdure_figures.model import Run
from perdure_figures.setting import Setting, scale_for

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"

needs_bench = pytest.mark.skipif(
    not BENCH.is_file(), reason="this package was built without perdure-bench"
)


def setting(folder: Path) -> Setting:
    return Setting(scale_for("cpu", quick=True), "cpu", folder)


def test_hit_rates_are_those_counted():
    assert cache.hit_rate({"cache": 0.2, "cache_hits_per_get": 0.75}) == 0.75
    assert cache.hit_rate({"cache": 0, "cache_hits_per_get": 0.0}) == 0


@needs_bench
@pytest.mark.parametrize("layout", ["in_place", "word"])
def test_hit_rates_grow_with_the_cache(tmp_path, layout):
    setup = setting(tmp_path)
    runs = [run for run in cache.plan_policies(setup) if run.name.startswith(f"c {layout} lfu")]
    known: runner.Known = {}
    results = runner.run_all(runs, tmp_path, lambda _: None, known)
    assert len(known) == 1, "one process measures all caches of a pool"
    for name, found in results.items():
        assert found["cache"] == float(name.split()[-1]) and found["faults"] == 0
    rates = [cache.hit_rate(results[f"c {layout} lfu {size}"]) for size in (0, 0.05, 0.4)]
    assert rates[0] == 0 and 0.4 < rates[1] < rates[2] < 1


def test_a_run_picks_its_own_of_several_results():
    results = [{"cache": 0.0, "cache_policy": "lfu"}]
    results += [{"cache": 0.1, "cache_policy": policy} for policy in ("lfu", "lru")]
    own = Run("lru", ["ycsb"], picks={"cache": 0.1, "cache_policy": "lru"})
    assert runner.picked(own, results) is results[2]
    assert runner.picked(Run("none", ["ycsb"], picks={"cache": 0}), results) is results[0]
    assert runner.picked(Run("all", ["ycsb"]), results) is results
    with pytest.raises(Failure, match=r"gave 2 results with .*0\.1"):
        runner.picked(Run("two", ["ycsb"], picks={"cache": 0.1}), results)


def test_every_cache_of_figure_11_is_measured_once(tmp_path):
    runs = cache.plan_policies(setting(tmp_path))
    assert len(runs) == 40 and len({tuple(run.command()) for run in runs}) == 4
    own = {(*run.command(), *run.picks.items()) for run in runs}
    assert len(own) == 36, "no cache has no policy"


@needs_bench
def test_a_tiny_figure_11(cli, tmp_path):
    sizes = ["--quick", "--records", 2048]
    done = cli("bench", "figure", "gphash-11", *sizes, "--no-plot", "--out", tmp_path / "out")
    assert done.status == 0, done.err
    whole = json.loads((tmp_path / "out" / "gphash-11.json").read_text())
    assert len(whole["runs"]) == 40 and whole["faults"] == 0
    results = {
        (
            run["result"]["workload"],
            run["result"]["layout"],
            run["result"]["cache"],
            run["result"]["cache_policy"],
        ): run["result"]
        for run in whole["runs"]
    }
    assert len(results) == 36
    assert whole["checked"] == sum(result["checked"] for result in results.values())
    for run in whole["runs"]:
        workload, system, policy, size = run["name"].split()
        own = run["result"]
        assert (own["workload"], own["layout"], own["cache"]) == (workload, system, float(size))
        assert float(size) == 0 or own["cache_policy"] == policy
