"""Text as batches of columns: CSV and JSON lines, by blocks of whole lines.

Invariants: rows keep their line numbers; what a reader refuses is narrowed down to its lines and
counted, and the rest is read.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure.cli_support import Failure, plural
from perdure.tables import cells, lines, records, sniffing
from perdure.tables.pieces import Piece, key_type_of, value_type_of
from perdure.tables.rejects import Rejected
from perdure.tables.streams import Stream

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_ROWS = 10_000  # from which the type of a column is told


@dataclass(frozen=True)
class Reading:
    """How a user wants text to be read; None where it is to be told from the file."""

    delimiter: str | None = None
    header: bool | None = None
    multiline: bool = True


class TextSource:
    """Blocks of lines, each read by Arrow as a whole, or where Arrow refuses it in halves."""

    header: list[str]
    _first: lines.Block | None

    def __init__(
        self,
        stream: Stream,
        rejected: Rejected,
        quoting: lines.Quoting | None,
        comments: int,
        header: bool,
    ) -> None:
        self.rejected = rejected
        self._stream = stream
        reader = stream.reader()
        if stream.head.startswith(codecs.BOM_UTF8):
            reader.read(len(codecs.BOM_UTF8))
        self._blocks = self._rows(lines.blocks(reader, quoting), comments, header)
        self._first = next(self._blocks, lines.cut(b"", 1, None, last=True)[0])

    @property
    def done(self) -> float:
        return self._stream.done / self._stream.size if self._stream.size else 0.0

    @staticmethod
    def _rows(blocks: Iterator[lines.Block], comments: int, header: bool) -> Iterator[lines.Block]:
        """Without what is before the first row."""
        for block in blocks:
            block.bad = [one for one in block.bad if one[0] > comments]
            begin = int(np.searchsorted(block.lines, comments, side="right"))
            if header and begin < len(block):
                begin, header = begin + 1, False
            if len(block) > begin or block.bad:
                yield block.after(begin)

    def pieces(self, names: list[str]) -> Iterator[Piece]:
        for block in self._all_blocks():
            for line, why, text in block.bad:
                self.rejected.add(line, why, text=text)
            yield from self._read(block, 0, len(block), names)

    def _all_blocks(self) -> Iterator[lines.Block]:
        assert self._first is not None
        first, self._first = self._first, None
        yield first
        del first
        yield from self._blocks

    def _read(self, block: lines.Block, first: int, last: int, names: list[str]) -> Iterator[Piece]:
        import pyarrow as pa

        if first == last:
            return
        try:
            columns, malformed = self._parse(block.text(first, last), last - first, names)
        except pa.ArrowException as error:
            if last - first == 1:
                self.rejected.add(int(block.lines[first]), _why(error), text=block.row(first))
                return
            middle = (first + last) // 2
            yield from self._read(block, first, middle, names)
            yield from self._read(block, middle, last, names)
            return
        for row, why in malformed.items():
            self.rejected.add(int(block.lines[first + row]), why, text=block.row(first + row))
        rows = np.setdiff1d(np.arange(first, last), first + np.array(list(malformed), np.int64))
        if len(rows):
            yield Piece(columns, block.lines[rows], lambda row: block.row(int(rows[row])))

    def _parse(
        self, text: bytes, rows: int, names: list[str]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """The columns of that many rows, and what is wrong with rows that are not among them."""
        raise NotImplementedError

    def _sample(self) -> list[pa.Array]:
        """Every column of the first rows that can be read."""
        assert self._first is not None
        count = min(len(self._first), SAMPLE_ROWS)
        kept, self.rejected = self.rejected, Rejected(self.rejected.unit)
        pieces = list(self._read(self._first, 0, count, self.header))
        self.rejected = kept
        import pyarrow as pa

        if not pieces:
            return [pa.array([], pa.binary()) for _ in self.header]
        return [
            pa.concat_arrays([piece.columns[at] for piece in pieces])
            for at in range(len(self.header))
        ]


def _why(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class CsvSource(TextSource):
    """Cells are read as bytes, so that a bad one spoils its own line alone."""

    typed = False

    def __init__(self, stream: Stream, reading: Reading, rejected: Rejected) -> None:
        self._dialect = sniffing.sniff(stream.head, stream.whole, reading.delimiter, reading.header)
        self._delimiter = self._dialect.delimiter or "\x1f"  # one that no line has
        quoting = (
            lines.Quoting(self._delimiter.encode(), reading.multiline)
            if self._dialect.delimiter
            else None
        )
        super().__init__(stream, rejected, quoting, self._dialect.comments, self._dialect.header)
        self.header = self._dialect.names
        self._samples = dict(zip(reversed(self.header), reversed(self._sample()), strict=True))

    def describe(self) -> str:
        return f"CSV, {self._dialect.describe()}"

    def key_type(self, column: str) -> str | None:
        return None

    def value_type(self, column: str, width: int | None) -> str:
        """In a pool of varying lengths text stays text; a fixed width means numbers, where most
        are."""
        if width is None:
            return "text"
        if not len(self._samples[column]):
            assert self._first is not None
            for line, why, _ in self._first.bad:
                raise Failure(f"none of its first rows can be read: line {line}: {why}")
            raise Failure(f"no rows to tell the type of {column} from; name it {column}:TYPE")
        return cells.looks_like(self._samples[column])

    def kind(self, column: str) -> str:
        return records.kind_of(self._samples[column])

    def _parse(
        self, text: bytes, rows: int, names: list[str]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        import pyarrow as pa
        from pyarrow import csv

        malformed: dict[int, str] = {}

        def skip(row: Any) -> str:
            malformed[row.number - 1] = (
                f"{row.actual_columns} columns instead of {row.expected_columns}"
            )
            return "skip"

        # Arrow shows malformed lines to the handler as text, and gives up where one is no UTF-8;
        # such a block is read as Latin-1, of which every byte is a letter.
        encoding = "utf8" if _decodes(text) else "latin-1"
        internal = [str(at) for at in range(len(self.header))]
        requested = [str(self.header.index(name)) for name in names]
        table = csv.read_csv(
            pa.BufferReader(text),
            # One thread, because only then are the numbers of malformed lines known.
            csv.ReadOptions(
                use_threads=False,
                block_size=len(text) + 1,
                column_names=internal,
                encoding=encoding,
            ),
            csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if self._dialect.delimiter else False,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(requested, pa.binary()),
                include_columns=list(dict.fromkeys(requested)),
            ),
        )
        if table.num_rows + len(malformed) != rows:
            raise pa.ArrowInvalid("this is not one row")
        return [_octets(table.column(name), encoding) for name in requested], malformed


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _octets(column: pa.ChunkedArray, encoding: str) -> pa.Array:
    """The bytes of the file."""
    import pyarrow as pa

    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.binary())
    if encoding == "utf8":
        return array
    return pa.array([cell.decode().encode(encoding) for cell in array.to_pylist()], pa.binary())


class JsonSource(TextSource):
    """An object a line. The types of the first block's columns hold for the rest."""

    typed = True

    def __init__(self, stream: Stream, rejected: Rejected) -> None:
        super().__init__(stream, rejected, None, 0, False)
        self._schema = self._infer()
        self.header = self._schema.names

    def _infer(self) -> pa.Schema:
        """Of the first rows; those that do not agree are left out here, and rejected later."""
        import pyarrow as pa
        from pyarrow import json

        assert self._first is not None
        block, step = self._first, min(len(self._first), SAMPLE_ROWS)
        while step:
            for begin in range(0, min(len(block), SAMPLE_ROWS), step):
                text = block.text(begin, min(begin + step, len(block)))
                try:
                    found = json.read_json(
                        pa.BufferReader(text), json.ReadOptions(block_size=len(text) + 1)
                    )
                except pa.ArrowException:
                    continue
                return pa.schema([(one.name, _storable(one)) for one in found.schema])
            step = 0 if step == 1 else max(1, step // 8)
        if len(block):
            raise Failure(
                "none of its first lines is a JSON object; say what the file is with --format"
            )
        return pa.schema([])

    def describe(self) -> str:
        return f"JSON lines, {plural(len(self.header), 'column')}"

    def key_type(self, column: str) -> str | None:
        return key_type_of(self._schema.field(column).type, column)

    def value_type(self, column: str, width: int | None) -> str:
        return value_type_of("--value-columns", column, self._schema.field(column).type)

    def kind(self, column: str) -> str:
        return str(self._schema.field(column).type)

    def _parse(
        self, text: bytes, rows: int, names: list[str]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        import pyarrow as pa
        from pyarrow import json

        table = json.read_json(
            pa.BufferReader(text),
            json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            json.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="error"),
        )
        if table.num_rows != rows:
            raise pa.ArrowInvalid("this is not one JSON object")
        columns = table.select(list(dict.fromkeys(names))).combine_chunks()
        return [columns.column(name).combine_chunks() for name in names], {}


def _storable(one: pa.Field) -> pa.DataType:
    """What looks like a time stays the text that it is; so do types in the name."""
    import pyarrow as pa

    spec = cells.ColumnSpec.of_header(one.name)
    text = (
        pa.types.is_timestamp(one.type)
        or pa.types.is_null(one.type)
        or spec.type in ("text", "hex")
    )
    if spec.type in cells.NUMBERS:
        return pa.type_for_alias(cells.arrow_name(spec.type))
    return pa.string() if text else one.type
