"""`perdure bench figure hrocks-*`: tiny figures end to end, and what rows come to."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from perdure import _native
from perdure_figures import hrocks
from perdure_figures.setting import Setting, scale_for

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench-rocks"
TINY = ["--quick", "--records", 2048]

needs_bench_rocks = pytest.mark.skipif(
    not BENCH.is_file(), reason="not packed: perdure-bench-rocks, which needs RocksDB"
)
needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def setting(folder: Path, device: str = "cpu") -> Setting:
    return Setting(scale_for(device, quick=True), device, folder)


@needs_bench_rocks
@needs_plots
@pytest.mark.parametrize("name", ["hrocks-9b", "hrocks-table-7"])
def test_a_tiny_figure_of_hrocks(cli, tmp_path, name):
    done = cli("bench", "figure", name, *TINY, "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["figure"] == name and "H-Rocks" in found["paper"] and found["checked"] > 0
    assert found["claims"] and all(panel["series"] for panel in found["panels"])
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def hrocks_row(item: str, at: str, rocksdb: float, perdure: float) -> dict:
    row = {"item": item, "what": f"{item}, {at}", "at": at, "rocksdb": rocksdb, "perdure": perdure}
    return row | {"ratio": perdure / rocksdb}


def test_perdure_is_compared_by_its_fastest_way_of_calling(tmp_path):
    rows = [hrocks_row(one, "", 2.0, mops) for one in hrocks._OPERATIONS for mops in (4.0, 8.0)]
    drawn = hrocks.read_operations(setting(tmp_path), {"run": {"rows": rows}})
    assert [claim.ours["perdure"] for claim in drawn.claims] == [4.0] * 4
    assert drawn.panels[0].series["perdure"] == [(at, 8.0) for at in range(4)]


def test_pointers_are_compared_with_values_in_memtables_at_each_size(tmp_path):
    rows = [
        hrocks_row("values", size, 1.0, mops) | {"what": f"{mix}, values of {size} bytes, {way}"}
        for mix in hrocks._MIXES
        for size in ("8", "1024")
        for way, mops in (("pointers", 6.0), ("values inside", 2.0 if size == "1024" else 6.0))
    ]
    drawn = hrocks.read_values(setting(tmp_path), {"run": {"rows": rows}})
    assert [claim.ours for claim in drawn.claims] == [{"8": 1.0, "1024": 3.0}] * 2
    assert drawn.panels[0].series["values inside"] == [(0, 6.0), (1, 2.0)]
    assert set(drawn.panels[1].series) == {"rocksdb", *hrocks._WAYS}


def test_a_dollar_buys_less_where_there_is_a_gpu(tmp_path):
    rows = [hrocks_row("ycsb", one, 1.0, 6.32) for one in "ABCD"]
    ours = {
        device: hrocks.read_cost(setting(tmp_path, device), {"run": {"rows": rows}})
        .panels[0]
        .series["perdure"][0][1]
        for device in ("cpu", "cuda")
    }
    assert ours["cpu"] == pytest.approx(1000) and ours["cuda"] < ours["cpu"] / 5
