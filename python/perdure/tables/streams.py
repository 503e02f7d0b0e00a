"""Files as streams of bytes: standard input, files, globs; compressed or not, told by their first
bytes.

Invariant: nothing is read twice, so a pipe will do; what was looked at comes again when the stream
is read.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO

from perdure.cli_support import Failure

STDIN = "-"
LOOKED_AT_BYTES = 1 << 20
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}
UNREADABLE = (OSError, EOFError, lzma.LZMAError)  # what reading a damaged compressed file raises


class Peeked(io.RawIOBase):
    """A stream whose first bytes have been looked at, and are read all the same."""

    def __init__(self, raw: Any, count: int) -> None:
        self._raw = raw
        self.head = _read_fully(raw, count)
        self.whole = len(self.head) < count  # the head is all there is
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        some = self.head[self.taken : self.taken + len(into)] or self._raw.read(len(into))
        into[: len(some)] = some
        self.taken += len(some)
        return len(some)


def _read_fully(raw: Any, count: int) -> bytes:
    """Pipes give less than they are asked for."""
    parts: list[bytes] = []
    while count and (part := raw.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Stream:
    """One input, uncompressed. `head` is how it begins; `done` of `size` bytes of the file are
    read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: IO[bytes] = sys.stdin.buffer if name == STDIN else open(name, "rb")  # noqa: SIM115
        self.size = 0.0 if name == STDIN else float(Path(name).stat().st_size)
        try:
            self._look()
        except BaseException:
            self.__exit__()
            raise

    def _look(self) -> None:
        self._raw = Peeked(self._file, 6)
        head = self._raw.head
        self.compression = next(
            (kind for magic, kind in _MAGIC.items() if head.startswith(magic)), ""
        )
        self._peeked = Peeked(_decompressed(self._raw, self.compression), LOOKED_AT_BYTES)
        self.head = self._peeked.head
        self.whole = self._peeked.whole

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        if self.name != STDIN:
            self._file.close()

    @property
    def done(self) -> float:
        return float(self._raw.taken)

    @property
    def plain_file(self) -> bool:
        """Whether a reader may seek in the file instead."""
        return self.name != STDIN and not self.compression

    def reader(self) -> BinaryIO:
        return io.BufferedReader(self._peeked, 1 << 20)


def _decompressed(raw: Peeked, compression: str) -> Any:
    buffered = io.BufferedReader(raw, 1 << 20)
    if compression == "xz":
        return lzma.open(buffered)
    if not compression:
        return buffered
    import pyarrow as pa

    return pa.CompressedInputStream(buffered, compression)


def expand(names: list[str]) -> list[str]:
    """The files that arguments name: as they are, or by a pattern that the shell was kept from."""
    found: list[str] = []
    for name in names:
        if name == STDIN or Path(name).is_file():
            found.append(name)
            continue
        matching = sorted(one for one in glob.glob(name, recursive=True) if Path(one).is_file())
        if not matching:
            what = "is a directory" if Path(name).is_dir() else "no such file"
            raise Failure(f"{name}: {what}")
        found += matching
    if found.count(STDIN) > 1:
        raise Failure("-: standard input can be read once")
    return found


def compression_of(path: Path) -> tuple[Path, str]:
    """A path without its suffix of compression, and which that is."""
    kind = COMPRESSED.get(path.suffix.lower(), "")
    return (path.with_suffix(""), kind) if kind else (path, "")


def compressing(file: IO[bytes], compression: str) -> tuple[Any, Callable[[], None]]:
    """A stream to write to, and what ends it."""
    openers: dict[str, Callable[[], Any]] = {
        "gzip": lambda: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6),
        "bz2": lambda: bz2.BZ2File(file, "wb"),
        "xz": lambda: lzma.LZMAFile(file, "wb", preset=3),  # noqa: SIM115
    }
    if not compression:
        return file, lambda: None
    if compression == "zstd":
        import pyarrow as pa

        sink = pa.CompressedOutputStream(pa.PythonFile(file, "w"), "zstd")
        return sink, sink.close
    stream = openers[compression]()
    return stream, stream.close
