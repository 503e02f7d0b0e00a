"""Rows that could not be stored: counted, the first of them told, and all of them written to a file
if asked.

The file of rejects is CSV: file, line (or row), why, and the row as it was read. Invariant: nothing
that is counted here is stored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import IO, Any

from perdure._outputs import Kind, Output

REPORTED_MAX = 100  # told one by one; the rest are counted
REJECTS = Kind("file of rejects", lambda first: first.startswith(b"file,number,why,row"))


@dataclass
class Rejected:
    unit: str  # "line" or "row"
    file: str = ""
    count: int = 0
    reported: list[dict[str, Any]] = field(default_factory=list)
    to: Any = None  # a csv.writer

    def add(self, number: int, why: str, rows: int = 1, text: bytes = b"") -> None:
        self.count += rows
        if len(self.reported) < REPORTED_MAX:
            self.reported.append({self.unit: number, "why": why})
        if self.to is not None:
            self.to.writerow([self.file, number, why, text.decode("utf-8", "backslashreplace")])


@contextmanager
def rejects_file(
    path: str | None, overwrite: bool, inputs: list[str | PathLike[str]]
) -> Iterator[Any]:
    """A writer of rejects, or None. The file is there in the end also where loading had to stop."""
    if path is None:
        yield None
        return
    output = Output("--rejects", path, REJECTS, overwrite=overwrite, inputs=inputs)
    stopped: BaseException | None = None
    with (
        output.writing() as unfinished,
        open(unfinished, "w", newline="", encoding="utf-8") as file,
    ):
        try:
            yield _writer(file)
        except Exception as error:  # told once the file has its name
            stopped = error
    if stopped is not None:
        raise stopped


def _writer(file: IO[str]) -> Any:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["file", "number", "why", "row"])
    return writer
