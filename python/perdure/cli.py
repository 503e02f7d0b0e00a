"""The command line `perdure`: one function a command, each a few calls of the library.

Exit status and where things are printed: see perdure.cli_support. Bulk files are read and written
by perdure.tables; `replay` and `demo` come from their own modules.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections.abc import Generator
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import perdure
from perdure import _text, _typed_text, cli_support
from perdure._outputs import files_of, why_failed
from perdure.cli_support import (
    FAULTS,
    UNABLE,
    Commands,
    DeviceChoice,
    DeviceOption,
    Failure,
    ForceOption,
    JsonOption,
    JsonResult,
    LiveOption,
    LogBytesOption,
    LogDirOption,
    ModeOption,
    OverwriteOption,
    PoolArgument,
    WithNumbers,
    log_size,
    open_pool,
    parse_mode,
    plural,
    report,
    show_size,
    show_width,
)

SCAN_ROWS = 1 << 16  # a page

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Perdure: a durable key-value store read and written by CPU SIMD warps and GPU kernels. "
    "Exit status: 0 good, 1 faults found or key not found, 2 wrong usage or unable to run.",
)


class IndexChoice(StrEnum):
    gphash = "gphash"
    dash_eh = "dash-eh"
    dash_lh = "dash-lh"


class LayoutChoice(StrEnum):
    word = "word"
    in_place = "in_place"


class DurabilityChoice(StrEnum):
    none = "none"
    process = "process"
    power = "power"


KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A whole number (42, -5, 0x2a) for 1, 2, 4 and 8-byte keys, text otherwise;"
        " or hex:..., text:..., int:...",
    ),
]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(
            f"perdure {perdure.__version__} "
            f"({'CPU and CUDA' if perdure.built_with_cuda else 'CPU'} build)"
        )
        raise typer.Exit


# --- create, verify, stats ----------------------------------------------------------------------


def _width(option: str, text: str) -> int | None:
    if text == "var":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise Failure(f"{option} {text}: write a number of bytes, or var for varying length")
    return int(text)


def _index(index: IndexChoice, layout: LayoutChoice, shape: str) -> str | perdure.GPHash:
    levels, hashes, slots = _shape(shape)
    gphash = perdure.GPHash(layout=layout.value, levels=levels, hashes=hashes, slots=slots)
    if index is IndexChoice.gphash:
        return gphash
    if gphash != perdure.GPHash():
        raise Failure(
            f"--index {index.value}: --layout and --shape are of use with --index gphash only"
        )
    return index.value


def _row_shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise Failure(f"--row-shape {text}: write its extents, for example 32 or 4,8")
    return tuple(map(int, text.split(",")))


def _shape(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d+)L-(\d+)H-(\d+)S", text, re.IGNORECASE)
    if match is None:
        raise Failure(
            f"--shape {text}: write levels, hash functions and slots a bucket, for example 2L-2H-8S"
        )
    return int(match[1]), int(match[2]), int(match[3])


@app.command()
def create(
    pool: PoolArgument,
    key_bytes: Annotated[str, typer.Option(metavar="N|var", help="Length of every key.")] = "8",
    value_bytes: Annotated[
        str, typer.Option(metavar="N|var", help="Length of every value.")
    ] = "var",
    dtype: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Values are arrays of this NumPy dtype, say float32."),
    ] = None,
    row_shape: Annotated[
        str | None, typer.Option(metavar="N,...", help="Shape of such an array; else one element.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, help="Records to expect; the table grows past it.")
    ] = 1 << 16,
    index: Annotated[
        IndexChoice,
        typer.Option(help="GPHash; or Dash, extendible or linear, for many host threads."),
    ] = IndexChoice.gphash,
    layout: Annotated[
        LayoutChoice, typer.Option(help="8-byte slot words, or GPHash as published.")
    ] = LayoutChoice.word,
    shape: Annotated[
        str, typer.Option(metavar="LEVELS-HASHES-SLOTS", help="Shape of the index.")
    ] = "2L-2H-8S",
    max_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The file never grows past this.")
    ] = None,
    durability: Annotated[
        DurabilityChoice, typer.Option(help="What acknowledged operations must outlive.")
    ] = DurabilityChoice.process,
    log_dir: LogDirOption = None,
    log_bytes: LogBytesOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    mode: ModeOption = None,
    json_file: JsonOption = None,
) -> None:
    """Make an empty pool."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir), force=force)
    _check_log_dir(durability, log_dir)
    with perdure.create(
        pool,
        _width("--key-bytes", key_bytes),
        _width("--value-bytes", value_bytes),
        dtype=dtype,
        shape=_row_shape(row_shape),
        expected_records=records,
        max_bytes=None if max_bytes is None else cli_support.parse_size("--max-bytes", max_bytes),
        index=_index(index, layout, shape),
        durability=durability.value,
        log_dir=log_dir,
        log_bytes=log_size(log_dir, log_bytes),
        overwrite=overwrite,
        force=force,
        mode=parse_mode("--mode", mode),
    ) as store:
        stats, survives = store.stats(), store.survives()
    report(
        result,
        {"pool": pool, "log_dir": log_dir, **stats.as_dict(), "survives": survives.as_dict()},
        f"created {pool}: keys {show_width(store.key_bytes)}, values "
        f"{_typed_text.show_values(store)},"
        f" {_show_index(index, layout, stats)}, {plural(stats.slots, 'slot')}, "
        f"{show_size(stats.pool_bytes)}"
        f" on {stats.medium.name}{_show_log(log_dir, stats)}; survives {survives.description}",
    )


def _show_index(index: IndexChoice, layout: LayoutChoice, stats: perdure.Stats) -> str:
    if index is IndexChoice.gphash:
        return f"{layout.value} {stats.shape!r}"
    return f"{index.value} of {plural(stats.segments, 'segment')}"


def _check_log_dir(durability: DurabilityChoice | None, log_dir: str | None) -> None:
    if durability is DurabilityChoice.power and log_dir is None:
        raise Failure(
            "--durability power needs --log-dir DIR, a directory on a disk for the log and two "
            "images"
        )
    if durability not in (None, DurabilityChoice.power) and log_dir is not None:
        raise Failure(f"--log-dir {log_dir}: is of use with --durability power only")


def _show_log(log_dir: str | None, stats: perdure.Stats) -> str:
    return f", log in {log_dir} ({stats.log_method})" if log_dir is not None else ""


@app.command()
def verify(
    pool: PoolArgument,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Mend a pool that changed since it was closed; say what that drops."
        ),
    ] = False,
    acknowledge: Annotated[
        bool,
        typer.Option(
            "--acknowledge", help="What repairs changed has been seen to: it is no fault any more."
        ),
    ] = False,
    live: LiveOption = False,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Check every record of a pool; exit status 1 if anything is wrong, or a repair is not
    acknowledged."""
    if live and (repair or acknowledge):
        raise Failure("--live changes nothing; leave it out to --repair or --acknowledge")
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    found = _verify(pool, log_dir, repair=repair, acknowledge=acknowledge, live=live)
    for fault in found["faults"]:
        print(f"fault: {fault}", file=sys.stderr)
    if found["fault_count"] > len(found["faults"]):
        print(
            f"(the first {len(found['faults'])} of {found['fault_count']} faults)", file=sys.stderr
        )
    report(
        result,
        {"pool": pool, **found},
        f"{pool}: {plural(found['records'], 'record')} good, {found['dropped']:,} dropped by "
        "recovery,"
        f" {plural(found['fault_count'], 'fault')}",
    )
    if found["fault_count"]:
        raise typer.Exit(FAULTS)


def _verify(
    pool: str, log_dir: str | None, *, repair: bool, acknowledge: bool, live: bool
) -> dict[str, Any]:
    """The report of a pool; one that cannot even be opened for its damage has that as its fault."""
    try:
        with open_pool(
            pool, read_only=not acknowledge, repair=repair, live=live, log_dir=log_dir
        ) as store:
            if acknowledge:
                store.acknowledge_repair()
            found, recovery = store.verify().as_dict(), store.recovery()
        return found | {"recovery": recovery.as_dict()}
    except perdure.Corrupt as error:
        return {
            "records": 0,
            "dropped": 0,
            "faults": [error.message],
            "fault_count": 1,
            "recovery": None,
        }


@app.command()
def stats(
    pool: PoolArgument,
    device: DeviceOption = DeviceChoice.cpu,
    live: LiveOption = False,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Show what a pool holds, its shape, and what its records survive."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    with open_pool(pool, device, read_only=True, live=live, log_dir=log_dir) as store:
        facts = store.stats().as_dict()
        survives, recovery = store.survives(), store.recovery().as_dict()
    say = cli_support.answers_to(result)
    for name, fact in facts.items():
        say(f"{name:18} {fact}")
    say(f"{'recovery':18} {recovery}")
    report(
        result,
        {"pool": pool, **facts, "survives": survives.as_dict(), "recovery": recovery},
        f"{pool}: {plural(facts['records'], 'record')} in {plural(facts['slots'], 'slot')}"
        f" (load factor {facts['load_factor']:.3f}), {show_size(facts['pool_bytes'])} on "
        f"{facts['medium']};"
        f" survives {survives.description}",
    )


# --- single records -----------------------------------------------------------------------------


class ValueFormat(StrEnum):
    auto = "auto"
    hex = "hex"
    raw = "raw"


@app.command(cls=WithNumbers)
def get(
    pool: PoolArgument,
    key: KeyArgument,
    value_format: Annotated[
        ValueFormat,
        typer.Option("--format", help="auto: as put takes it; hex; raw: the bytes alone."),
    ] = ValueFormat.auto,
    device: DeviceOption = DeviceChoice.cpu,
    live: LiveOption = False,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Print the value of one key; exit status 1 if it is not there."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    with open_pool(pool, device, read_only=True, live=live, log_dir=log_dir) as store:
        sought = _text.parse("KEY", key, store.key_bytes)
        try:
            octets, shown = _shown_value(store, store[sought], value_format)
        except KeyError:
            octets = shown = None
        except perdure.Corrupt as error:
            why = error.message.rpartition(": ")[2]
            raise Failure(f"{pool}: key {key}: {why}", FAULTS) from None
    if octets is None or shown is None:
        _report_absent(pool, key, result)
    elif value_format is ValueFormat.raw and not result.to_stdout:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()
    else:
        report(
            result, {"key": key, "found": True, "value": shown, "value_hex": octets.hex()}, shown
        )


def _shown_value(store: perdure.Store, value: Any, form: ValueFormat) -> tuple[bytes, str]:
    """A value's bytes, and as it is shown."""
    row = _typed_text.row_type(store)
    octets: bytes = value if row is None else value.tobytes()
    if form is ValueFormat.hex:
        return octets, octets.hex()
    if row is None:
        return octets, _text.show(octets, store.value_bytes)
    return octets, _typed_text.show(value[None], row)[0].as_py().decode()


def _report_absent(pool: str, key: str, result: JsonResult) -> None:
    if result.wanted:
        report(result, {"key": key, "found": False}, f"{pool}: key {key} not found")
    else:
        print(f"{pool}: key {key} not found", file=sys.stderr)
    raise typer.Exit(FAULTS)


@app.command(cls=WithNumbers)
def put(
    pool: PoolArgument,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Written as a key is: text, a number, hex:...")
    ],
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Insert one key, or replace its value."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    with open_pool(pool, device, log_dir=log_dir) as store:
        row = _typed_text.row_type(store)
        octets = (
            _text.parse("VALUE", value, store.value_bytes)
            if row is None
            else _typed_text.parse(value, row)
        )
        store[_text.parse("KEY", key, store.key_bytes)] = octets
        records = len(store)
    report(
        result,
        {"key": key, "value_hex": octets.hex(), "records": records},
        f"put {key}: {plural(len(octets), 'byte')}; {plural(records, 'record')} in {pool}",
    )


@app.command("del", cls=WithNumbers)
def delete(
    pool: PoolArgument,
    key: KeyArgument,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Remove one key; exit status 1 if it is not there."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    with open_pool(pool, device, log_dir=log_dir) as store:
        doomed = _text.parse("KEY", key, store.key_bytes)
        there = doomed in store
        if there:
            del store[doomed]
        records = len(store)
    if not there:
        _report_absent(pool, key, result)
    report(
        result,
        {"key": key, "found": True, "records": records},
        f"deleted {key}; {plural(records, 'record')} in {pool}",
    )


@app.command()
def scan(
    pool: PoolArgument,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Print at most this many records.")
    ] = None,
    device: DeviceOption = DeviceChoice.cpu,
    live: LiveOption = False,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Print records as KEY, tab, VALUE, in the index's order."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    listed: list[dict[str, str]] = []
    count = 0
    with (
        open_pool(pool, device, read_only=True, live=live, log_dir=log_dir) as store,
        closing(_shown_pages(store, limit)) as pages,
    ):
        total = len(store)
        for keys, values in pages:
            count += len(keys)
            if not result.wanted:
                _print_page(keys, values)
            else:
                columns = (
                    keys.cast("large_string").to_pylist(),
                    values.cast("large_string").to_pylist(),
                )
                listed += [
                    {"key": key, "value": value} for key, value in zip(*columns, strict=True)
                ]
    summary = f"{count:,} of {plural(total, 'record')} in {pool}"
    if not result.wanted:
        sys.stdout.flush()
        print(summary, file=sys.stderr)  # standard output holds the records alone
    else:
        report(result, {"pool": pool, "count": count, "records": listed}, summary)


def _shown_pages(store: perdure.Store, limit: int | None) -> Generator[tuple[Any, Any], None, None]:
    """Pages of keys and values as text, `limit` rows at most."""
    from perdure import _pages

    row = _typed_text.row_type(store)
    left = len(store) if limit is None else limit
    with closing(_pages.ahead(store.scan(max(1, min(left, SCAN_ROWS))))) as pages:
        for keys, values in pages:
            shown = keys[:left], values[:left]
            left -= len(shown[0])
            values = (
                _pages.show(shown[1], store.value_bytes)
                if row is None
                else _typed_text.show(shown[1], row)
            )
            yield _pages.show(shown[0], store.key_bytes), values
            if not left:
                return


def _print_page(keys: Any, values: Any) -> None:
    from perdure import _pages

    lines = _pages.octets_of(_pages.join(keys, "\t", values, "\n"))
    if sys.stdout.encoding.lower() == "utf-8":
        sys.stdout.flush()
        sys.stdout.buffer.write(lines)
    else:
        sys.stdout.write(lines.tobytes().decode())


# --- snapshots ----------------------------------------------------------------------------------


@app.command()
def snapshot(
    pool: PoolArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The snapshot to write.")],
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    mode: ModeOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    json_file: JsonOption = None,
) -> None:
    """Write all of a pool into one file, which `restore` reads."""
    result = JsonResult(json_file, overwrite, file, *files_of(pool, log_dir), force=force)
    bits = parse_mode("--mode", mode)
    with open_pool(pool, device, read_only=True, log_dir=log_dir) as store:
        begin = time.perf_counter()
        store.snapshot(file, overwrite=overwrite, force=force, mode=bits)
        seconds = time.perf_counter() - begin
        records = len(store)
    size = Path(file).stat().st_size
    report(
        result,
        {"pool": pool, "snapshot": file, "records": records, "bytes": size, "seconds": seconds},
        f"wrote {plural(records, 'record')} of {pool} to {file} ({show_size(size)}) in "
        f"{seconds:.3f} s",
    )


@app.command()
def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The snapshot.")],
    pool: Annotated[str, typer.Argument(metavar="POOL", help="The pool file to make.")],
    durability: Annotated[
        DurabilityChoice | None, typer.Option(help="Of the new pool; the snapshot's unless given.")
    ] = None,
    log_dir: LogDirOption = None,
    log_bytes: LogBytesOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    mode: ModeOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    json_file: JsonOption = None,
) -> None:
    """Make a pool from a snapshot, on any medium."""
    result = JsonResult(json_file, overwrite, file, *files_of(pool, log_dir), force=force)
    _check_log_dir(durability, log_dir)
    begin = time.perf_counter()
    with perdure.restore(
        file,
        pool,
        durability=None if durability is None else durability.value,
        log_dir=log_dir,
        log_bytes=log_size(log_dir, log_bytes),
        overwrite=overwrite,
        force=force,
        mode=parse_mode("--mode", mode),
        device=device.value,
    ) as store:
        seconds = time.perf_counter() - begin
        stats, survives, recovery = store.stats(), store.survives(), store.recovery()
    report(
        result,
        {
            "snapshot": file,
            "pool": pool,
            "log_dir": log_dir,
            "seconds": seconds,
            **stats.as_dict(),
            "survives": survives.as_dict(),
            "recovery": recovery.as_dict(),
        },
        f"restored {plural(stats.records, 'record')} of {file} to {pool} in {seconds:.3f} s:"
        f" {show_size(stats.pool_bytes)} on {stats.medium.name}{_show_log(log_dir, stats)};"
        f" survives {survives.description}",
    )


# --- bench, explore
# --------------------------------------------------------------------------------------


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
        _run_program(cli_support.bench_program(), context.args)


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
    _run_program(cli_support.explore_program(), context.args)


def _run_program(program: Path, arguments: list[str]) -> None:
    from perdure._ending import run_program

    status = run_program([program, *arguments]).returncode
    status = 128 - status if status < 0 else status  # ended by a signal: as a shell reports it
    print(f"{program.name}: exit status {status}", file=sys.stderr)
    raise typer.Exit(status)


def main() -> None:
    try:
        app()
    finally:
        _finish_output()


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
