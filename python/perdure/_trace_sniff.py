"""Which format a file has, from its first bytes; and what to tell about a file that has none.

Invariant: a format is recognised only where its first lines or records say more than that they
could be read so: a known header, words that no other file has, or numbers that stand to one another
as in a trace. All else is refused with one line that says what the file looks like and what to do.
"""

from __future__ import annotations

import json
import re

import numpy as np

from perdure._requests import TraceError, TraceFormat
from perdure._trace_csv import ADVICE_CSV, header_columns
from perdure._trace_forms import ORACLE_RECORD, RECORDS, form_of
from perdure._trace_lines import normalised, parses, shown

SNIFF_BYTES = 256 << 10
LINES = 4000
ADVICE_KEYS = "one key a line: --format keys"
_FORMATS = ", ".join(form for form in TraceFormat if form is not TraceFormat.auto)
_RAW = tuple(form for form in RECORDS if form is not TraceFormat.oraclegeneral)
_COMPRESSED = {"xz": b"\xfd7zXZ\0", "zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b\x08"}
_SIGNATURES = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"PK\x03\x04": "a ZIP archive",
    b"\x93NUMPY": "a NumPy array",
    b"\x7fELF": "an ELF program",
    b"SQLite format 3\0": "an SQLite database",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"Obj\x01": "an Avro file",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"PERDURE\n": "a Perdure pool",
    b"PRDRLOG\n": "a Perdure log",
    b"PRDIMGE\n": "a Perdure image",
    b"PRDCKPT\n": "a Perdure checkpoint",
    b"PRDGLOG1": "a libGPM log",
    b"PRDGCKP1": "a libGPM checkpoint",
    b"7z\xbc\xaf": "a 7z archive",
}
_SOFT = (b"\xff\xfe", b"\xfe\xff", b"\xff\xd8\xff")  # short enough to be numbers by chance


def compression_of(head: bytes) -> str | None:
    """What the first bytes of a file say that it is packed with."""
    if head[:3] == b"BZh" and head[3:4].isdigit() and head[4:10] == b"1AY&SY":
        return "bz2"
    return next((name for name, magic in _COMPRESSED.items() if head.startswith(magic)), None)


def whole_lines(head: bytes) -> list[bytes]:
    """The first lines, without their ends; a last line that is cut off only where it is the only
    one."""
    if len(head) < SNIFF_BYTES and not head.endswith(b"\n"):
        head += b"\n"  # all of the file
    lines = head.split(b"\n", LINES)
    return [line.removesuffix(b"\r") for line in (lines[:-1] or lines)]


def binary(head: bytes) -> bool:
    """Whether these bytes hold control characters that no text has."""
    return re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", head) is not None


def detect(path: str, name: str, head: bytes) -> TraceFormat:
    """The format of an unpacked file of this `name` that begins with `head`; TraceError says why
    none."""
    signature = _signature(head)
    if signature is not None:
        raise no_trace(path, signature)
    suffix = name.rpartition(".")[2].lower()
    if suffix in _RAW:
        return TraceFormat(suffix)
    if binary(head):
        return _detect_binary(path, head)
    lines = whole_lines(head)
    found = _by_header(lines) or _by_lines(lines)
    if found is None:
        raise no_trace(path, *describe(lines))
    return found


def no_trace(path: str, what: str, advice: str = "") -> TraceError:
    advice = advice or "--format names one"
    return TraceError(
        f"{path}: no trace that is recognised: it looks like {what}; formats: {_FORMATS}; {advice}"
    )


def _signature(head: bytes) -> str | None:
    if head[257:262] == b"ustar":
        return "a tar archive"
    twice = compression_of(head)
    if twice is not None:
        return f"{twice} data inside compressed data"
    found = next((magic for magic in _SIGNATURES if head.startswith(magic)), None)
    return None if found is None or (found in _SOFT and not binary(head)) else _SIGNATURES[found]


# --- binary -------------------------------------------------------------------------------------


def _detect_binary(path: str, head: bytes) -> TraceFormat:
    if _oracle_like(head):
        return TraceFormat.oraclegeneral
    raise no_trace(
        path,
        "binary data",
        f"plain keys of 4 or 8 bytes: --format {', '.join(_RAW[:-1])} or {_RAW[-1]}, or such a "
        "suffix",
    )


def _oracle_like(head: bytes) -> bool:
    """Times do not fall, and each request's next access is none, or a later request of the same
    object."""
    records = np.frombuffer(head[: len(head) // 24 * 24], ORACLE_RECORD)
    if len(records) == 0:
        return False
    upcoming, objects = records["next"], records["object"]
    none = (upcoming == -1) | (upcoming == np.iinfo(np.int64).max)
    row = np.arange(len(records))
    if (np.diff(records["time"].astype(np.int64)) < 0).any() or not (none | (upcoming > row)).all():
        return False
    if not (upcoming[~none] < 1 << 48).all():
        return False
    for base in (0, 1):  # counted from 0, or from 1
        near = ~none & (upcoming - base < len(records))
        later = upcoming[near] - base
        if near.any() and (later > row[near]).all() and (objects[later] == objects[near]).all():
            return True
    return bool(none.all() and np.unique(objects).size == len(objects))


# --- text ---------------------------------------------------------------------------------------


def _by_header(lines: list[bytes]) -> TraceFormat | None:
    first = next((line for line in lines if line.strip()), b"")
    for name in (TraceFormat.cache3, TraceFormat.msr, TraceFormat.cloudphysics):
        if normalised(first) == form_of(name).header:
            return name
    return TraceFormat.csv if header_columns(first) else None


def _by_lines(lines: list[bytes]) -> TraceFormat | None:
    for name in (TraceFormat.cache7, TraceFormat.msr):
        form = form_of(name)
        some = [line for line in lines if not form.passes_over(line)][:50]
        if 2 * sum(parses(form, line) for line in some) > len(some):
            return name
    if _arc_like(lines):
        return TraceFormat.arc
    held = [line for line in lines if line.strip()]
    repeats = len(set(held)) < len(held)
    marks = any(line.startswith(b"*") for line in held)
    if held and all(re.fullmatch(rb"\d{1,19}|\*[\d ]*", line) for line in held):
        return TraceFormat.lirs if repeats or marks else None
    return TraceFormat.keys if repeats and _words(held) and not all(map(_number, held)) else None


def _arc_like(lines: list[bytes]) -> bool:
    """Four whole numbers: some blocks, 0, and a request number that does not fall."""
    rows = [line.split() for line in lines if line.strip()]
    if not rows or not all(len(row) == 4 and all(map(bytes.isdigit, row)) for row in rows):
        return False
    numbers = [int(row[3]) for row in rows]
    return all(int(row[1]) > 0 and row[2] == b"0" for row in rows) and numbers == sorted(numbers)


def _words(lines: list[bytes]) -> bool:
    """Whether every line is one word, as a key may be, without what JSON, CSV or markup is made
    of."""
    return all(re.fullmatch(rb"[^\x00-\x20,;|\"'{}\[\]<>\x7f]+", line) for line in lines)


def _number(word: bytes) -> bool:
    return re.fullmatch(rb"[-+]?[\d.]+([eE][-+]?\d+)?", word) is not None


def describe(lines: list[bytes]) -> tuple[str, str]:
    """What these lines look like, and what to do."""
    held = [line for line in lines if line.strip()]
    first = held[0].strip() if held else b""
    if _json(first):
        return "JSON", ""
    if re.match(rb"<[!?A-Za-z]", first):
        return "XML or HTML", ""
    names = {
        b",": "CSV",
        b"\t": "tab-separated text",
        b";": "CSV with semicolons",
        b"|": "CSV with bars",
    }
    for delimiter, name in names.items():
        columns = first.count(delimiter) + 1
        alike = sum(line.count(delimiter) + 1 == columns for line in held)
        if columns > 1 and 10 * alike >= 9 * len(held):
            what = f"{name} of {columns} columns that begins {shown(first)}"
            if parses(form_of(TraceFormat.cache3), first):
                return what, f"time, object, size: --format cache3; else {ADVICE_CSV}"
            return what, f"name its columns: {ADVICE_CSV}"
    if held and all(map(_number, held)):
        return (
            f"a list of numbers that begins {shown(first)}",
            "one key a line: --format lirs or keys",
        )
    if held and _words(held) and len(set(held)) == len(held):
        return f"a list of words, none of them twice, that begins {shown(first)}", ADVICE_KEYS
    return f"text that begins {shown(first)}", ADVICE_KEYS


def _json(first: bytes) -> bool:
    if re.match(rb"(\{|\[)\s*$|[{\[]\s*[\"{\[]", first):
        return True
    try:
        return isinstance(json.loads(first), dict | list)
    except ValueError:
        return False
