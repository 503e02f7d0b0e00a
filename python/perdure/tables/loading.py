"""`perdure load`: rows of files into a pool, a piece at a time.

Invariant: every row is stored or rejected; rows that replaced one with the same key are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import perdure
from perdure._outputs import files_of
from perdure._typed_text import row_type
from perdure.cli_support import (
    FAULTS,
    DeviceChoice,
    DeviceOption,
    Failure,
    JsonOption,
    JsonResult,
    LogDirOption,
    OverwriteOption,
    PoolArgument,
    answers_to,
    open_pool,
    plural,
    progress,
    report,
)
from perdure.tables.cells import Encoded, TextFormat
from perdure.tables.pieces import Piece, Pool, Source
from perdure.tables.plan import Choice, Plan, check_keys, check_values, make_plan
from perdure.tables.records import RowFormat
from perdure.tables.rejects import Rejected, rejects_file
from perdure.tables.sources import FileFormat, open_source
from perdure.tables.streams import STDIN, UNREADABLE, Stream, expand
from perdure.tables.text import Reading

if TYPE_CHECKING:
    from perdure.results import Statuses


@dataclass
class Loaded:
    """What became of one file."""

    file: str
    rejected: Rejected
    stored: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


def _store_piece(store: Pool, plan: Plan, piece: Piece, source: Source, first: bool) -> int:
    keys = plan.encode_keys(piece.columns[0])
    values = plan.encode_values(piece.columns[1:], len(piece.numbers))
    if first:
        check_keys(keys, plan, store, source)
        check_values(values, plan, store)
    rejected = source.rejected
    bad = keys.bad | values.bad
    for row in np.flatnonzero(bad):
        why = f"key: {keys.why(row)}" if keys.bad[row] else f"value: {values.why(row)}"
        rejected.add(int(piece.numbers[row]), why, text=piece.text(int(row)))
    kept = np.flatnonzero(~bad)
    row = row_type(store)
    rows = _select(values, kept)
    if row is not None:
        rows = rows.view(row.numpy()).reshape(len(rows), *row.shape)
    _, statuses = store.put(_select(keys, kept), rows, check=False)
    return _count_stored(statuses, kept, piece, rejected)


def _count_stored(
    statuses: Statuses, kept: npt.NDArray[np.intp], piece: Piece, rejected: Rejected
) -> int:
    failed = np.flatnonzero(statuses)
    for at in failed:
        row = int(kept[at])
        why = perdure.KeyStatus(int(statuses[at])).name
        rejected.add(int(piece.numbers[row]), why, text=piece.text(row))
    return len(statuses) - len(failed)


def _select(encoded: Encoded, kept: npt.NDArray[np.intp]) -> Any:
    if encoded.rows is not None:
        return (
            encoded.rows
            if len(kept) == len(encoded.rows)
            else np.ascontiguousarray(encoded.rows[kept])
        )
    assert encoded.strings is not None
    return encoded.strings if len(kept) == len(encoded.strings) else encoded.strings.take(kept)


@contextmanager
def _naming(file: str, loaded: Loaded) -> Iterator[None]:
    """Failures say which file, and how far it was read."""
    import pyarrow as pa

    try:
        yield
    except Failure as failure:
        raise Failure(f"{file}: {failure}", failure.status) from failure
    except (*UNREADABLE, pa.ArrowException) as error:
        so_far = f"{plural(loaded.stored, 'row')} loaded so far"
        raise Failure(f"{file}: cannot be read past the {so_far}: {error}") from error


def load_file(
    store: Pool,
    name: str,
    requested: FileFormat,
    reading: Reading,
    choice: Choice,
    loaded: Loaded,
) -> None:
    shown = "standard input" if name == STDIN else name
    with _naming(shown, loaded), Stream(name) as stream, progress(f"load {shown}", 1.0) as show:
        source = open_source(stream, requested, reading, loaded.rejected)
        plan = make_plan(store, source, choice)
        loaded.facts = {"format": source.describe(), "columns": plan.describe()}
        for piece in source.pieces(plan.names()):
            try:
                loaded.stored += _store_piece(store, plan, piece, source, first=not loaded.stored)
            except perdure.NoSpace as error:
                so_far = f"{plural(loaded.stored, 'row')} loaded before this batch"
                raise Failure(f"{store.path}: {error.message} ({so_far})") from error
            show(source.done)


FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="CSV, TSV, JSON lines, Parquet, Arrow or Feather, compressed with gzip, zstd, "
        "xz or bzip2 or"
        " not; '-' is standard input.",
    ),
]
KeyColumnOption = Annotated[
    str | None,
    typer.Option(
        "--key", "--key-column", metavar="NAME", help="Column of the keys; the first one."
    ),
]
ValueColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="NAME[:TYPE],...", help="Columns of the values; all the others."),
]
RowsOption = Annotated[
    RowFormat,
    typer.Option(
        help="Several columns as a value: packed little-endian, a JSON object, an Arrow stream."
    ),
]
KeyFormatOption = Annotated[TextFormat, typer.Option(help="How keys are written.")]
FileFormatOption = Annotated[
    FileFormat, typer.Option("--format", help="auto: by the file's name, or what is in it.")
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Between the columns of a CSV file; told from its first lines."),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether CSV begins with names; told from its first lines."
    ),
]
MultilineOption = Annotated[
    bool,
    typer.Option(
        "--multiline/--no-multiline", help="Whether quoted CSV cells may hold line breaks."
    ),
]
RejectsOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Write the rejected rows to FILE, with line and reason."),
]


def load(
    pool: PoolArgument,
    files: FilesArgument,
    key_column: KeyColumnOption = None,
    value_columns: ValueColumnsOption = None,
    rows: RowsOption = RowFormat.auto,
    key_format: KeyFormatOption = TextFormat.auto,
    file_format: FileFormatOption = FileFormat.auto,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    multiline: MultilineOption = True,
    rejects: RejectsOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Put the rows of files into a pool; exit status 1: some were rejected, 2: it stopped."""
    names = expand(files)
    inputs = [*(name for name in names if name != STDIN), *files_of(pool, log_dir)]
    result = JsonResult(json_file, overwrite, *inputs)
    reading = Reading(delimiter_of(delimiter), header, multiline)
    choice = Choice(key_column, value_columns, key_format, rows)
    done: list[Loaded] = []
    with (
        rejects_file(rejects, overwrite, inputs) as writer,
        open_pool(pool, device, log_dir=log_dir) as store,
    ):
        before = len(store)
        for name in names:
            done.append(Loaded(name, Rejected("line", name, to=writer)))
            load_file(store, name, file_format, reading, choice, done[-1])
        records = len(store)
    _report(result, pool, done, before, records)


def delimiter_of(text: str | None) -> str | None:
    named = {"tab": "\t", "\\t": "\t", "space": " "}.get(text or "", text)
    if named is not None and (len(named) != 1 or not named.isascii() or named in '"\r\n'):
        raise Failure(f"--delimiter {text}: write one character, or tab")
    return named


def _report(result: JsonResult, pool: str, done: list[Loaded], before: int, records: int) -> None:
    stored = sum(one.stored for one in done)
    rejected = sum(one.rejected.count for one in done)
    replaced = stored - (records - before)
    say = answers_to(result)
    for one in done:
        tell_rejected(one)
        say(f"{one.file}: {one.facts['format']}; {one.facts['columns']}")
    old = "had been there or came twice" if before else "came twice, of which the last row counts"
    twice = f"; keys of {plural(replaced, 'row')} {old}" if replaced else ""
    what = done[0].file if len(done) == 1 else plural(len(done), "file")
    report(
        result,
        {
            "pool": pool,
            "files": [
                {
                    "file": one.file,
                    **one.facts,
                    "stored": one.stored,
                    "rejected": one.rejected.count,
                }
                for one in done
            ],
            "stored": stored,
            "rejected": rejected,
            "replaced": replaced,
            "rejected_rows": rejected_rows(done),
            "records": records,
        },
        f"loaded {plural(stored, 'row')} of {what} ({plural(rejected, 'row')} rejected){twice};"
        f" {plural(records, 'record')} in {pool}",
    )
    if rejected:
        raise typer.Exit(FAULTS)


def rejected_rows(done: list[Loaded]) -> list[dict[str, Any]]:
    if len(done) == 1:
        return done[0].rejected.reported
    return [{"file": one.file, **row} for one in done for row in one.rejected.reported]


def tell_rejected(one: Loaded) -> None:
    rejected = one.rejected
    rejected.reported.sort(
        key=lambda row: row[rejected.unit]
    )  # malformed lines of a block come first
    for row in rejected.reported:
        print(f"{one.file}: {rejected.unit} {row[rejected.unit]}: {row['why']}", file=sys.stderr)
    if rejected.count > len(rejected.reported):
        print(f"{one.file}: and {rejected.count - len(rejected.reported):,} more", file=sys.stderr)
