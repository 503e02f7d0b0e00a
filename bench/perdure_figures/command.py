"""`perdure bench figure`: the options, and from names to files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import perdure
import typer
from perdure._ending import temporary_folder
from perdure._outputs import JSON, PNG, Output
from perdure.cli_support import (
    DeviceChoice,
    DeviceOption,
    Failure,
    ForceOption,
    JsonOption,
    JsonResult,
    OverwriteOption,
    answers_to,
    bench_program,
    progress,
    report,
)

from perdure_figures import plots, runner
from perdure_figures.catalogue import FIGURES
from perdure_figures.model import Figure
from perdure_figures.report import Measured
from perdure_figures.setting import Setting, scale_for

_ALL = "all"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def figure(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help=f"Figures to measure, or '{_ALL}' for those of the device."
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where NAME.json and NAME.png are written.")
    ] = Path("figures"),
    device: DeviceOption = DeviceChoice.cpu,
    records: Annotated[
        int | None,
        typer.Option(min=1024, help="Records in the store; by default 500,000 or, on a GPU, 16 M."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the sizes, about, and one repeat.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder with the samples.")
    ] = None,
    plot: Annotated[bool, typer.Option(help="Draw NAME.png.")] = True,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json_file: JsonOption = None,
) -> None:
    """Measure figures of GPHash's, GPM's, Dash's and H-Rocks' evaluations again, beside what the
    papers report."""
    result = JsonResult(json_file, overwrite, force=force)
    if listing:
        _list(result)
        return
    chosen, description = _choose(names or [], device), _check_device(device)
    bench_program()
    if plot:
        plots.check_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    files = {one.name: _files(out, one.name, plot, overwrite, force) for one in chosen}
    say = answers_to(result)
    done = []
    known: runner.Known = {}
    with temporary_folder("perdure-figure-") as folder:
        setting = Setting(scale_for(device.value, quick, records), device.value, folder, data)
        for one in chosen:
            measured = _measure(one, setting, description, known)
            _write(measured, *files[one.name])
            say("\n".join(measured.lines()))
            done.append(measured)
    checked = sum(measured.checked for measured in done)
    report(
        result,
        {"figures": [measured.as_dict() for measured in done], "checked": checked, "faults": 0},
        f"wrote {', '.join(measured.figure.name for measured in done)} to {out}",
    )


def _list(result: JsonResult) -> None:
    say = answers_to(result)
    for one in FIGURES.values():
        say(f"{one.name:14} {one.title}: {one.shows}{'' if 'cpu' in one.devices else ' (GPU)'}")
    listed = [
        {
            "figure": one.name,
            "title": one.title,
            "section": one.section,
            "devices": list(one.devices),
        }
        for one in FIGURES.values()
    ]
    report(
        result,
        {"figures": listed},
        f"{len(FIGURES)} figures; perdure bench figure NAME... measures",
    )


def _choose(names: list[str], device: str) -> list[Figure]:
    if not names:
        raise Failure(f"bench figure: name figures, or '{_ALL}'; --list lists them")
    if names == [_ALL]:
        return [one for one in FIGURES.values() if device in one.devices]
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise Failure(
            f"bench figure {unknown[0]}: there is no such figure; choose from {', '.join(FIGURES)}"
        )
    for name in names:
        if device not in FIGURES[name].devices:
            raise Failure(
                f"bench figure {name} --device {device}: {FIGURES[name].why_device}; run it with "
                "--device"
                f" {FIGURES[name].devices[0]}"
            )
    return [FIGURES[name] for name in dict.fromkeys(names)]


def _check_device(device: str) -> str:
    """Its description; that it is there is said before anything runs."""
    offered = {info.device.name: info for info in perdure.devices()}
    info = offered.get(device)
    if info is None or not info.available:
        why = info.why_not if info is not None else "this build is without CUDA"
        raise Failure(f"--device {device}: {why}; measure with --device cpu")
    return info.description


def _measure(one: Figure, setting: Setting, description: str, known: runner.Known) -> Measured:
    runs = one.plan(setting)
    with progress(one.name, len(runs)) as show:
        results = runner.run_all(runs, setting.folder, show, known)
    return Measured(one, setting, runs, results, one.read(setting, results), description)


def _files(
    out: Path, name: str, plot: bool, overwrite: bool, force: bool
) -> tuple[Output, Output | None]:
    """NAME.json and NAME.png; that they may be written is said before anything runs."""
    numbers = Output("", out / f"{name}.json", JSON, overwrite=overwrite, force=force)
    drawing = (
        Output("", out / f"{name}.png", PNG, overwrite=overwrite, force=force) if plot else None
    )
    return numbers, drawing


def _write(measured: Measured, numbers: Output, drawing: Output | None) -> None:
    if drawing is not None:
        measured.plot = drawing.path
        with drawing.writing() as path:
            plots.draw(measured.title, measured.drawn.panels, path)
    numbers.write_text(json.dumps(measured.with_runs(), indent=2) + "\n")
