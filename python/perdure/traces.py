"""Readers of cache traces: a file of requests becomes a stream of column batches.

Three text forms, told apart by their first lines or named by the caller:

* ``cache3``: ``time, object, size``, the three-column cache CSV (object an unsigned 64-bit number,
  size the bytes of key and value together);
* ``cache7``: ``timestamp,key,key size,value size,client id,operation,TTL``, as twitter/cache-trace
  documents it;
* ``keys``: one key a line, any bytes but a line feed.

Plain, or compressed with zstd, xz, gzip or bzip2, by the file's suffix. Nothing is read twice and no
more than a block is held, so a trace may be larger than memory.

Invariant: every line of the file is either blank, a comment (``#`` in the CSV forms), one request,
or counted in ``Trace.malformed``; requests come in file order; and a block that Arrow's CSV reader
takes whole holds the same requests as the line-by-line reading would give.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

BLOCK_BYTES = 4 << 20
LINE_BYTES_MAX = 1 << 20
MALFORMED_KEPT = 20
_DETECT_LINES = 50
_INT64_MAX = (1 << 63) - 1
_UINT64_MAX = (1 << 64) - 1


class TraceError(ValueError):
    """The trace cannot be read at all: missing, damaged, binary, or of no known form."""


class TraceFormat(StrEnum):
    auto = "auto"
    cache3 = "cache3"
    cache7 = "cache7"
    keys = "keys"


class Op(IntEnum):
    """Operations of the seven-column trace, in the order of ``OP_NAMES``."""

    get = 0
    gets = 1
    set = 2
    add = 3
    replace = 4
    cas = 5
    append = 6
    prepend = 7
    delete = 8
    incr = 9
    decr = 10


OP_NAMES = [op.name for op in Op]
_OP_CODES = {op.name.encode(): int(op) for op in Op}


@dataclass(frozen=True)
class Requests:
    """Columns of consecutive requests. Columns that the trace's form does not have are None."""

    keys: pa.Array  # uint64 (cache3) or large_binary
    times: npt.NDArray[np.int64] | None = None
    sizes: npt.NDArray[np.int64] | None = None  # cache3: key and value; cache7: value
    ops: npt.NDArray[np.uint8] | None = None
    ttls: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> Requests:
        return Requests(self.keys.slice(start, stop - start), *self._columns(slice(start, stop)))

    def take(self, rows: npt.NDArray[np.intp]) -> Requests:
        return Requests(self.keys.take(pa.array(rows)), *self._columns(rows))

    def _columns(self, rows: slice | npt.NDArray[np.intp]) -> list[npt.NDArray | None]:
        columns = (self.times, self.sizes, self.ops, self.ttls)
        return [None if column is None else column[rows] for column in columns]


def _join(parts: list[Requests]) -> Requests:
    if len(parts) == 1:
        return parts[0]

    def column(name: str) -> npt.NDArray | None:
        held = [getattr(part, name) for part in parts]
        return None if held[0] is None else np.concatenate(held)

    keys = pa.concat_arrays([part.keys for part in parts])
    return Requests(keys, column("times"), column("sizes"), column("ops"), column("ttls"))


@dataclass
class Malformed:
    """Lines that were skipped: how many, and where the first few stand and why they were refused."""

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, reason: str) -> None:
        self.count += 1
        if len(self.first) < MALFORMED_KEPT:
            self.first.append((line, reason))

    def extend(self, later: Malformed) -> None:
        self.count += later.count
        self.first += later.first[: MALFORMED_KEPT - len(self.first)]


class _Refused(ValueError):
    """One line is no request; the message says why."""


class _Form(Protocol):
    """How one trace form turns lines into requests."""

    def fast(self, block: bytes) -> Requests | None:
        """The requests of a block of whole lines, or None when some line needs a closer look."""

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes | None:
        """The block without its blank, comment and malformed lines, or None if `fast` could not take
        the rest either."""

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        """The requests of a block, line by line; malformed lines are noted under their number."""


def _whole(text: bytes, name: str, largest: int) -> int:
    text = text.strip()
    if text.isdigit() and len(text) < 19:
        return int(text)
    try:
        # As Arrow reads them: decimal digits without a sign, or 0x and hexadecimal digits.
        value = int(text, 16) if text[:2] in (b"0x", b"0X") else int(text)
    except ValueError:
        raise _Refused(f"{name} {_shown(text)} is not a whole number") from None
    if text[:1] == b"+" or b"_" in text:
        raise _Refused(f"{name} {_shown(text)} is not a whole number")
    if not 0 <= value <= largest:
        raise _Refused(f"{name} {_shown(text)} is outside 0..{largest}")
    return value


def _shown(text: bytes) -> str:
    cut = text[:40].decode("utf-8", "backslashreplace")
    return repr(cut + "..." if len(text) > 40 else cut)


def _read_columns(block: bytes, types: dict[str, pa.DataType]) -> pa.Table | None:
    """The block as typed columns, or None unless each of its lines is exactly one good row."""
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            read_options=csv.ReadOptions(
                column_names=list(types), use_threads=False, block_size=max(len(block), 1)
            ),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[], strings_can_be_null=False, check_utf8=False
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


class _Cache3:
    _types: ClassVar = {"time": pa.int64(), "object": pa.uint64(), "size": pa.int64()}
    unusual = _lines_unlike(rb"[ \t]*+\d{1,18}[ \t]*+,[ \t]*+\d{1,19}[ \t]*+,[ \t]*+\d{1,18}")

    def fast(self, block: bytes) -> Requests | None:
        table = _read_columns(block, self._types)
        if table is None:
            return None
        times, sizes = _numbers(table, "time"), _numbers(table, "size")
        if times.min() < 0 or sizes.min() < 0:
            return None
        return Requests(_only_chunk(table, "object"), times, sizes)

    def parse(self, line: bytes) -> tuple[int, int, int]:
        fields = line.split(b",")
        if len(fields) != 3:
            raise _Refused(f"3 columns expected (time, object, size), {len(fields)} found")
        return (
            _whole(fields[0], "time", _INT64_MAX),
            _whole(fields[1], "object", _UINT64_MAX),
            _whole(fields[2], "size", _INT64_MAX),
        )

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes | None:
        return _scrub(self, block, line, malformed)

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(_good_rows(self, block, line, malformed))
        if not rows:
            return None
        times, objects, sizes = zip(*rows, strict=True)
        return Requests(
            pa.array(np.array(objects, np.uint64)),
            np.array(times, np.int64),
            np.array(sizes, np.int64),
        )


class _Cache7:
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
        rb"\d{1,18},[^,\r\n]++,\d{1,18},\d{1,18},[^,\r\n]*+,(?:%s),\d{1,18}" % "|".join(OP_NAMES).encode()
    )

    def fast(self, block: bytes) -> Requests | None:
        table = _read_columns(block, self._types)
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
            raise _Refused(
                f"7 columns expected (timestamp, key, key size, value size, client id, "
                f"operation, TTL), {found} found"
            )
        if not key:
            raise _Refused("the key is empty")
        _whole(tail[0], "key size", _INT64_MAX)
        op = _OP_CODES.get(tail[3])
        if op is None:
            raise _Refused(f"operation {_shown(tail[3])} is none of {'/'.join(OP_NAMES)}")
        return (
            _whole(time, "timestamp", _INT64_MAX),
            key,
            _whole(tail[1], "value size", _INT64_MAX),
            op,
            _whole(tail[4], "TTL", _INT64_MAX),
        )

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes | None:
        return _scrub(self, block, line, malformed)

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        rows = list(_good_rows(self, block, line, malformed))
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


def _scrub(form: _Cache3 | _Cache7, block: bytes, line: int, malformed: Malformed) -> bytes | None:
    kept: list[bytes] = []
    seen = 0  # bytes of the block dealt with
    for unusual in form.unusual.finditer(block):
        line += block.count(b"\n", seen, unusual.start())
        text = unusual[0].rstrip(b"\r\n")
        if not _passes_over(text):
            try:
                form.parse(text)
                return None  # a request after all, of a kind that only `slow` reads
            except _Refused as refused:
                malformed.add(line, str(refused))
        kept.append(block[seen : unusual.start()])
        seen = unusual.end()
        line += 1
    kept.append(block[seen:])
    return b"".join(kept)


def _good_rows(form: _Cache3 | _Cache7, block: bytes, line: int, malformed: Malformed) -> Iterator[tuple]:
    for number, text in enumerate(block.split(b"\n")[:-1], line):
        text = text.removesuffix(b"\r")
        if _passes_over(text):
            continue
        try:
            yield form.parse(text)
        except _Refused as refused:
            malformed.add(number, str(refused))


def _passes_over(text: bytes) -> bool:
    return not text.strip() or text.startswith(b"#")


class _Keys:
    """Every line that is not empty is a key, so the vectorised reading never needs a second look."""

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

    def scrub(self, block: bytes, line: int, malformed: Malformed) -> bytes | None:
        raise AssertionError("one key a line has no malformed lines")

    def slow(self, block: bytes, line: int, malformed: Malformed) -> Requests | None:
        raise AssertionError("one key a line has no malformed lines")


_FORMS: dict[TraceFormat, _Form] = {
    TraceFormat.cache3: _Cache3(),
    TraceFormat.cache7: _Cache7(),
    TraceFormat.keys: _Keys(),
}

_COMPRESSIONS = {".zst": "zstd", ".zstd": "zstd", ".gz": "gzip", ".bz2": "bz2"}


class Trace:
    """One trace file, readable once from its beginning to its end."""

    def __init__(self, path: str | Path, format: TraceFormat | str = TraceFormat.auto) -> None:
        self.path = Path(path)
        self.malformed = Malformed()
        asked = TraceFormat(format)
        self._raw, self._text = _open_text(self.path)
        self._line = 1  # number of the line that the next block begins with
        self._blocks = self._whole_lines()
        try:
            self._ahead = self._first_block()
        except TraceError:
            self.close()
            raise
        self.format = _detect(self._ahead) if asked is TraceFormat.auto else asked

    def _first_block(self) -> bytes:
        block = next(self._blocks, b"")
        if b"\0" in block[:4096]:
            raise TraceError(f"{self.path}: holds zero bytes; a trace is text (cache3, cache7 or keys)")
        if not block.strip():
            raise TraceError(f"{self.path}: the trace is empty")
        return block

    def fraction_read(self) -> float:
        """How much of the file has been consumed, for a progress bar."""
        return self._raw.tell() / max(1, self.path.stat().st_size)

    def close(self) -> None:
        self._raw.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def batches(self, size: int, limit: int | None = None) -> Iterator[Requests]:
        """Batches of exactly `size` requests, the last one shorter, `limit` requests in all."""
        if size < 1:
            raise ValueError(f"a batch holds at least one request, not {size}")
        held: list[Requests] = []
        count = 0
        left = limit if limit is not None else _INT64_MAX
        for block in self._requests():
            block = block.slice(0, min(left, len(block)))
            left -= len(block)
            held.append(block)
            count += len(block)
            if count >= size:
                joined = _join(held)
                whole = count - count % size
                for start in range(0, whole, size):
                    yield joined.slice(start, start + size)
                held, count = [joined.slice(whole, count)], count % size
            if left == 0:
                break
        if count:
            yield _join(held)

    def _requests(self) -> Iterator[Requests]:
        form = _FORMS[self.format]
        while self._ahead:
            block, self._ahead = self._ahead, next(self._blocks, b"")
            requests = self._parse(form, block, self._line)
            self._line += block.count(b"\n")
            if requests is not None and len(requests):
                yield requests

    def _parse(self, form: _Form, block: bytes, line: int) -> Requests | None:
        """The requests of whole lines, the first of them numbered `line`: in one go where every line
        is good, else without the lines that are none, else line by line."""
        requests = form.fast(block)
        if requests is not None:
            return requests
        refused = Malformed()
        kept = form.scrub(block, line, refused)
        requests = form.fast(kept) if kept else None
        if requests is None:
            refused = Malformed()
            requests = form.slow(block, line, refused)
        self.malformed.extend(refused)
        return requests

    def _whole_lines(self) -> Iterator[bytes]:
        """Blocks of about BLOCK_BYTES that end with a line feed, the file's last line included."""
        rest = b""
        while chunk := self._read():
            end = chunk.rfind(b"\n")
            if end < 0:
                rest += chunk
                if len(rest) > LINE_BYTES_MAX + BLOCK_BYTES:
                    raise TraceError(
                        f"{self.path}: a line is longer than {LINE_BYTES_MAX} bytes; is it a text trace?"
                    )
                continue
            yield rest + chunk[: end + 1]
            rest = chunk[end + 1 :]
        if rest:
            yield rest + b"\n"

    def _read(self) -> bytes:
        try:
            return self._text.read(BLOCK_BYTES)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise TraceError(f"{self.path}: damaged or truncated compressed data ({error})") from error


def _open_text(path: Path) -> tuple[BinaryIO, BinaryIO]:
    """The file itself (for its position) and the stream of its text."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}") from error
    if path.suffix == ".xz":
        return raw, lzma.LZMAFile(raw)
    if path.suffix in _COMPRESSIONS:
        source = pa.PythonFile(raw, mode="r")
        return raw, pa.CompressedInputStream(source, _COMPRESSIONS[path.suffix])
    return raw, raw


def _detect(block: bytes) -> TraceFormat:
    """The form that the first line names or more than half of the first lines have, else `keys`."""
    if block.split(b"\n", 1)[0].replace(b" ", b"").rstrip() == b"#time,object,size":
        return TraceFormat.cache3
    lines = [line.removesuffix(b"\r") for line in block.split(b"\n", 4 * _DETECT_LINES)[:-1]]
    lines = [line for line in lines if line.strip() and not line.startswith(b"#")][:_DETECT_LINES]
    for name, form in ((TraceFormat.cache7, _Cache7()), (TraceFormat.cache3, _Cache3())):
        if 2 * sum(_parses(form, line) for line in lines) > len(lines):
            return name
    return TraceFormat.keys


def _parses(form: _Cache3 | _Cache7, line: bytes) -> bool:
    try:
        form.parse(line)
    except _Refused:
        return False
    return True
