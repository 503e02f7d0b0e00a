"""Pre-stores (X. Wu's thesis, chapter 3): figures 3.3 and 3.5, and what misuse costs (section 3.5).

The thesis's machines are modelled: times and counts of "emulated" are exact and the same on every
machine. "DRAM" is this machine's memory, where a line is as large as what memory writes, and a
fence finds its lines near: there pre-stores are not expected to bring anything.
"""

from __future__ import annotations

from typing import Any

from perdure.cli_support import plural

from perdure_figures.model import Claim, Drawn, Evaluation, Kind, Panel, Results, Run
from perdure_figures.setting import Setting

_SMALL, _LARGE = 4096, 2 << 20  # pages
_PAGES = {_SMALL: "4 KB pages", _LARGE: "2 MB pages"}
_NEAR_ENOUGH = 0.15  # of a published figure
_THREADS = (1, 2, 5)
_LARGEST = 4096  # bytes of an element

Rows = list[dict[str, Any]]


def _run(setting: Setting, listing: int) -> Run:
    arguments: list[str | int] = ["prestores", "--listing", listing]
    arguments += ["--repeats", setting.scale.repeats]
    if setting.scale.repeats == 1:
        arguments += ["--elements", "64,4096", "--reads", "0,75,300,1000"]
        arguments += ["--emulated-cache", 1802240, "--array", 1 << 24]
    return Run(f"listing {listing}", arguments)


def _rows(results: Results, **like: str | float) -> Rows:
    (result,) = results.values()
    return [
        row for row in result["rows"] if all(row.get(key) == value for key, value in like.items())
    ]


def _value(rows: Rows, what: str) -> float | None:
    return float(rows[0][what]) if rows else None


def _published(
    what: str, paper: float, ours: dict[str, float | None], unit: str, *, exact: bool
) -> Claim:
    """Reached where all that is modelled is near enough; this machine's memory has no say, nor have
    small pages: `ndctl` aligns persistent memory to 2 MB by default, for pages of that size."""
    near = all(
        value is not None and abs(value / paper - 1) <= _NEAR_ENOUGH
        for where, value in ours.items()
        if where not in ("DRAM", _PAGES[_SMALL])
    )
    return Claim(what, paper, ours, unit, near, exact=exact)


def _threads(number: int) -> str:
    return plural(number, "thread")


def plan_elements(setting: Setting) -> list[Run]:
    return [_run(setting, 2)]


def _amplification(results: Results, threads: int, variant: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for page, name in _PAGES.items():
        rows = _rows(
            results,
            where="emulated",
            element_bytes=_LARGEST,
            threads=threads,
            read_again=True,
            variant=variant,
            page_bytes=page,
        )
        value = _value(rows, "amplification")
        found[name] = None if value is None else 100 * value
    return found


def _gain(
    results: Results, threads: int, variant: str, *, read_again: bool, element: int = _LARGEST
) -> dict[str, float | None]:
    like: dict[str, str | float] = {
        "element_bytes": element,
        "threads": threads,
        "read_again": read_again,
        "variant": variant,
    }
    return {
        "emulated": _value(_rows(results, where="emulated", page_bytes=_LARGE, **like), "gain"),
        "DRAM": _value(_rows(results, where="dram", **like), "gain"),
    }


def read_elements(_: Setting, results: Results) -> Drawn:
    claims = [
        _published(
            f"write amplification, 4 KB elements, {_threads(threads)}{how}",
            paper,
            _amplification(results, threads, variant),
            "%",
            exact=True,
        )
        for variant, how, papers in (
            ("plain", "", {1: 180, 2: 330, 5: 330}),
            ("clean", ", cleaned", dict.fromkeys(_THREADS, 100)),
        )
        for threads, paper in papers.items()
    ]
    for threads, paper in ((2, 2.2), (5, 3.0)):
        ours = _gain(results, threads, "clean", read_again=True)
        claims.append(
            _published(f"cleaned over not, {threads} threads", paper, ours, "x", exact=False)
        )
    skipped = _gain(results, 1, "skip", read_again=True, element=64)
    cleaned = _gain(results, 1, "clean", read_again=True, element=64)
    over = {
        where: clean / skip
        for where, skip in skipped.items()
        if skip is not None and (clean := cleaned[where]) is not None
    }
    claims.append(Claim("elements of 64 bytes, read again: cleaned over skipped", 2.0, dict(over)))
    claims.append(
        Claim(
            "4 KB elements, never read again, 5 threads: skipped over neither",
            "better",
            _gain(results, 5, "skip", read_again=False),
        )
    )
    return Drawn(_element_panels(results), claims)


def _element_panels(results: Results) -> list[Panel]:
    written = Panel("emulated Optane, 2 MB pages", "bytes of an element", "write amplification, %")
    panels = [written]
    emulated = _rows(results, where="emulated", page_bytes=_LARGE)
    for row in emulated:
        if row["variant"] != "skip" and row["read_again"]:
            cleaned = ", cleaned" if row["variant"] == "clean" else ""
            written.add(
                _threads(row["threads"]) + cleaned, row["element_bytes"], 100 * row["amplification"]
            )
    for again, what in ((True, "read again"), (False, "not read again")):
        for where, rows in (("emulated", emulated), ("DRAM", _rows(results, where="dram"))):
            panel = Panel(f"{where}, {what}", "bytes of an element", "gain", baseline=1.0)
            for row in rows:
                if row["variant"] != "plain" and row["read_again"] == again:
                    name = f"{row['variant']}, {_threads(row['threads'])}"
                    panel.add(name, row["element_bytes"], row["gain"])
            panels.append(panel)
    for panel in panels:
        panel.log_x = True
    return [panel for panel in panels if panel.series]


def plan_fences(setting: Setting) -> list[Run]:
    return [_run(setting, 3)]


def read_fences(_: Setting, results: Results) -> Drawn:
    (result,) = results.values()
    names = {"emulated fast": "fast device", "emulated slow": "slow device", "dram": "DRAM"}
    if result["demote_means"].startswith("none"):
        del names["dram"]  # this processor does nothing
    panel = Panel("demoted over not", "reads before the fence", "gain, %", baseline=0.0)
    best: dict[str, tuple[float, float]] = {}
    for where, name in names.items():
        for row in _rows(results, where=where, variant="demote"):
            gain = 100 * (row["gain"] - 1)
            panel.add(name, row["reads"], gain)
            best[name] = max(best.get(name, (gain, row["reads"])), (gain, row["reads"]))
    modelled = {name: one for name, one in best.items() if name != "DRAM"}
    claims = [
        *(
            _published(f"most that demoting brings, {name}", 65, {name: gain}, "%", exact=True)
            for name, (gain, _reads) in modelled.items()
        ),
        Claim(
            "reads at which it brings most",
            "later on the slow device",
            {name: reads for name, (_gained, reads) in modelled.items()},
            "reads",
            exact=True,
        ),
    ]
    return Drawn([panel], claims)


def plan_misuse(setting: Setting) -> list[Run]:
    return [_run(setting, 4)]


def read_misuse(_: Setting, results: Results) -> Drawn:
    variants = ("plain", "clean", "skip")
    panel = Panel("one line, written again and again", "", "ns a write", kind=Kind.bar)
    panel.names, panel.log_y = list(variants), True
    slower: dict[str, float | None] = {}
    for where, name in (("emulated", "emulated"), ("dram", "DRAM")):
        for at, variant in enumerate(variants):
            panel.add(name, at, _value(_rows(results, where=where, variant=variant), "ns"))
        gain = _value(_rows(results, where=where, variant="clean"), "gain")
        slower[name] = None if gain is None else 1 / gain
    claim = _published(
        "cleaned: times slower", 75, {"emulated": slower["emulated"]}, "x", exact=True
    )
    return Drawn([panel], [claim, Claim("the same in DRAM", "-", {"DRAM": slower["DRAM"]})])


_THESIS = "Optimizing the Use of Heterogeneous Memory (X. Wu, thesis; chapter 3: EuroSys '25)"
_MODELLED = (
    "The thesis's machines (Xeon and Optane; ThunderX and an FPGA) are modelled; times of DRAM are "
    "this machine's."
)
_figure = Evaluation(_THESIS, _MODELLED, ("cpu",), "pre-stores are instructions of the CPU").figure

FIGURES = (
    _figure(
        "prestores-3.3",
        "Cleaning and skipping",
        "3.4.1",
        "write amplification and gain by the size of elements and threads",
        plan_elements,
        read_elements,
    ),
    _figure(
        "prestores-3.5",
        "Demoting before a fence",
        "3.4.2",
        "gain by the reads between a write and its fence",
        plan_fences,
        read_fences,
    ),
    _figure(
        "prestores-misuse",
        "Cleaning a line that is rewritten",
        "3.5",
        "what cleaning costs where it is misused",
        plan_misuse,
        read_misuse,
    ),
)
