"""The demo on the real samples: a short run, and what it says when something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from perdure import cli_support, demo
from perdure.cli import app
from typer.testing import CliRunner

DATA = Path(__file__).resolve().parents[2] / "data"


def run_demo(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["demo", "--data", str(DATA), *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_the_demo(tmp_path):
    pytest.importorskip("matplotlib")
    plot, out = tmp_path / "plot.png", tmp_path / "out.json"
    status, said, complained = run_demo(
        "--limit", 120_000, "--batch", 512, "--seed", 3, "--plot", plot, "--json", out
    )
    assert (status, complained) == (0, "")
    assert "summary: all good" in said and "survives" in said
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.read_text())
    assert found["faults"] == 0 and found["same_end"] is True
    assert found["replay"]["ops"] == 120_000
    assert 0 < found["crash"]["acknowledged"] < 120_000
    assert found["table"]["rows"] == 264_346 and found["table"]["lookups"] == 730_100
    assert [pool["fault_count"] for pool in found["verify"].values()] == [0, 0, 0]


def test_the_ids_are_those_of_the_file():
    ids = demo.read_ids(DATA / demo.ROADS)
    assert len(ids) == 2 * 365_050 and ids[:6].tolist() == [1, 2, 1, 12, 1, 1363]
    assert len(np.unique(ids)) == 264_346


def test_a_broken_id_file_is_named(tmp_path):
    import lzma

    path = tmp_path / "broken.gr.xz"
    path.write_bytes(lzma.compress(b"p tw 3 2\n1 2\n"))
    with pytest.raises(cli_support.Failure, match=r"broken\.gr\.xz: not a road network"):
        demo.read_ids(path)


def test_rows_differ_from_key_to_key():
    rows = demo.rows_for(np.arange(1000, dtype=np.uint64))
    assert rows.shape == (1000, 32) and rows.dtype == np.float32
    assert len(np.unique(rows, axis=0)) == 1000
    assert ((rows >= 0) & (rows < 1)).all()


def test_missing_data_says_where_it_looked(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr and demo.TRACE in result.stderr


def test_an_impossible_plot_is_refused_before_the_run(tmp_path):
    status, said, complained = run_demo("--plot", tmp_path / "no" / "plot.png")
    assert (status, said) == (2, "")
    assert "--plot" in complained and "no folder" in complained
