"""Readers of cache traces: a file of requests becomes a stream of column batches.

``TraceFormat`` names the formats; docs/traces.md describes each. Plain, or compressed with zstd,
xz, gzip or bzip2, which the first bytes tell. The format is named by the caller or recognised
(perdure._trace_sniff); a file of no recognised format is refused. Nothing is read twice and no more
than a block is held, so a trace may be larger than memory.

Invariant: all of the file is either a request, passed over, or counted in ``Trace.malformed``;
requests come in file order; a binary file that ends within a record is refused.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from perdure import _trace_sniff
from perdure._requests import (
    INT64_MAX,
    MALFORMED_KEPT,
    OP_NAMES,
    Malformed,
    Op,
    Refused,
    Requests,
    TraceError,
    TraceFormat,
    join,
)
from perdure._trace_csv import ADVICE_CSV, Csv, CsvOptions, csv_form, csv_options, header_columns
from perdure._trace_forms import RECORDS, Records, form_of
from perdure._trace_lines import TextForm

__all__ = [
    "MALFORMED_KEPT",
    "OP_NAMES",
    "Malformed",
    "Op",
    "Requests",
    "Trace",
    "TraceError",
    "TraceFormat",
]

BLOCK_BYTES = 4 << 20
LINE_BYTES_MAX = 1 << 20

_SUFFIXES = {".zst": "zstd", ".zstd": "zstd", ".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}


class Trace:
    """One trace file, readable once from its beginning to its end.

    `columns` describes libCacheSim's csv: ``time=1,key=2,size=3``; see docs/traces.md.
    """

    def __init__(
        self,
        path: str | Path,
        format: TraceFormat | str = TraceFormat.auto,
        columns: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.malformed = Malformed()
        asked = TraceFormat(format)
        options = None if columns is None else csv_options(columns)
        if options is not None and asked not in (TraceFormat.auto, TraceFormat.csv):
            raise TraceError(f"--columns goes with --format csv, not {asked}")
        self._raw, self._unpacked, self._name = _open(self.path)
        self._line = 1  # number of the line that the next block begins with
        try:
            self._begin(asked, options)
        except TraceError:
            self.close()
            raise

    def _begin(self, asked: TraceFormat, options: CsvOptions | None) -> None:
        self._head = self._read_head()
        if not self._head.strip(b"\r\n\t "):
            raise TraceError(f"{self.path}: the trace is empty")
        self.format = self._choose(asked, options)
        if self.format in RECORDS:
            self.form: Any = Records(self.format)
            self._refuse_torn(self.form.dtype.itemsize)
            return
        lines = _trace_sniff.whole_lines(self._head)
        self.form = (
            self._csv(lines, options) if self.format is TraceFormat.csv else form_of(self.format)
        )
        self._blocks = self._whole_lines()
        self._ahead = next(self._blocks, b"")
        if isinstance(self.form, Csv) and self.form.has_header:
            self._ahead = self._ahead.partition(b"\n")[2] or next(self._blocks, b"")
            self._line += 1
            lines = lines[1:]
        self._refuse_unlike(lines)

    @property
    def numeric(self) -> bool:
        """Whether keys are 64-bit numbers; else they are byte strings."""
        return self.form.numeric

    def fraction_read(self) -> float:
        """How much of the file has been consumed, for a progress bar; 0 of a pipe."""
        if not self._raw.seekable():
            return 0.0
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
        left = limit if limit is not None else INT64_MAX
        for block in self._requests():
            block = block.slice(0, min(left, len(block)))
            left -= len(block)
            held.append(block)
            count += len(block)
            if count >= size:
                joined = join(held)
                whole = count - count % size
                for start in range(0, whole, size):
                    yield joined.slice(start, start + size)
                held, count = [joined.slice(whole, count)], count % size
            if left == 0:
                break
        if count:
            yield join(held)

    # --- the format -----------------------------------------------------------------------------

    def _choose(self, asked: TraceFormat, options: CsvOptions | None) -> TraceFormat:
        if asked is TraceFormat.auto and options is not None:
            asked = TraceFormat.csv
        if asked is TraceFormat.auto:
            return _trace_sniff.detect(str(self.path), self._name, self._head)
        if asked not in RECORDS and b"\0" in self._head[:4096]:
            raise TraceError(f"{self.path}: holds zero bytes; a {asked} trace is text")
        return asked

    def _csv(self, lines: list[bytes], options: CsvOptions | None) -> Csv:
        if options is None:
            columns = header_columns(lines[0])
            if columns is None:
                raise TraceError(
                    f"{self.path}: the first line does not name time, object and size: {ADVICE_CSV}"
                )
            options = CsvOptions(columns, has_header=True)
        return csv_form(lines, options)

    def _refuse_unlike(self, lines: list[bytes]) -> None:
        """A format was asked for in which none of the first lines is a request."""
        some, first = [line for line in lines if not self.form.passes_over(line)], ""
        for line in some:
            try:
                self.form.parse(line)
                return
            except Refused as refused:
                first = first or str(refused)
        if not some and len(self._head) < _trace_sniff.SNIFF_BYTES:
            raise TraceError(f"{self.path}: the trace is empty: it holds no request")
        if some:
            what, advice = _trace_sniff.describe(lines)
            raise TraceError(
                f"{self.path}: none of its first lines is a request of a {self.format} trace "
                f"({first});"
                f" it looks like {what}{f'; {advice}' if advice else ''}"
            )

    def _refuse_torn(self, width: int) -> None:
        """A plain file's size tells at once what a compressed one tells at its end."""
        size = self.path.stat().st_size
        if self._unpacked is self._raw and size % width:
            self._torn(size, width)

    def _torn(self, size: int, width: int) -> None:
        raise TraceError(
            f"{self.path}: truncated, or not of this format: {size:,} bytes are no whole number of"
            f" {self.format} records of {width} bytes"
        )

    # --- reading --------------------------------------------------------------------------------

    def _requests(self) -> Iterator[Requests]:
        if isinstance(self.form, Records):
            yield from self._of_records(self.form)
            return
        while self._ahead:
            block, self._ahead = self._ahead, next(self._blocks, b"")
            requests = self._parse(self.form, block, self._line)
            self._line += block.count(b"\n")
            if requests is not None and len(requests):
                yield from self.form.pieces(requests)

    def _of_records(self, form: Records) -> Iterator[Requests]:
        rest, size = b"", 0
        for chunk in self._chunks():
            size += len(chunk)
            held = rest + chunk
            whole = len(held) - len(held) % form.dtype.itemsize
            rest = held[whole:]
            if whole:
                yield form.read(held[:whole])
        if rest:
            self._torn(size, form.dtype.itemsize)

    def _parse(self, form: TextForm, block: bytes, line: int) -> Requests | None:
        """The requests of whole lines, the first of them numbered `line`: in one go where every
        line is good, else without the lines that are none, else line by line."""
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
        for chunk in self._chunks():
            end = chunk.rfind(b"\n")
            if end < 0:
                rest += chunk
                if len(rest) > LINE_BYTES_MAX + BLOCK_BYTES:
                    raise TraceError(
                        f"{self.path}: a line is longer than {LINE_BYTES_MAX} bytes; is it a "
                        "text trace?"
                    )
                continue
            yield rest + chunk[: end + 1]
            rest = chunk[end + 1 :]
        if rest:
            yield rest + b"\n"

    def _chunks(self) -> Iterator[bytes]:
        yield self._head
        while chunk := self._read():
            yield chunk

    def _read_head(self) -> bytes:
        """The first SNIFF_BYTES and what came with them, or all of a smaller file."""
        head = b""
        while len(head) < _trace_sniff.SNIFF_BYTES and (chunk := self._read()):
            head += chunk
        return head

    def _read(self) -> bytes:
        try:
            return self._unpacked.read(BLOCK_BYTES)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise TraceError(
                f"{self.path}: damaged or truncated compressed data ({error})"
            ) from error


def _open(path: Path) -> tuple[BinaryIO, BinaryIO, str]:
    """The file itself (for its position), the stream of its bytes unpacked, and the name of
    these."""
    try:
        raw = path.open("rb")
        head = raw.peek(16)  # which a pipe allows, too
    except OSError as error:
        raise TraceError(f"{path}: cannot read the trace: {error.strerror}") from error
    packed = _trace_sniff.compression_of(head) or _SUFFIXES.get(path.suffix)
    name = path.stem if path.suffix in _SUFFIXES else path.name
    if packed is None:
        return raw, raw, name
    if packed == "xz":
        return raw, lzma.LZMAFile(raw), name
    return raw, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), packed), name
