"""The command line `perdure`: which commands there are, and the programs that two of them run.

Exit status and where things are printed: see perdure.cli_support. A command is a function of a few
calls of the library, in perdure._cli_pools or perdure._cli_records; `load`, `export`, `doctor`,
`replay` and `demo` come from their own modules.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

import typer

import perdure
from perdure import _cli_log, _cli_pools, _cli_records, cli_support
from perdure._outputs import why_failed
from perdure.cli_support import UNABLE, Commands, Failure, WithNumbers

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Perdure: a durable key-value store read and written by CPU SIMD warps and GPU kernels. "
    "Exit status: 0 good, 1 faults found or key not found, 2 wrong usage or unable to run.",
)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    log_level: _cli_log.LogLevelOption = None,
    log_format: _cli_log.LogFormatOption = None,
) -> None:
    _cli_log.begin(log_level, log_format)
    if version:
        print(
            f"perdure {perdure.__version__} "
            f"({'CPU and CUDA' if perdure.built_with_cuda else 'CPU'} build)"
        )
        raise typer.Exit


app.command()(_cli_pools.create)
app.command()(_cli_pools.verify)
app.command()(_cli_pools.stats)
app.command(cls=WithNumbers)(_cli_records.get)
app.command(cls=WithNumbers)(_cli_records.put)
app.command("del", cls=WithNumbers)(_cli_records.delete)
app.command()(_cli_records.scan)
app.command()(_cli_records.count)
app.command()(_cli_pools.snapshot)
app.command()(_cli_pools.restore)


# --- bench, explore -----------------------------------------------------------------------------


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """Run perdure-bench with the arguments given (perdure bench --help). In a clone of Perdure,
    also measure a paper's figures (perdure bench figure --help; perdure bench --list)."""
    if context.args[:1] == ["figure"]:
        _run_figures(context, context.args[1:])
    elif context.args[:1] == ["--list"]:
        _run_figures(context, context.args)
    else:
        cli_support.run_to_its_end(cli_support.bench_program(), context.args)


def _run_figures(context: typer.Context, arguments: list[str]) -> None:
    if importlib.util.find_spec("perdure_figures") is None:
        raise Failure(
            "bench figure: this install measures no papers' figures; in a clone of Perdure, run"
            " scripts/setup.sh and scripts/build.sh PERDURE_BENCH=ON, then .venv/bin/perdure bench"
            " figure"
        )
    from perdure_figures.command import app as figures

    command = typer.main.get_command(figures)
    with command.make_context("figure", arguments, parent=context) as inner:
        command.invoke(inner)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def explore(context: typer.Context) -> None:
    """Run perdure-explore with the arguments given, unchanged (perdure explore --help lists
    them)."""
    cli_support.run_to_its_end(cli_support.explore_program(), context.args)


def main() -> None:
    _replace_closed_streams()
    try:
        app()
    finally:
        _finish_output()


def _replace_closed_streams() -> None:
    """By nothing, so that what a command opens is no stream that libraries print to."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (until the process ends)


def _finish_output() -> None:
    """What is still to be written may find no room; Python by itself would say so in a
    traceback."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        if not isinstance(
            error, BrokenPipeError
        ):  # else whoever read it has gone, and needs no word
            cli_support.fail(f"standard output: {why_failed(error)}")
        raise SystemExit(UNABLE) from None


if __name__ == "__main__":
    main()
