"""The command `perdure dirtbuster`.

Invariant: the exit status is the program's own where it ran; 2 where dirtbuster cannot work on it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure._ending import temporary_folder
from perdure._outputs import PNG, Output
from perdure.cli_support import Failure, JsonOption, JsonResult, OverwriteOption, parse_size

_SLOWER = 10  # times --seconds, for the run under Valgrind


_StartAtOption = Annotated[
    str | None,
    typer.Option(
        "--start-at",
        metavar="NAME,...",
        help="Steps 2 and 3 count once one of these is entered, not once a watched one is.",
    ),
]


@dataclass
class _Options:
    functions: list[str]
    start_at: list[str]
    steps: int
    top: int
    seconds: float | None
    cache_bytes: int
    fence_window: int


def _check_libraries() -> None:
    try:
        import capstone  # noqa: F401
        import elftools  # noqa: F401
    except ImportError as error:
        raise Failure(f"dirtbuster: {error}; pip install 'perdure[dirtbuster]'") from None


def dirtbuster(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGUMENTS]...")
    ] = None,
    functions: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Watch these (LIBRARY:NAME), and leave out step 1."),
    ] = None,
    start_at: _StartAtOption = None,
    steps: Annotated[int, typer.Option(min=1, max=3, help="1: only find what writes.")] = 3,
    top: Annotated[int, typer.Option(min=1, help="How many functions and how many advices.")] = 8,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="End the program after so long, and after ten times that under Valgrind."
        ),
    ] = None,
    cache: Annotated[
        str, typer.Option(metavar="SIZE", help="What a line stays in the cache for.")
    ] = "2MiB",
    fence_window: Annotated[
        int, typer.Option(min=1, metavar="N", help="Instructions from a write to its fence.")
    ] = 1000,
    keep: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep samples and counts there.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw the distances into a PNG.")
    ] = None,
    build: Annotated[
        bool, typer.Option("--build", help="Build the Valgrind tool, and end.")
    ] = False,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Find a program's writes that pre-stores would help: which to demote, clean or skip."""
    _check_libraries()
    from perdure.dirtbuster import programs, report, tool

    if build:
        print(tool.build())
        return
    result = JsonResult(json_file, overwrite)
    drawing = None
    if plot is not None:
        report.check_plot()
        drawing = Output("--plot", plot, PNG, overwrite=overwrite)
    target = programs.find(program or [])
    _check_tools(functions, start_at, steps)
    watched, starts, bytes_ = _names(functions), _names(start_at), parse_size("--cache", cache)
    options = _Options(watched, starts, steps, top, seconds, bytes_, fence_window)
    with ExitStack() as stack:
        folder = _folder(stack, keep)
        data, status = _look(target, options, folder, result, drawing)
    _write(result, data)
    raise typer.Exit(128 - status if status < 0 else status)


def _names(listed: str | None) -> list[str]:
    return [one for one in (listed or "").split(",") if one]


def _check_tools(functions: str | None, start_at: str | None, steps: int) -> None:
    """Now, and not after the program has run once."""
    from perdure.dirtbuster import sampling, tool

    if functions is not None and steps == 1:
        raise Failure("--functions leaves out step 1, and --steps 1 the others: choose one")
    if start_at is not None and steps == 1:
        raise Failure("--start-at is for steps 2 and 3, and --steps 1 leaves them out: choose one")
    if functions is None:
        sampling.perf_program()
        sampling.check_permission()
    if steps > 1:
        tool.build()


def _folder(stack: ExitStack, keep: str | None) -> Path:
    if keep is None:
        return stack.enter_context(temporary_folder("perdure-dirtbuster-"))
    folder = Path(keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise Failure(f"--keep {keep}: {why}; name a folder that you may write to") from None
    for old in (*folder.glob("counts.*.json"), folder / "status"):
        old.unlink(missing_ok=True)
    return folder


def _given_input(folder: Path) -> Path | None:
    """Standard input, in a file: each step's run of the program reads all of it."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    if not Path("/dev/stdin").is_char_device():
        print("perdure: reads standard input to its end, for each step's run", file=sys.stderr)
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _look(
    target: Any, options: _Options, folder: Path, result: JsonResult, drawing: Output | None
) -> tuple[dict[str, Any], int]:
    from perdure.dirtbuster import report, sampling

    stream = sys.stderr if result.to_stdout else sys.stdout
    stdin = _given_input(folder)
    data: dict[str, Any] = {"command": target.command, "notes": target.notes}
    watched: Sequence[Any] = options.functions
    status = 0
    if not watched:
        samples = sampling.record(target, folder, options.seconds, stdin)
        status = samples.status
        hot = samples.hottest(options.top, 0.02)
        report.show_samples(stream, samples, hot)
        data["sampling"] = report.samples_data(samples, hot)
        _tell_end(samples)
        if samples.store_share < report.WRITE_INTENSIVE or not hot:
            print(
                "Not write-intensive: below 10 % stores, so pre-stores would change nothing.",
                file=stream,
            )
            return data, 0 if samples.stopped else status
        watched = hot
        status = 0 if samples.stopped else status
    if options.steps > 1:
        found, own = _watch(target, watched, options, folder, stdin)
        status = status or own
        data |= _advise(found, options, stream, drawing)
    for note in target.notes:
        print(f"note: {note}", file=stream)
    return data, status


def _tell_end(samples: Any) -> None:
    from perdure.dirtbuster import sampling

    if samples.stopped:
        print("perdure: the program was ended after --seconds", file=sys.stderr)
    elif samples.status != 0:
        print(
            f"perdure: the program failed in step 1: {sampling.ended_by(samples.status)}",
            file=sys.stderr,
        )


def _watch(
    target: Any, watched: Sequence[Any], options: _Options, folder: Path, stdin: Path | None
) -> tuple[dict[str, Any], int]:
    from perdure.dirtbuster import tool

    seconds = None if options.seconds is None else options.seconds * _SLOWER
    limits = tool.Limits(options.cache_bytes, options.fence_window, seconds, options.start_at)
    return tool.run(target, watched, folder, limits, stdin)


def _tell_missing(found: dict[str, Any], stream: Any) -> None:
    from perdure.dirtbuster import objects

    missing = [one for one in found["functions"] if not one["seen"]]
    option = "--functions"
    if found["starts"] and not any(one["seen"] for one in found["starts"]):
        missing, option = found["starts"], "--start-at"  # so no other was looked for
    for function in missing:
        name = objects.shown_name(function["pattern"]) or f"{function['first']:#x}"
        print(
            f"note: {name} did not run under Valgrind: there is no such function, or it has"
            f" AVX-512, which Valgrind has not; name another by {option}",
            file=stream,
        )


def _advise(
    found: dict[str, Any], options: _Options, stream: Any, drawing: Output | None
) -> dict[str, Any]:
    from perdure.dirtbuster import advice, report

    _tell_missing(found, stream)
    everything = advice.all_of(found["groups"])
    nothing = "" if everything else "; no function that was watched wrote anything"
    since = "the first of --start-at" if options.start_at else "the first watched function"
    print(
        f"Steps 2 and 3: {found['instructions']:,} instructions since {since} was entered{nothing}",
        file=stream,
    )
    report.show_advice(stream, everything, options.top)
    if drawing is not None:
        with drawing.writing() as path:
            report.plot(path, everything, options.top)
    return {
        "instructions": found["instructions"],
        "watched": found["functions"],
        "advice": report.advice_data(everything),
    }


def _write(result: JsonResult, data: dict[str, Any]) -> None:
    if result.to_stdout:
        print(json.dumps(data, indent=2))
    else:
        result.write(data)


def register(app: typer.Typer) -> None:
    app.command()(dirtbuster)
