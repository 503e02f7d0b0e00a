"""Looking at a pool beside the process that has it open: `open(..., live=True)`, `--live`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest

OWNER = """
import sys, numpy as np, perdure
with perdure.create(sys.argv[1], 8, 8) as store:
    store.put(np.arange(1000), np.arange(1000) * 2)
    for line in sys.stdin:
        first = int(line)
        store.put(np.arange(first, first + 100), np.full(100, first))
        print("done", flush=True)
"""


@contextmanager
def owner(pool: str) -> Iterator[Callable[[int], None]]:
    """Another process that has the pool open, with 1,000 keys in it; a call has it put 100 more."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, pool],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def put(first: int) -> None:
            process.stdin.write(f"{first}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        put(1000)
        yield put
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_look_is_of_its_moment_and_disturbs_nobody(pool: str) -> None:
    with owner(pool) as put:
        with pytest.raises(perdure.Busy, match="live=True"):
            perdure.open(pool, read_only=True)
        with perdure.open(pool, live=True) as look:
            assert len(look) == 1100 and look.recovery().clean
            put(2000)
            assert len(look) == 1100 and 2000 not in look
            assert (
                look.get(np.arange(1000), dtype=np.int64).values[:, 0] == np.arange(1000) * 2
            ).all()
            with pytest.raises(perdure.InvalidArgument, match="read-only"):
                look[1] = 5
        with perdure.open(pool, live=True) as look:
            assert len(look) == 1200 and look[2000] == look[2099]
    with perdure.open(pool) as store:
        assert store.recovery().clean and len(store) == 1200 and not store.verify().faults


def test_commands_look_live(pool: str, cli: Callable[..., Any]) -> None:
    with owner(pool):
        for command in (("stats", pool), ("get", pool, "7"), ("scan", pool), ("verify", pool)):
            busy = cli(*command)
            assert busy.status != 0 and "--live" in busy.err
            live = cli(*command, "--live")
            assert live.status == 0, live.err
            assert live.err.startswith(f"perdure: {pool}: a copy as of ")
        assert cli("get", pool, "7", "--live").out == "14\n"
        assert len(cli("scan", pool, "--live").out.splitlines()) == 1100
        assert cli("stats", pool, "--live", "--json", "-").json()["records"] == 1100
        assert cli("verify", pool, "--live", "--json", "-").json()["records"] == 1100


def test_what_cannot_be_looked_at_live_says_why(
    pool: str, log_dir: str, cli: Callable[..., Any]
) -> None:
    for repairing in ("--repair", "--acknowledge"):
        refused = cli("verify", pool, "--live", repairing)
        assert refused.status == 2 and "--live changes nothing" in refused.err
    assert "make one with create" in cli("stats", pool, "--live").err
    with perdure.create(pool, 8, 8) as store:
        with store.transaction():
            store[1] = 1
            with pytest.raises(perdure.Busy, match="in the midst of a change"):
                perdure.open(pool, live=True)
        with perdure.open(pool, live=True) as look:
            assert 1 in look
    Path(pool).unlink()
    with (
        perdure.create(pool, 8, 8, index="dash-eh"),
        pytest.raises(perdure.Unsupported, match=r"index dash-eh.*one by one"),
    ):
        perdure.open(pool, live=True)
    Path(pool).unlink()
    with (
        perdure.create(pool, 8, 8, durability="power", log_dir=log_dir, log_bytes=4 << 20),
        pytest.raises(perdure.Unsupported, match="power"),
    ):
        perdure.open(pool, live=True)
