"""What a figure came to: for people as a table, for programs as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import perdure
from perdure.cli_support import plural

from perdure_figures.model import Claim, Drawn, Figure, Results, Run
from perdure_figures.runner import checked_answers, machines
from perdure_figures.setting import Setting

_WITHOUT_GPU = (
    "no GPU took part: all systems ran on the CPU's cores, so ratios that the paper gets from a "
    "GPU, or from"
    " the link to it, are not to be expected"
)


_SIZES = (("records", "records"), ("ops", "operations a repeat"), ("batch", "operations a batch"))
_WHERE = {"cpu": "CPU", "cuda": "GPU"}
_ONE_REPEAT = "times of one repeat are too few for a verdict; measure without --quick"


@dataclass
class Measured:
    figure: Figure
    setting: Setting
    runs: list[Run]
    results: Results
    drawn: Drawn
    description: str  # of the device
    plot: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "figure": self.figure.name,
            "title": self.figure.title,
            "paper": self.figure.paper,
            "section": self.figure.section,
            "differs": self.figure.differs,
            "note": self.note,
            "version": perdure.__version__,
            "device": self.setting.device,
            "device_description": self.description,
            "machines": machines(self.results),
            "setting": self.setting.as_dict(),
            "records": self.of_runs("records"),
            "ops": self.of_runs("ops"),
            "claims": [claim.as_dict() for claim in self.claims],
            "panels": [panel.as_dict() for panel in self.drawn.panels],
            "checked": self.checked,
            "faults": 0,  # a run with a fault ends the command
            "plot": None if self.plot is None else str(self.plot),
        }

    def with_runs(self) -> dict[str, Any]:
        """All of it, what each run gave included."""
        runs = [
            {"name": run.name, "arguments": run.command(), "result": self.results[run.name]}
            for run in self.runs
        ]
        return self.as_dict() | {"runs": runs}

    @property
    def claims(self) -> list[Claim]:
        """Without a verdict on times that were measured once."""
        if self.setting.scale.repeats > 1:
            return self.drawn.claims
        return [
            claim if claim.exact else replace(claim, reached=None) for claim in self.drawn.claims
        ]

    @property
    def doubt(self) -> str:
        return _ONE_REPEAT if self.claims != self.drawn.claims else ""

    @property
    def title(self) -> str:
        """Of the plot: what, on which processor, and at what sizes."""
        where = _WHERE[self.setting.device]
        return f"{self.figure.name}: {self.figure.title}\n{where}: {self.description}; {self.sizes}"

    @property
    def checked(self) -> int:
        """Of a result that several runs share once."""
        each = {id(result): result for result in self.results.values()}
        return sum(checked_answers(result) for result in each.values())

    @property
    def note(self) -> str:
        return (
            _WITHOUT_GPU if self.setting.device == "cpu" and "cuda" in self.figure.devices else ""
        )

    def of_runs(self, what: str) -> list[int]:
        """The numbers that the runs had of something, each once: a figure may have sizes of its
        own."""
        return sorted({result[what] for result in self.results.values() if what in result})

    @property
    def sizes(self) -> str:
        parts = [
            f"{_range(self.of_runs(what))} {noun}" for what, noun in _SIZES if self.of_runs(what)
        ]
        return ", ".join([*parts, plural(self.setting.scale.repeats, "repeat")])

    def lines(self) -> list[str]:
        lines = [
            f"{self.figure.name}: {self.figure.title} (section {self.figure.section})",
            f"  measured on {self.description}; {self.sizes}; {self.checked:,} answers checked, "
            "none wrong",
            *_table(self.claims),
        ]
        notes = (("differs", self.figure.differs), ("note", self.note), ("note", self.doubt))
        return lines + [f"  {kind}: {text}" for kind, text in notes if text]


def _range(numbers: Sequence[int]) -> str:
    return " to ".join(f"{number:,}" for number in sorted({numbers[0], numbers[-1]}))


def _table(claims: Sequence[Claim]) -> list[str]:
    rows = [("", "paper", "ours")]
    for claim in claims:
        ours = ", ".join(f"{who} {_show(value, claim.unit)}" for who, value in claim.ours.items())
        met = "" if claim.reached is None else "  reached" if claim.reached else "  not reached"
        rows.append((claim.what, _show(claim.paper, claim.unit), ours + met))
    wide = [max(len(row[column]) for row in rows) for column in range(2)]
    return [f"  {what:{wide[0]}}  {paper:>{wide[1]}}  {ours}" for what, paper, ours in rows]


def _show(value: float | str | None, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.2f} x" if unit == "x" else f"{value:,.1f} {unit}"
