"""`perdure bench figure`: the catalogue, what runs come to, tiny figures end to end, and bad
input."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import perdure
import pytest
from perdure import _native
from perdure.cli_support import Failure
from perdure_figures import dash, dash_pools, gpm, plots, runner, throughput
from perdure_figures.catalogue import FIGURES
from perdure_figures.model import Claim, Drawn, Kind, Panel, Run
from perdure_figures.report import Measured
from perdure_figures.setting import Setting, scale_for

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
TINY = ["--quick", "--records", 2048]

needs_bench = pytest.mark.skipif(
    not BENCH.is_file(), reason="this package was built without perdure-bench"
)
needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def setting(folder: Path, device: str = "cpu") -> Setting:
    return Setting(scale_for(device, quick=True), device, folder, DATA)


# --- the catalogue ------------------------------------------------------------------------------


def test_every_figure_of_the_evaluations_is_there():
    of_gpm = ["1", "3", "9", "10", "11a", "11b", "12", "table-4", "table-5"]
    of_dash = ["1", *map(str, range(7, 16)), "table-1", "volatile"]
    of_hrocks = ["8", "9a", "9b", "10", "11", "12", "13", "table-6", "table-7"]
    of_hetero = [*(f"4.{n}" for n in (8, 9, 12, 13, 14, 15, 16, 19, 20, 21)), "split"]
    assert list(FIGURES) == [
        *(f"gphash-{number}" for number in range(5, 16)),
        *(f"gpm-{name}" for name in of_gpm),
        *(f"dash-{name}" for name in of_dash),
        *(f"hrocks-{name}" for name in of_hrocks),
        *(f"prestores-{name}" for name in ("3.3", "3.5", "misuse")),
        *(f"hetero-{name}" for name in of_hetero),
        *(f"kv-{name}" for name in (*range(1, 8), "table-1", "table-2")),
    ]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda figure: figure.name)
def test_a_figure_plans_runs_of_different_names(figure, tmp_path):
    assert figure.title and figure.section and figure.shows
    assert set(figure.devices) <= {"cpu", "cuda"}
    assert bool(figure.why_device) == (len(figure.devices) == 1)
    for device in figure.devices:
        runs = figure.plan(setting(tmp_path, device))
        names = [run.name for run in runs]
        assert names and len(set(names)) == len(names)
        for run in runs:
            assert "--json" not in run.command()


def test_sizes_follow_the_records():
    assert scale_for("cpu", False).records < scale_for("cuda", False).records == 16_000_000
    small = scale_for("cpu", False, 5_000)
    assert (small.records, small.ops, small.batches) == (5_000, 5_000, (256, 1024, 4096))
    assert scale_for("cuda", False, 2_000).batches == (1024,)
    assert scale_for("cuda", True, 1_000).batches == (1_000,)


# --- what results come to -----------------------------------------------------------------------


def test_ratios_compare_peaks_and_latencies_at_one_batch():
    speeds = {("w", "a"): {256: 2.0, 4096: 6.0}, ("w", "b"): {256: 1.0, 4096: 5.0}}
    assert throughput.peak_ratio(speeds, ["w"], ("a",), ("b",)) == pytest.approx(1.2)
    assert throughput.latency_ratio(speeds, ["w"], ("a",), ("b",)) == pytest.approx(2.0)
    (panel,) = throughput.curves(speeds)
    assert panel.series["a"] == [(2.0, 128.0), (6.0, pytest.approx(682.67, abs=0.01))]


def curve(system: str, mops: float) -> dict:
    """The results of runs in which a system does as many operations a second whatever they are."""
    rows = [{"workload": one, "batch": 4096, "mops_near": mops} for one in throughput.WORKLOADS]
    alone = {"command": "baselines", "systems": [{"system": system, "rows": rows}]}
    load = {"command": "fill", "batch": 4096, "systems": [{"system": system, "mops": mops}]}
    return {system: alone, f"{system} load": load}


@pytest.mark.parametrize("slowest", throughput.CPU_ASSISTED)
def test_ratios_over_cpu_assisted_are_those_over_the_slowest_index_of_the_cpu(tmp_path, slowest):
    results = {}
    for system in throughput.SYSTEMS:
        results |= curve(system, 2.0 if system == slowest else 12.0 if system == "word" else 6.0)
    claims = {
        claim.what: claim.ours for claim in throughput.read(setting(tmp_path), results).claims
    }
    assert (
        claims["search: highest throughput of a GPM index over CPU-assisted, at most"]["word"] == 6
    )
    assert claims["search: latency of CPU-assisted over a GPM index's, at most"] == {
        "word": 6,
        "in_place": 3,
    }
    assert claims["deletion: GPHash over the others, at most"] == {"word": 6, "in_place": 3}
    assert claims["YCSB D: GPHash over the other GPM indexes, at most"] == {
        "word": 2,
        "in_place": 1,
    }


def test_each_index_of_the_cpu_has_its_share_of_moving_data(tmp_path):
    results = {}
    for at, system in enumerate(throughput.SYSTEMS):
        row = {"batch": 4096, "mops_near": 4.0, "mops_host": 5.0 + at, "mops_kernel": None}
        rows = [row | {"workload": one} for one in throughput.WORKLOADS]
        results[system] = {"systems": [{"system": system, "rows": rows}]}
    (claim,) = throughput.read_breakdown(setting(tmp_path), results).claims
    of_host = {one: 5.0 + throughput.SYSTEMS.index(one) for one in throughput.CPU_ASSISTED}
    assert claim.ours == pytest.approx({one: 100 * (1 - 4 / mops) for one, mops in of_host.items()})


def test_every_subject_has_a_colour_of_its_own():
    colours = [plots._COLOURS[system] for system in throughput.SYSTEMS]
    assert len(set(colours)) == len(colours)


# --- plots and verdicts -------------------------------------------------------------------------


def drawn_axes(panels: list[Panel]):
    """The axes of the panels, laid out as they are written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = plots.figure_of("CPU: a title", panels)
    figure.canvas.draw()
    pyplot.close(figure)
    return figure.axes[: len(panels)]


def of_each_kind() -> list[Panel]:
    panels = []
    for kind in Kind:
        names = ["here", "there"] if kind in (Kind.bar, Kind.stack) else []
        panel = Panel(kind.value, "x", "y", kind=kind, names=names)
        for system in ("word", "in_place", "slabhash-gpm"):
            panel.add(system, 0, 2.0)
            panel.add(system, 1, 3.0)
        panels.append(panel)
    return panels


@needs_plots
def test_legends_stand_beside_the_data():
    for axes in drawn_axes(of_each_kind()):
        legend = axes.get_legend()
        if axes.get_title() == "scatter":
            assert legend is None, "its points have their names beside them"
            continue
        assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
        assert legend.get_window_extent().x1 <= axes.figure.bbox.x1, "and are not cut off"


@needs_plots
def test_ratios_have_a_line_where_both_are_alike(tmp_path):
    times = {
        path: dict.fromkeys(gpm.APPS, seconds) for path, seconds in (("cap-fs", 2.0), ("gpm", 1.0))
    }
    (axes,) = drawn_axes([gpm._over_cap_fs(times)])
    assert [list(line.get_ydata()) for line in axes.get_lines()] == [[1.0, 1.0]]
    (axes,) = drawn_axes([Panel("no ratio", "x", "Mop/s", {"word": [(1, 2)]})])
    assert [1.0, 1.0] not in [list(line.get_ydata()) for line in axes.get_lines()]


@needs_plots
def test_batch_sizes_are_labelled_where_a_curve_runs_through_them(tmp_path):
    results = {
        name: one for system in throughput.SYSTEMS for name, one in curve(system, 4.0).items()
    }
    panels = throughput.curves(throughput.speeds_of(results))
    for panel, axes in zip(panels, drawn_axes(panels), strict=True):
        batches = {round(x * y) for points in panel.series.values() for x, y in points}
        assert batches and {text.get_text() for text in axes.texts} >= {
            f"{one:,}" for one in batches
        }


def measured(
    folder: Path, claims: list[Claim], device: str = "cpu", quick: bool = True
) -> Measured:
    of = Setting(scale_for(device, quick=quick), device, folder, DATA)
    return Measured(FIGURES["dash-7"], of, [], {}, Drawn([], claims), "Some Processor")


def test_titles_say_on_which_processor(tmp_path):
    assert "\nCPU: Some Processor; " in measured(tmp_path, []).title
    assert "\nGPU: Some Processor; " in measured(tmp_path, [], "cuda").title


def test_times_of_one_repeat_get_no_verdict(tmp_path):
    claims = [
        Claim("a ratio of times", 2.0, {"word": 1.9}, reached=False),
        Claim("counted lines", 2.0, {"word": 1.9}, "lines", reached=True, exact=True),
    ]
    once, often = measured(tmp_path, claims), measured(tmp_path, claims, quick=False)
    assert [line.split()[-1] for line in often.lines()[3:5]] == ["reached", "reached"]
    assert not once.lines()[3].endswith("reached") and once.lines()[4].endswith("  reached")
    assert "reached" not in once.as_dict()["claims"][0] and "few for a verdict" in once.lines()[-1]
    assert "few for a verdict" not in "".join(often.lines())


def test_a_breakdown_adds_up_to_the_call():
    row = {"batch": 4096, "mops_near": 4.0, "mops_host": 8.0, "mops_kernel": None}
    for system in throughput.CPU_ASSISTED:
        parts = throughput.breakdown(row, system)
        assert parts == {"index on the CPU": 512.0, "between GPU and CPU": 512.0}
    row |= {"mops_kernel": 5.12}
    assert sum(throughput.breakdown(row, "clevel-gpm").values()) == 1024.0
    assert throughput.breakdown(row | {"mops_kernel": None}, "word") == {"whole call": 1024.0}


# --- end to end ---------------------------------------------------------------------------------


@needs_bench
@needs_plots
@pytest.mark.parametrize("name", ["gphash-7", "gphash-14", "gphash-15"])
def test_a_tiny_figure(cli, tmp_path, name):
    done = cli("bench", "figure", name, *TINY, "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["figure"] == name and found["faults"] == 0 and found["checked"] > 0
    assert found["device"] == "cpu" and found["device_description"] in done.err
    assert found["claims"] and all(
        {"what", "paper", "ours"} <= set(claim) for claim in found["claims"]
    )
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    whole = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert whole["claims"] == found["claims"] and all("result" in run for run in whole["runs"])


@needs_bench
def test_indexes_on_the_cpu_have_their_load_factors(cli, tmp_path):
    done = cli("bench", "figure", "gphash-7", *TINY, "--no-plot", "--out", tmp_path, "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    claims = [one for one in found["claims"] if "on the CPU" in one["what"]]
    assert {claim["paper"] for claim in claims} == {85}
    ours = {system: percent for claim in claims for system, percent in claim["ours"].items()}
    assert set(ours) == set(throughput.PAPERS_ASSISTED)
    assert all(0 < percent < 100 for percent in ours.values())
    (panel,) = found["panels"]
    assert set(throughput.PAPERS_ASSISTED) < set(panel["series"])


@needs_bench
def test_all_subjects_over_batch_sizes(cli, tmp_path):
    done = cli("bench", "figure", "gphash-5", *TINY, "--no-plot", "--out", tmp_path, "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    panels = {panel["title"]: panel["series"] for panel in found["panels"]}
    assert set(panels) == {*throughput.WORKLOADS.values(), throughput.LOAD}
    assert all(set(series) == set(throughput.SYSTEMS) for series in panels.values())
    assert all(claim["ours"]["word"] > 0 and claim["paper"] > 1 for claim in found["claims"])
    assert found["plot"] is None and not list(tmp_path.glob("*.png"))


@needs_bench
@needs_plots
@pytest.mark.parametrize("name", ["gpm-3", "gpm-10", "gpm-11a", "gpm-11b", "gpm-12", "gpm-table-5"])
def test_a_tiny_figure_of_applications(cli, tmp_path, name):
    done = cli("bench", "figure", name, "--quick", "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["figure"] == name and "GPM" in found["paper"]
    assert found["claims"] and all(
        value > 0 for claim in found["claims"] for value in claim["ours"].values()
    )
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@needs_bench
@needs_plots
@pytest.mark.parametrize(
    "name", ["dash-7", "dash-11", "dash-12", "dash-13", "dash-14", "dash-table-1"]
)
def test_a_tiny_figure_of_dash(cli, tmp_path, name):
    done = cli("bench", "figure", name, *TINY, "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["figure"] == name and "Dash" in found["paper"] and found["note"] == ""
    assert found["claims"] and all(panel["series"] for panel in found["panels"])
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_ratio_counts_where_the_emulated_one_does_and_the_other_is_not_below_one():
    def claim(dram: float, emulated: float) -> bool | None:
        ours = {dash.DRAM: dram, dash.EMULATED: emulated, dash.COUNTED: 9.0}
        return dash.ratio("what", 2.0, ours.get, ours).reached

    assert claim(1.0, 2.0) and not claim(0.99, 3.0) and not claim(2.5, 1.99)
    assert dash.times(dash.COUNTED, 2.0, 8.0) == 4.0 and dash.times(dash.EMULATED, 2.0, 8.0) == 0.25


def test_throughput_is_back_when_it_is_near_that_of_the_end():
    assert dash_pools.back_to_normal([[0.1, 0.2], [0.2, 0.9], [0.3, 1.0], [0.4, 1.0]]) == 0.2
    assert dash_pools.back_to_normal([[0.1, 1.0], [0.2, 1.0]]) == 0.1


def test_results_that_differ_between_paths_are_wrong():
    right = {"app": "kvs", "digest": 1}
    gpm._same_results(
        {"kvs gpm": right, "kvs cap-mm": right, "bfs gpm": {"app": "bfs", "digest": 2}}
    )
    with pytest.raises(Failure, match="kvs cap-mm: WRONG ANSWERS"):
        gpm._same_results({"kvs gpm": right, "kvs cap-mm": {"app": "kvs", "digest": 3}})


def test_machines_may_round_results_differently_but_paths_may_not():
    on_gpu, on_cpu = (
        {"app": "srad", "machine": name, "digest": at} for at, name in enumerate(["gpu", "cpu"])
    )
    gpm._same_results({"srad gpm": on_gpu, "srad on the CPU": on_cpu, "srad cap-mm": on_gpu})
    with pytest.raises(Failure, match="srad cap-mm: WRONG ANSWERS"):
        gpm._same_results({"srad gpm": on_gpu, "srad cap-mm": {**on_cpu, "machine": "gpu"}})


@needs_bench
@needs_plots
@pytest.mark.gpu
def test_a_breakdown_on_a_gpu(cli, tmp_path):
    done = cli(
        "bench", "figure", "gphash-8", *TINY, "--device", "cuda", "--out", tmp_path, "--json", "-"
    )
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    shares = found["claims"][0]["ours"]
    assert set(shares) == set(throughput.CPU_ASSISTED)
    assert all(0 <= share <= 100 for share in shares.values())
    for panel in found["panels"]:
        assert {"kernels", "between GPU and CPU", "whole call"} <= set(panel["series"])


@needs_bench
def test_a_trace_that_names_no_record_is_refused(tmp_path):
    np.array([5000], "<u8").tofile(tmp_path / "trace")
    arguments = [
        "baselines",
        "--workload",
        "trace",
        "--trace",
        tmp_path / "trace",
        "--records",
        5000,
    ]
    run = Run("x", [*arguments, "--batch", 64, "--ops", 64])
    with pytest.raises(Failure, match="names record 5000, but --records is 5000"):
        runner.run_one(run, tmp_path / "result.json")


# --- what goes wrong ----------------------------------------------------------------------------


def stand_in(folder: Path, script: str) -> Path:
    program = folder / "bin" / "perdure-bench"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        (
            "echo '  FAULT: get of record 7 gave a value'; exit 1",
            1,
            "WRONG ANSWERS: FAULT: get of record 7",
        ),
        (
            "echo 'perdure-bench: no room' >&2; exit 2",
            2,
            "perdure-bench fill .*: perdure-bench: no room",
        ),
        ("kill -9 $$", 2, "ended by signal 9"),
    ],
)
def test_a_run_that_fails_ends_the_command(cli, monkeypatch, tmp_path, script, status, message):
    stand_in(tmp_path, script)
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    done = cli("bench", "figure", "gphash-7", "--no-plot", "--out", tmp_path / "out")
    assert done.status == status and done.out == ""
    assert re.search(message, done.err)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name figures, or 'all'"),
        (["gphash-4"], "gphash-4: there is no such figure; choose from gphash-5,"),
        (["gphash-8"], "gphash-8 --device cpu: it tells apart"),
        (["dash-7", "--device", "cuda"], "--device"),
        (["gphash-5", "--device", "tpu"], "--device"),
        (["gphash-5", "--records", "7"], "--records"),
        (["gphash-5", "--wat"], "--wat"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_usage(cli, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = cli("bench", "figure", *arguments)
    assert done.status == 2 and message in done.err and done.out == ""


@needs_bench
def test_missing_data_says_where_it_looked(cli, tmp_path):
    done = cli("bench", "figure", "gphash-10", "--no-plot", "--data", "/nowhere", "--out", tmp_path)
    assert done.status == 2 and "--data:" in done.err and "/nowhere" in done.err


def test_no_gpu(cli, tmp_path):
    if any(device.device.name == "cuda" and device.available for device in perdure.devices()):
        pytest.skip("there is a GPU")
    done = cli("bench", "figure", "gphash-5", "--device", "cuda", "--out", tmp_path / "out")
    assert done.status == 2 and "--device cuda: " in done.err and "--device cpu" in done.err
    assert not (tmp_path / "out").exists()


def test_no_perdure_bench(cli, monkeypatch, tmp_path):
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    missing = cli("bench", "figure", "gphash-5")
    assert missing.status == 2 and "perdure-bench is not there" in missing.err


def test_the_list(cli):
    listed = cli("bench", "figure", "--list", "--json", "-")
    assert listed.status == 0 and len(listed.json()["figures"]) == len(FIGURES)
    assert all(name in cli("bench", "figure", "--list").out for name in FIGURES)


def test_no_wheel_has_the_figures_of_papers(cli, monkeypatch):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert settings["wheel"]["packages"] == ["python/perdure"]
    assert all(one["if"] == {"state": "editable"} for one in settings["overrides"])
    assert not list((ROOT / "python" / "perdure").rglob("*figures*"))
    for module in [name for name in sys.modules if name.startswith("perdure_figures")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "perdure_figures", None)
    for arguments in (["--list"], ["figure", "gphash-5"]):
        done = cli("bench", *arguments)
        assert done.status == 2 and done.out == "" and "in a clone of Perdure" in done.err
