"""A writer that is killed, with readers beside it: what is answered is what was put."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kv_blocks import check, opened, put
from perdure.kv import BlockReader

PROGRAM = Path(__file__).with_name("kv_blocks.py")
KEYS = [f"k{i}" for i in range(200)]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"perdure-kv-kills-{tmp_path.name}-{id(tmp_path)}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *(str(one) for one in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_after(writer: subprocess.Popen[str], seconds: float, *, begun: bool) -> int:
    """Kills the writer some time after it has opened the cache, or has put its first blocks, and
    answers how many blocks it found."""
    with writer:
        assert writer.stdout is not None
        said = writer.stdout.readline().split()
        assert said[:1] == ["open"], "the writer did not open the cache"
        if begun:
            assert writer.stdout.readline() == "begun\n"
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
    assert writer.returncode == -signal.SIGKILL
    return int(said[1])


def test_a_writer_is_killed_again_and_again_beside_its_readers(
    directory: Path, tmp_path: Path
) -> None:
    opened(directory).close()
    stop = tmp_path / "stop"
    readers = [started("read", directory, stop) for _ in range(2)]
    rng = random.Random(7)
    held: list[int] = []
    try:
        for round_ in range(8):
            writer = started("write", directory, round_)
            held.append(killed_after(writer, rng.uniform(0, 0.3), begun=round_ % 3 == 0))
            assert check(BlockReader(directory), KEYS) > 0
        with opened(directory) as cache:
            assert check(cache, KEYS) == len(cache) > 0
            assert put(cache, ["after"]).all()
    finally:
        stop.touch()
        given = [int(reader.communicate(timeout=60)[0] or -1) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0]
    assert min(given) > 0
    assert held[0] == 0 and min(held[1:]) > 0, "openings find what there was before the kill"
