"""Draws the loss curves of train.py's JSON: python examples/dlrm/plot.py JSON PNG"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

try:
    import matplotlib as mpl
except ImportError:
    sys.exit("plot.py: this Python has no matplotlib; run plot.py JSON PNG with one that has")

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

LINES = {
    "undisturbed": {"color": "#8fb8d6", "linewidth": 5},
    "killed": {"color": "#12314a", "linewidth": 1.2},
}


def smoothed(losses: list[float], over: int) -> np.ndarray:
    """Means of the last `over` steps, at the beginning of as many as there are."""
    sums = np.cumsum([0.0, *losses])
    ends = np.arange(1, len(losses) + 1)
    begins = np.maximum(ends - over, 0)
    return (sums[ends] - sums[begins]) / (ends - begins)


def draw(report: Path, png: Path) -> None:
    content = json.loads(report.read_text(encoding="utf-8"))
    figure, axes = plt.subplots(figsize=(7.5, 2.8), layout="constrained")
    steps = max(len(losses) for losses in content["losses"].values())
    over = max(1, steps // 20)
    for name, losses in content["losses"].items():
        axes.plot(smoothed(losses, over), label=name, **LINES[name])
    for i, step in enumerate(content["kills"]):
        label = "kill -9" if i == 0 else None
        axes.axvline(step, color="#c0392b", linestyle=":", linewidth=1.2, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("training step", fontsize=8)
    axes.set_ylabel(f"loss, mean of {over} steps", fontsize=8)
    axes.tick_params(labelsize=8, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(png, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
