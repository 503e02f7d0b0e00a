"""What every command shares: exit status, errors, JSON, summaries, progress.

Exit status: 0 good; 1 faults found, or key not found; 2 wrong usage, or the command could not run.
Invariant: standard output carries the answer alone (or the JSON alone, with `--json -`); errors and
progress go to standard error, and no error is a traceback.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

import perdure
from perdure import _native, errors
from perdure._outputs import JSON, NO_ROOM, Output, Refused, why_failed

GOOD, FAULTS, UNABLE = 0, 1, 2
_ELSEWHERE = {
    # The module, and its command's help, which the list of commands has without importing it.
    "load": (
        "perdure.tables",
        "Put the rows of files into a pool; exit status 1: some were rejected, 2: it stopped.",
    ),
    "export": (
        "perdure.tables",
        "Write every record of a pool to a file, which `load` reads back.",
    ),
    "doctor": (
        "perdure.doctor",
        "Tell what this machine offers: devices, media and what survives on them, limits; "
        "what holds\nbetween CPU and GPU (--litmus), and how fast memory is (--measure).",
    ),
    "replay": (
        "perdure.replay",
        "Replay a cache trace: throughput, hit rate, latency; or crash in the middle and check.",
    ),
    "demo": (
        "perdure.demo",
        "Run the main job on real input: replay, crash and check, look rows up, verify.",
    ),
    "top": (
        "perdure._cli_top",
        "Show a pool live, beside the process that has it open: changes a second, records, space.",
    ),
    "dirtbuster": (
        "perdure.dirtbuster.command",
        "Find a program's writes that pre-stores would help: which to demote, clean or skip.",
    ),
    "serve": (
        "perdure._cli_serve",
        "Answer Redis's clients (RESP2 and RESP3) from a pool, until SIGTERM, SIGINT or SHUTDOWN. "
        "The\npool is made if there is none.",
    ),
    "rocks": (
        "perdure._cli_rocks",
        "Work on databases of RocksDB with memtables on a GPU or on CPU warps.",
    ),
}

_NEGATIVE = re.compile(r"-(?:0[xX][0-9a-fA-F]+|[0-9]+)")
_NO_OPTION = "\0"  # which no argument of a process has in it

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result as JSON to FILE; '-' is standard output."
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files of the same kind that are there.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace whatever files are there.")]
ModeOption = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="OCTAL",
        help="Permission bits, less the umask's; 0600, or the replaced file's.",
    ),
]
PoolArgument = Annotated[
    str, typer.Argument(metavar="POOL", help="The pool file, for example /dev/shm/table.")
]


class DeviceChoice(StrEnum):
    cpu = "cpu"
    cuda = "cuda"


DeviceOption = Annotated[
    DeviceChoice, typer.Option("--device", help="Who reads and writes the pool.")
]
LiveOption = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Look at a copy of the pool, as it is now, beside the process that has it open.",
    ),
]


LogDirOption = Annotated[
    str | None,
    typer.Option(
        "--log-dir",
        metavar="DIR",
        help="Log directory of a pool of durability power, on a disk; the pool is made anew from "
        "it.",
    ),
]
LogBytesOption = Annotated[
    str | None, typer.Option("--log-bytes", metavar="SIZE", help="Size of a new log; 256MiB.")
]


class Failure(Exception):
    """A command cannot go on. `message` names the option, key or file, and the way out."""

    def __init__(self, message: str, status: int = UNABLE) -> None:
        super().__init__(message)
        self.status = status


def fail(message: str) -> None:
    print(f"perdure: error: {' '.join(message.split())}", file=sys.stderr)


class Commands(TyperGroup):
    """The command group; whatever a command raises becomes one line and an exit status.

    The modules of the larger commands are imported when such a command is resolved, not when all
    are listed.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Those that this package can run: perdure-explore is for developers, and wheels are
        without it."""
        names = [
            *super().list_commands(ctx),
            *(name for name in _ELSEWHERE if name not in self.commands),
        ]
        return [
            name for name in names if name != "explore" or program_path("perdure-explore").is_file()
        ]

    def get_command(self, ctx: Any, name: str) -> Any:
        """To be listed: of a module that is not imported yet, a command that has its help alone."""
        if name in _ELSEWHERE and name not in self.commands:
            return TyperCommand(name, help=_ELSEWHERE[name][1], rich_markup_mode=None)
        return super().get_command(ctx, name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """To be run."""
        name = args[0]
        if name in _ELSEWHERE and name not in self.commands:
            module = typer.Typer()
            importlib.import_module(_ELSEWHERE[name][0]).register(module)
            self.commands.update(typer.main.get_group(module).commands)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Failure as failure:
            fail(str(failure))
            raise typer.Exit(failure.status) from None
        except Refused as refused:
            fail(str(refused))
            raise typer.Exit(UNABLE) from None
        except errors.Error as error:
            fail(error.message)
            raise typer.Exit(FAULTS if isinstance(error, errors.Corrupt) else UNABLE) from None
        except BrokenPipeError:
            raise  # the reader of our output went away; Typer ends quietly
        except OSError as error:
            # What is full and has no name is where the answer goes: other files are told by their
            # own.
            where = error.filename or ("standard output" if error.errno in NO_ROOM else None)
            fail(f"{where}: {why_failed(error)}" if where else why_failed(error))
            raise typer.Exit(UNABLE) from None
        except (
            ValueError
        ) as error:  # an option the library refuses, or a file that is not what it says
            fail(str(error))
            raise typer.Exit(UNABLE) from None


class WithNumbers(TyperCommand):
    """A command whose arguments may be numbers with a sign: what looks like -5 or -0x5 is no
    option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        marked = [f"{_NO_OPTION}{one}" if _NEGATIVE.fullmatch(one) else one for one in args]
        try:
            rest = super().parse_args(ctx, marked)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                error.message = message.replace(_NO_OPTION, "").replace("\\x00", "")  # type: ignore[attr-defined]
            raise
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(_NO_OPTION)
        return rest


def open_pool(
    pool: str,
    device: DeviceChoice = DeviceChoice.cpu,
    *,
    read_only: bool = False,
    repair: bool = False,
    live: bool = False,
    log_dir: str | None = None,
) -> perdure.Store:
    """Opens a pool for a command, and says so on standard error where it had to be recovered.

    With `live` it is a copy, and standard error says of when.

    Three kinds of pool a reading command opens for writing after all: one on a GPU, whose driver
    takes writable mappings only; one with a log, which is replayed; and one that was not closed in
    order, for recovering it is writing to it.
    """
    if live:
        store = perdure.open(pool, live=True, repair=repair, log_dir=log_dir, device=device.value)
        now = time.strftime("%H:%M:%S")
        print(
            f"perdure: {pool}: a copy as of {now}; what changes later is not in it", file=sys.stderr
        )
        _tell_recovery(pool, store.recovery())
        return store
    read_only = read_only and device is DeviceChoice.cpu and log_dir is None and not repair
    try:
        store = perdure.open(
            pool, read_only=read_only, repair=repair, log_dir=log_dir, device=device.value
        )
    except perdure.Unsupported:
        if not read_only:
            raise
        store = perdure.open(pool, device=device.value)
    _tell_recovery(pool, store.recovery())
    return store


def _tell_recovery(pool: str, found: perdure.RecoveryReport) -> None:
    if not found.clean:
        dropped = (
            f", dropped {found.dropped:,} ({found.why_dropped})"
            if found.dropped
            else ", dropped none"
        )
        replayed = (
            f", {plural(found.replayed, 'batch', 'batches')} of them replayed"
            if found.log_report
            else ""
        )
        records = (
            plural(found.records, "record") if found.counted else "its records (not yet counted)"
        )
        took = f"{found.map_seconds + found.recover_seconds + found.replay_seconds:.3f} s"
        print(
            f"perdure: {pool} was not closed in order; recovered {records}{dropped}{replayed} in "
            f"{took}",
            file=sys.stderr,
        )
    if found.repaired:
        print(f"perdure: {pool} was damaged and has been repaired:", file=sys.stderr)
    for change in found.changes:
        print(f"perdure: {pool}: {change}", file=sys.stderr)


def log_size(log_dir: str | None, log_bytes: str | None) -> int | None:
    """The bytes of a new log, where one is to be made."""
    if log_bytes is None:
        return None
    if log_dir is None:
        raise Failure("--log-bytes needs --log-dir")
    return parse_size("--log-bytes", log_bytes)


def bench_program(name: str = "perdure-bench") -> Path:
    needs = ", where RocksDB is installed (librocksdb-dev)" if name.endswith("rocks") else ""
    return _installed_program(
        name,
        f"in a checkout, scripts/build.sh PERDURE_BENCH=ON installs it{needs}; elsewhere pip "
        "install with -C cmake.define.PERDURE_BENCH=ON",
    )


def explore_program() -> Path:
    return _installed_program(
        "perdure-explore",
        "in a checkout, scripts/build.sh PERDURE_EXPLORE=ON or a build with the tests installs "
        "it, and `make"
        " explore` runs it; elsewhere pip install with -C cmake.define.PERDURE_EXPLORE=ON",
    )


def program_path(name: str) -> Path:
    return Path(_native.__file__).parent / "bin" / name


def _installed_program(name: str, way_out: str) -> Path:
    """A program of ours, which lies beside the native module."""
    program = program_path(name)
    if not program.is_file():
        raise Failure(f"{program} is not there; this package was built without it ({way_out})")
    return program


def run_to_its_end(program: Path, arguments: list[str]) -> None:
    """Runs one of our programs, whose exit status becomes ours."""
    from perdure._ending import run_program

    status = run_program([program, *arguments]).returncode
    status = 128 - status if status < 0 else status  # ended by a signal: as a shell reports it
    print(f"{program.name}: exit status {status}", file=sys.stderr)
    raise typer.Exit(status)


class JsonResult:
    """Where the JSON of a command goes: nowhere, to standard output, or to a file, decided at
    once."""

    def __init__(
        self,
        json_file: str | None,
        overwrite: bool,
        *inputs: str | os.PathLike[str],
        force: bool | None = None,
    ) -> None:
        self.to_stdout = json_file == "-"
        self.requested = json_file is not None
        named = self.requested and not self.to_stdout
        self._output = (
            Output("--json", json_file or "", JSON, overwrite=overwrite, force=force, inputs=inputs)
            if named
            else None
        )

    @property
    def stream(self) -> TextIO:
        """Where a command's lines go: standard output, unless the JSON goes there."""
        return sys.stderr if self.to_stdout else sys.stdout

    def write(self, data: dict[str, Any]) -> None:
        if self._output is None:
            return
        self._output.write_text(json.dumps(data, indent=2) + "\n")


def report(result: JsonResult, data: dict[str, Any], summary: str) -> None:
    """Ends a command: the summary for people, and the JSON where it was asked for."""
    if result.to_stdout:
        print(json.dumps(data, indent=2))
        print(summary, file=sys.stderr)
        return
    result.write(data)
    print(summary)


def answers_to(result: JsonResult) -> Callable[[str], None]:
    """Prints a line where the command's lines go."""
    return lambda line: print(line, file=result.stream)


@contextmanager
def progress(title: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error; yields `set(done)`. Nothing is shown where that is no
    TTY."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


# --- sizes --------------------------------------------------------------------------------------

_UNITS = {"": 1, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_size(option: str, text: str) -> int:
    """Bytes: a number, or one with KiB, MiB, GiB or TiB (also K, M, G, T)."""
    match = re.fullmatch(
        r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB)?|(\d+)\s*B", text.strip(), re.IGNORECASE
    )
    if match is None:
        raise Failure(f"{option} {text}: not a size; write bytes, or for example 512MiB or 4GiB")
    if match[3]:
        return int(match[3])
    unit = match[2].upper()
    return int(float(match[1]) * (1 << _UNITS[unit])) if unit else int(float(match[1]))


def parse_mode(option: str, text: str | None) -> int | None:
    """Permission bits as chmod takes them: octal digits."""
    if text is None:
        return None
    if re.fullmatch(r"(0o?)?[0-7]{1,4}", text) is None:
        raise Failure(f"{option} {text}: write permission bits in octal, for example 0640")
    return int(text, 8)


def show_size(count: int) -> str:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):,.1f} {unit}"
    return f"{count} B"


def show_width(width: int | None) -> str:
    return f"{width} B" if width else "varying length"


def plural(count: int, noun: str, several: str | None = None) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {several or noun + 's'}"
