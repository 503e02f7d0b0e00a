"""Traces whose lines are a fixed number of columns: `Table`, and the formats that are one.

Invariant: a block that `fast` takes whole holds the same requests as `slow` reads from it, line by
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perdure._requests import INT64_MAX, UINT64_MAX, Malformed, Op, Refused, Requests
from perdure._trace_lines import (
    Lines,
    int_column,
    lines_unlike,
    only_chunk,
    read_columns,
    shown,
    whole,
)

ARC_BLOCK_BYTES = 512
_ARC_BLOCKS_MAX = 1 << 20  # of one request
_PIECE_KEYS = 1 << 20


@dataclass(frozen=True)
class Column:
    """One column of a table. Its `role` is what the requests take from it, if anything; a `word`
    column holds one of `words`; a `same` column holds the first line's text in every line."""

    name: str
    kind: str = (
        "whole"  # whole (0..2^63-1), object (0..2^64-1), text (one byte at least), same, word, any
    )
    role: str = ""  # time, key, size, op
    least: int = 0
    most: int = INT64_MAX
    words: tuple[tuple[bytes, int], ...] = ()


_ARROW_TYPES = {"whole": pa.int64(), "object": pa.uint64()}
_PLAIN = {
    "whole": rb"[ \t]*+\d{1,18}[ \t]*+",
    "object": rb"[ \t]*+\d{1,19}[ \t]*+",
    "text": rb"[^%s\r\n]++",
    "same": rb"[^%s\r\n]*+",
    "any": rb"[^%s\r\n]*+",
}


class Table(Lines):
    """Lines of a fixed number of columns."""

    def __init__(
        self,
        columns: list[Column],
        delimiter: bytes = b",",
        *,
        comment: bytes = b"#",
        header: bytes | None = None,
        key_counted: bool = False,
    ) -> None:
        self.columns = columns
        self.comment, self.header = comment, header
        self._delimiter = delimiter
        self._split: bytes | None = delimiter  # None: at any run of blanks
        self._key_counted = key_counted
        self._first: dict[str, bytes] = {}  # of each `same` column
        self.unusual = lines_unlike(re.escape(delimiter).join(map(self._plain, columns)))
        self._types = {
            c.name: _ARROW_TYPES.get(c.kind, pa.large_binary()) for c in columns if c.kind != "any"
        }
        self._key = next(c for c in columns if c.role == "key")
        self.numeric = self._key.kind == "object"

    def _plain(self, column: Column) -> bytes:
        if column.kind == "word":
            return b"(?:%s)" % b"|".join(re.escape(word) for word, _ in column.words)
        if self._delimiter == b" " and column.kind in ("whole", "object"):
            return rb"\d{1,18}"
        plain = _PLAIN[column.kind]
        return plain % re.escape(self._delimiter) if b"%s" in plain else plain

    def fast(self, block: bytes) -> Requests | None:
        table = read_columns(block, [c.name for c in self.columns], self._types, self._delimiter)
        if table is None or not all(self._fits(c, table) for c in self.columns):
            return None
        for column in self.columns:
            if column.kind == "same":
                self._first.setdefault(column.name, only_chunk(table, column.name)[0].as_py())
        held: dict[str, Any] = {"times": None, "sizes": None, "ops": None}
        for column in self.columns:
            if column.role in ("time", "size"):
                held[column.role + "s"] = int_column(table, column.name)
            elif column.role == "op":
                held["ops"] = self._ops(column, only_chunk(table, column.name))
        keys = only_chunk(table, self._key.name)
        return Requests(keys, **held, key_counted=self._key_counted)

    def _fits(self, column: Column, table: pa.Table) -> bool:
        """Whether all values of a column that Arrow has read are what the form allows."""
        if column.kind == "any" or column.kind == "object":
            return True
        if column.kind == "whole":
            numbers = int_column(table, column.name)
            return bool(numbers.min() >= column.least and numbers.max() <= column.most)
        texts = only_chunk(table, column.name)
        if column.kind == "text":
            return bool(pc.min(pc.binary_length(texts)).as_py() > 0)
        if column.kind == "same":
            first = self._first.get(column.name, texts[0].as_py())
            return bool(pc.all(pc.equal(texts, pa.scalar(first, texts.type))).as_py())
        return bool(pc.all(pc.is_in(texts, value_set=self._words(column))).as_py())

    def _words(self, column: Column) -> pa.Array:
        return pa.array([word for word, _ in column.words], pa.large_binary())

    def _ops(self, column: Column, texts: pa.Array) -> npt.NDArray[np.uint8]:
        codes = np.array([code for _, code in column.words], np.uint8)
        return codes[pc.index_in(texts, value_set=self._words(column)).to_numpy()]

    def parse(self, line: bytes) -> tuple:
        """Time, key, size and operation of one line; what the form does not have is None."""
        fields = line.split(self._split)
        if len(fields) != len(self.columns):
            names = ", ".join(c.name for c in self.columns)
            raise Refused(f"{len(self.columns)} columns expected ({names}), {len(fields)} found")
        found: dict[str, Any] = {}
        for column, text in zip(self.columns, fields, strict=True):
            value = self._value(column, text)
            if column.role:
                found[column.role] = value
        # Last, so that a line that is malformed by itself has the same reason whatever came before
        # it.
        for column, text in zip(self.columns, fields, strict=True):
            if column.kind == "same" and self._first.get(column.name, text) != text:
                first = shown(self._first[column.name])
                raise Refused(f"{column.name} {shown(text)} is not the first line's ({first})")
        return tuple(found.get(role) for role in ("time", "key", "size", "op"))

    def _value(self, column: Column, text: bytes) -> int | bytes:
        match column.kind:
            case "whole":
                return whole(text, column.name, column.least, column.most)
            case "object":
                return whole(text, column.name, 0, UINT64_MAX)
            case "text" if not text:
                raise Refused(f"{column.name} is empty")
            case "word":
                return self._code(column, text)
        return text

    def _code(self, column: Column, text: bytes) -> int:
        for word, code in column.words:
            if word == text:
                return code
        words = b"/".join(word for word, _ in column.words).decode()
        raise Refused(f"{column.name} {shown(text)} is none of {words}")

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(self._rows_noting_the_first(block, line, malformed))
        if not rows:
            return None
        times, keys, sizes, ops = zip(*rows, strict=True)
        return Requests(
            pa.array(np.array(keys, np.uint64))
            if self.numeric
            else pa.array(keys, pa.large_binary()),
            None if times[0] is None else np.array(times, np.int64),
            None if sizes[0] is None else np.array(sizes, np.int64),
            None if ops[0] is None else np.array(ops, np.uint8),
            key_counted=self._key_counted,
        )

    def _rows_noting_the_first(
        self, block: bytes, line: int, malformed: Malformed
    ) -> Iterator[tuple]:
        same = [(i, c.name) for i, c in enumerate(self.columns) if c.kind == "same"]
        if not same or self._first:
            yield from self.good_rows(block, line, malformed)
            return
        for number, text in enumerate(block.split(b"\n")[:-1], line):
            row = list(self.good_rows(text + b"\n", number, malformed))
            if row and not self._first:
                fields = text.removesuffix(b"\r").split(self._delimiter)
                self._first = {name: fields[i] for i, name in same}
            yield from row


class Arc(Table):
    """ARC's `.lis`: a request for n blocks is n keys."""

    def __init__(self) -> None:
        super().__init__(
            [
                Column("start block", "object", "key"),
                Column("blocks", role="size", least=1, most=_ARC_BLOCKS_MAX),
                Column("ignored"),
                Column("request number"),
            ],
            b" ",
        )
        self._split = None

    def pieces(self, requests: Requests) -> Iterator[Requests]:
        assert requests.sizes is not None
        starts, counts = requests.keys.to_numpy(), requests.sizes
        ends = np.cumsum(counts)
        row = 0
        while row < len(counts):
            done = ends[row - 1] if row else 0
            stop = max(row + 1, int(np.searchsorted(ends, done + _PIECE_KEYS, side="right")))
            some = counts[row:stop]
            within = np.arange(some.sum()) - np.repeat(ends[row:stop] - some - done, some)
            keys = np.repeat(starts[row:stop], some) + within.astype(np.uint64)
            yield Requests(pa.array(keys), sizes=np.full(len(keys), ARC_BLOCK_BYTES, np.int64))
            row = stop


def cache3() -> Table:
    columns = [
        Column("time", role="time"),
        Column("object", "object", "key"),
        Column("size", role="size"),
    ]
    return Table(columns, header=b"time,object,size", key_counted=True)


def lirs() -> Table:
    return Table([Column("block", "object", "key")], comment=b"*")


def msr() -> Table:
    columns = [
        Column("Timestamp", role="time"),
        Column("Hostname", "same"),
        Column("DiskNumber", "same"),
        Column("Type", "word", "op", words=((b"Read", Op.get), (b"Write", Op.set))),
        Column("Offset", "object", "key"),
        Column("Size", role="size"),
        Column("ResponseTime"),
    ]
    return Table(columns, header=b"timestamp,hostname,disknumber,type,offset,size,responsetime")


def cloudphysics() -> Table:
    """SCSI opcodes in hexadecimal: READ(6), (10), (12), (16), and WRITE likewise."""
    reads, writes = (b"08", b"28", b"a8", b"88"), (b"0a", b"2a", b"aa", b"8a")
    words = (*((code, Op.get) for code in reads), *((code, Op.set) for code in writes))
    columns = [
        Column("version"),
        Column("time", role="time"),
        Column("op", "word", "op", words=words),
        Column("size", role="size"),
        Column("lbn", "object", "key"),
    ]
    return Table(columns, header=b"version,time,op,size,lbn")
