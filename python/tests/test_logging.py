"""What the logger `perdure` is told, at which level, and that nothing is printed without a
handler. The life of a store (opened, closed, grown) is told at level INFO, and left out of what
most tests compare."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from pool_bytes import taken_slot

KEYS = np.arange(100)
ROWS = np.random.default_rng(1).integers(0, 256, (100, 16), dtype=np.uint8)
KILLED = """
import os, signal, sys
import numpy as np, perdure
store = perdure.create(sys.argv[1], 8, 16)
store.put(np.arange(100), np.ones((100, 16), np.uint8))
os.kill(os.getpid(), signal.SIGKILL)
"""


LIFE = {
    *("created", "opened", "restored", "closed", "verified", "snapshot"),
    *("growth_begun", "growth_ended", "checkpoint"),
}


class Told:
    """What was logged since it was last asked, but for stores' lives: lines of a level."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._log = caplog

    def __call__(self) -> list[tuple[str, str]]:
        lines = [
            (one.levelname, one.getMessage())
            for one in self.records()
            if one.perdure["event"] not in LIFE
        ]
        self._log.clear()
        return lines

    def records(self) -> list[Any]:
        return [one for one in self._log.records if one.name == "perdure"]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Told]:
    gc.collect()  # closes what earlier tests left in cycles
    with caplog.at_level(logging.DEBUG, "perdure"):
        yield Told(caplog)


@pytest.fixture
def filled(pool: str) -> str:
    """A closed pool of 100 records."""
    with perdure.create(pool, 8, 16) as store:
        store.put(KEYS, ROWS)
    return pool


def flip(file: str, offset: int) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        octet = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([octet ^ 1]))


def levels(lines: list[tuple[str, str]]) -> set[str]:
    return {level for level, _ in lines}


def test_what_goes_well_is_not_worth_a_word(filled: str, told: Told) -> None:
    with perdure.open(filled) as store:
        store.put(KEYS, ROWS)
        assert not store.get([1, 1000]).found.all() and store.verify().records == 100
        assert 1000 not in store and store[1] == ROWS[1].tobytes()
    assert told() == []


def test_the_life_of_a_store_is_told_with_fields(pool: str, told: Told, tmp_path: Path) -> None:
    with perdure.create(pool, 8, 16, expected_records=100) as store:
        for first in range(0, 20_000, 500):
            keys = np.arange(first, first + 500)
            store.put(keys, np.zeros((500, 16), np.uint8))
        store.verify()
        store.snapshot(tmp_path / "snapshot")
        store.close()
    events = [one.perdure for one in told.records()]
    names = [one["event"] for one in events]
    assert names[0] == "created" and names[-3:] == ["verified", "snapshot", "closed"]
    assert set(names[1:-3]) == {"growth_begun", "growth_ended"}
    assert all(one["pool"] == pool for one in events)
    assert events[0]["index"] == "gphash" and events[0]["mode"] == "write"
    assert events[-3]["records"] == 20_000 and events[-1]["seconds"] > 0
    assert {one.levelname for one in told.records()} == {"INFO"}


def test_a_handler_that_raises_or_opens_pools_itself_harms_nobody(
    pool: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hostile(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            perdure.create(f"memfd:{pool}", 8, 8).close()  # its events are not told: no recursion
            raise OSError("the disk of the log is full")

    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    logger, handler = logging.getLogger("perdure"), Hostile()
    logger.addHandler(handler)
    try:
        with perdure.create(pool, 8, 16) as store:
            store.put(KEYS, ROWS)
            assert len(store) == 100
    finally:
        logger.removeHandler(handler)
    assert [type(one.exc_value) for one in raised] == [OSError, OSError]
    raised.clear()


def _create_and_go_on(pool: str) -> None:
    perdure.create(pool, 8, 16)
    sum(range(1000))


def _times_out(number: int, frame: object) -> None:
    raise TimeoutError(f"signal {number}")


@pytest.mark.parametrize(
    ("number", "handler", "raised"),
    [
        (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
        (signal.SIGTERM, lambda number, frame: sys.exit(128 + number), SystemExit),
        (signal.SIGALRM, _times_out, TimeoutError),
    ],
    ids=["ctrl-c", "exit", "timeout"],
)
def test_what_a_signal_raises_while_an_event_is_told_is_raised_after_the_call(
    pool: str, number: signal.Signals, handler: Any, raised: type[BaseException]
) -> None:
    class Signalled(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.perdure["event"] == "created":  # type: ignore[attr-defined]
                os.kill(os.getpid(), number)

    logger, log_handler = logging.getLogger("perdure"), Signalled()
    before = signal.signal(number, handler)
    logger.addHandler(log_handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with pytest.raises(raised):
            _create_and_go_on(pool)
    finally:
        logger.setLevel(level)
        logger.removeHandler(log_handler)
        signal.signal(number, before)
    perdure.open(pool).close()  # nothing of the call is left behind


def test_events_of_many_threads_come_each_once(pool: str, told: Told) -> None:
    def life(number: int) -> None:
        for _ in range(5):
            perdure.create(f"memfd:{pool}-{number}", 8, 8).close()

    threads = [threading.Thread(target=life, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    of_mine = [one.perdure for one in told.records() if pool in one.perdure["pool"]]
    names = [one["event"] for one in of_mine]  # others' pools may be closed by the collector
    assert names.count("created") == names.count("closed") == 40 and len(names) == 80


def test_a_recovery_is_told(pool: str, told: Told) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, pool], check=False)
    assert killed.returncode == -signal.SIGKILL
    perdure.open(pool).close()
    ((level, line),) = told()
    assert level == "INFO" and line.startswith(
        f"{pool}: was not closed in order; recovered 100 records in "
    )


def test_damage_is_an_error_and_its_repair_a_warning(filled: str, told: Told) -> None:
    flip(filled, slot := taken_slot(filled))
    with pytest.raises(perdure.Corrupt):
        perdure.open(filled)
    ((level, line),) = told()
    assert level == "ERROR" and f"at byte {slot}" in line
    with perdure.open(filled, repair=True) as store:
        repaired = told()
        store.verify()
        ((level, line),) = told()
        assert level == "ERROR" and "faults, the first: " in line
        store.acknowledge_repair()
        assert told() == [("INFO", f"{filled}: what repairs changed is acknowledged")]
    assert levels(repaired) == {"WARNING"}
    assert (f"{filled}: was damaged, and has been repaired") in [line for _, line in repaired]
    assert any("put right" in line for _, line in repaired)


def test_a_damaged_record_is_told_though_nobody_looks_at_statuses(filled: str, told: Told) -> None:
    flip(filled, Path(filled).read_bytes().index(ROWS[42].tobytes()))
    with perdure.open(filled) as store:
        store.get(KEYS, check=False)
        assert told() == [("ERROR", f"{filled}: get of 100 keys: 99 ok, 1 corrupt")]
        with pytest.raises(perdure.Corrupt):
            store[42]
        ((level, line),) = told()
        assert level == "ERROR" and "get: key 42: its record fails its checksum" in line


def test_lost_batches_are_an_error(pool: str, log_dir: str, tmp_path: Path, told: Told) -> None:
    kept = str(tmp_path / "kept")
    with perdure.create(
        pool, 8, 16, durability="power", log_dir=log_dir, log_bytes=4 << 20
    ) as store:
        store.put(KEYS, ROWS)
        shutil.copytree(log_dir, kept)
    shutil.rmtree(log_dir)
    with perdure.open(pool, log_dir=kept):  # knows now how far the log had come
        shutil.copytree(kept, log_dir)
    flip(f"{log_dir}/redo.log", 8192 + 200)
    told()
    with pytest.raises(perdure.Corrupt):
        perdure.open(pool, log_dir=log_dir)
    ((level, line),) = told()
    assert (
        level == "ERROR" and "acknowledged batches, number 1 and those after it, are lost: " in line
    )
    perdure.open(pool, log_dir=log_dir, repair=True).close()
    assert any(
        level == "ERROR" and line.startswith(f"{pool}: acknowledged batches are lost: ")
        for level, line in told()
    )


def test_too_little_room_is_a_warning(pool: str, told: Told) -> None:
    with perdure.create(pool, 8, 128, expected_records=1000, max_bytes=4 << 20) as store:
        with pytest.raises(perdure.NoSpace):
            store.put(np.arange(100_000), np.zeros((100_000, 128), np.uint8))
        ((level, line),) = told()
        assert level == "WARNING" and pool in line
    options = perdure.Options(residency="mirrored", memory_budget=1000)
    with perdure.create(pool, 8, 8, overwrite=True, options=options) as store:
        ((level, line),) = told()
        assert (
            level == "WARNING"
            and "the mirror lacks a part" in line
            and store.stats().residency_note in line
        )


def test_what_is_raised_or_has_a_status_is_told_to_who_debugs(pool: str, told: Told) -> None:
    with perdure.create(pool, None, None) as store:
        with pytest.raises(perdure.Busy):
            perdure.open(pool)
        ((level, line),) = told()
        assert level == "DEBUG" and line.startswith(f"{pool}: refused: is open elsewhere")
        store.put(["a", "b" * 100_000], ["first", "second"], check=False)
        assert told() == [("DEBUG", f"{pool}: put of 2 keys: 1 ok, 1 too_large")]
    with pytest.raises(perdure.NotFound):
        perdure.open(f"{pool}-none")
    assert levels(told()) == {"DEBUG"}


def test_nothing_is_printed_without_a_handler(filled: str) -> None:
    os.truncate(filled, 1000)
    program = f"""
import sys, perdure
try:
    perdure.open({filled!r})
except perdure.Corrupt:
    assert "logging" not in sys.modules, "importing it costs every start"
import logging
try:
    perdure.open({filled!r})
except perdure.Corrupt:
    assert logging.getLogger("perdure").handlers, "else warnings were printed"
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ran.stdout == ran.stderr == ""


@pytest.mark.parametrize("asked", ["options", "environment"])
def test_commands_log_key_value_or_json(
    filled: str, cli: Callable[..., Any], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(level: str, form: str) -> list[str]:
        options = ["--log-level", level, "--log-format", form]
        if asked == "environment":
            monkeypatch.setenv("PERDURE_LOG", f"{level},{form}")
            options = []
        return cli(*options, "get", filled, "7").err.splitlines()

    opened, closed = run("info", "text")
    assert f" info pool={filled} event=opened index=gphash device=cpu mode=read " in opened
    assert " records=100 " in opened and " event=closed seconds=" in closed
    opened, closed = map(json.loads, run("info", "json"))
    assert opened["event"] == "opened" and opened["records"] == 100 and opened["pool"] == filled
    assert opened["level"] == "info" and opened["time"].endswith("Z")
    assert closed["message"].startswith("closed in ")
    assert run("warning", "text") == run("off", "text") == []


def test_a_level_or_format_that_is_none_is_refused(
    filled: str, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("loud", "info,xml"):
        monkeypatch.setenv("PERDURE_LOG", said)
        refused = cli("get", filled, "7")
        assert refused.status == 2 and "PERDURE_LOG: " in refused.err
