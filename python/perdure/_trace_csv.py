"""libCacheSim's csv: a table whose columns the caller names, or its header.

Invariant: what `--columns` does not say is found out from the first lines alone, once; a later line
that does not fit is malformed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perdure._requests import UINT64_MAX, TraceError
from perdure._trace_lines import normalised
from perdure._trace_tables import Column, Table

_DELIMITERS_TRIED = (b",", b"\t", b";", b"|")
_DELIMITERS = {"\\t": b"\t", "tab": b"\t", "space": b" "}
_COLUMN_OPTIONS = {"time-col": "time", "obj-id-col": "key", "obj-size-col": "size"}
_HEADER_NAMES = {
    "time": (b"time", b"timestamp", b"clock_time", b"real_time"),
    "key": (b"object", b"obj_id", b"object_id", b"objid", b"obj"),
    "size": (b"size", b"obj_size", b"object_size"),
}
ADVICE_CSV = '--format csv --columns "time=1,key=2,size=3" (numbers from 1, or names of the header)'


@dataclass(frozen=True)
class CsvOptions:
    """What `--columns` says: columns by number from 1 or by name; None is for the reader to find
    out."""

    columns: dict[str, str]  # role: number or name
    delimiter: bytes | None = None
    has_header: bool | None = None
    numeric: bool | None = None


def csv_options(text: str) -> CsvOptions:
    """Reads ``time=1,key=2,size=3``, or libCacheSim's ``time-col=1, obj-id-col=2,
    has-header=true``."""
    found = CsvOptions({})
    for part in re.findall(r"(\s*delimiter\s*=\s*,|[^,]+)(?:,|$)", text):
        name, equals, value = (word.strip(" ") for word in part.partition("="))
        role = _COLUMN_OPTIONS.get(name, name)
        if not equals or not value:
            raise TraceError(f"--columns {text}: {part.strip()!r} is not NAME=VALUE")
        if role in ("time", "key", "size"):
            found.columns[role] = value
        elif name == "delimiter":
            found = replace(found, delimiter=_delimiter(text, value))
        elif name == "has-header":
            found = replace(found, has_header=_truth(text, name, value))
        elif name == "obj-id-is-num":
            found = replace(found, numeric=_truth(text, name, value))
        else:
            names = "time, key, size, delimiter, has-header, obj-id-is-num"
            raise TraceError(f"--columns {text}: {name} is none of {names}")
    if "key" not in found.columns:
        raise TraceError(f"--columns {text}: does not name the key's column, for example key=2")
    if len(set(found.columns.values())) < len(found.columns):
        raise TraceError(f"--columns {text}: names a column twice")
    return found


def _delimiter(text: str, value: str) -> bytes:
    delimiter = _DELIMITERS.get(value, value.encode())
    if len(delimiter) != 1 or delimiter.isalnum():
        raise TraceError(
            f"--columns {text}: the delimiter {value!r} is not one byte; \\t, tab and space do"
        )
    return delimiter


def _truth(text: str, name: str, value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise TraceError(f"--columns {text}: {name} is true or false, not {value}")
    return value.lower() in ("true", "1")


def header_columns(line: bytes) -> dict[str, str] | None:
    """The columns that a header of libCacheSim's names, if it names all three, each once."""
    names = normalised(line).replace(b"-", b"_").split(b",")
    found = {role: [n for n in names if n in known] for role, known in _HEADER_NAMES.items()}
    if any(len(held) != 1 for held in found.values()):
        return None
    return {role: str(names.index(held[0]) + 1) for role, held in found.items()}


class Csv(Table):
    """A table of any delimiter, without comments; its header, if it has one, is its first line."""

    def __init__(self, columns: list[Column], delimiter: bytes, has_header: bool) -> None:
        super().__init__(columns, delimiter, key_counted=True)
        self.has_header = has_header

    def passes_over(self, line: bytes) -> bool:
        return not line


def csv_form(lines: list[bytes], options: CsvOptions) -> Table:
    """The form of a file that begins with these lines. Keys are numbers where all of these lines
    have plain decimal ones, else text."""
    first = next((line for line in lines if line), b"")
    delimiter = options.delimiter or _most_frequent(first)
    bare = first.removeprefix(b"\xef\xbb\xbf").removeprefix(b"# ").removesuffix(b"\r")
    names = [name.strip() for name in bare.split(delimiter)]
    places = {role: _place(role, given, names) for role, given in options.columns.items()}
    named = not all(given.isdigit() for given in options.columns.values())
    header = options.has_header
    if header is None:
        number_columns = [place for role, place in places.items() if role != "key"]
        header = named or not all(names[place].isdigit() for place in number_columns)
    rows = [line for line in lines if line][1 if header else 0 :]
    numeric = options.numeric
    if numeric is None:
        numeric = _decimal(rows, delimiter, places["key"])
    roles = {place: role for role, place in places.items()}
    columns = [_csv_column(i, roles.get(i, ""), numeric) for i in range(len(names))]
    return Csv(columns, delimiter, header)


def _most_frequent(line: bytes) -> bytes:
    """The delimiter of a line; blanks count only where there is no other."""
    return (
        max(*_DELIMITERS_TRIED, key=line.count)
        if any(d in line for d in _DELIMITERS_TRIED)
        else b" "
    )


def _place(role: str, given: str, names: list[bytes]) -> int:
    if not given.isdigit():
        if given.encode() not in names:
            shown_names = ", ".join(name.decode("utf-8", "backslashreplace") for name in names)
            raise TraceError(
                f"--columns {role}={given}: no such column; the first line has {shown_names}"
            )
        return names.index(given.encode())
    if not 1 <= int(given) <= len(names):
        raise TraceError(f"--columns {role}={given}: the first line has columns 1 to {len(names)}")
    return int(given) - 1


def _decimal(rows: list[bytes], delimiter: bytes, place: int) -> bool:
    """Whether all keys are decimal numbers as a computer writes them."""
    for row in rows:
        fields = row.removesuffix(b"\r").split(delimiter)
        text = fields[place].strip() if place < len(fields) else b""
        if not re.fullmatch(rb"0|[1-9]\d{0,19}", text) or int(text) > UINT64_MAX:
            return False
    return bool(rows)


def _csv_column(place: int, role: str, numeric: bool) -> Column:
    name = role or f"column {place + 1}"
    if role == "key":
        return Column(name, "object" if numeric else "text", role)
    return Column(name, "whole" if role else "any", role)
