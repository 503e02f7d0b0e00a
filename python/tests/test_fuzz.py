"""The fuzzers' targets on what is kept in corpus/, and on changes of it from a fixed seed, for 3 s
each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import fuzzing
import pytest

SECONDS = 3


@pytest.fixture
def folder() -> Iterator[fuzzing.Folder]:
    made = fuzzing.Folder()
    yield made
    made.close()


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_whatever_the_bytes(name, folder):
    kept = fuzzing.corpus(name)
    under_way = (
        Path(tempfile.gettempdir()) / f"perdure-fuzz-{name}-input"
    )  # stays if the process dies of it
    tried = 0

    def run(data: bytes) -> None:
        nonlocal tried
        under_way.write_bytes(data)
        fuzzing.TARGETS[name](folder, data)
        tried += 1

    for data in kept:
        run(data)
    deadline = time.monotonic() + SECONDS
    for data in fuzzing.changes(kept, 20261121):
        if time.monotonic() > deadline:
            break
        run(data)
    under_way.unlink()
    assert tried > len(kept)
