"""Draws the README's plot, docs/_static/throughput.png, of figures in docs/benchmarks/.

    .venv/bin/python scripts/readme_plot.py

It reads the tables themselves, so the plot has no number that the pages have not.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
COLOURS = {
    "Perdure": "#1b6ca8",
    "GPHash as published": "#8fb8d6",
    "SlabHash-GPM": "#c9c9c9",
    "Clevel-GPM": "#999",
}


def cell(page: str, heading: str, row: str, column: int) -> float:
    """The number in a column of the first row below a heading that begins with `row`."""
    text = (DOCS / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
    for line in text[text.index(heading) :].splitlines():
        cells = [part.strip() for part in line.split("|")[1:-1]]
        if cells and cells[0].startswith(row):
            return float(cells[column].replace(",", ""))
    raise SystemExit(f"docs/benchmarks/{page}.md: no row '{row}' below '{heading}'")


def draw_batches(axes: Axes) -> None:
    gpu, cache = "# Batches on a GPU", "# Record cache"
    bars = {
        "insert": cell("batches-gpu", gpu, "inserts, 2^20", 1),
        "update": cell("batches-gpu", gpu, "updates, 2^20", 1),
        "get": cell("batches-gpu", gpu, "2^20", 1),
        "get, a fifth\nof the records cached": cell("cache", cache, "2^20", 1),
        "get, all\nrecords cached": cell("cache", cache, "2^20", 4),
        "get, key absent": cell("batches-gpu", gpu, "gets, all miss, 2^20", 1),
    }
    shown = axes.barh(list(bars), list(bars.values()), color=COLOURS["Perdure"], height=0.62)
    axes.bar_label(shown, [f"{value:,.0f}" for value in bars.values()], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(50, 60_000)
    axes.invert_yaxis()
    axes.set_title("16 M records of 8 + 128 bytes,\nuniform keys, batches of 2^20", fontsize=9)
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
    figure.savefig(DOCS / "_static" / "throughput.png", dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
