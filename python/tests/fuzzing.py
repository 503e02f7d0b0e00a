"""The fuzzers' targets in Python: files of tables and traces that strangers made. Each takes any
bytes.

Invariant: whatever the bytes, `perdure load` ends with one of its exit statuses and counts what it
stored, and a trace is read or refused by TraceError, in one line; what its readers take in one go
is what they would take line by line.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import perdure
from perdure import _trace_forms, _trace_sniff, traces
from perdure.cli import app
from typer.testing import CliRunner

CORPUS = Path(__file__).parent / "corpus"
STATUSES = (0, 1, 2)  # all stored, some rows rejected, refused


class Folder:
    """Files and pools in memory, gone with the object."""

    def __init__(self) -> None:
        parent = os.environ.get("PERDURE_FUZZ_TMP", "/dev/shm")
        self.path = Path(tempfile.mkdtemp(prefix="perdure-fuzz-", dir=parent))
        for name, sizes in {"fixed": (8, 8), "variable": (None, None)}.items():
            perdure.create(str(self.path / name), *sizes, max_bytes=64 << 20).close()

    def close(self) -> None:
        shutil.rmtree(self.path)


def load(folder: Folder, data: bytes, suffix: str, *options: str) -> None:
    """Into a pool of integers, and into one of byte strings."""
    file = folder.path / f"table.{suffix}"
    file.write_bytes(data)
    for pool in ("fixed", "variable"):
        done = CliRunner().invoke(
            app, ["load", str(folder.path / pool), str(file), "--json", "-", *options]
        )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code in STATUSES, f"exit status {done.exit_code}"
        if done.exit_code == 2:
            assert done.stderr.strip(), "refused without a word"
            continue
        said = json.loads(done.stdout)
        assert (said["rejected"] == 0) == (done.exit_code == 0), said
        assert said["stored"] >= 0 and said["records"] >= (said["stored"] > 0), said


def parquet(folder: Folder, data: bytes) -> None:
    load(folder, data, "parquet")


def csv(folder: Folder, data: bytes) -> None:
    load(folder, data, "csv")


def table(folder: Folder, data: bytes) -> None:
    """The first byte picks the format, which the content or an option says, and what rows
    become."""
    if data:
        form = ("auto", "jsonl", "arrow", "tsv", "csv")[data[0] % 5]
        load(
            folder,
            data[1:],
            "data",
            "--format",
            form,
            "--rows",
            ("auto", "json", "arrow")[data[0] // 5 % 3],
        )


def rows(requests: traces.Requests | None) -> list[tuple]:
    if requests is None:
        return []
    numbers = (requests.times, requests.sizes, requests.ops, requests.ttls)
    absent = [None] * len(requests)
    columns = [absent if column is None else column.tolist() for column in numbers]
    return list(zip(requests.keys.to_pylist(), *columns, strict=True))


_COLUMNS = "time=1,key=2,size=3"


def trace(folder: Folder, data: bytes) -> None:
    """The first byte picks the format and the compression that the file's name claims."""
    if not data:
        return
    form = list(traces.TraceFormat)[data[0] % 16 % len(traces.TraceFormat)]
    suffix = ("", ".gz", ".zst", ".xz", ".bz2")[data[0] // 16 % 5]
    file = folder.path / f"trace.csv{suffix}"
    file.write_bytes(data[1:])
    try:
        with traces.Trace(
            file, form, _COLUMNS if form is traces.TraceFormat.csv else None
        ) as opened:
            read = [row for batch in opened.batches(7) for row in rows(batch)]
    except traces.TraceError as error:
        refused = str(error)
    else:
        refused = None
    if refused is not None:
        assert refused and "\n" not in refused, "refused without a word, or in several lines"
        return
    plain = not suffix and _trace_sniff.compression_of(data[1:]) is None
    if plain and opened.format not in (*_trace_forms.RECORDS, traces.TraceFormat.csv):
        _check_by_lines(opened, data[1:], read)


def _check_by_lines(opened: traces.Trace, text: bytes, read: list[tuple]) -> None:
    malformed, form = traces.Malformed(), _trace_forms.form_of(opened.format)
    slow = form.slow(text if text.endswith(b"\n") else text + b"\n", 1, malformed)
    assert read == (
        [] if slow is None else [row for piece in form.pieces(slow) for row in rows(piece)]
    )
    assert malformed.count == opened.malformed.count and malformed.first == opened.malformed.first


TARGETS: dict[str, Callable[[Folder, bytes], None]] = {
    "parquet": parquet,
    "csv": csv,
    "table": table,
    "trace": trace,
}


def corpus(name: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]


def changes(kept: list[bytes], seed: int) -> Iterator[bytes]:
    """Inputs like those that are kept: bytes changed, cut out, doubled, cut off, or taken from
    another."""
    draw = random.Random(seed)
    while True:
        data = bytearray(draw.choice(kept))
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data) + 1)
            end = min(len(data), at + draw.choice((1, 1, 4, 8, 64)))
            match draw.randrange(6):
                case 0 if at < len(data):
                    data[at] ^= 1 << draw.randrange(8)
                case 1 if at < len(data):
                    data[at] = draw.choice((0, 1, 9, 10, 13, 34, 44, 127, 128, 255))
                case 2:
                    del data[at:end]
                case 3:
                    data[at:at] = data[at:end]
                case 4:
                    other = draw.choice(kept)
                    begin = draw.randrange(len(other) + 1)
                    data[at:end] = other[begin : begin + end - at]
                case 5 if draw.randrange(8) == 0:
                    del data[at:]
        yield bytes(data)
