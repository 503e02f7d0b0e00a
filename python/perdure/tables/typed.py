"""Files of Arrow's own types as batches of columns: Parquet, Arrow IPC and Feather.

Invariant: rows keep their numbers in the file; what cannot be read is rejected from where it
breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perdure.cli_support import plural
from perdure.tables.pieces import BATCH_ROWS, Piece, key_type_of, value_type_of
from perdure.tables.rejects import Rejected
from perdure.tables.streams import Stream

if TYPE_CHECKING:
    import pyarrow as pa


class TypedSource:
    """A file of Arrow's types, whose rows come in groups. One that cannot be read is rejected from
    where it breaks."""

    noun: str
    typed = True

    def __init__(self, schema: pa.Schema, rejected: Rejected) -> None:
        self._schema = schema
        self.rejected = rejected
        self.header: list[str] = schema.names
        self.done = 0.0

    def describe(self) -> str:
        return f"{self.noun}, {plural(len(self.header), 'column')}"

    def _kind(self, column: str) -> pa.DataType:
        import pyarrow as pa

        kind = self._schema.field(self.header.index(column)).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def key_type(self, column: str) -> str | None:
        return key_type_of(self._kind(column), column)

    def value_type(self, column: str, width: int | None) -> str:
        return value_type_of("--value-columns", column, self._kind(column))

    def kind(self, column: str) -> str:
        return str(self._kind(column))

    def _numbered(
        self, batches: Iterator[pa.RecordBatch], names: list[str], first: int
    ) -> Iterator[Piece]:
        for batch in batches:
            for at in range(0, batch.num_rows, BATCH_ROWS):
                part = batch.slice(at, BATCH_ROWS)
                numbers = np.arange(first, first + part.num_rows)
                first += part.num_rows
                columns = [_plain(part.column(batch.schema.names.index(name))) for name in names]
                yield Piece(columns, numbers, lambda row: b"")


def _plain(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


class ParquetSource(TypedSource):
    noun = "Parquet"

    def __init__(self, stream: Stream, rejected: Rejected) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole = stream.name if stream.plain_file else pa.BufferReader(stream.reader().read())
        self._file = pq.ParquetFile(whole)
        super().__init__(self._file.schema_arrow, rejected)

    def pieces(self, names: list[str]) -> Iterator[Piece]:
        first = 1
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            yield from self._group(group, names, first, rows)
            first += rows
            self.done = (group + 1) / self._file.num_row_groups

    def _group(self, group: int, names: list[str], first: int, rows: int) -> Iterator[Piece]:
        import pyarrow as pa

        read = 0
        try:
            batches = self._file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names)
            for piece in self._numbered(batches, names, first):
                read += len(piece.numbers)
                yield piece
        except (OSError, pa.ArrowException) as error:
            left = plural(rows - read, "row")
            why = f"row group {group} cannot be read from here on ({left}): {error}"
            self.rejected.add(first + read, why, rows - read)


class ArrowSource(TypedSource):
    """Arrow's IPC file format, which Feather is, or its stream format."""

    noun = "Arrow"

    def __init__(self, stream: Stream, rejected: Rejected) -> None:
        import pyarrow as pa

        if stream.head.startswith(b"ARROW1"):
            whole = (
                pa.OSFile(stream.name)
                if stream.plain_file
                else pa.BufferReader(stream.reader().read())
            )
            file = pa.ipc.open_file(whole)
            self._batches = (file.get_batch(at) for at in range(file.num_record_batches))
            super().__init__(file.schema, rejected)
        else:
            opened = pa.ipc.open_stream(stream.reader())
            self._batches = iter(opened)
            super().__init__(opened.schema, rejected)

    def pieces(self, names: list[str]) -> Iterator[Piece]:
        yield from self._numbered(self._batches, names, 1)
