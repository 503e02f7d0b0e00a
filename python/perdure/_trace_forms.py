"""The forms of traces: how lines or records of a file become columns of requests.

A text form is a table of columns (`Table`), twitter's seven columns (`Cache7`) or one key a line
(`Keys`); a binary form is a record of fixed size (`Records`). `form_of` makes the form of a format.

Invariant: every line of a text trace is either passed over (blank, a comment, the header), one
request, or counted in `Malformed`; requests come in file order; and a block that `fast` takes whole
holds the same requests as `slow` reads from it, line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from perdure._requests import (
    INT64_MAX,
    OP_NAMES,
    UINT64_MAX,
    Malformed,
    Op,
    Refused,
    Requests,
    TraceFormat,
)

ARC_BLOCK_BYTES = 512
_ARC_BLOCKS_MAX = 1 << 20  # of one request
_PIECE_KEYS = 1 << 20
_OP_CODES = {op.name.encode(): int(op) for op in Op}


class TextForm(Protocol):
    """How a text format turns lines into requests."""

    numeric: bool  # keys are uint64, else byte strings

    def fast(self, block: bytes) -> Requests | None:
        """The requests of a block of whole lines, or None when some line needs a closer look."""

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes:
        """The block without its passed-over and malformed lines."""

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        """The requests of a block, line by line; malformed lines are noted under their number."""

    def pieces(self, requests: Requests) -> Iterator[Requests]:
        """The requests as they are replayed: a line of some formats stands for several keys."""

    def passes_over(self, line: bytes) -> bool:
        """Whether the line is blank, a comment or the header."""

    def parse(self, line: bytes) -> tuple:
        """The request of one line, or `Refused`."""


def parses(form: TextForm, line: bytes) -> bool:
    try:
        form.parse(line)
    except Refused:
        return False
    return True


# --- reading lines ------------------------------------------------------------------------------


def _whole(text: bytes, name: str, least: int, most: int) -> int:
    text = text.strip()
    try:
        # As Arrow reads them: decimal digits without a sign, or 0x and hexadecimal digits.
        value = int(text, 16) if text[:2] in (b"0x", b"0X") else int(text)
    except ValueError:
        raise Refused(f"{name} {shown(text)} is not a whole number") from None
    if text[:1] == b"+" or b"_" in text:
        raise Refused(f"{name} {shown(text)} is not a whole number")
    if not least <= value <= most:
        raise Refused(f"{name} {shown(text)} is outside {least}..{most}")
    return value


def shown(text: bytes) -> str:
    cut = text[:40].decode("utf-8", "backslashreplace")
    return repr(cut + "..." if len(text) > 40 else cut)


def _read_columns(
    block: bytes, names: list[str], types: dict[str, pa.DataType], delimiter: bytes = b","
) -> pa.Table | None:
    """The columns of `types` among all `names`, or None unless each line is exactly one good
    row."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return None  # Arrow would end a line at each
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(block), 1)
            ),
            parse_options=csv.ParseOptions(quote_char=False, delimiter=delimiter.decode()),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table.combine_chunks() if table.num_rows == block.count(b"\n") else None


def _only_chunk(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).chunk(0)


def _numbers(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return _only_chunk(table, name).to_numpy(zero_copy_only=True)


def _lines_unlike(plain: bytes) -> re.Pattern[bytes]:
    """Finds the lines that are not of the plain kind that Arrow is sure to take."""
    return re.compile(rb"^(?!%s\r?$).*\n" % plain, re.MULTILINE)


class _Lines:
    """What the forms share that read a line as one row: passing over, scrubbing, reading line by
    line."""

    unusual: re.Pattern[bytes]
    comment = b"#"
    header: bytes | None = None  # normalised; passed over wherever it stands

    def passes_over(self, line: bytes) -> bool:
        blank = not line.strip() or line.startswith(self.comment)
        return blank or (self.header is not None and normalised(line) == self.header)

    def parse(self, line: bytes) -> tuple:
        raise NotImplementedError

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes:
        kept: list[bytes] = []
        seen = 0  # bytes of the block dealt with
        for unusual in self.unusual.finditer(block):
            line += block.count(b"\n", seen, unusual.start())
            text = unusual[0].removesuffix(b"\n").removesuffix(b"\r")
            kept.append(block[seen : unusual.start()])
            if not self.passes_over(text):
                try:
                    self.parse(text)
                    kept.append(unusual[0])  # a request after all
                except Refused as refused:
                    malformed.add(line, str(refused))
            seen = unusual.end()
            line += 1
        kept.append(block[seen:])
        return b"".join(kept)

    def good_rows(self, block: bytes, line: int, malformed: Malformed) -> Iterator[tuple]:
        for number, text in enumerate(block.split(b"\n")[:-1], line):
            text = text.removesuffix(b"\r")
            if self.passes_over(text):
                continue
            try:
                yield self.parse(text)
            except Refused as refused:
                malformed.add(number, str(refused))

    def pieces(self, requests: Requests) -> Iterator[Requests]:
        yield requests


def normalised(line: bytes) -> bytes:
    """A header's names alone: lower case, without spaces, `#` and the byte order mark."""
    return line.removeprefix(b"\xef\xbb\xbf").lstrip(b"# ").replace(b" ", b"").rstrip().lower()


# --- tables -------------------------------------------------------------------------------------


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


class Table(_Lines):
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
        self.unusual = _lines_unlike(re.escape(delimiter).join(map(self._plain, columns)))
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
        table = _read_columns(block, [c.name for c in self.columns], self._types, self._delimiter)
        if table is None or not all(self._fits(c, table) for c in self.columns):
            return None
        for column in self.columns:
            if column.kind == "same":
                self._first.setdefault(column.name, _only_chunk(table, column.name)[0].as_py())
        held: dict[str, Any] = {"times": None, "sizes": None, "ops": None}
        for column in self.columns:
            if column.role in ("time", "size"):
                held[column.role + "s"] = _numbers(table, column.name)
            elif column.role == "op":
                held["ops"] = self._ops(column, _only_chunk(table, column.name))
        keys = _only_chunk(table, self._key.name)
        return Requests(keys, **held, key_counted=self._key_counted)

    def _fits(self, column: Column, table: pa.Table) -> bool:
        """Whether all values of a column that Arrow has read are what the form allows."""
        if column.kind == "any" or column.kind == "object":
            return True
        if column.kind == "whole":
            numbers = _numbers(table, column.name)
            return bool(numbers.min() >= column.least and numbers.max() <= column.most)
        texts = _only_chunk(table, column.name)
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
                return _whole(text, column.name, column.least, column.most)
            case "object":
                return _whole(text, column.name, 0, UINT64_MAX)
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


# --- twitter's seven columns, and one key a line ------------------------------------------------


class Cache7(_Lines):
    numeric = False
    _types: ClassVar = {
        "timestamp": pa.int64(),
        "key": pa.large_binary(),
        "key size": pa.int64(),
        "value size": pa.int64(),
        "client id": pa.large_binary(),
        "operation": pa.string(),
        "TTL": pa.int64(),
    }
    unusual = _lines_unlike(
        rb"\d{1,18},[^,\r\n]++,\d{1,18},\d{1,18},[^,\r\n]*+,(?:%s),\d{1,18}"
        % "|".join(OP_NAMES).encode()
    )

    def fast(self, block: bytes) -> Requests | None:
        table = _read_columns(block, list(self._types), self._types)
        if table is None:
            return None
        codes = pc.index_in(_only_chunk(table, "operation"), value_set=pa.array(OP_NAMES))
        keys = _only_chunk(table, "key")
        numbers = [_numbers(table, name) for name in ("timestamp", "key size", "value size", "TTL")]
        unfit = codes.null_count or min(column.min() for column in numbers) < 0
        if unfit or pc.min(pc.binary_length(keys)).as_py() == 0:
            return None
        times, _, sizes, ttls = numbers
        ops = codes.to_numpy(zero_copy_only=False).astype(np.uint8)
        return Requests(keys, times, sizes, ops, ttls)

    def parse(self, line: bytes) -> tuple[int, bytes, int, int, int]:
        head, *tail = line.rsplit(b",", 5)  # from the right: an anonymized key may hold commas
        time, comma, key = head.partition(b",")
        if len(tail) != 5 or not comma:
            found = line.count(b",") + 1
            raise Refused(
                f"7 columns expected (timestamp, key, key size, value size, client id, "
                f"operation, TTL), {found} found"
            )
        if not key:
            raise Refused("the key is empty")
        _whole(tail[0], "key size", 0, INT64_MAX)
        op = _OP_CODES.get(tail[3])
        if op is None:
            raise Refused(f"operation {shown(tail[3])} is none of {'/'.join(OP_NAMES)}")
        return (
            _whole(time, "timestamp", 0, INT64_MAX),
            key,
            _whole(tail[1], "value size", 0, INT64_MAX),
            op,
            _whole(tail[4], "TTL", 0, INT64_MAX),
        )

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(self.good_rows(block, line, malformed))
        if not rows:
            return None
        times, keys, sizes, ops, ttls = zip(*rows, strict=True)
        return Requests(
            pa.array(keys, pa.large_binary()),
            np.array(times, np.int64),
            np.array(sizes, np.int64),
            np.array(ops, np.uint8),
            np.array(ttls, np.int64),
        )


class Keys(_Lines):
    """Every line that is not empty is a key, so the vectorised reading never needs a second
    look."""

    numeric = False

    def passes_over(self, line: bytes) -> bool:
        return not line

    def parse(self, line: bytes) -> tuple[bytes]:
        return (line,)

    def fast(self, block: bytes) -> Requests | None:
        text = np.frombuffer(block, np.uint8)
        feed = text == 10
        drop = feed.copy()
        drop[:-1] |= (text[:-1] == 13) & feed[1:]
        kept = np.cumsum(~drop)  # bytes of keys up to and with each byte
        offsets = np.concatenate([[0], kept[feed]])
        offsets = offsets[np.concatenate([[True], np.diff(offsets) > 0])]  # empty lines
        bytes_ = np.ascontiguousarray(text[~drop])
        keys = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(offsets) - 1,
            [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(bytes_)],
        )
        return Requests(keys)

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(self.good_rows(block, line, malformed))
        return Requests(pa.array([key for (key,) in rows], pa.large_binary())) if rows else None


# --- binary records -----------------------------------------------------------------------------

ORACLE_RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
assert ORACLE_RECORD.itemsize == 24
RECORDS = {
    TraceFormat.oraclegeneral: ORACLE_RECORD,
    TraceFormat.u32le: np.dtype("<u4"),
    TraceFormat.u32be: np.dtype(">u4"),
    TraceFormat.u64le: np.dtype("<u8"),
    TraceFormat.u64be: np.dtype(">u8"),
}


class Records:
    """Records of one size, one request each."""

    numeric = True

    def __init__(self, format: TraceFormat) -> None:
        self.dtype = RECORDS[format]

    def read(self, block: bytes) -> Requests:
        records = np.frombuffer(block, self.dtype)
        if self.dtype.names is None:
            return Requests(pa.array(records.astype(np.uint64)))
        return Requests(
            pa.array(records["object"].astype(np.uint64)),
            records["time"].astype(np.int64),
            records["size"].astype(np.int64),
            key_counted=True,
        )


_TEXT_FORMS: dict[TraceFormat, Any] = {
    TraceFormat.cache3: cache3,
    TraceFormat.cache7: Cache7,
    TraceFormat.keys: Keys,
    TraceFormat.arc: Arc,
    TraceFormat.lirs: lirs,
    TraceFormat.msr: msr,
    TraceFormat.cloudphysics: cloudphysics,
}


def form_of(format: TraceFormat) -> Any:
    """A fresh form; libCacheSim's csv has none without its columns (`csv_form`)."""
    return Records(format) if format in RECORDS else _TEXT_FORMS[format]()
