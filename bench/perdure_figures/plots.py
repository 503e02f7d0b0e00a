"""Draws panels into one PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.cli_support import Failure

from perdure_figures.model import Kind, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_COLUMNS = 3  # of panels, at most
_FEW_POWERS = 100.0  # the span of a log axis that has labels between powers of ten
# A system has one colour in all panels, whichever others are beside it.
_COLOURS = {
    "slabhash-gpm": "C0",
    "clevel-gpm": "C1",
    "cpu-assisted": "C2",
    "in_place": "C3",
    "word": "C4",
    "cpu-assisted-dash-eh": "C5",
    "cpu-assisted-dash-lh": "C6",
    "cpu-assisted-clevel": "C7",
    "cpu-assisted-seph": "C8",
}


def check_matplotlib() -> None:
    """Says at once, not after the measurement, if nothing can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Failure(
            f"the plots need matplotlib: {error}; pip install matplotlib, or pass --no-plot"
        ) from error


def draw(title: str, panels: Sequence[Panel], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = figure_of(title, panels)
    figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)


def figure_of(title: str, panels: Sequence[Panel]) -> Figure:
    from matplotlib import pyplot

    columns = 2 if len(panels) == 4 else min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(max(7.0, 5.8 * columns), 3.6 * rows),
        layout="constrained",
        squeeze=False,
    )
    figure.suptitle(title, fontsize="medium", wrap=True)
    for place, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(place, panel)
    for place in axes.flat[len(panels) :]:
        place.set_axis_off()
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    _DRAW[panel.kind](axes, panel)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.log_x:
        axes.set_xscale("log")
        _label_log(axes.xaxis)
    if panel.log_y:
        axes.set_yscale("log")
        _label_log(axes.yaxis)
    elif panel.kind is not Kind.scatter:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if panel.baseline is not None:
        axes.axhline(panel.baseline, color="black", linewidth=1, linestyle="--", zorder=1)
    _draw_guides(axes, panel)
    if panel.kind is not Kind.scatter:  # beside the data, which it would hide
        axes.legend(
            fontsize="x-small", loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
        )


def _draw_guides(axes: Axes, panel: Panel) -> None:
    for label, points in panel.guides.items():
        x, y = _columns(points)
        axes.plot(x, y, color="0.75", linewidth=0.8, linestyle=":", zorder=0)
        axes.annotate(
            label,
            (x[0], y[0]),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize="xx-small",
            color="0.4",
        )


def _label_log(axis: Axis) -> None:
    """Labels at powers of ten, and where there are few of those between them too."""
    from matplotlib import ticker

    least, most = axis.get_view_interval()
    subs = (1, 2, 5) if most < _FEW_POWERS * least else (1,)
    axis.set_major_locator(ticker.LogLocator(subs=subs))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.10g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def _lines(axes: Axes, panel: Panel) -> None:
    others = (f"C{number}" for number in range(len(_COLOURS), 10))
    for name, points in panel.series.items():
        colour = _COLOURS.get(name) or next(others, None)
        axes.plot(
            *_columns(points), marker="o", markersize=3, linewidth=1, label=name, color=colour
        )


def _dots(axes: Axes, panel: Panel) -> None:
    for name, points in panel.series.items():
        axes.plot(*_columns(points), marker=".", markersize=3, linestyle="", label=name)


def _labelled(axes: Axes, panel: Panel) -> None:
    for name, points in panel.series.items():
        (x, y) = points[0]
        axes.plot(x, y, marker="o", color="tab:blue")
        axes.annotate(name, (x, y), xytext=(3, 3), textcoords="offset points", fontsize="x-small")


def _bars(axes: Axes, panel: Panel) -> None:
    width = 0.8 / len(panel.series)
    for at, (name, points) in enumerate(panel.series.items()):
        x, y = _columns(points)
        axes.bar([place - 0.4 + width * (at + 0.5) for place in x], y, width, label=name)
    axes.set_xticks(range(len(panel.names)), panel.names, fontsize="x-small", rotation=20)


def _stacks(axes: Axes, panel: Panel) -> None:
    below = [0.0] * len(panel.names)
    for name, points in panel.series.items():
        x, y = _columns(points)
        axes.bar(x, y, 0.8, bottom=[below[int(place)] for place in x], label=name)
        for place, height in points:
            below[int(place)] += height
    axes.set_xticks(range(len(panel.names)), panel.names, fontsize="x-small", rotation=20)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


_DRAW: dict[Kind, Any] = {
    Kind.line: _lines,
    Kind.dots: _dots,
    Kind.scatter: _labelled,
    Kind.bar: _bars,
    Kind.stack: _stacks,
}
