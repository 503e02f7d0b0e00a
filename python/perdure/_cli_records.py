"""Commands of single records and of ranges: get, put, del, scan, count.

Invariant: what one of them prints of a key or a value, another takes as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import typer

import perdure
from perdure import _text, _typed_text
from perdure._outputs import files_of
from perdure.cli_support import (
    FAULTS,
    DeviceChoice,
    DeviceOption,
    Failure,
    JsonOption,
    JsonResult,
    LiveOption,
    LogDirOption,
    OverwriteOption,
    PoolArgument,
    open_pool,
    plural,
    report,
)

SCAN_ROWS = 1 << 16  # a page

KeyArgument = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A whole number (42, -5, 0x2a) for 1, 2, 4 and 8-byte keys, text otherwise;"
        " or hex:..., text:..., int:...",
    ),
]


FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="KEY", help="The least key; of a pool of index btree."),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="KEY", help="The key before which it ends; likewise."),
]


class ValueFormat(StrEnum):
    auto = "auto"
    hex = "hex"
    raw = "raw"


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
    if result.requested:
        report(result, {"key": key, "found": False}, f"{pool}: key {key} not found")
    else:
        print(f"{pool}: key {key} not found", file=sys.stderr)
    raise typer.Exit(FAULTS)


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


def scan(
    pool: PoolArgument,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Print at most this many records.")
    ] = None,
    start: FromOption = None,
    end: ToOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="The greatest key first.")] = False,
    device: DeviceOption = DeviceChoice.cpu,
    live: LiveOption = False,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Print records as KEY, tab, VALUE, in the index's order; of a B+-tree that is the keys'."""
    result = JsonResult(json_file, overwrite, *files_of(pool, log_dir))
    listed: list[dict[str, str]] = []
    count = 0
    with (
        open_pool(pool, device, read_only=True, live=live, log_dir=log_dir) as store,
        closing(_shown_pages(store, limit, start, end, reverse)) as pages,
    ):
        total = len(store)
        for keys, values in pages:
            count += len(keys)
            if not result.requested:
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
    if not result.requested:
        sys.stdout.flush()
        print(summary, file=sys.stderr)  # standard output holds the records alone
    else:
        report(result, {"pool": pool, "count": count, "records": listed}, summary)


def _bounds(store: perdure.Store, start: str | None, end: str | None) -> dict[str, Any]:
    def bound(option: str, text: str | None) -> bytes | None:
        return None if text is None else _text.parse(option, text, store.key_bytes)

    return {"start": bound("--from", start), "end": bound("--to", end)}


def count(
    pool: PoolArgument,
    start: FromOption = None,
    end: ToOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Count the records of a range of keys, in a pool of index btree."""
    result = JsonResult(json_file, overwrite, *files_of(pool, None))
    with open_pool(pool, DeviceChoice.cpu, read_only=True) as store:
        found = store.count(**_bounds(store, start, end))
    report(result, {"pool": pool, "count": found}, f"{plural(found, 'record')} in {pool}")


def _shown_pages(
    store: perdure.Store, limit: int | None, start: str | None, end: str | None, reverse: bool
) -> Generator[tuple[Any, Any], None, None]:
    """Pages of keys and values as text, `limit` rows at most."""
    from perdure import _pages

    row = _typed_text.row_type(store)
    left = len(store) if limit is None else limit
    with closing(
        _pages.ahead(
            store.scan(max(1, min(left, SCAN_ROWS)), **_bounds(store, start, end), reverse=reverse)
        )
    ) as pages:
        for keys, values in pages:
            shown = keys[:left], values[:left]
            left -= len(shown[0])
            values = (
                _pages.show(shown[1], store.value_bytes)
                if row is None
                else _typed_text.show(shown[1], row)
            )
            yield _pages.show(shown[0], store.key_bytes, store.key_order == "signed"), values
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
