"""The README's plot shows what the pages of benchmarks say now."""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_skips import ROOT, script

readme_plot = script("readme_plot")
AGAIN = "run scripts/readme_plot.py, and give the plot in README.md this text"


def test_the_plot_is_of_the_pages_figures() -> None:
    assert Image.open(readme_plot.PLOT).text["Description"] == readme_plot.caption(), AGAIN


def test_the_readme_says_what_the_plot_shows() -> None:
    assert f"![{readme_plot.caption()}]" in (ROOT / "README.md").read_text(encoding="utf-8"), AGAIN
