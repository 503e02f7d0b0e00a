"""`perdure bench figure prestores-*`: tiny figures end to end, and which claims hold on any
machine, for models have no clock."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from perdure import _native

BENCH = Path(_native.__file__).parent / "bin" / "perdure-bench"

needs_bench = pytest.mark.skipif(
    not BENCH.is_file(), reason="this package was built without perdure-bench"
)
needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


@needs_bench
@needs_plots
@pytest.mark.parametrize("name", ["prestores-3.3", "prestores-3.5", "prestores-misuse"])
def test_a_tiny_figure_of_pre_stores(cli, tmp_path, name):
    done = cli("bench", "figure", name, "--quick", "--out", tmp_path / "out", "--json", "-")
    assert done.status == 0, done.err
    (found,) = done.json()["figures"]
    assert found["checked"] > 0 and found["panels"] and found["claims"]
    exact = [one for one in found["claims"] if "reached" in one]
    assert exact and all(
        value is not None and value > 0 for one in exact for value in one["ours"].values()
    )
    missed = {one["what"] for one in exact if not one["reached"]}
    assert missed <= {"most that demoting brings, slow device"}  # docs/prestores.md says why
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
