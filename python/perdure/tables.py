"""`perdure load` and `perdure export`: pools from and to Parquet and CSV, a batch at a time.

A CSV header may give types as `name:type` (see TYPES); export writes them, so that a file loads back
without options. Invariants: a row that cannot be stored is counted and reported by its line (CSV) or
row (Parquet), and never stops the rest; an export appears under its name only once it is complete, and
replaces nothing unasked (perdure._outputs).
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import typer

import perdure
from perdure._arrow import offsets_and_data
from perdure._outputs import CSV, PARQUET, Output, files_of
from perdure._text import INTEGER_WIDTHS
from perdure.cli_support import (
    FAULTS,
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

if TYPE_CHECKING:
    import pyarrow as pa

    from perdure.results import Statuses

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
TYPES = (*NUMBERS, "hex", "text")
BATCH_ROWS = 1 << 16
CSV_BLOCK_BYTES = 4 << 20
SAMPLE_ROWS = 10_000  # from which the type of a CSV column is told
COMPRESSION = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
REPORTED_MAX = 100  # rejected rows told one by one; the rest are counted

Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class FileFormat(StrEnum):
    auto = "auto"
    parquet = "parquet"
    csv = "csv"


class TextFormat(StrEnum):
    auto = "auto"
    int = "int"
    hex = "hex"
    text = "text"


@dataclass(frozen=True)
class ColumnSpec:
    """A column of the file, and how its cells become bytes; type None is the file's own."""

    name: str  # as the file has it
    type: str | None

    @staticmethod
    def of_header(header: str) -> ColumnSpec:
        name, _, suffix = header.rpartition(":")
        return ColumnSpec(header, suffix if name and suffix in TYPES else None)


@dataclass
class Rejected:
    """Rows that could not be stored."""

    unit: str  # "line" or "row"
    count: int = 0
    reported: list[dict[str, Any]] = field(default_factory=list)

    def add(self, number: int, why: str, rows: int = 1) -> None:
        self.count += rows
        if len(self.reported) < REPORTED_MAX:
            self.reported.append({self.unit: number, "why": why})


# --- cells to bytes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    """The cells of one column as bytes, one row each: `rows` of one width, or Arrow byte strings."""

    rows: Octets | None
    strings: pa.LargeBinaryArray | None
    bad: Mask
    why: Callable[[int], str]  # row -> what is wrong with it


def _always(why: str) -> Callable[[int], str]:
    return lambda row: why


def _fixed(numbers: npt.NDArray[Any], bad: Mask, why: str) -> Encoded:
    octets = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)
    return Encoded(octets, None, bad, _always(why))


def _nulls(column: pa.Array) -> Mask:
    return column.is_null().to_numpy(zero_copy_only=False).astype(bool)


def _encode_numbers(column: pa.Array, kind: str) -> Encoded:
    """Numbers, or text that holds them, as little-endian elements of `kind`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    why = f"not {'an' if kind.startswith('int') else 'a'} {kind}"
    missing = _nulls(column)
    if _is_bytes(column.type):
        column = column.cast(pa.large_binary())
    try:
        text = column.cast(pa.large_string()) if _is_bytes(column.type) else column
        numbers = text.cast(pa.type_for_alias(_arrow_name(kind)))
        return _fixed(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), missing, why)
    except pa.ArrowInvalid:  # some cell does not fit: find which, one by one
        return _encode_each_number(column.to_pylist(), kind, why)


def _arrow_name(kind: str) -> str:
    return {"float32": "float", "float64": "double"}.get(kind, kind)


def _encode_each_number(cells: list[Any], kind: str, why: str) -> Encoded:
    dtype = np.dtype(kind)
    numbers = np.zeros(len(cells), dtype)
    bad = np.zeros(len(cells), bool)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = _number(cell, dtype)
        except (OverflowError, TypeError, UnicodeDecodeError, ValueError):
            bad[row] = True
    return _fixed(numbers, bad, why)


def _number(cell: Any, dtype: np.dtype[Any]) -> Any:
    text = cell.decode("ascii").strip() if isinstance(cell, bytes) else cell
    if isinstance(text, str) and "_" in text:
        raise ValueError  # Python's digit groups are no number in a file
    if dtype.kind == "f":
        return float(text)
    # Arrow takes 0x.. for an integer, so a cell means the same whichever way its batch is read.
    number = int(text, 16) if isinstance(text, str) and text[:2] in ("0x", "0X") else int(text)
    if isinstance(text, float) and text != number:
        raise ValueError
    if not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise OverflowError
    return number


def _encode_key_integers(column: pa.Array, width: int) -> Encoded:
    """Integers signed or unsigned, whichever a cell needs: both have one pattern of bytes."""
    signed = _encode_numbers(column, f"int{8 * width}")
    if not signed.bad.any():
        return signed
    unsigned = _encode_numbers(column, f"uint{8 * width}")
    assert signed.rows is not None and unsigned.rows is not None
    rows = np.where(signed.bad[:, None], unsigned.rows, signed.rows)
    return Encoded(rows, None, signed.bad & unsigned.bad, _always(f"not a whole number of {width} bytes"))


def _encode_hex(column: pa.Array) -> Encoded:
    import pyarrow as pa

    cells: list[bytes] = []
    bad = np.zeros(len(column), bool)
    for row, cell in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            cells.append(bytes.fromhex(cell.decode("ascii")))
        except (AttributeError, UnicodeDecodeError, ValueError):
            cells.append(b"")
            bad[row] = True
    return Encoded(None, pa.array(cells, pa.large_binary()), bad, _always("not pairs of hexadecimal digits"))


def _encode_strings(column: pa.Array) -> Encoded:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = _nulls(column)
    return Encoded(None, pc.fill_null(column.cast(pa.large_binary()), b""), missing, _always("empty"))


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _encode(column: pa.Array, kind: str) -> Encoded:
    if kind == "hex":
        return _encode_hex(column)
    return _encode_strings(column) if kind == "text" else _encode_numbers(column, kind)


def _looks_like(column: pa.Array) -> str:
    """int64, float64 or text, as most cells have it; a few bad cells do not change what a column is."""
    numbers = ~_encode_numbers(column, "float64").bad
    if 2 * np.count_nonzero(numbers) <= len(numbers):
        return "text"
    integers = ~_encode_numbers(column, "int64").bad
    return "int64" if integers[numbers].all() else "float64"


# --- rows to keys and values --------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Which columns become keys and values, and as what; fixed before the first row."""

    key: ColumnSpec  # type "int" stands for integers of the key's width
    values: list[ColumnSpec]  # every type known
    key_width: int | None
    value_width: int | None

    def names(self) -> list[str]:
        return [self.key.name, *(spec.name for spec in self.values)]

    def encode_keys(self, column: pa.Array) -> Encoded:
        if self.key.type == "int":
            assert self.key_width is not None
            return _encode_key_integers(column, self.key_width)
        return _of_width(_encode(column, self.key.type or "text"), self.key_width)

    def encode_values(self, columns: list[pa.Array]) -> Encoded:
        encoded = [
            _encode(column, spec.type or "text") for spec, column in zip(self.values, columns, strict=True)
        ]
        if len(encoded) == 1:
            return _of_width(encoded[0], self.value_width)
        rows = [one.rows for one in encoded if one.rows is not None]
        bad = np.array([one.bad for one in encoded])

        def why(row: int) -> str:
            column = int(np.argmax(bad[:, row]))
            return f"{self.values[column].name} {encoded[column].why(row)}"

        return Encoded(np.concatenate(rows, axis=1), None, bad.any(axis=0), why)


def _of_width(encoded: Encoded, width: int | None) -> Encoded:
    """Byte strings as rows of the pool's width; those of another length are bad."""
    if width is None or encoded.strings is None:
        return encoded
    ends, data = offsets_and_data(encoded.strings)
    wrong = (np.diff(ends) != width) | encoded.bad
    rows = np.zeros((len(wrong), width), np.uint8)
    if not wrong.any():
        rows = data[int(ends[0]) : int(ends[-1])].reshape(rows.shape)
    else:
        for row in np.flatnonzero(~wrong):
            rows[row] = data[int(ends[row]) : int(ends[row + 1])]

    def why(row: int) -> str:
        return (
            encoded.why(row)
            if encoded.bad[row]
            else f"{int(ends[row + 1] - ends[row])} bytes instead of {width}"
        )

    return Encoded(rows, None, wrong, why)


def _check_widths(values: list[ColumnSpec], width: int | None) -> None:
    """Several columns are packed, so all must have a width, and a fixed pool wants its own sum."""
    listed = ", ".join(f"{spec.name} {spec.type}" for spec in values)
    fixed = [np.dtype(spec.type).itemsize for spec in values if spec.type in NUMBERS]
    if len(values) > 1 and len(fixed) < len(values):
        raise Failure(
            f"--value-columns: cannot pack text or hex beside other columns ({listed}); choose one"
            " column, or numbers alone"
        )
    if width is not None and len(fixed) == len(values) and sum(fixed) != width:
        raise Failure(
            f"--value-columns: {listed} have {sum(fixed)} bytes, but this pool's values have {width};"
            " choose columns that add up, with types as NAME:TYPE"
        )


def _key_type(name: str, wanted: TextFormat, given: str | None, width: int | None) -> str:
    """int, hex or text: as the user says, else as the file says, else as the pool's width suggests."""
    default = "int" if width in INTEGER_WIDTHS else "text" if width is None else "hex"
    chosen = (given or default) if wanted is TextFormat.auto else wanted.value
    if chosen in ("hex", "text"):
        return chosen
    if chosen.startswith("float"):
        raise Failure(f"--key-column {name}: keys are integers or bytes, not {chosen}; choose another column")
    if width not in INTEGER_WIDTHS:
        raise Failure(
            "--key-format: integers are keys of 1, 2, 4 or 8 bytes, but this pool's have"
            f" {show_width(width)};"
            " choose hex or text, or another --key-column"
        )
    return "int"


def _pick(options: str, name: str, header: list[str]) -> ColumnSpec:
    """The column a user named: as the file has it, or without the type its header carries."""
    base, _, kind = name.rpartition(":")
    for wanted, given in ((name, None), (base, kind if kind in TYPES else None)):
        for column in header:
            spec = ColumnSpec.of_header(column)
            if wanted and wanted in (column, column.rpartition(":")[0] if spec.type else column):
                return ColumnSpec(column, given or spec.type)
    raise Failure(
        f"{options} {name}: no such column; the file has {', '.join(header)} (types are {', '.join(TYPES)})"
    )


def _plan(
    store: perdure.Store,
    source: Source,
    key_column: str | None,
    value_columns: str | None,
    key_format: TextFormat,
) -> Plan:
    header = source.header
    if len(header) < 2:
        raise Failure(
            f"the file has {plural(len(header), 'column')}; it needs one for keys and at least one for values"
        )
    key = _pick("--key-column", key_column or header[0], header)
    chosen = value_columns.split(",") if value_columns else [name for name in header if name != key.name]
    values = [_pick("--value-columns", name.strip(), header) for name in chosen]
    width = store.value_bytes
    typed = [ColumnSpec(spec.name, spec.type or source.value_type(spec.name, width)) for spec in values]
    _check_widths(typed, width)
    kind = _key_type(key.name, key_format, key.type or source.key_type(key.name), store.key_bytes)
    return Plan(ColumnSpec(key.name, kind), typed, store.key_bytes, width)


# --- reading files ------------------------------------------------------------------------------


class Source(Protocol):
    """A file of rows. The types are what it says of a column itself; a user's word goes before."""

    header: list[str]
    size: float  # what Piece.done reaches at the end

    def key_type(self, column: str) -> str | None: ...
    def value_type(self, column: str, width: int | None) -> str: ...
    def pieces(self, names: list[str]) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class Piece:
    """Some rows of the file: their columns in the plan's order, and their numbers in the file."""

    columns: list[pa.Array]
    numbers: npt.NDArray[np.int64]
    done: float  # of the source's `size`


class CsvSource:
    """A CSV file, compressed or not by its suffix. Cells are read as bytes, so that a bad one spoils
    its own line alone."""

    def __init__(self, path: Path, delimiter: str, multiline: bool, rejected: Rejected) -> None:
        self._path = path
        self._multiline = multiline
        self._delimiter = delimiter
        self._rejected = rejected
        self._malformed: list[int] = []  # lines the parser skipped, in order
        self._next_line = 2  # line 1 is the header
        self.size = float(path.stat().st_size)
        with open(path, "rb") as raw:
            self._encoding = "utf8" if _is_utf8(self._text(raw)) else "latin-1"
        with open(path, "rb") as raw:
            self.header: list[str] = self._reader(raw, None, lambda row: "skip").schema.names

    def key_type(self, column: str) -> str | None:
        return None

    def value_type(self, column: str, width: int | None) -> str:
        """In a pool of varying lengths text stays text; a fixed width means numbers, where most are."""
        if width is None:
            return "text"
        with open(self._path, "rb") as raw:
            first = next(iter(self._reader(raw, [column], lambda row: "skip")), None)
        if first is None:
            raise Failure(f"{self._path}: no rows to tell the type of {column} from; name it {column}:TYPE")
        return _looks_like(self._cells(first.column(0).slice(0, SAMPLE_ROWS)))

    def pieces(self, names: list[str]) -> Iterator[Piece]:
        with open(self._path, "rb") as raw:
            for batch in self._reader(raw, names, self._skip):
                numbers = self._take_lines(batch.num_rows)
                columns = [self._cells(batch.column(name)) for name in names]
                yield self._without_blank(Piece(columns, numbers, float(raw.tell())))

    def _text(self, raw: BinaryIO) -> Any:
        import pyarrow as pa

        codec = COMPRESSION.get(self._path.suffix.lower())
        return raw if codec is None else pa.CompressedInputStream(raw, codec)

    def _cells(self, column: pa.Array) -> pa.Array:
        """The bytes of the file. Arrow shows malformed lines to a handler as text, and gives up where one is
        no UTF-8; such a file is read as Latin-1, of which every byte is a letter."""
        import pyarrow as pa

        if self._encoding == "utf8":
            return column
        return pa.array([cell.decode().encode(self._encoding) for cell in column.to_pylist()], pa.binary())

    def _reader(self, raw: BinaryIO, names: list[str] | None, handler: Callable[[Any], str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        wanted = {} if names is None else dict.fromkeys(names, pa.binary())
        return csv.open_csv(
            self._text(raw),
            # One thread, because only then are the numbers of malformed lines known.
            csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES, encoding=self._encoding),
            csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=self._multiline,
                ignore_empty_lines=False,  # they count as lines; see _without_blank
                invalid_row_handler=handler,
            ),
            csv.ConvertOptions(column_types=wanted, include_columns=list(wanted)),
        )

    def _skip(self, row: Any) -> str:
        self._malformed.append(row.number)
        self._rejected.add(row.number, f"{row.actual_columns} columns instead of {row.expected_columns}")
        return "skip"

    def _take_lines(self, count: int) -> npt.NDArray[np.int64]:
        """The numbers of the next `count` good lines. The parser reads ahead, so the list of malformed
        lines already reaches past them."""
        skipped = np.array([line for line in self._malformed if line >= self._next_line], np.int64)
        span = np.arange(self._next_line, self._next_line + count + len(skipped))
        lines = np.setdiff1d(span, skipped, assume_unique=True)[:count]
        self._next_line = int(lines[-1]) + 1 if count else self._next_line
        return lines

    @staticmethod
    def _without_blank(piece: Piece) -> Piece:
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = np.array(
            [pc.binary_length(column).to_numpy(zero_copy_only=False) for column in piece.columns]
        )
        filled = lengths.any(axis=0)
        if filled.all():
            return piece
        keep = pa.array(filled)
        return Piece([column.filter(keep) for column in piece.columns], piece.numbers[filled], piece.done)


def _is_utf8(text: Any) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := text.read(CSV_BLOCK_BYTES):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class ParquetSource:
    """A Parquet file. A row group that cannot be read is rejected from where it breaks."""

    def __init__(self, path: Path, rejected: Rejected) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(path)
        self._rejected = rejected
        schema = self._file.schema_arrow
        self.header: list[str] = schema.names
        self._types = dict(zip(schema.names, schema.types, strict=True))
        self.size = float(self._file.metadata.num_rows)

    def key_type(self, column: str) -> str | None:
        import pyarrow as pa

        kind = self._types[column]
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return None if text else self._type("--key-column", column)

    def value_type(self, column: str, width: int | None) -> str:
        return self._type("--value-columns", column)

    def _type(self, option: str, column: str) -> str:
        import pyarrow as pa

        kind = self._types[column]
        if _is_bytes(kind):
            return "text"  # its bytes as they are
        if pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64()):
            return np.dtype(kind.to_pandas_dtype()).name
        raise Failure(
            f"{option} {column}: Arrow type {kind} has no fixed bytes; choose integer, float, binary or"
            " string columns"
        )

    def pieces(self, names: list[str]) -> Iterator[Piece]:
        first = 1
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            yield from self._group(group, names, first, rows)
            first += rows

    def _group(self, group: int, names: list[str], first: int, rows: int) -> Iterator[Piece]:
        import pyarrow as pa

        read = 0
        try:
            for batch in self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names):
                numbers = np.arange(first + read, first + read + batch.num_rows)
                read += batch.num_rows
                yield Piece([batch.column(name) for name in names], numbers, float(first + read - 1))
        except (OSError, pa.ArrowException) as error:
            why = f"row group {group} cannot be read from here on ({plural(rows - read, 'row')}): {error}"
            self._rejected.add(first + read, why, rows - read)


def _format(file: Path, wanted: FileFormat) -> FileFormat:
    if wanted is not FileFormat.auto:
        return wanted
    name = file.name.lower()
    if name.endswith((".parquet", ".pq")):
        return FileFormat.parquet
    if name.endswith((".csv", *(f".csv{suffix}" for suffix in COMPRESSION))):
        return FileFormat.csv
    raise Failure(f"{file}: neither .parquet nor .csv; say which with --format")


# --- load ---------------------------------------------------------------------------------------


def _store_piece(store: perdure.Store, plan: Plan, piece: Piece, rejected: Rejected) -> int:
    keys = plan.encode_keys(piece.columns[0])
    values = plan.encode_values(piece.columns[1:])
    bad = keys.bad | values.bad
    for row in np.flatnonzero(bad):
        why = f"key: {keys.why(row)}" if keys.bad[row] else f"value: {values.why(row)}"
        rejected.add(int(piece.numbers[row]), why)
    kept = np.flatnonzero(~bad)
    _, statuses = store.put(_select(keys, kept), _select(values, kept), check=False)
    return _count_stored(statuses, piece.numbers[kept], rejected)


def _count_stored(statuses: Statuses, numbers: npt.NDArray[np.int64], rejected: Rejected) -> int:
    failed = np.flatnonzero(statuses)
    for row in failed:
        rejected.add(int(numbers[row]), perdure.KeyStatus(int(statuses[row])).name)
    return len(statuses) - len(failed)


def _select(encoded: Encoded, kept: npt.NDArray[np.intp]) -> Any:
    if encoded.rows is not None:
        return encoded.rows if len(kept) == len(encoded.rows) else np.ascontiguousarray(encoded.rows[kept])
    assert encoded.strings is not None
    return encoded.strings if len(kept) == len(encoded.strings) else encoded.strings.take(kept)


def _source(file: Path, wanted: FileFormat, delimiter: str, multiline: bool) -> tuple[Source, Rejected]:
    import pyarrow as pa

    if not file.is_file():
        raise Failure(f"{file}: no such file")
    kind = _format(file, wanted)
    rejected = Rejected("line" if kind is FileFormat.csv else "row")
    try:
        if kind is FileFormat.csv:
            return CsvSource(file, delimiter, multiline, rejected), rejected
        return ParquetSource(file, rejected), rejected
    except (OSError, pa.ArrowException) as error:
        raise Failure(f"{file}: not a readable {kind.value} file: {error}") from error


def load(
    pool: PoolArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Parquet or CSV with a header (.gz, .zst: compressed).")
    ],
    key_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the keys; the first one.")
    ] = None,
    value_columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:TYPE],...", help="Columns of the values, packed little-endian; all the others."
        ),
    ] = None,
    key_format: Annotated[TextFormat, typer.Option(help="How keys are written.")] = TextFormat.auto,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="auto: by the file's name.")
    ] = FileFormat.auto,
    delimiter: Annotated[str, typer.Option(help="Between the columns of a CSV file.")] = ",",
    multiline: Annotated[
        bool, typer.Option("--multiline", help="Quoted CSV cells may hold line breaks.")
    ] = False,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    json_file: JsonOption = None,
) -> None:
    """Put the rows of a Parquet or CSV file into a pool; exit status 1 if some were rejected."""
    result = JsonResult(json_file, overwrite, file, *files_of(pool, log_dir))
    source, rejected = _source(file, file_format, delimiter, multiline)
    with open_pool(pool, device, log_dir=log_dir) as store:
        plan = _plan(store, source, key_column, value_columns, key_format)
        stored = _load(store, plan, file, source, rejected)
        records = len(store)
    rejected.reported.sort(key=lambda one: one[rejected.unit])  # the parser reads ahead of the encoder
    for one in rejected.reported:
        print(f"{file}: {rejected.unit} {one[rejected.unit]}: {one['why']}", file=sys.stderr)
    if rejected.count > len(rejected.reported):
        print(f"{file}: and {rejected.count - len(rejected.reported):,} more", file=sys.stderr)
    report(
        result,
        {
            "pool": pool,
            "file": str(file),
            "stored": stored,
            "rejected": rejected.count,
            "rejected_rows": rejected.reported,
            "records": records,
        },
        f"loaded {plural(stored, 'row')} of {file} ({plural(rejected.count, 'row')} rejected);"
        f" {plural(records, 'record')} in {pool}",
    )
    if rejected.count:
        raise typer.Exit(FAULTS)


def _load(store: perdure.Store, plan: Plan, file: Path, source: Source, rejected: Rejected) -> int:
    import pyarrow as pa

    stored = 0
    with progress(f"load {file.name}", source.size) as show:
        try:
            for piece in source.pieces(plan.names()):
                stored += _store_piece(store, plan, piece, rejected)
                show(piece.done)
        except pa.ArrowException as error:
            raise Failure(
                f"{file}: cannot be read past the {plural(stored, 'row')} loaded so far: {error}"
            ) from error
        except perdure.NoSpace as error:
            raise Failure(
                f"{store.path}: {error.message} ({plural(stored, 'row')} loaded before this batch)"
            ) from error
    return stored


# --- export -------------------------------------------------------------------------------------


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

    return Field(f"{name}:{kind}" if typed else name, pa.type_for_alias(_arrow_name(kind)), cells)


def _binary_field(name: str, width: int | None) -> Field:
    import pyarrow as pa

    if width is None:
        return Field(name, pa.large_binary(), lambda column: column)
    kind = pa.binary(width)

    def cells(column: Any) -> Any:
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(np.ascontiguousarray(column))])

    return Field(name, kind, cells)


def _hex_field(name: str) -> Field:
    import pyarrow as pa

    def cells(column: Any) -> Any:
        return pa.array([octets.hex() for octets in _byte_strings(column)], pa.large_string())

    return Field(f"{name}:hex", pa.large_string(), cells)


def _text_field(name: str, option: str) -> Field:
    import pyarrow as pa

    def cells(column: Any) -> Any:
        try:
            return pa.array([octets.decode() for octets in _byte_strings(column)], pa.large_string())
        except UnicodeDecodeError as error:
            raise Failure(
                f"{option}: a {name} is not UTF-8 ({error.object[:16].hex()}...); export with {option} hex"
            ) from error

    return Field(f"{name}:text", pa.large_string(), cells)


def _byte_strings(column: Any) -> list[bytes]:
    return column.to_pylist() if hasattr(column, "to_pylist") else [row.tobytes() for row in column]


def _field(name: str, width: int | None, wanted: TextFormat, kind: FileFormat) -> Field:
    option = f"--{name}-format"
    default = (
        TextFormat.int if width in INTEGER_WIDTHS else TextFormat.text if width is None else TextFormat.hex
    )
    chosen = default if wanted is TextFormat.auto else wanted
    if chosen is TextFormat.int:
        if width not in INTEGER_WIDTHS:
            raise Failure(f"{option} int: this pool's {name}s have {show_width(width)}; choose hex or text")
        return _number_field(name, f"uint{8 * width}", 0, kind is FileFormat.csv)
    if kind is FileFormat.parquet and wanted is TextFormat.auto:
        return _binary_field(name, width)
    return _hex_field(name) if chosen is TextFormat.hex else _text_field(name, option)


def _value_fields(columns: str, width: int | None, kind: FileFormat) -> list[Field]:
    """The inverse of packing: NAME:TYPE,... whose widths add up to the pool's."""
    fields: list[Field] = []
    start = 0
    for column in columns.split(","):
        name, _, number = column.strip().rpartition(":")
        if not name or number not in NUMBERS:
            raise Failure(f"--value-columns {column}: write NAME:TYPE with a type of {', '.join(NUMBERS)}")
        fields.append(_number_field(name, number, start, kind is FileFormat.csv))
        start += np.dtype(number).itemsize
    if start != width:
        raise Failure(
            f"--value-columns: {columns} have {start} bytes, but this pool's values have {show_width(width)}"
        )
    return fields


def _writer(file: Path, kind: FileFormat, schema: pa.Schema) -> Any:
    if kind is FileFormat.parquet:
        import pyarrow.parquet as pq

        return pq.ParquetWriter(file, schema)
    from pyarrow import csv

    return csv.CSVWriter(file, schema)


def _rows_of(column: Any, width: int | None) -> Any:
    return (
        column if width is None else np.ascontiguousarray(column).view(np.uint8).reshape(len(column), width)
    )


def _export(store: perdure.Store, file: Path, kind: FileFormat, key: Field, values: list[Field]) -> int:
    import pyarrow as pa

    schema = pa.schema([(field.header, field.arrow) for field in (key, *values)])
    written = 0
    with _writer(file, kind, schema) as writer, progress(f"export {file.name}", len(store)) as show:
        for keys, found in store.scan(BATCH_ROWS):
            rows = _rows_of(found, store.value_bytes)
            columns = [key.cells(_rows_of(keys, store.key_bytes)), *(field.cells(rows) for field in values)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            written += len(keys)
            show(written)
    return written


def export(
    pool: PoolArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The Parquet or CSV file to write.")],
    value_columns: Annotated[
        str | None, typer.Option(metavar="NAME:TYPE,...", help="Split values into little-endian numbers.")
    ] = None,
    key_format: Annotated[TextFormat, typer.Option(help="How keys are written.")] = TextFormat.auto,
    value_format: Annotated[TextFormat, typer.Option(help="How values are written.")] = TextFormat.auto,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="auto: by the file's name.")
    ] = FileFormat.auto,
    device: DeviceOption = DeviceChoice.cpu,
    log_dir: LogDirOption = None,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json_file: JsonOption = None,
) -> None:
    """Write every record of a pool to a Parquet or CSV file, which `load` reads back."""
    kind = _format(file, file_format)
    read = files_of(pool, log_dir)
    output = Output(
        "",
        file,
        PARQUET if kind is FileFormat.parquet else CSV,
        overwrite=overwrite,
        force=force,
        inputs=read,
    )
    result = JsonResult(json_file, overwrite, file, *read, force=force)
    # The pool stays open, and locked, until the file has its name.
    with open_pool(pool, device, read_only=True, log_dir=log_dir) as store, output.writing() as unfinished:
        key = _field("key", store.key_bytes, key_format, kind)
        values = (
            [_field("value", store.value_bytes, value_format, kind)]
            if value_columns is None
            else _value_fields(value_columns, store.value_bytes, kind)
        )
        written = _export(store, unfinished, kind, key, values)
    size = file.stat().st_size
    report(
        result,
        {"pool": pool, "file": str(file), "records": written, "bytes": size},
        f"exported {plural(written, 'record')} of {pool} to {file} ({show_size(size)})",
    )


def register(app: typer.Typer) -> None:
    app.command()(load)
    app.command()(export)
