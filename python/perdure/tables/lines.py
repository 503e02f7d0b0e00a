"""Text cut into blocks of whole rows, each with the number of its first line.

A row ends with its line, but for quoted cells of CSV, which may hold line breaks. Invariants: every
line of the text is in one row, is blank, or is in `bad`; a quote that does not close spoils its own
line alone; a block is no larger than what was read for it and one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from perdure.cli_support import Failure

BLOCK_BYTES = 4 << 20
QUOTED_BYTES_MAX = 4 << 20  # a quote that is not closed by then is no quote
LINE_BYTES_MAX = 256 << 20
_QUOTE = 34

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Quoting:
    delimiter: bytes
    multiline: bool


@dataclass
class Block:
    """Rows `data[starts[i]:ends[i]]`, without their line ends."""

    data: bytes
    starts: Positions
    ends: Positions
    lines: Positions
    bad: list[tuple[int, str, bytes]]  # line, why, what it says

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, index: int) -> bytes:
        return self.data[int(self.starts[index]) : int(self.ends[index])]

    def after(self, count: int) -> Block:
        return Block(
            self.data, self.starts[count:], self.ends[count:], self.lines[count:], self.bad
        )

    def text(self, first: int, last: int) -> bytes:
        """Rows [first, last), a line each (more where cells hold line breaks)."""
        starts, ends = self.starts[first:last], self.ends[first:last]
        octets = np.frombuffer(self.data, np.uint8)
        gaps = starts[1:] - ends[:-1]
        if len(starts) and ((gaps == 1) | ((gaps == 2) & (octets[ends[:-1]] == 13))).all():
            whole = self.data[int(starts[0]) : int(ends[-1])]
        else:
            whole = b"\n".join(
                [self.data[start:end] for start, end in zip(starts, ends, strict=True)]
            )
        return whole + b"\n"


def blocks(stream: BinaryIO, quoting: Quoting | None) -> Iterator[Block]:
    rest, line = b"", 1
    while True:
        piece = stream.read(BLOCK_BYTES)
        data = rest + piece
        block, used, lines = cut(data, line, quoting, last=not piece)
        if not used and len(data) > LINE_BYTES_MAX:
            raise Failure(
                f"line {line:,} is longer than {LINE_BYTES_MAX >> 20} MiB: this is no file of rows"
            )
        yield block
        rest, line = data[used:], line + lines
        if not piece:
            return


def cut(data: bytes, line: int, quoting: Quoting | None, *, last: bool) -> tuple[Block, int, int]:
    """The whole rows of `data`, the bytes and the lines that they and blank lines take up."""
    breaks = _line_breaks(data, last)
    begins = np.concatenate([np.zeros(1, np.int64), breaks + 1])[: len(breaks)]
    bad: list[tuple[int, str, bytes]] = []
    first = np.ones(len(breaks), bool)  # whether a row begins with this line
    good = np.ones(len(breaks), bool)
    whole = len(breaks)
    if quoting is not None and b'"' in data:
        whole = _join_quoted(data, begins, breaks, quoting, last, first, good)
        for row in np.flatnonzero(~good):
            text = data[int(begins[row]) : int(breaks[row])].rstrip(b"\r")
            bad.append((line + int(row), "a quote that is not closed", text))
    heads = np.flatnonzero(first[:whole])
    tails = np.concatenate([heads[1:], np.array([whole], np.int64)])[: len(heads)] - 1
    starts, ends = begins[heads], breaks[tails]
    octets = np.frombuffer(data, np.uint8)
    with_return = np.flatnonzero(ends > starts)
    with_return = with_return[octets[ends[with_return] - 1] == 13]
    ends[with_return] -= 1
    kept = (ends > starts) & good[heads]
    used = min(int(breaks[whole - 1]) + 1, len(data)) if whole else 0
    return Block(data, starts[kept], ends[kept], line + heads[kept], bad), used, whole


def _line_breaks(data: bytes, last: bool) -> Positions:
    """Where lines end: at a line feed, or a carriage return without one."""
    octets = np.frombuffer(data, np.uint8)
    ends = octets == 10
    if b"\r" in data:
        returns = octets == 13
        returns[:-1] &= octets[1:] != 10
        returns[-1:] &= last  # its line feed may come with the next bytes
        ends |= returns
    breaks = np.flatnonzero(ends)
    if last and len(data) and (not len(breaks) or breaks[-1] != len(data) - 1):
        breaks = np.append(breaks, len(data))
    return breaks


def _join_quoted(
    data: bytes,
    begins: Positions,
    breaks: Positions,
    quoting: Quoting,
    last: bool,
    first: npt.NDArray[np.bool_],
    good: npt.NDArray[np.bool_],
) -> int:
    """Joins the lines of quoted cells into rows; the number of lines whose rows are known."""
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == _QUOTE)
    after = -1
    for line in np.unique(np.searchsorted(breaks, quotes)).tolist():
        if line <= after or line >= len(breaks):
            continue
        start, end = int(begins[line]), int(breaks[line])
        if not _opens(data[start:end], quoting.delimiter):
            continue
        close = _close(data, start, quoting.delimiter) if quoting.multiline else None
        if (
            close is None
            and quoting.multiline
            and not last
            and len(data) - start < QUOTED_BYTES_MAX
        ):
            return line
        if close is None:
            good[line] = False
            continue
        after = int(np.searchsorted(breaks, close))
        if after >= len(breaks):
            return line
        first[line + 1 : after + 1] = False
    return len(breaks)


def _opens(line: bytes, delimiter: bytes) -> bool:
    """Whether the line ends within a quoted cell."""
    at = 0
    while at < len(line):
        if line[at] == _QUOTE:
            closing = _closing_quote(line, at + 1)
            if closing is None:
                return True
            at = closing + 1
        at = line.find(delimiter, at)
        if at < 0:
            return False
        at += len(delimiter)
    return False


def _closing_quote(text: bytes, at: int) -> int | None:
    while (at := text.find(b'"', at)) >= 0:
        if text[at + 1 : at + 2] != b'"':
            return at
        at += 2
    return None


def _close(data: bytes, start: int, delimiter: bytes) -> int | None:
    """Where the line ends in which the row from `start` on ends; None if a quote of it does not
    close.

    What follows a closing quote on another line must be a delimiter or the line's end: otherwise
    the quote opens a cell of some later row.
    """
    at, limit = start, min(len(data), start + QUOTED_BYTES_MAX)
    while at < limit:
        end = _next(data, b"\n", at, len(data))
        if data[at] == _QUOTE:
            closing = _closing_quote(data, at + 1)
            if closing is None or closing >= limit:
                return None
            following = data[closing + 1 : closing + 1 + len(delimiter)]
            if (
                closing > end
                and following
                and following != delimiter
                and following[:1] not in (b"\r", b"\n")
            ):
                return None
            at = closing + 1
            end = _next(data, b"\n", at, len(data))
        found = data.find(delimiter, at, end)
        if found < 0:
            return end
        at = found + len(delimiter)
        if at == end or data[at : at + 1] in (b"\r", b"\n", b""):
            return end
    return None


def _next(data: bytes, what: bytes, at: int, otherwise: int) -> int:
    found = data.find(what, at)
    return otherwise if found < 0 else found
