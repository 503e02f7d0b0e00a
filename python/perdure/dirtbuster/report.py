"""What the steps found, for people, as JSON, and as a plot.

Invariant: the JSON has every number that the lines for people have, and the counts they come from.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from perdure.cli_support import Failure, show_size
from perdure.dirtbuster.advice import Advice
from perdure.dirtbuster.objects import shown_name
from perdure.dirtbuster.sampling import CLOCK, Hot, Samples

WRITE_INTENSIVE = 0.1  # of the time or of the accesses (3.7.1)
_WIDTH = 120
_NEXT_LINES, _RUNS = 3, 4
_SHOWN = 0.01  # of the bytes written, to be in the lines for people
_FEW_SAMPLES = 100


def demangled(names: Sequence[str]) -> dict[str, str]:
    """By binutils' c++filt; without it names stay as they are linked."""
    if shutil.which("c++filt") is None or not names:
        return {name: name for name in names}
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return dict(zip(names, done.stdout.split("\n"), strict=False))


def _console(stream: TextIO) -> Console:
    return Console(file=stream, width=None if stream.isatty() else _WIDTH, highlight=False)


def way(samples: Samples) -> str:
    if samples.way == CLOCK:
        return "samples of the clock, whose instructions were decoded (no precise events here)"
    return "samples of loads and stores by the processor's counters"


def show_samples(stream: TextIO, samples: Samples, hot: Sequence[Hot]) -> None:
    console = _console(stream)
    console.print(f"Step 1: {samples.total:,} {way(samples)}; {samples.store_share:.0%} stores")
    if samples.total < _FEW_SAMPLES:
        console.print("        few samples: let the program run longer, to be sure of this")
    if not hot:
        return
    table = Table("stores", "function", "object", "called from", box=None, pad_edge=False)
    names = demangled(
        [name for one in hot for name in (one.first.symbol, *_callers(one).split(" < "))]
    )
    for one in hot:
        callers = " < ".join(names[name] for name in _callers(one).split(" < "))
        table.add_row(
            f"{one.stores / samples.stores:.0%}",
            names[one.first.symbol],
            Path(one.first.object).name,
            callers,
        )
    console.print(table)


def _callers(one: Hot) -> str:
    return one.callers.most_common(1)[0][0] if one.callers else ""


def _distance(value: float | None) -> str:
    if value is None:
        return "inf"
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= power:
            return f"{value / power:.1f}{unit}"
    return f"{value:.0f}"


def place(advice: Advice) -> str:
    counts, lines = advice.site.counts, advice.site.lines
    if not counts["file"]:
        return f"{Path(counts['object']).name}+{counts['address']:#x}"
    return f"{Path(counts['file']).name}:{_runs(lines)}"


def _runs(lines: Sequence[int]) -> str:
    """Lines with little between them as one, the first few of them."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line - runs[-1][1] <= _NEXT_LINES:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:_RUNS]]
    return ",".join(shown) + (",..." if len(runs) > _RUNS else "")


def show_advice(stream: TextIO, all_advice: Sequence[Advice], most: int) -> None:
    console = _console(stream)
    total = sum(one.site.counts["bytes"] for one in all_advice)
    shown = [one for one in all_advice[:most] if one.site.counts["bytes"] >= _SHOWN * total]
    names = demangled([name for one in shown for name in _names(one)])
    for one in shown:
        counts, site = one.site.counts, one.site
        title = " from ".join(shown_name(names[name]) for name in _names(one) if name)
        where = ", ".join(filter(None, (title, place(one))))
        stack = ", on the stack" if counts["on_stack"] else ""
        console.print(f"\n[bold]{one.choice.upper()}[/bold]  {where}{stack}: {one.why}")
        console.print(
            f"    {counts['bytes'] / total:.0%} of the bytes; sequential {site.sequential:.0%},"
            f" mostly {show_size(site.context_bytes)};"
            f" re-read {_distance(site.reread_distance)} ({site.reread:.0%}),"
            f" re-write {_distance(site.rewrite_distance)} ({site.rewritten:.0%});"
            f" fence {_fence(one)}"
        )
        if one.effect:
            console.print(f"    expected: {one.effect}")
    if rest := all_advice[len(shown) :]:
        share = sum(one.site.counts["bytes"] for one in rest) / total
        console.print(f"\n{len(rest)} more with {share:.0%} of the bytes (--json has them)")


def _names(one: Advice) -> tuple[str, str]:
    return one.site.counts["symbol"], one.site.counts["caller"]


def _fence(one: Advice) -> str:
    counts = one.site.counts
    return f"{counts['fenced_min']} ({one.site.fenced:.0%})" if counts["fenced"] else "none"


def samples_data(samples: Samples, hot: Sequence[Hot]) -> dict[str, Any]:
    return {
        "way": samples.way,
        "samples": samples.total,
        "store_share": samples.store_share,
        "write_intensive": samples.store_share >= WRITE_INTENSIVE,
        "stopped_after_limit": samples.stopped,
        "functions": [
            {
                "function": one.first.symbol,
                "object": one.first.object,
                "samples": one.samples,
                "stores": one.stores,
                "callers": dict(one.callers.most_common(10)),
            }
            for one in hot
        ],
    }


def advice_data(all_advice: Sequence[Advice]) -> list[dict[str, Any]]:
    names = demangled([name for one in all_advice for name in _names(one)])
    return [
        {
            "advice": one.choice.value,
            "why": one.why,
            "expected": one.effect,
            "function": shown_name(names[one.site.counts["symbol"]]),
            "caller": names[one.site.counts["caller"]],
            "file": one.site.counts["file"],
            "lines": one.site.lines,
            "sequential": one.site.sequential,
            "context_bytes": one.site.context_bytes,
            "fenced": one.site.fenced,
            "fence_instructions": one.site.counts["fenced_min"] or None,
            "reread": one.site.reread,
            "reread_instructions": one.site.reread_distance,
            "rewritten": one.site.rewritten,
            "rewrite_instructions": one.site.rewrite_distance,
            "amplification": one.site.amplification,
            "counts": one.site.counts,
        }
        for one in all_advice
    ]


def check_plot() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise Failure(f"--plot needs matplotlib: {error}; pip install matplotlib") from error


def plot(path: Path, all_advice: Sequence[Advice], most: int) -> None:
    """Distances in instructions, as shares of the lines that each of the first few wrote."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = (("reread_at", "re-read"), ("rewritten_at", "re-write"), ("fenced_at", "fence"))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(15, 4), sharey=True)
    for axis, (name, title) in zip(axes, panels, strict=True):
        for one in all_advice[:most]:
            counts = one.site.counts
            shares = [count / max(1, counts["passes"]) for count in counts[name]]
            axis.step(
                [2.0**power for power in range(len(shares))],
                shares,
                where="post",
                label=f"{one.choice}: {place(one)}",
            )
        axis.set_xscale("log")
        axis.set_xlabel(f"instructions to the next {title}")
    axes[0].set_ylabel("share of lines written")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)
