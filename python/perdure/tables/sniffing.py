"""What a text file is, told from how it begins: its delimiter, its header, comments before it.

As DuckDB's read_csv does, by consistency: the delimiter that most lines have equally often, and a
header if the first line differs in kind from those below. Invariant: whatever is told here is shown
to the user, who may say otherwise.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

from perdure.cli_support import Failure
from perdure.tables.cells import TYPES

DELIMITERS = (",", "\t", ";", "|", " ")
SAMPLED_LINES = 2000
_NAME = re.compile(r"[A-Za-z_#*][^\n]{0,99}")
_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|0[xX][0-9a-fA-F]+|[+-]?(nan|inf|infinity)", re.I
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].*)?|\d\d[./]\d\d[./]\d{4}")


@dataclass(frozen=True)
class Dialect:
    delimiter: str  # "" where every line is one cell
    header: bool
    comments: int  # lines before the header, or the first row
    names: list[str]

    def describe(self) -> str:
        between = {",": "commas", "\t": "tabs", " ": "spaces"}.get(
            self.delimiter, repr(self.delimiter)
        )
        columns = f"{len(self.names)} columns between {between}" if self.delimiter else "one column"
        header = "a header" if self.header else "no header"
        comments = f", {self.comments} lines of comments" if self.comments else ""
        return f"{columns}, {header}{comments}"


def sniff(head: bytes, whole: bool, delimiter: str | None, header: bool | None) -> Dialect:
    """Of text that begins so; `whole` if that is all of it. What is given is taken for granted."""
    lines = _sample(head, whole)
    comments = _comments(lines)
    chosen = _delimiter(lines[comments:]) if delimiter is None else delimiter
    if comments and not chosen:
        comments, chosen = 0, ""  # keys that begin with #, it seems
    rows = _rows(lines[comments:], chosen)
    columns = _usual([len(row) for row in rows]) if rows else 1
    titles = _titles(lines[comments - 1 :], chosen, columns) if comments else None
    if titles is not None and header is not False:  # the last comment names the columns
        return Dialect(chosen, True, comments - 1, titles)
    found = _has_header(rows, columns) if header is None else header
    names = [cell.strip() for cell in rows[0]] if found and rows else []
    names = [name or f"column{at}" for at, name in enumerate(names)]
    names += [f"column{at}" for at in range(len(names), columns)]
    return Dialect(chosen, found, comments, names)


def _sample(head: bytes, whole: bool) -> list[str]:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Failure("this is UTF-16 text; convert it to UTF-8 first, for example with iconv")
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = re.split(r"\r\n|\n|\r", text)[: SAMPLED_LINES + 1]
    if len(lines) > 1 and (not whole or not lines[-1] or len(lines) > SAMPLED_LINES):
        del lines[-1]  # cut off, or after the last line's end
    while lines and not lines[-1].strip():
        del lines[-1]
    return lines


def _comments(lines: list[str]) -> int:
    """Lines that begin with # before the first that does not; none where all do."""
    count = next((at for at, line in enumerate(lines) if not line.startswith("#")), 0)
    return count if count < len(lines) else 0


def _titles(lines: list[str], delimiter: str, columns: int) -> list[str] | None:
    (row,) = _rows([lines[0].lstrip("# ")], delimiter)
    names = [cell.strip() for cell in row]
    return (
        names if len(names) == columns > 1 and len(set(names)) == columns and all(names) else None
    )


def _rows(lines: list[str], delimiter: str) -> list[list[str]]:
    """By Python's reader, line by line: a cell with line breaks spoils its own row alone."""
    if not delimiter:
        return [[line] for line in lines if line]
    found: list[list[str]] = []
    for line in lines:
        if line:
            found += csv.reader(io.StringIO(line, newline=""), delimiter=delimiter)
    return found


def _usual(counts: list[int]) -> int:
    return max(dict.fromkeys(counts), key=counts.count)


def _delimiter(lines: list[str]) -> str:
    """The one that splits most lines into equally many columns; none if no one does so for most."""
    best, score = "", (0.5, 0)
    for candidate in DELIMITERS:
        counts = [len(row) for row in _rows(lines, candidate)]
        usual = _usual(counts) if counts else 1
        agreeing = counts.count(usual) / len(counts) if counts else 0.0
        enough = 0.9 if candidate == " " else 0.5  # prose has spaces, too
        if usual > 1 and agreeing >= enough and (round(agreeing, 2), 0) > score:
            best, score = candidate, (round(agreeing, 2), 0)
    return best


def _has_header(rows: list[list[str]], columns: int) -> bool:
    if not rows or len(rows[0]) != columns:
        return False
    first, rest = rows[0], [row for row in rows[1:] if len(row) == columns]
    if any(cell.rpartition(":")[2] in TYPES and ":" in cell for cell in first):
        return True
    if any(_kind(cell) not in ("text", "empty") for cell in first):
        return False
    below = [{_kind(row[at]) for row in rest} - {"empty"} for at in range(columns)]
    if any(kinds and "text" not in kinds for kinds in below):
        return True  # words over numbers
    names = [cell.strip() for cell in first]
    if (
        columns == 1
        or len(set(names)) < columns
        or not all(_NAME.fullmatch(name) for name in names)
    ):
        return False
    return not any(first[at] in {row[at] for row in rest} for at in range(columns))


def _kind(cell: str) -> str:
    text = cell.strip()
    if not text:
        return "empty"
    return "number" if _NUMBER.fullmatch(text) else "date" if _DATE.fullmatch(text) else "text"
