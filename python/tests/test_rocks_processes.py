"""perdure.rocks among processes, threads and signals; and a package that was built without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from perdure import errors
from rocks_world import OPTIONS, opened, rocks, says

# --- processes, threads, signals ----------------------------------------------------------------


def test_a_database_has_one_owner(db: rocks.Database) -> None:
    path = Path(db.path)
    with says(perdure.Busy, "is open already, in this process or another"):
        opened(path)
    run = command("put", path, "a", "b")
    assert run.returncode == 2 and "is open already" in run.stderr


def command(*words: Any, by: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*by, sys.executable, "-m", "perdure.cli", "rocks", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_others_read_a_database_that_is_open(db: rocks.Database) -> None:
    db["a"] = "below"
    db.put([f"k{n:04}" for n in range(3000)], ["x"] * 3000)  # to memtables
    assert db.stats()["perdure.memtables"] > 0
    assert command("get", db.path, "a").stdout == "below\n"
    assert command("get", db.path, "k2999").stdout == "x\n"
    assert command("scan", db.path, "--reverse", "--limit", 1).stdout == "k2999\tx\n"
    assert "3,001 records" in command("verify", db.path).stdout
    with rocks.open(db.path, read_only=True, device="cpu", merge_operator="stringappend") as beside:
        assert len(list(beside)) == 3001
        db["b"] = "later"
        assert "b" not in beside
        out = np.zeros((2, 1), np.uint8)
        assert beside.get(["k0000", "k0001"], out=out).found.all() and (out == ord("x")).all()
        for write in (
            lambda: beside.put(["a"], ["b"]),
            lambda: beside.put(["a"] * 5000, ["b"] * 5000),
            lambda: beside.merge(["a"], ["b"]),
            beside.flush,
            beside.compact,
            lambda: beside.create_family("new"),
        ):
            with says(perdure.Unsupported, "read only mode"):
                write()
    assert db["b"] == b"later"


def test_a_directory_that_cannot_be_written_is_read(pools: Path) -> None:
    program = f"""
import os, signal
from perdure import rocks
db = rocks.open({str(pools / "db")!r}, options={OPTIONS!r}, device="cpu", threshold=100)
db.put([f"{{n:04}}" for n in range(3000)], ["x"] * 3000)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    below = [pools, *pools.rglob("*")]
    for one in below:
        one.chmod(0o555 if one.is_dir() else 0o444)
    before = {one: one.stat().st_mtime_ns for one in below}
    bound = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    try:
        assert command("put", pools / "db", "0007", "y", by=bound).returncode == 2
        run = command("get", pools / "db", "0007", by=bound)
        assert (run.returncode, run.stdout) == (0, "x\n"), run.stderr
        assert "3,000 records" in command("verify", pools / "db", by=bound).stdout
        assert {one: one.stat().st_mtime_ns for one in [pools, *pools.rglob("*")]} == before
    finally:
        for one in below:
            one.chmod(0o755)
    with opened(pools / "db") as db:
        assert len(list(db)) == 3000


def test_what_is_in_the_log_outlives_a_killed_process(pools: Path) -> None:
    program = f"""
import os, signal
from perdure import rocks
db = rocks.open({str(pools / "db")!r}, options={OPTIONS!r}, device="cpu", threshold=100)
db.put([f"{{n:04}}" for n in range(3000)], ["x"] * 3000)
db.put([f"{{n:04}}" for n in range(3000, 3010)], ["y"] * 10)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with opened(pools / "db") as db:
        assert list(db) == [f"{n:04}".encode() for n in range(3010)]


def test_a_forked_child_is_refused_and_harms_nothing(db: rocks.Database) -> None:
    db.put(np.arange(1000), np.arange(1000))
    state = db.snapshot()
    child = os.fork()
    if child == 0:
        good = 0
        for call in (lambda: db.get([1]), lambda: state.get([1]), lambda: db.close()):
            try:
                call()
            except errors.Closed as error:
                good += "another process" in error.message
        os._exit(good)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert state.get(np.arange(1000)).found.all() and db.get([1]).found.all()


def test_a_forked_child_ends_and_opens_no_database(pools: Path) -> None:
    """RocksDB's own threads are not there, and its objects would wait for them for ever."""
    program = f"""
import os, sys
from perdure import rocks
db = rocks.open({str(pools / "db")!r}, options={OPTIONS!r})
db["a"] = "1"
if os.fork() == 0:
    try:
        rocks.open({str(pools / "other")!r})
    except Exception as error:
        print(type(error).__name__, error)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]), db["a"])
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    refused, parent = run.stdout.splitlines()
    assert "Unsupported" in refused and "fork before the first opening" in refused
    assert parent == "3 b'1'" and not run.stderr


def test_readers_see_all_of_a_batch_or_nothing(db: rocks.Database) -> None:
    keys = np.arange(300)
    db.put(keys, np.zeros(300, np.int64))
    torn: list[int] = []
    over = threading.Event()

    def look() -> None:
        out = np.zeros(300, np.int64)
        while not over.is_set():
            db.get(keys, out=out)
            if len(np.unique(out)) != 1:
                torn.append(1)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for one in readers:
        one.start()
    for number in range(1, 60):
        db.put(keys, np.full(300, number))
    over.set()
    for one in readers:
        one.join()
    assert not torn


def test_a_signal_in_a_long_call_comes_when_all_of_it_is_done(db: rocks.Database) -> None:
    keys = np.random.default_rng(1).permutation(1_000_000)

    def put_until(timer: threading.Timer) -> None:
        timer.start()
        for _ in range(100):
            db.put(keys, keys)

    def put_until_stopped() -> str:
        """What the exception says, which is nothing if the signal came between two calls."""
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as caught:
            put_until(timer)
        timer.join()
        return "".join(getattr(caught.value, "__notes__", []))

    said = next(filter(None, (put_until_stopped() for _ in range(20))), "")
    assert "all of it has been done" in said
    assert db.get(keys[:1000], out=np.zeros(1000, np.int64)).found.all()


# --- the package --------------------------------------------------------------------------------


def test_the_package_does_without_it_and_says_how_to_get_it() -> None:
    program = """
import sys
sys.modules["perdure._rocks"] = None  # as where it was not built
import perdure
perdure.create("memfd:without", 8, 8).close()
from perdure.cli import main
sys.argv = ["perdure", "rocks", "stats", "nowhere"]
try:
    main()
except SystemExit as end:
    print(end.code)
import perdure.rocks
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.stdout == "2\n"
    command, _, module = run.stderr.partition("Traceback")
    for said in (command, module):
        assert "install librocksdb-dev and build again" in said
    assert "ImportError" in module
