"""`perdure rocks`: commands on databases of RocksDB, with the memtables of perdure.rocks.

`load` and `export` are in perdure._cli_rocks_rows, `bench` and `run` in perdure._cli_rocks_run.
Invariant: what one command prints of a key or a value, another takes as it is, with the same
--key-bytes and --value-bytes.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from perdure import _cli_rocks_rows, _cli_rocks_run, _text, errors
from perdure._cli_rocks_options import (
    BeginOption,
    DatabaseArgument,
    DurabilityOption,
    EndOption,
    FamilyOption,
    KeyBytesOption,
    KeyInDatabase,
    LogDirOption,
    MergeOperatorOption,
    OptionsOption,
    PrefixOption,
    RocksDevice,
    RocksDeviceOption,
    RocksDurability,
    ValueBytesOption,
    opened,
    result_for,
    width,
)
from perdure.cli_support import (
    FAULTS,
    JsonOption,
    OverwriteOption,
    WithNumbers,
    answers_to,
    plural,
    progress,
    report,
)

_SHOWN_FAULTS = 100
_PAGE = 1 << 16


def create(
    db: DatabaseArgument,
    family: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A column family to make; may be given again."),
    ] = None,
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    durability: DurabilityOption = RocksDurability.process,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Make an empty database."""
    result = result_for(db, log_dir, json_file, overwrite)
    with opened(
        db,
        device,
        log_dir,
        options,
        merge_operator,
        durability=durability,
        families=family or [],
        is_new=True,
    ) as made:
        families, runs_on = made.families, made.device
    report(
        result,
        {"db": db, "families": list(families), "device": runs_on},
        f"created {db}: {plural(len(families), 'column family', 'column families')}"
        f" ({', '.join(families)}); memtables on {runs_on}",
    )


def put(
    db: DatabaseArgument,
    key: KeyInDatabase,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Written as a key is: text, int:..., hex:...")
    ],
    family: FamilyOption = "default",
    key_bytes: KeyBytesOption = "var",
    value_bytes: ValueBytesOption = "var",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    durability: DurabilityOption = RocksDurability.process,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Insert one key, or replace its value."""
    result = result_for(db, log_dir, json_file, overwrite)
    octets = _text.parse("VALUE", value, width("--value-bytes", value_bytes))
    at = _text.parse("KEY", key, width("--key-bytes", key_bytes))
    with opened(db, device, log_dir, options, merge_operator, durability=durability) as to:
        to.put([at], [octets], family=family, sync=True)
    report(
        result,
        {"key": key, "value_hex": octets.hex()},
        f"put {key}: {plural(len(octets), 'byte')} in {db}",
    )


def get(
    db: DatabaseArgument,
    key: KeyInDatabase,
    family: FamilyOption = "default",
    key_bytes: KeyBytesOption = "var",
    value_bytes: ValueBytesOption = "var",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Print the value of one key; exit status 1 if it is not there."""
    result = result_for(db, log_dir, json_file, overwrite)
    sought = _text.parse("KEY", key, width("--key-bytes", key_bytes))
    length = width("--value-bytes", value_bytes)
    with opened(db, device, log_dir, options, merge_operator, read_only=True) as source:
        found = source.get([sought], family=family)
    octets: bytes | None = found.values[0].as_py()
    if octets is not None:
        shown = _text.show(octets, length)
        report(
            result, {"key": key, "found": True, "value": shown, "value_hex": octets.hex()}, shown
        )
        return
    if result.requested:
        report(result, {"key": key, "found": False}, f"{db}: key {key} not found")
    else:
        print(f"{db}: key {key} not found", file=sys.stderr)
    raise typer.Exit(FAULTS)


def scan(
    db: DatabaseArgument,
    begin: BeginOption = None,
    end: EndOption = None,
    prefix: PrefixOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key on.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Print at most this many records.")
    ] = None,
    family: FamilyOption = "default",
    key_bytes: KeyBytesOption = "var",
    value_bytes: ValueBytesOption = "var",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Print records as KEY, tab, VALUE, in order of keys."""
    result = result_for(db, log_dir, json_file, overwrite)
    length, size = width("--key-bytes", key_bytes), width("--value-bytes", value_bytes)
    ends = [
        None if text is None else _text.parse(option, text, length)
        for option, text in (("--begin", begin), ("--end", end))
    ]
    starts = None if prefix is None else _text.parse("--prefix", prefix, None)
    listed: list[dict[str, str]] = []
    count = 0
    with opened(db, device, log_dir, options, merge_operator, read_only=True) as source:
        for key, value in source.scan(
            *ends, prefix=starts, reverse=reverse, limit=limit, family=family
        ):
            count += 1
            shown = _text.show(key, length), _text.show(value, size)
            if result.requested:
                listed.append({"key": shown[0], "value": shown[1]})
            else:
                print("\t".join(shown))
    summary = f"{plural(count, 'record')} of {db}"
    if result.requested:
        report(result, {"db": db, "count": count, "records": listed}, summary)
    else:
        sys.stdout.flush()
        print(summary, file=sys.stderr)  # standard output holds the records alone


def stats(
    db: DatabaseArgument,
    family: FamilyOption = "default",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Show what a database counts, perdure's properties and RocksDB's."""
    result = result_for(db, log_dir, json_file, overwrite)
    with opened(db, device, log_dir, options, merge_operator, read_only=True) as source:
        facts = source.stats(family=family)
        levels = source.get_property("rocksdb.levelstats", family=family) or ""
        families, runs_on = source.families, source.device
    say = answers_to(result)
    for name, number in facts.items():
        say(f"{name:42} {number:,}")
    for line in levels.splitlines():
        say(line)
    report(
        result,
        {"db": db, "families": list(families), "device": runs_on, **facts, "levels": levels},
        f"{db}: some {plural(facts['rocksdb.estimate-num-keys'], 'record')} in {family}, of "
        f"{plural(len(families), 'column family', 'column families')}; memtables on {runs_on}",
    )


# --- verify -------------------------------------------------------------------------------------


def _compare(family: str, keys: Any, walked: Any, looked_up: Any, faults: list[str]) -> None:
    for key, one, other in zip(keys, walked, looked_up, strict=True):
        if len(faults) < _SHOWN_FAULTS and not one.equals(other):
            shown = _text.show(key.as_py(), None)
            faults.append(f"{family}: key {shown}: a look-up does not answer what a walk does")


def _walk(state: Any, family: str, total: int, faults: list[str]) -> int:
    """All records forwards, each looked up as well, and their number backwards."""
    forwards = 0
    with progress(f"verify {family}", total) as show:
        for keys, values in state.pages(_PAGE, family=family):
            got = state.get(keys, family=family, check=False)
            if not values.equals(got.values):
                _compare(family, keys, values, got.values, faults)
            forwards += len(keys)
            show(forwards)
    backwards = sum(len(keys) for keys, _ in state.pages(_PAGE, reverse=True, family=family))
    if backwards != forwards:
        faults.append(
            f"{family}: {plural(forwards, 'record')} forwards, but {backwards:,} backwards"
        )
    return forwards


def verify(
    db: DatabaseArgument,
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Check every block's checksum, and every record both ways; exit status 1 at any fault."""
    result = result_for(db, log_dir, json_file, overwrite)
    faults: list[str] = []
    records: dict[str, int] = {}
    try:
        with opened(db, device, log_dir, options, merge_operator, read_only=True) as source:
            source.verify_checksums()
            with source.snapshot() as state:
                for family in source.families:
                    total = source.stats(family=family)["rocksdb.estimate-num-keys"]
                    records[family] = _walk(state, family, total, faults)
    except errors.Corrupt as damage:
        faults.append(damage.message)
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    report(
        result,
        {"db": db, "records": records, "faults": faults},
        f"{db}: {plural(sum(records.values()), 'record')} in "
        f"{plural(len(records), 'column family', 'column families')} good, "
        f"{plural(len(faults), 'fault')}",
    )
    if faults:
        raise typer.Exit(FAULTS)


def register(app: typer.Typer) -> None:
    rocks = typer.Typer(
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        help="Work on databases of RocksDB with memtables on a GPU or on CPU warps.",
    )
    rocks.command()(create)
    rocks.command(cls=WithNumbers)(put)
    rocks.command(cls=WithNumbers)(get)
    rocks.command()(scan)
    rocks.command()(_cli_rocks_rows.load)
    rocks.command()(_cli_rocks_rows.export)
    rocks.command()(stats)
    rocks.command()(verify)
    _cli_rocks_run.register(rocks)
    app.add_typer(rocks, name="rocks")
