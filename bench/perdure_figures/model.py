"""What a figure is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from perdure_figures.setting import Setting

Points = list[tuple[float, float]]
Results = dict[str, Any]  # the JSON of each run, by its name


@dataclass(frozen=True)
class Run:
    """One run of a program of ours. Its arguments are without --json, which the runner adds.

    Runs whose commands are the same share one process. Where that gives a list of results, `picks`
    says what a run's own has in its fields.
    """

    name: str
    arguments: Sequence[str | int | float]
    program: str = "perdure-bench"
    picks: Mapping[str, Any] = field(default_factory=dict)

    def command(self) -> list[str]:
        return [str(one) for one in self.arguments]


class Kind(StrEnum):
    line = "line"
    bar = "bar"  # x is the place among `names`; series side by side
    stack = "stack"  # the same, series on top of each other
    scatter = "scatter"  # each series is one point, and its name a label
    dots = "dots"


@dataclass
class Panel:
    """One plot: a list of points a series."""

    title: str
    x: str
    y: str
    series: dict[str, Points] = field(default_factory=dict)
    kind: Kind = Kind.line
    log_x: bool = False
    log_y: bool = False
    names: list[str] = field(default_factory=list)
    baseline: float | None = None  # of ratios: where both are alike; a line is drawn there
    guides: dict[str, Points] = field(
        default_factory=dict
    )  # thin lines behind the data, by their labels

    def add(self, series: str, x: float, y: float | None) -> None:
        if y is not None:
            self.series.setdefault(series, []).append((x, y))

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "x": self.x,
            "y": self.y,
            "kind": self.kind.value,
            "names": self.names,
            "series": self.series,
            "baseline": self.baseline,
        }


@dataclass(frozen=True)
class Claim:
    """What the paper reports, and the same from our runs: a ratio ("x"), a share ("%") or a figure
    in words.

    `ours` has a number a system. Two stand where GPHash does: `in_place`, which is GPHash as
    published, and `word`, our own layout. None: these runs cannot tell.
    """

    what: str
    paper: float | str
    ours: dict[str, float | None]
    unit: str = "x"
    reached: bool | None = None  # None: nobody asked for it, or it cannot be told
    exact: bool = False  # counts, which are the same in every repeat: no times

    def as_dict(self) -> dict[str, Any]:
        told = {"what": self.what, "paper": self.paper, "unit": self.unit, "ours": self.ours}
        return told if self.reached is None else told | {"reached": self.reached}


@dataclass
class Drawn:
    panels: list[Panel]
    claims: list[Claim]


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    section: str  # of the paper
    shows: str
    plan: Callable[[Setting], list[Run]]
    read: Callable[[Setting, Results], Drawn]
    differs: str = ""  # from the paper's measurement, beyond hardware and sizes
    devices: tuple[str, ...] = ("cpu", "cuda")
    why_device: str = ""  # where it is not both
    paper: str = (
        "GPHash: An Efficient Hash Index for GPU with Byte-Granularity Persistent Memory (FAST '25)"
    )


@dataclass(frozen=True)
class Evaluation:
    """What all figures of an evaluation have alike."""

    paper: str
    differs: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    why_device: str = ""

    def figure(
        self,
        name: str,
        title: str,
        section: str,
        shows: str,
        plan: Callable[[Setting], list[Run]],
        read: Callable[[Setting, Results], Drawn],
        differs: str | None = None,
    ) -> Figure:
        how = self.differs if differs is None else differs
        kind = (self.devices, self.why_device, self.paper)
        return Figure(name, title, section, shows, plan, read, how, *kind)
