"""Files that the package's own Python writes: results as JSON, exports, plots. For pools, logs and
snapshots the engine decides likewise (src/pm/named_file.hpp).

Invariants: nothing is replaced unasked; with `overwrite` a file of the same kind is, with `force`
any regular file; never what the command reads, however it is called, nor a file that somebody has
locked, as open pools are. It is checked before the command does anything, and once more at the end.
A file has its name only once it is whole.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LOG_FILES = ("redo.log", "checkpoint", "image-a", "image-b")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FIRST_BYTES = 64
_KINDS = {
    stat.S_ISLNK: "a symbolic link, which is not followed",
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a FIFO",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a character device",
    stat.S_ISBLK: "a block device",
}


class Refused(Exception):
    """An output may not be written; the message names it and the way out."""


@dataclass(frozen=True)
class Kind:
    """What a file is known by."""

    noun: str
    begins: Callable[[bytes], bool]  # whether a file that begins so is one of the kind


JSON = Kind("JSON file", lambda first: first.lstrip()[:1] == b"{")
PARQUET = Kind("Parquet file", lambda first: first.startswith(b"PAR1"))
CSV = Kind("exported CSV file", lambda first: first.startswith(b'"key:'))
JSONL = Kind("exported file of JSON lines", lambda first: first.startswith(b'{"key'))
ARROW = Kind("Arrow file", lambda first: first.startswith((b"ARROW1", b"\xff\xff\xff\xff")))
COMPRESSED = {
    "gzip": Kind("gzip file", lambda first: first.startswith(b"\x1f\x8b")),
    "zstd": Kind("zstd file", lambda first: first.startswith(b"\x28\xb5\x2f\xfd")),
    "bz2": Kind("bzip2 file", lambda first: first.startswith(b"BZh")),
    "xz": Kind("xz file", lambda first: first.startswith(b"\xfd7zXZ")),
}
PNG = Kind("PNG file", lambda first: first.startswith(b"\x89PNG\r\n\x1a\n"))


def files_of(pool: str | os.PathLike[str], log_dir: str | os.PathLike[str] | None) -> list[Path]:
    """What a command that opens a pool reads."""
    return [Path(pool)] + ([] if log_dir is None else [Path(log_dir) / name for name in LOG_FILES])


def why_failed(error: OSError) -> str:
    """What the system says, and what to do about it."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in NO_ROOM:
        return f"{why} (free some, or name another place)"
    return why


class Output:
    """A file that a command is to write. Making one raises Refused if it may not be."""

    def __init__(
        self,
        option: str,
        path: str | os.PathLike[str],
        kind: Kind,
        *,
        overwrite: bool = False,
        force: bool | None = None,  # None: the command has no such option
        inputs: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self.path = Path(path)
        self._named = f"{option} {path}".strip()
        self._kind, self._overwrite, self._force = kind, overwrite, force
        self._inputs = list(inputs)
        if not self.path.name or not self.path.parent.is_dir():
            raise Refused(f"{self._named}: {os.strerror(errno.ENOENT)}")
        with self._replaced():
            pass

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """A path to write to. The file has its own name once the block ends; where it raised none
        is left."""
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}.unfinished")
        try:
            unfinished.unlink(missing_ok=True)  # of a process that died with this one's number
            os.close(
                os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            )
            yield unfinished
            self._give_name(unfinished)
        except OSError as error:
            if isinstance(error, BrokenPipeError) or str(error.filename or unfinished) != str(
                unfinished
            ):
                raise  # of another file
            raise Refused(f"{self._named}: {why_failed(error)}; nothing was written") from error
        finally:
            with suppress(OSError):  # it may not even have begun
                unfinished.unlink(missing_ok=True)

    def write_text(self, text: str) -> None:
        with self.writing() as unfinished:
            unfinished.write_text(text)

    def _give_name(self, unfinished: Path) -> None:
        with self._replaced() as there:
            if there is None:
                self._take_free_name(unfinished)
                return
            unfinished.chmod(stat.S_IMODE(there.st_mode) & 0o777)
            unfinished.replace(self.path)

    def _take_free_name(self, unfinished: Path) -> None:
        try:
            os.link(unfinished, self.path)
        except FileExistsError:
            raise Refused(
                f"{self._named}: was made by others in the meantime, and is left as it is"
            ) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or os.path.lexists(
                self.path
            ):
                raise
            unfinished.rename(self.path)  # on a file system without hard links

    @contextmanager
    def _replaced(self) -> Iterator[os.stat_result | None]:
        """What is there and may be replaced, locked for as long as the block lasts."""
        self._check_inputs()
        try:
            there = os.lstat(self.path)
        except FileNotFoundError:
            yield None
            return
        self._check_asked(there)
        handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._check_file(handle)
            yield there
        finally:
            os.close(handle)

    def _check_inputs(self) -> None:
        for one in self._inputs:
            same_name = os.path.realpath(one) == os.path.realpath(self.path)
            if same_name or (os.path.exists(one) and os.path.lexists(self.path) and self._is(one)):
                raise Refused(
                    f"{self._named}: is {one}, which this command works on; name another file"
                )

    def _is(self, other: str | os.PathLike[str]) -> bool:
        """By device and inode: hard links and bind mounts have other names."""
        return os.path.samestat(os.stat(other), os.lstat(self.path))

    def _check_asked(self, there: os.stat_result) -> None:
        if not stat.S_ISREG(there.st_mode):
            kind = next(
                (name for test, name in _KINDS.items() if test(there.st_mode)), "no regular file"
            )
            raise Refused(f"{self._named}: is {kind}; name a regular file")
        if not self._overwrite and not self._force:
            raise Refused(f"{self._named}: exists already; name another file, or pass --overwrite")

    def _check_file(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{self._named}: is in use; name another file") from None
        if not self._force and not self._kind.begins(os.pread(handle, _FIRST_BYTES, 0)):
            way_out = "remove it first" if self._force is None else "pass --force"
            raise Refused(
                f"{self._named}: what is there is no {self._kind.noun}, and is not replaced; "
                "name another"
                f" file, or {way_out}"
            )
