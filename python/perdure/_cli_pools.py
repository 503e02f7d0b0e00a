"""Commands of whole pools: create, verify, stats, snapshot, restore.

Invariant: a pool is opened for writing only by a command that changes it.
"""

from __future__ import annotations

import re
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import perdure
from perdure import _typed_text, cli_support
from perdure._outputs import files_of
from perdure.cli_support import (
    FAULTS,
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
    log_size,
    open_pool,
    parse_mode,
    plural,
    report,
    show_size,
    show_width,
)


class IndexChoice(StrEnum):
    gphash = "gphash"
    dash_eh = "dash-eh"
    dash_lh = "dash-lh"
    btree = "btree"


class KeyOrderChoice(StrEnum):
    bytes = "bytes"
    unsigned = "unsigned"
    signed = "signed"


class ValuesChoice(StrEnum):
    heap = "heap"
    log = "log"


class PersistChoice(StrEnum):
    minimal = "minimal"
    index = "index"
    full = "full"


class LayoutChoice(StrEnum):
    word = "word"
    in_place = "in_place"
    log = "log"


class DurabilityChoice(StrEnum):
    none = "none"
    process = "process"
    power = "power"


KeyBytesOption = Annotated[str, typer.Option(metavar="N|var", help="Length of every key.")]
ValueBytesOption = Annotated[str, typer.Option(metavar="N|var", help="Length of every value.")]
DtypeOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Values are arrays of this NumPy dtype, say float32."),
]
RowShapeOption = Annotated[
    str | None, typer.Option(metavar="N,...", help="Shape of such an array; else one element.")
]
RecordsOption = Annotated[
    int, typer.Option(min=1, help="Records to expect; the table grows past it.")
]
IndexOption = Annotated[
    IndexChoice,
    typer.Option(
        help="GPHash; Dash, for many host threads; or a B+-tree, whose keys are in order."
    ),
]
KeyOrderOption = Annotated[
    KeyOrderChoice, typer.Option(help="Of a B+-tree: bytes, or little-endian integers.")
]
ValuesOption = Annotated[
    ValuesChoice, typer.Option(help="Of a B+-tree: where records are, in a heap or in logs.")
]
PersistOption = Annotated[
    PersistChoice,
    typer.Option(help="Of a B+-tree: what is durable, its records alone or the index as well."),
]
LayoutOption = Annotated[
    LayoutChoice, typer.Option(help="8-byte slot words, or GPHash as published.")
]
ShapeOption = Annotated[
    str, typer.Option(metavar="LEVELS-HASHES-SLOTS", help="Shape of the index.")
]
MaxBytesOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="The file never grows past this.")
]
DurabilityOption = Annotated[
    DurabilityChoice, typer.Option(help="What acknowledged operations must outlive.")
]


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
        raise Failure(f"--index {index.value}: --layout and --shape need --index gphash")
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


def create(
    pool: PoolArgument,
    key_bytes: KeyBytesOption = "8",
    value_bytes: ValueBytesOption = "var",
    dtype: DtypeOption = None,
    row_shape: RowShapeOption = None,
    records: RecordsOption = 1 << 16,
    index: IndexOption = IndexChoice.gphash,
    key_order: KeyOrderOption = KeyOrderChoice.bytes,
    values: ValuesOption = ValuesChoice.heap,
    persist: PersistOption = PersistChoice.minimal,
    layout: LayoutOption = LayoutChoice.word,
    shape: ShapeOption = "2L-2H-8S",
    max_bytes: MaxBytesOption = None,
    durability: DurabilityOption = DurabilityChoice.process,
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
        key_order=key_order.value,
        values=values.value,
        persist=persist.value,
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
    if index is IndexChoice.btree:
        order = f"{index.value} in the order of {_ORDERS[stats.key_order.name]}"
        records = f"records in {_VALUES[stats.values.name]}"
        return f"{order}, {records}{_DURABLE[stats.persist.name]}"
    return f"{index.value} of {plural(stats.segments, 'segment')}"


_ORDERS = {"bytes": "bytes", "unsigned": "unsigned integers", "signed": "signed integers"}
_VALUES = {"heap": "a heap", "log": "logs"}
_DURABLE = {"minimal": "", "index": ", with durable leaves", "full": ", all of it durable"}


def _check_log_dir(durability: DurabilityChoice | None, log_dir: str | None) -> None:
    if durability is DurabilityChoice.power and log_dir is None:
        raise Failure(
            "--durability power needs --log-dir DIR, a directory on a disk for the log and two "
            "images"
        )
    if durability not in (None, DurabilityChoice.power) and log_dir is not None:
        raise Failure(f"--log-dir {log_dir} needs --durability power")


def _show_log(log_dir: str | None, stats: perdure.Stats) -> str:
    return f", log in {log_dir} ({stats.log_method})" if log_dir is not None else ""


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
    told = dict(facts)
    if told["values"] != "log":
        del told["value_log"]  # a dozen zeros
    del told["sharing"], told["gathers"]  # nobody has got anything from a store just opened
    for name, fact in told.items():
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


# --- snapshots ----------------------------------------------------------------------------------


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
