"""Lines of a text trace: what a form makes of them, and what the forms share that read a line as
one row.

Invariant: every line is either passed over (blank, a comment, the header), one request, or counted
in `Malformed`, under its number and with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from perdure._requests import Malformed, Refused, Requests


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


def whole(text: bytes, name: str, least: int, most: int) -> int:
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


def read_columns(
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


def only_chunk(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).chunk(0)


def int_column(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return only_chunk(table, name).to_numpy(zero_copy_only=True)


def lines_unlike(plain: bytes) -> re.Pattern[bytes]:
    """Finds the lines that are not of the plain kind that Arrow is sure to take."""
    return re.compile(rb"^(?!%s\r?$).*\n" % plain, re.MULTILINE)


class Lines:
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
