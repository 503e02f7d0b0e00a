"""`perdure top`: what is seen of a pool beside the process that has it open, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from perdure._cli_top import rates, shown
from perdure._samples import PoolSource, Sample

COMMAND = [sys.executable, "-m", "perdure.cli", "top"]


@contextmanager
def watching(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()


def test_a_look_beside_the_owner_says_who_has_it_and_what_is_in_it(
    pool: str, cli: Callable[..., Any]
) -> None:
    with perdure.create(pool, 8, 8) as store:
        store.put(np.arange(1000), np.arange(1000))
        look = json.loads(cli("top", pool, "--once", "--json").out)
    assert look["use"] == "writing" and look["process"] == os.getpid()
    assert look["records"] == 1000 and look["process_bytes"] > 1 << 20
    assert look["state"] == f"open for writing (process {os.getpid()})"
    look = json.loads(cli("top", pool, "--once", "--json").out)
    assert look["state"] == "closed in order" and look["records"] == 1000
    assert look["estimated"] is False and "process_bytes" not in look


def test_it_says_how_much_changes_between_two_looks(pool: str) -> None:
    with perdure.create(pool, 8, 8) as store, watching(pool, "--json", "--interval", "0.1") as seen:
        assert seen.stdout is not None
        first = json.loads(seen.stdout.readline())
        assert "changes_per_second" not in first
        for i in range(20):
            store.put(np.arange(i * 100, i * 100 + 100), np.arange(100))
        total, looks = 0.0, 0
        before = first
        while total < 20 and looks < 100:
            look = json.loads(seen.stdout.readline())
            total += look["changes"] - before["changes"]
            assert look["changes_per_second"] >= 0
            before, looks = look, looks + 1
    assert total == 20 and before["records"] == 2000


def test_plain_lines_where_there_is_no_terminal(pool: str) -> None:
    with perdure.create(pool, 8, 8) as store:
        store.put(np.arange(10), np.arange(10))
        with watching(pool, "--interval", "0.05") as seen:
            assert seen.stdout is not None
            lines = [seen.stdout.readline() for _ in range(3)]
    assert all(f" {pool}: state open for writing" in line for line in lines), lines
    assert "changes/s" in lines[1] and "10 records in " in lines[2] and "\x1b" not in lines[2]


def test_in_a_terminal_it_is_drawn_again_in_place(pool: str) -> None:
    pty = pytest.importorskip("pty")
    perdure.create(pool, 8, 8).close()
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, pool, "--interval", "0.05"], stdout=theirs) as process:
        os.close(theirs)
        drawn = b""
        until = time.monotonic() + 30
        while drawn.count(b"closed in order") < 3 and time.monotonic() < until:
            drawn += os.read(ours, 65536)
        process.send_signal(2)
        try:
            while os.read(ours, 65536):
                pass
        except OSError:
            pass  # it has closed the terminal
        assert process.wait(30) == 0
    os.close(ours)
    assert drawn.count(b"closed in order") >= 3 and b"\x1b[" in drawn and b"records" in drawn


def test_a_killed_owner_is_told_from_an_orderly_close(pool: str, cli: Callable[..., Any]) -> None:
    program = (
        "import os, sys, perdure; store = perdure.create(sys.argv[1], 8, 8); store[1] = 2;"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, pool], check=False)
    look = json.loads(cli("top", pool, "--once", "--json").out)
    assert look["state"].startswith("not closed in order") and look["use"] == "nobody"
    assert look["records"] == 1


@pytest.mark.parametrize("index", ["dash-eh", "btree"])
def test_what_the_file_does_not_tell_is_said_to_be_so(
    pool: str, cli: Callable[..., Any], index: str
) -> None:
    with perdure.create(pool, 8, 8, index=index) as store:
        store[1] = 5
        look = json.loads(cli("top", pool, "--once", "--json").out)
        assert "records" not in look and "changes" not in look
        assert "not told by the file while it is open" in cli("top", pool, "--once").out


def test_the_log_of_a_durable_pool_is_told(
    pool: str, log_dir: str, cli: Callable[..., Any]
) -> None:
    with perdure.create(
        pool, 8, 8, durability="power", log_dir=log_dir, log_bytes=4 << 20
    ) as store:
        store.put(np.arange(100), np.arange(100))
        look = json.loads(cli("top", pool, "--once", "--json", "--log-dir", log_dir).out)
        assert look["log_bytes"] == (Path(log_dir) / "redo.log").stat().st_size
        assert look["image_bytes"] > 0 and look["image_age_seconds"] < 600


def test_a_look_reads_no_more_of_a_large_pool(pool: str) -> None:
    """What a live copy of it would read is the pool."""
    with perdure.create(pool, 8, 256, expected_records=1 << 19) as store:
        keys = np.arange(1 << 19)
        store.put(keys, np.zeros((len(keys), 256), np.uint8))
        found = perdure.glance(pool)
    assert found.pool_bytes > 128 << 20 and found.bytes_read < 4 << 20
    assert found.estimated and abs(found.records - len(keys)) < 0.03 * len(keys)


def test_wrong_usage_is_one_line(pool: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    assert "NotFound" not in cli("top", pool, "--once").err
    assert cli("top", pool, "--once").status == 2
    other = tmp_path / "other"
    other.write_text("no pool")
    assert cli("top", str(other), "--once").status != 0
    perdure.create(pool, 8, 8).close()
    for interval in ("0", "-1", "nan"):
        refused = cli("top", pool, "--interval", interval)
        assert refused.status == 2 and "--interval" in refused.err


def test_rates_are_of_counters_that_rose() -> None:
    before = Sample(10.0, {"gets": 100, "puts": 7}, {"records": 5})
    assert rates(None, before) == {}
    after = Sample(12.0, {"gets": 300, "puts": 3, "new": 1}, {"records": 1})
    assert rates(before, after) == {"gets": 100.0, "records": -2.0}  # puts: another pool's


def test_a_source_that_vanishes_ends_it_with_the_reason(pool: str) -> None:
    perdure.create(pool, 8, 8).close()
    source = PoolSource(pool)
    assert shown({"name": pool, **source.sample().facts})[0] == ("state", "closed in order")
    os.unlink(pool)
    with pytest.raises(perdure.NotFound, match=pool):
        source.sample()
