"""`perdure replay`: a cache trace against a store, straight through or with a kill in the middle.

The work is done by perdure._player and perdure.crash; here are the options and the exit status.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from perdure import _player, crash
from perdure._outputs import files_of
from perdure._player import VALUE_BYTES, Plan
from perdure.cli_support import (
    FAULTS,
    DeviceChoice,
    DeviceOption,
    JsonOption,
    JsonResult,
    LogBytesOption,
    LogDirOption,
    OverwriteOption,
    log_size,
    progress,
    report,
)
from perdure.traces import TraceFormat

TraceArgument = Annotated[
    str, typer.Argument(metavar="TRACE", help="The trace; plain, .zst, .xz, .gz or .bz2.")
]
PoolOption = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="The pool; made if it is missing, with --log-dir of durability power.",
    ),
]
FormatOption = Annotated[
    TraceFormat, typer.Option(help="Format of the trace; by default recognised, or refused.")
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help='Columns of a csv trace: "time=1,key=2,size=3", numbers from 1 or names of the '
        "header; also"
        " delimiter=, has-header= and obj-id-is-num=, as libCacheSim has them.",
    ),
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="CPU workers; by default one a core.")
]
BatchOption = Annotated[int, typer.Option(min=1, help="Requests a batch.")]
LimitOption = Annotated[int | None, typer.Option(min=0, help="Requests to replay; by default all.")]
ValueBytesOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Bytes of every value put on a miss; by default the trace's sizes, or {VALUE_BYTES}.",
    ),
]
LayoutOption = Annotated[str, typer.Option(metavar="word|in_place", help="Layout of a new pool.")]
RecordsOption = Annotated[
    int, typer.Option(min=1, help="Records a new pool expects; it grows past it.")
]
CheckOption = Annotated[bool, typer.Option(help="Compare every value read with what was put.")]
KillAfterOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Crash run: replay in another process, kill it (SIGKILL) at a random moment "
        "after this many"
        " acknowledged requests, reopen, and check every acknowledged operation. Needs an "
        "empty pool.",
    ),
]
SeedOption = Annotated[int | None, typer.Option(help="Of the crash run's random moment.")]


def replay(
    trace: TraceArgument,
    pool: PoolOption,
    format: FormatOption = TraceFormat.auto,
    columns: ColumnsOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    threads: ThreadsOption = None,
    batch: BatchOption = Plan.batch,
    limit: LimitOption = None,
    value_bytes: ValueBytesOption = None,
    layout: LayoutOption = Plan.layout,
    records: RecordsOption = Plan.records,
    check: CheckOption = True,
    kill_after: KillAfterOption = None,
    seed: SeedOption = None,
    log_dir: LogDirOption = None,
    log_bytes: LogBytesOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Replay a cache trace: throughput, hit rate, latency; or crash in the middle and check."""
    result = JsonResult(json_file, overwrite, trace, *files_of(pool, log_dir))
    size = log_size(log_dir, log_bytes)
    plan = Plan(
        trace,
        pool,
        format,
        device,
        threads,
        batch,
        limit,
        value_bytes,
        layout,
        records,
        check,
        log_dir=log_dir,
        log_bytes=size,
        columns=columns,
    )
    if kill_after is not None:
        _finish(crash.run(plan, kill_after, seed), result)
        return
    with progress("replay", 1.0) as show:
        done = _player.run(plan, show=show)
    _finish(done, result)


def _finish(done: _player.Report | crash.Report, result: JsonResult) -> None:
    for line in done.complaints():
        print(line, file=sys.stderr)
    report(result, done.as_dict(), "\n".join(done.lines()))
    if done.fault_count:
        raise typer.Exit(FAULTS)


def register(app: typer.Typer) -> None:
    app.command()(replay)
