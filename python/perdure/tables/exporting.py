"""`perdure export`: every record of a pool as rows of a file, whole pages at a time.

Invariant: `load` reads back what is written here: headers carry the types where the format has none
of its own, and values that are no text are hexadecimal.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from perdure import _outputs, _pages, _text
from perdure._outputs import Output, files_of
from perdure._text import INTEGER_WIDTHS
from perdure._typed import RowType
from perdure._typed_text import row_type
from perdure.cli_support import (
    DeviceChoice,
    DeviceOption,
    Failure,
    ForceOption,
    JsonOption,
    JsonResult,
    LogDirOption,
    OverwriteOption,
    PoolArgument,
    open_pool,
    plural,
    progress,
    report,
    show_size,
    show_width,
)
from perdure.tables import records
from perdure.tables.cells import NUMBERS, TextFormat, arrow_name
from perdure.tables.pieces import BATCH_ROWS, Pool
from perdure.tables.sources import FileFormat, by_suffix
from perdure.tables.streams import STDIN, compressing, compression_of

if TYPE_CHECKING:
    import pyarrow as pa

STDOUT = STDIN  # "-" is both
MOST_COLUMNS = 1000  # that a typed value is split into
_TYPED = (FileFormat.parquet, FileFormat.arrow)
_KINDS = {
    FileFormat.csv: _outputs.CSV,
    FileFormat.tsv: _outputs.CSV,
    FileFormat.jsonl: _outputs.JSONL,
    FileFormat.parquet: _outputs.PARQUET,
    FileFormat.arrow: _outputs.ARROW,
}


@dataclass(frozen=True)
class Field:
    """A column of an exported file: its header, its Arrow type, and how bytes become its cells."""

    header: str
    arrow: pa.DataType
    cells: Callable[[Any], Any]


def _number_field(name: str, kind: str, start: int, typed: bool) -> Field:
    import pyarrow as pa

    dtype = np.dtype(kind)

    def cells(column: Any) -> Any:
        part = np.ascontiguousarray(column[:, start : start + dtype.itemsize])
        return pa.array(part.view(dtype).reshape(-1))

    return Field(f"{name}:{kind}" if typed else name, pa.type_for_alias(arrow_name(kind)), cells)


def _binary_field(name: str, width: int | None) -> Field:
    import pyarrow as pa

    if width is None:
        return Field(name, pa.large_binary(), lambda column: column)
    kind = pa.binary(width)

    def cells(column: Any) -> Any:
        return pa.Array.from_buffers(
            kind, len(column), [None, pa.py_buffer(np.ascontiguousarray(column))]
        )

    return Field(name, kind, cells)


def _strings(column: Any) -> pa.Array:
    return _pages.byte_strings(column) if isinstance(column, np.ndarray) else column


def _hex_field(name: str) -> Field:
    import pyarrow as pa

    def cells(column: Any) -> Any:
        return _pages.hexadecimal(_strings(column)).cast(pa.large_string())

    return Field(f"{name}:hex", pa.large_string(), cells)


def _text_field(name: str, option: str) -> Field:
    import pyarrow as pa

    def cells(column: Any) -> Any:
        strings = _strings(column)
        try:
            return strings.cast(pa.large_string())
        except pa.ArrowInvalid as error:
            wrong = next(cell for cell in strings.to_pylist() if not _text.decodes(cell))
            raise Failure(
                f"{option}: a {name} is not UTF-8 ({wrong[:16].hex()}...); export with {option} hex"
            ) from error

    return Field(f"{name}:text", pa.large_string(), cells)


def _field(name: str, width: int | None, requested: TextFormat, kind: FileFormat) -> Field:
    option = f"--{name}-format"
    default = (
        TextFormat.int
        if width in INTEGER_WIDTHS
        else TextFormat.text
        if width is None
        else TextFormat.hex
    )
    chosen = default if requested is TextFormat.auto else requested
    if chosen is TextFormat.int:
        if width not in INTEGER_WIDTHS:
            raise Failure(
                f"{option} int: this pool's {name}s have {show_width(width)}; choose hex or text"
            )
        return _number_field(name, f"uint{8 * width}", 0, kind not in _TYPED)
    if kind in _TYPED and requested is TextFormat.auto:
        return _binary_field(name, width)
    return _hex_field(name) if chosen is TextFormat.hex else _text_field(name, option)


def _value_fields(columns: str, width: int | None, kind: FileFormat) -> list[Field]:
    """The inverse of packing: NAME:TYPE,... whose widths add up to the pool's."""
    fields: list[Field] = []
    start = 0
    for column in columns.split(","):
        name, _, number = column.strip().rpartition(":")
        if not name or number not in NUMBERS:
            raise Failure(
                f"--value-columns {column}: write NAME:TYPE with a type of {', '.join(NUMBERS)}"
            )
        fields.append(_number_field(name, number, start, kind not in _TYPED))
        start += np.dtype(number).itemsize
    if start != width:
        raise Failure(
            f"--value-columns: {columns} have {start} bytes, but this pool's values have "
            f"{show_width(width)}"
        )
    return fields


def _typed_fields(row: RowType, kind: FileFormat) -> list[Field] | None:
    """Numbers one by one, where formats have them and readers so many columns."""
    count = math.prod(row.shape)
    if row.name not in NUMBERS or count > MOST_COLUMNS:
        return None
    names = [f"value_{at}" for at in range(count)] if row.shape else ["value"]
    return _value_fields(
        ",".join(f"{name}:{row.name}" for name in names), row.numpy().itemsize * count, kind
    )


def fields_of(
    store: Pool,
    kind: FileFormat,
    key_format: TextFormat,
    value_format: TextFormat,
    value_columns: str | None,
) -> list[Field]:
    """The columns of the file: the key, and what the value is, or is split into."""
    row = row_type(store)
    values = None
    if value_columns is not None:
        values = _value_fields(value_columns, store.value_bytes, kind)
    elif row is not None and value_format is TextFormat.auto:
        values = _typed_fields(row, kind)
    values = values or [_field("value", store.value_bytes, value_format, kind)]
    return [_field("key", store.key_bytes, key_format, kind), *values]


# --- writing ------------------------------------------------------------------------------------

Write = Callable[["list[pa.Array]"], None]


@contextmanager
def _batches_to(sink: Any, kind: FileFormat, schema: pa.Schema, piped: bool) -> Iterator[Write]:
    import pyarrow as pa

    if kind in (FileFormat.csv, FileFormat.tsv):
        delimiter = "," if kind is FileFormat.csv else "\t"
        sink.write((delimiter.join(_quoted_name(name) for name in schema.names) + "\n").encode())
        yield lambda columns: _write_rows(sink, _delimited(columns, delimiter))
    elif kind is FileFormat.jsonl:
        yield lambda columns: _write_rows(
            sink, _pages.join(records.objects(schema.names, columns), "\n")
        )
    else:
        with _typed_writer(sink, kind, schema, piped) as writer:
            yield lambda columns: writer.write_batch(
                pa.RecordBatch.from_arrays(columns, schema=schema)
            )


def _typed_writer(sink: Any, kind: FileFormat, schema: pa.Schema, piped: bool) -> Any:
    import pyarrow as pa

    if kind is FileFormat.parquet:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(sink, schema)
    return pa.ipc.new_stream(sink, schema) if piped else pa.ipc.new_file(sink, schema)


def _write_rows(sink: Any, rows: pa.Array) -> None:
    sink.write(_pages.octets_of(rows))


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _delimited(columns: list[pa.Array], delimiter: str) -> pa.Array:
    """Rows of CSV: numbers as they are, strings in quotes."""
    parts: list[pa.Array | str] = []
    for at, column in enumerate(columns):
        parts += [delimiter] if at else []
        parts += _cell_parts(column)
    return _pages.join(*parts, "\n")


def _cell_parts(column: pa.Array) -> list[pa.Array | str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    octets = column.cast(pa.large_string()).cast(pa.large_binary())
    if not pa.types.is_large_string(column.type):
        return [octets]
    if (_pages.octets_of(octets) == ord('"')).any():
        octets = pc.replace_substring(octets, '"', '""')
    return ['"', octets, '"']


def write_pool(
    store: Pool, sink: Any, kind: FileFormat, fields: list[Field], title: str, piped: bool
) -> int:
    import pyarrow as pa

    schema = pa.schema([(field.header, field.arrow) for field in fields])
    written = 0
    with (
        _batches_to(sink, kind, schema, piped) as write,
        progress(f"export {title}", len(store)) as show,
        closing(_pages.ahead(store.scan(BATCH_ROWS))) as pages,
    ):
        for keys, values in pages:
            key_rows, value_rows = (
                _rows_of(keys, store.key_bytes),
                _rows_of(values, store.value_bytes),
            )
            write([fields[0].cells(key_rows), *(field.cells(value_rows) for field in fields[1:])])
            written += len(keys)
            show(written)
    return written


def _rows_of(column: Any, width: int | None) -> Any:
    return column if width is None else _pages.rows_of(column, width)


@dataclass(frozen=True)
class Target:
    """Where an export goes, and as what."""

    file: Path
    kind: FileFormat
    compression: str
    output: Output | None  # None: standard output

    @contextmanager
    def writing(self) -> Iterator[Any]:
        if self.output is None:
            sys.stdout.flush()
            with self._compressed(sys.stdout.buffer) as sink:
                yield sink
            sys.stdout.buffer.flush()
            return
        with (
            self.output.writing() as unfinished,
            open(unfinished, "wb") as raw,
            self._compressed(raw) as sink,
        ):
            yield sink

    @contextmanager
    def _compressed(self, raw: IO[bytes]) -> Iterator[Any]:
        sink, finish = compressing(raw, self.compression)
        yield sink
        finish()


def target_of(
    file: str, requested: FileFormat, overwrite: bool, force: bool, inputs: list[Path]
) -> Target:
    if file == STDOUT:
        return Target(
            Path(file), FileFormat.csv if requested is FileFormat.auto else requested, "", None
        )
    bare, compression = compression_of(Path(file))
    kind = by_suffix(bare.name) if requested is FileFormat.auto else requested
    if kind is None:
        raise Failure(
            f"{file}: ends in none of .csv, .tsv, .jsonl, .parquet and .arrow; say which with "
            "--format"
        )
    known = _outputs.COMPRESSED[compression] if compression else _KINDS[kind]
    output = Output("", file, known, overwrite=overwrite, force=force, inputs=inputs)
    return Target(Path(file), kind, compression, output)


SplitOption = Annotated[
    str | None,
    typer.Option(
        "--value-columns",
        metavar="NAME:TYPE,...",
        help="Split values into little-endian numbers.",
    ),
]
KeyFormatOption = Annotated[TextFormat, typer.Option("--key-format", help="How keys are written.")]
ValueFormatOption = Annotated[
    TextFormat, typer.Option("--value-format", help="How values are written.")
]
WrittenFormatOption = Annotated[
    FileFormat,
    typer.Option("--format", help="auto: by the file's name; CSV on standard output."),
]


def export(
    pool: PoolArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The .csv, .tsv, .jsonl, .parquet or .arrow file to write, compressed if .gz, "
            ".zst, .xz or"
            " .bz2 follows; '-' is standard output.",
        ),
    ],
    value_columns: SplitOption = None,
    key_format: KeyFormatOption = TextFormat.auto,
    value_format: ValueFormatOption = TextFormat.auto,
    file_format: WrittenFormatOption = FileFormat.auto,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json_file: JsonOption = None,
) -> None:
    """Write every record of a pool to a file, which `load` reads back."""
    read = files_of(pool, log_dir)
    target = target_of(file, file_format, overwrite, force, read)
    if target.output is None and json_file == STDOUT:
        raise Failure("--json -: the records go to standard output; name a file for the JSON")
    result = JsonResult(json_file, overwrite, file, *read, force=force)
    # The pool stays open, and locked, until the file has its name.
    with open_pool(pool, device, read_only=True, log_dir=log_dir) as store:
        fields = fields_of(store, target.kind, key_format, value_format, value_columns)
        piped = target.output is None or file.endswith(".arrows")
        with target.writing() as sink:
            written = write_pool(store, sink, target.kind, fields, target.file.name, piped)
    summary = f"exported {plural(written, 'record')} of {pool}"
    if target.output is None:
        result.write({"pool": pool, "file": file, "records": written})
        print(f"{summary} to standard output", file=sys.stderr)
        return
    size = target.file.stat().st_size
    report(
        result,
        {"pool": pool, "file": file, "records": written, "bytes": size},
        f"{summary} to {file} ({show_size(size)})",
    )
