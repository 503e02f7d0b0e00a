"""`perdure doctor --measure`: how fast memory, the GPU's memory and the link between them are here,
and the numbers that the engine decides by, beside what was measured.

Invariant: what was not measured is named, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure import _native
from perdure._doctor_tables import Column, show
from perdure._outputs import PNG, Output
from perdure.cli_support import Failure, parse_size, plural, progress, show_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECONDS, QUICK_SECONDS = 60.0, 2.0

_COLUMNS = (
    Column("what"),
    Column("how"),
    Column("threads", right=True),
    Column("over", right=True),
    Column("each", right=True),
    Column("measured", right=True),
    Column(""),
)
_NUMBERS = (
    Column("the engine takes it that"),
    Column("number", right=True),
    Column(""),
    Column("measured", right=True),
    Column(""),
)


def run(
    seconds: float | None, memory_bytes: str | None, quick: bool, oversubscribe: bool
) -> dict[str, Any]:
    """All measurements, with a progress bar; and what the engine uses."""
    if seconds is not None and seconds <= 0:
        raise Failure(f"--seconds {seconds}: give more than 0")
    most = parse_size("--memory-bytes", memory_bytes) if memory_bytes else 0
    if memory_bytes and most == 0:
        raise Failure(f"--memory-bytes {memory_bytes}: give more than 0")
    with progress("measuring", 1) as done:
        found = _native.measure(
            seconds or (QUICK_SECONDS if quick else SECONDS), most, quick, oversubscribe, done
        )
    found["numbers"] = list(_numbers(found))
    return found


def _numbers(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each of the engine's numbers, with the last row that measures the like of it: that over most
    memory."""
    for number in [*_native.numbers_of_stores(), *_numbers_of_memtables(found)]:
        rows = [
            row
            for row in found["rows"]
            if number["row_what"]
            and (row["what"], row["how"])
            == (
                number["row_what"],
                number["row_how"],
            )
        ]
        measured = rows[-1] if rows else None
        yield {
            "what": number["what"],
            "value": number["value"],
            "unit": number["unit"],
            "measured": measured["value"] if measured else None,
            "measured_unit": measured["unit"] if measured else None,
        }


def _numbers_of_memtables(found: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        from perdure import _rocks
    except ImportError as error:  # a build without RocksDB
        found["left_out"].append({"what": "the numbers of memtables", "why": str(error)})
        return []
    return _rocks.numbers_of_memtables()


def _row(row: dict[str, Any]) -> list[str]:
    return [
        row["what"],
        row["how"],
        str(row["threads"]) if row["threads"] else "GPU",
        show_size(row["span_bytes"]) if row["span_bytes"] else "",
        f"{row['access_bytes']} B" if row["access_bytes"] else "",
        f"{row['value']:,.1f}",
        row["unit"],
    ]


def _number_row(number: dict[str, Any]) -> list[str]:
    measured = number["measured"]
    return [
        number["what"],
        f"{number['value']:,.0f}",
        number["unit"],
        "-" if measured is None else f"{measured:,.1f}",
        number["measured_unit"] or "",
    ]


def tell(found: dict[str, Any], stream: Any) -> None:
    who = f"{found['cpu']}; {found['gpu'] or 'no GPU'}"
    show(f"measured in {found['seconds']:.0f} s: {who}", _COLUMNS, map(_row, found["rows"]), stream)
    show("what the engine decides by", _NUMBERS, map(_number_row, found["numbers"]), stream)
    for one in found["left_out"]:
        print(f"left out  {one['what']}: {one['why']}", file=stream)


def summary(found: dict[str, Any]) -> str:
    left = plural(len(found["left_out"]), "measurement")
    return f"{plural(len(found['rows']), 'row')} measured, {left} left out"


# --- the plot -----------------------------------------------------------------------------------


def _series(found: dict[str, Any], what: str, by: str) -> Iterator[tuple[str, list[Any]]]:
    """The rows of a measurement, by how they were made, where `by` varies."""
    rows = [row for row in found["rows"] if row["what"] == what and row[by]]
    for how in dict.fromkeys(row["how"] for row in rows):
        yield how, [row for row in rows if row["how"] == how]


def _draw_threads(axes: Axes, found: dict[str, Any]) -> None:
    for what in ("read", "write", "copy"):
        for _, rows in _series(found, what, "threads"):
            axes.plot([r["threads"] for r in rows], [r["value"] for r in rows], "o-", label=what)
    axes.set(xlabel="threads", ylabel="GB/s", title="host memory, sequential")


def _draw_chase(axes: Axes, found: dict[str, Any]) -> None:
    for how, rows in _series(found, "chase", "span_bytes"):
        alone = [row for row in rows if row["threads"] == 1]
        axes.plot([r["span_bytes"] for r in alone], [r["value"] for r in alone], "o-", label=how)
    axes.set(xlabel="bytes walked through", ylabel="ns a step", title="pointer chasing")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")


def _draw_random(axes: Axes, found: dict[str, Any]) -> None:
    rows = [r for r in found["rows"] if r["what"] == "random" and r["unit"] == "ns"]
    for access in dict.fromkeys(row["access_bytes"] for row in rows):
        mine = [row for row in rows if row["access_bytes"] == access]
        axes.plot(
            [r["span_bytes"] for r in mine], [r["value"] for r in mine], "o-", label=f"{access} B"
        )
    axes.set(xlabel="span in bytes", ylabel="ns an access", title="GPU reads host memory at random")
    if rows:
        axes.set_xscale("log", base=2)


def _draw_sort(axes: Axes, found: dict[str, Any]) -> None:
    for how, rows in _series(found, "sort", "span_bytes"):
        axes.plot([r["span_bytes"] for r in rows], [r["value"] for r in rows], "o-", label=how)
    axes.set(xlabel="bytes sorted", ylabel="million words a second", title="sorting")
    axes.set_xscale("log", base=2)


def picture(path: str | None, overwrite: bool) -> Output | None:
    """Where the plot goes; says at once if it cannot be drawn, or may not be written."""
    if path is None:
        return None
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Failure(f"--plot {path}: {error}; pip install matplotlib") from None
    return Output("--plot", path, PNG, overwrite=overwrite)


def plot(found: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Four panels; one without rows is empty."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(12, 9), layout="constrained")
    draws = (_draw_threads, _draw_chase, _draw_random, _draw_sort)
    for axes, draw in zip(panels.flat, draws, strict=True):
        draw(axes, found)
        if axes.lines:
            axes.legend()
        else:
            axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
    figure.suptitle(f"{found['cpu']}; {found['gpu'] or 'no GPU'}")
    figure.savefig(Path(path), dpi=120, format="png")
    pyplot.close(figure)
