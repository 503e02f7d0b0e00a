"""Which format a file has, by its name or by what is in it.

Invariant: nothing but text is guessed, and what is no file of rows is refused with the way out.
"""

from __future__ import annotations

from enum import StrEnum

from perdure.cli_support import Failure
from perdure.tables.pieces import Source
from perdure.tables.rejects import Rejected
from perdure.tables.streams import COMPRESSED, Stream
from perdure.tables.text import CsvSource, JsonSource, Reading
from perdure.tables.typed import ArrowSource, ParquetSource


class FileFormat(StrEnum):
    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"


_SUFFIXES = {
    ".csv": FileFormat.csv,
    ".tsv": FileFormat.tsv,
    ".jsonl": FileFormat.jsonl,
    ".ndjson": FileFormat.jsonl,
    ".parquet": FileFormat.parquet,
    ".pq": FileFormat.parquet,
    ".arrow": FileFormat.arrow,
    ".arrows": FileFormat.arrow,
    ".feather": FileFormat.arrow,
    ".ipc": FileFormat.arrow,
}


def by_suffix(name: str) -> FileFormat | None:
    return next((kind for suffix, kind in _SUFFIXES.items() if name.lower().endswith(suffix)), None)


def _by_content(head: bytes) -> FileFormat:
    """Of a file whose name does not say. Nothing but text is guessed: what has zeros is none."""
    for magic, kind in {b"PAR1": FileFormat.parquet, b"ARROW1": FileFormat.arrow}.items():
        if head.startswith(magic):
            return kind
    if head.startswith(b"\xff\xff\xff\xff"):
        return FileFormat.arrow
    if head[257:262] == b"ustar":
        raise Failure(
            "this is a tar archive; unpack it, or: tar -xOf FILE MEMBER | perdure load POOL -"
        )
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Failure("this is no text, and no Parquet or Arrow file; say what it is with --format")
    return FileFormat.jsonl if head.lstrip()[:1] == b"{" else FileFormat.csv


def open_source(
    stream: Stream, requested: FileFormat, reading: Reading, rejected: Rejected
) -> Source:
    bare = stream.name.lower()
    for suffix in COMPRESSED:
        bare = bare.removesuffix(suffix)
    kind = (
        (by_suffix(bare) or _by_content(stream.head)) if requested is FileFormat.auto else requested
    )
    text = kind in (FileFormat.csv, FileFormat.tsv, FileFormat.jsonl)
    rejected.unit = "line" if text else "row"
    import pyarrow as pa

    try:
        if text and not stream.head.strip():
            raise pa.ArrowInvalid("it is empty")
        if kind is FileFormat.tsv and reading.delimiter is None:
            reading = Reading("\t", reading.header, reading.multiline)
        if text:
            return (
                JsonSource(stream, rejected)
                if kind is FileFormat.jsonl
                else CsvSource(stream, reading, rejected)
            )
        return (
            ParquetSource(stream, rejected)
            if kind is FileFormat.parquet
            else ArrowSource(stream, rejected)
        )
    except (OSError, pa.ArrowException) as error:
        raise Failure(f"not a readable {kind.value} file: {error}") from error
