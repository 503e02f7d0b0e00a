"""`perdure rocks load` and `export`: rows of files to and from a column family, by the readers and
writers of perdure.tables, and by perdure._npz for NumPy's archives.

Invariant: every row is stored or rejected; what `export` writes, `load` reads back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from perdure import _arrow, _npz
from perdure._cli_rocks_options import (
    DatabaseArgument,
    DurabilityOption,
    FamilyOption,
    KeyBytesOption,
    LogDirOption,
    MergeOperatorOption,
    OptionsOption,
    RocksDevice,
    RocksDeviceOption,
    RocksDurability,
    ValueBytesOption,
    check_outside,
    opened,
    result_for,
    width,
)
from perdure._outputs import Output
from perdure.cli_support import (
    FAULTS,
    Failure,
    ForceOption,
    JsonOption,
    JsonResult,
    OverwriteOption,
    answers_to,
    plural,
    report,
    show_size,
)
from perdure.tables import exporting, loading
from perdure.tables.cells import TextFormat
from perdure.tables.loading import Loaded
from perdure.tables.plan import Choice
from perdure.tables.records import RowFormat
from perdure.tables.rejects import Rejected, rejects_file
from perdure.tables.sources import FileFormat
from perdure.tables.streams import STDIN, expand
from perdure.tables.text import Reading

if TYPE_CHECKING:
    from perdure.rocks import Database


@dataclass(frozen=True)
class Family:
    """A column family as rows go into a pool and come out (perdure.tables.pieces.Pool)."""

    db: Database
    name: str
    key_bytes: int | None
    value_bytes: int | None
    dtype: str | None = None
    row_shape: tuple[int, ...] | None = None
    made_by: str = "perdure rocks load DB FILE"

    @property
    def path(self) -> str:
        return self.db.path

    def put(self, keys: Any, values: Any, *, check: bool) -> tuple[Any, Any]:
        """All of them, or an exception: no row fails by itself."""
        self.db.put(keys, values, family=self.name)
        return None, np.zeros(len(keys), np.uint8)

    def scan(self, page_size: int) -> Iterator[tuple[Any, Any]]:
        for keys, values in self.db.pages(page_size, family=self.name):
            yield (
                _shaped("--key-bytes", keys, self.key_bytes),
                _shaped("--value-bytes", values, self.value_bytes),
            )

    def __len__(self) -> int:
        """As RocksDB estimates it: for a progress bar."""
        return self.db.stats(family=self.name)["rocksdb.estimate-num-keys"]


def _shaped(option: str, column: Any, length: int | None) -> Any:
    if length is None:
        return column
    lengths = np.diff(_arrow.offsets_and_data(column)[0])
    wrong = np.flatnonzero(lengths != length)
    if wrong.size:
        raise Failure(
            f"{option} {length}: one has {plural(int(lengths[wrong[0]]), 'byte')}; leave the "
            "option away"
        )
    return _arrow.fixed_rows(option, column, length)


# --- load ---------------------------------------------------------------------------------------

FilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="CSV, TSV, JSON lines, Parquet, Arrow or Feather, compressed or not; or NPZ with the "
        "arrays keys and values; '-' is standard input.",
    ),
]


def load(
    db: DatabaseArgument,
    files: FilesArgument,
    key_column: loading.KeyColumnOption = None,
    value_columns: loading.ValueColumnsOption = None,
    rows: loading.RowsOption = RowFormat.auto,
    key_format: loading.KeyFormatOption = TextFormat.auto,
    file_format: loading.FileFormatOption = FileFormat.auto,
    delimiter: loading.DelimiterOption = None,
    header: loading.HeaderOption = None,
    multiline: loading.MultilineOption = True,
    rejects: loading.RejectsOption = None,
    key_bytes: KeyBytesOption = "var",
    value_bytes: ValueBytesOption = "var",
    family: FamilyOption = "default",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    durability: DurabilityOption = RocksDurability.process,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Put the rows of files into a database, which is made where it is not there; exit status 1:
    some were rejected, 2: it stopped."""
    names = expand(files)
    inputs = [db, *(name for name in names if name != STDIN)]
    result = result_for(db, log_dir, json_file, overwrite, *inputs)
    reading = Reading(loading.delimiter_of(delimiter), header, multiline)
    choice = Choice(key_column, value_columns, key_format, rows)
    widths = width("--key-bytes", key_bytes), width("--value-bytes", value_bytes)
    done: list[Loaded] = []
    with (
        rejects_file(rejects, overwrite, inputs) as writer,
        opened(
            db,
            device,
            log_dir,
            options,
            merge_operator,
            durability=durability,
            families=[family],
            create=True,
        ) as into,
    ):
        pool = Family(into, family, *widths)
        for name in names:
            done.append(Loaded(name, Rejected("line", name, to=writer)))
            if _npz.is_npz(name):
                _npz.load(pool, name, done[-1])
            else:
                loading.load_file(pool, name, file_format, reading, choice, done[-1])
    _report(result, db, family, done)


def _report(result: JsonResult, db: str, family: str, done: list[Loaded]) -> None:
    stored = sum(one.stored for one in done)
    rejected = sum(one.rejected.count for one in done)
    say = answers_to(result)
    for one in done:
        loading.tell_rejected(one)
        say(f"{one.file}: {one.facts['format']}; {one.facts['columns']}")
    what = done[0].file if len(done) == 1 else plural(len(done), "file")
    report(
        result,
        {
            "db": db,
            "family": family,
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
            "rejected_rows": loading.rejected_rows(done),
        },
        f"loaded {plural(stored, 'row')} of {what} ({plural(rejected, 'row')} rejected) into "
        f"{family} of {db}",
    )
    if rejected:
        raise typer.Exit(FAULTS)


# --- export -------------------------------------------------------------------------------------


def export(
    db: DatabaseArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The .csv, .tsv, .jsonl, .parquet, .arrow or .npz file to write, compressed if "
            ".gz, .zst, .xz or .bz2 follows; '-' is standard output.",
        ),
    ],
    value_columns: exporting.SplitOption = None,
    key_format: exporting.KeyFormatOption = TextFormat.auto,
    value_format: exporting.ValueFormatOption = TextFormat.auto,
    file_format: exporting.WrittenFormatOption = FileFormat.auto,
    key_bytes: KeyBytesOption = "var",
    value_bytes: ValueBytesOption = "var",
    family: FamilyOption = "default",
    options: OptionsOption = None,
    merge_operator: MergeOperatorOption = None,
    device: RocksDeviceOption = RocksDevice.auto,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json_file: JsonOption = None,
) -> None:
    """Write every record of a column family to a file, which `load` reads back."""
    widths = width("--key-bytes", key_bytes), width("--value-bytes", value_bytes)
    archive = target = None
    if file != exporting.STDOUT:
        check_outside("", file, db, log_dir)
    if _npz.is_npz(file):
        archive = Output("", file, _npz.NPZ, overwrite=overwrite, force=force, inputs=[db])
    else:
        target = exporting.target_of(file, file_format, overwrite, force, [Path(db)])
    if file == exporting.STDOUT and json_file == exporting.STDOUT:
        raise Failure("--json -: the records go to standard output; name a file for the JSON")
    result = result_for(db, log_dir, json_file, overwrite, file, force=force)
    with opened(db, device, log_dir, options, merge_operator, read_only=True) as source:
        pool = Family(source, family, *widths)
        if archive is not None:
            written = _npz.write(pool, archive)
        else:
            assert target is not None
            fields = exporting.fields_of(pool, target.kind, key_format, value_format, value_columns)
            piped = target.output is None or file.endswith(".arrows")
            with target.writing() as sink:
                written = exporting.write_pool(
                    pool, sink, target.kind, fields, target.file.name, piped
                )
    summary = f"exported {plural(written, 'record')} of {family} of {db}"
    told: dict[str, Any] = {"db": db, "family": family, "file": file, "records": written}
    if file == exporting.STDOUT:
        result.write(told)
        print(f"{summary} to standard output", file=sys.stderr)
        return
    size = Path(file).stat().st_size
    report(result, told | {"bytes": size}, f"{summary} to {file} ({show_size(size)})")
