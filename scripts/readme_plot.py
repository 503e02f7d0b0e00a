"""Draws the README's plot, docs/_static/throughput.png, of figures in docs/benchmarks/.

    .venv/bin/python scripts/readme_plot.py

It reads the tables themselves, so the plot has no number that the pages have not; a test says when
they have moved on (tests/layering/test_readme.py).
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
PLOT = DOCS / "_static" / "throughput.png"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
COLOURS = {
    "Perdure": "#1b6ca8",
    "GPHash as published": "#8fb8d6",
    "SlabHash-GPM": "#c9c9c9",
    "Clevel-GPM": "#999",
}


def cell(page: str, heading: str, row: str, column: int, which: int = 0) -> float:
    """A number in a column of the first row below a heading that begins with `row`."""
    text = (DOCS / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
    for line in text[text.index(heading) :].splitlines():
        cells = [part.strip() for part in line.split("|")[1:-1]]
        if cells and cells[0].startswith(row):
            return float(NUMBER.findall(cells[column])[which].replace(",", ""))
    raise SystemExit(f"docs/benchmarks/{page}.md: no row '{row}' below '{heading}'")


def batches() -> dict[str, float]:
    """Million operations a second, by what they do."""

    def of_run(row: str, which: int = 0) -> float:
        return cell("batches-gpu", "## All figures of one run", row, 2, which)

    return {
        "insert": of_run("layout `log`: inserts, updates, 2^20", 0),
        "update": of_run("layout `log`: inserts, updates, 2^20", 1),
        "get": of_run("2^20"),
        "get, a fifth\nof the records cached": of_run("a fifth cached: 2^12; 2^20; 2^24", 1),
        "get, all\nrecords cached": of_run("all cached (`word`): 2^12; 2^16; 2^20", 2),
        "get, key absent": of_run("all miss, 2^20"),
    }


def caption() -> str:
    """What the plot says, for those who cannot see it."""
    of = batches()
    return (
        f"Throughput on one NVIDIA H200: inserts {of['insert']:,.0f}, updates {of['update']:,.0f}, "
        f"gets {of['get']:,.0f}, gets of absent keys {of['get, key absent']:,.0f} million a "
        "second; YCSB beside SlabHash-GPM and Clevel-GPM"
    )


def draw_batches(axes: Axes) -> None:
    bars = batches()
    shown = axes.barh(list(bars), list(bars.values()), color=COLOURS["Perdure"], height=0.62)
    axes.bar_label(shown, [f"{value:,.0f}" for value in bars.values()], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(50, 60_000)
    axes.invert_yaxis()
    axes.set_title(
        "16 M records of 8 + 128 bytes,\nuniform keys, batches of 2^20 (writes: layout log)",
        fontsize=9,
    )
    axes.set_xlabel("million operations a second", fontsize=8)


def draw_ycsb(axes: Axes) -> None:
    for i, system in enumerate(COLOURS):
        rates = [cell("baselines", "## YCSB", workload, i + 1) for workload in "ABDF"]
        places = [j + (i - 1.5) * 0.2 for j in range(4)]
        shown = axes.bar(places, rates, 0.19, label=system, color=COLOURS[system])
        axes.bar_label(
            shown,
            [
                f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"
                for rate in rates
            ],
            fontsize=6,
            padding=1,
        )
    axes.set_yscale("log")
    axes.set_ylim(0.02, 3000)
    axes.set_xticks(range(4), [f"YCSB {workload}" for workload in "ABDF"])
    axes.set_title("beside rebuilt GPU indexes,\n4 M records, batches of 2^16", fontsize=9)
    axes.set_ylabel("million operations a second", fontsize=8)
    axes.legend(fontsize=7, ncols=2, frameon=False)


def main() -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    draw_batches(left)
    draw_ycsb(right)
    for axes in (left, right):
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("one NVIDIA H200, pool in /dev/shm, durable when a call returns", fontsize=8)
    figure.savefig(PLOT, dpi=130, metadata={"Software": None, "Description": caption()})


if __name__ == "__main__":
    main()
