"""Signals while a long call is under way, or waits: Python's handlers run, those that raise end the
call, and what has been done by then is said, and is a prefix of the batch. The signals are real; in
a call's midst they come as soon as native code is seen to work for it, which takes one worker
thread many times as long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pyarrow as pa
import pytest
from pyarrow import csv

N = 3_000_000
KEYS = np.random.default_rng(7).permutation(N).astype(np.uint64)
VALUES = KEYS * np.uint64(3)
FEW = 1_000_000  # of calls that run to their end
PIECE = 1 << 16
PROMPT_S = 1.0  # some 100 ms on an idle machine

KINDS: dict[str, dict[str, Any]] = {
    "word": {},
    "none": {"durability": "none"},
    "in_place": {"index": perdure.GPHash(layout="in_place")},
    "dash-eh": {"index": "dash-eh"},
    "btree": {"index": "btree"},
    "dash-lh": {"index": "dash-lh"},
}


def created(pool: str, **more: Any) -> perdure.Store:
    return perdure.create(pool, value_bytes=8, **({"expected_records": N, "threads": 1} | more))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


class Late:
    """Sends a signal to this process, from another thread, once one more thread than there were has
    worked for 5 ms, as a long call's does: however fast the machine is, and however long the test
    stands still before its call. Several signals are as far apart."""

    def __init__(self, number: int = signal.SIGINT, times: int = 1) -> None:
        self.sent_at = 0.0
        self._number = number
        self._times = times
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        began_s = None
        while self._times and not self._over.wait(0.005):
            if threads() <= self._idle:
                began_s = None
            elif began_s is None:
                began_s = time.process_time()
            elif time.process_time() - began_s > 0.005:
                began_s = None
                self.sent_at = self.sent_at or time.perf_counter()
                self._times -= 1
                os.kill(os.getpid(), self._number)

    def __enter__(self) -> Late:
        self._idle = threads() + 1
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextmanager
def handled(handler: Any, number: int = signal.SIGUSR1) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def interrupted(call: Callable[[], object]) -> tuple[KeyboardInterrupt, float]:
    """What a SIGINT in the midst of the call makes of it, and how long that took."""

    def call_and_wait() -> None:
        call()
        time.sleep(5)  # the signal came after it

    with pytest.raises(KeyboardInterrupt) as raised, Late() as late:
        call_and_wait()
    return raised.value, time.perf_counter() - late.sent_at


def stored(store: perdure.Store, keys: Any = KEYS) -> Any:
    values, found, _ = store.get(keys, dtype=np.uint64)
    assert (values[found, 0] == np.asarray(keys)[found] * np.uint64(3)).all()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_a_put_promptly_after_a_prefix_of_whole_pieces(kind: str, pool: str) -> None:
    with created(pool, expected_records=1 << 16, **KINDS[kind]) as store:
        error, took = interrupted(lambda: store.put(KEYS, VALUES))
        done = error.operations_done
        assert took < PROMPT_S
        assert 0 <= done < N and done % PIECE == 0
        assert (
            f"the first {done} of {N} operations have been done, the others have not"
            in error.__notes__[0]
        )
        assert len(store) == done
        found = stored(store)
        assert found[:done].all() and not found[done:].any()
        store.put(KEYS[done : done + PIECE], VALUES[done : done + PIECE])
        assert store.verify().fault_count == 0


def test_ctrl_c_ends_gets_erasures_scans_and_verify(pool: str) -> None:
    with created(pool) as store:
        store.put(KEYS, VALUES)
        page = iter(store.scan(page_size=N))
        for call in (lambda: store.get(KEYS), lambda: next(page), store.verify):
            error, took = interrupted(call)
            assert took < PROMPT_S
            assert "stopped" in error.__notes__[0]
        error, took = interrupted(lambda: store.erase(KEYS))
        assert took < PROMPT_S
        found = stored(store)
        done = error.operations_done
        assert 0 <= done < N and not found[:done].any() and found[done:].all()


def test_ctrl_c_ends_gets_of_varying_length(pool: str) -> None:
    words = [b"%d" % key for key in range(300_000)]
    with perdure.create(pool, value_bytes=None, threads=1) as store:
        store.put(KEYS[:300_000], words)
        again = np.tile(KEYS[:300_000], 10)
        error, took = interrupted(lambda: store.get(again))
        assert took < PROMPT_S
        assert "stopped" in error.__notes__[0]
        assert store.get(KEYS[:300_000]).values.to_pylist() == words


def test_an_atomic_batch_is_there_whole_when_ctrl_c_comes(pool: str) -> None:
    with created(pool) as store:
        error, _ = interrupted(lambda: store.put(KEYS[:FEW], VALUES[:FEW], atomic=True))
        assert error.operations_done == FEW
        assert "all of it has been done" in error.__notes__[0]
        assert len(store) == FEW and stored(store, KEYS[:FEW]).all()


def test_a_transaction_that_ctrl_c_leaves_has_no_effect(pool: str) -> None:
    with created(pool) as store:

        def write() -> None:
            with store.transaction(max_operations=N + 1):
                store.put([N], [1])
                store.put(KEYS, VALUES)

        interrupted(write)
        assert len(store) == 0
        store.put(KEYS[:10], VALUES[:10])
        assert stored(store, KEYS[:10]).all()


def test_a_batch_of_durability_power_is_there_whole_and_in_the_log(pool: str, log_dir: str) -> None:
    options = {"durability": "power", "log_dir": log_dir}
    with created(pool, **options) as store:
        error, _ = interrupted(lambda: store.put(KEYS[:FEW], VALUES[:FEW]))
        assert error.operations_done == FEW
        Path(pool).unlink()  # as a power loss would
        assert len(store) == FEW
    with perdure.open(pool, log_dir=log_dir) as store:
        assert stored(store, KEYS[:FEW]).all()


def test_a_handler_that_does_not_raise_runs_during_the_call_which_goes_on(pool: str) -> None:
    seen: list[float] = []
    with (
        created(pool) as store,
        handled(lambda *_: seen.append(time.perf_counter())),
        Late(signal.SIGUSR1, times=FEW) as late,
    ):
        store.put(KEYS[:FEW], VALUES[:FEW], atomic=True)
        assert len(seen) > 1  # signals that wait for the call's end are handled once
        assert seen[0] - late.sent_at < PROMPT_S
        assert stored(store, KEYS[:FEW]).all()


def test_a_handler_may_use_the_store(pool: str) -> None:
    seen: list[int] = []

    def look(*_: object) -> None:
        seen.append(int(store.get(KEYS[[0, FEW - 1]]).found.sum()))
        store[N] = VALUES[0]

    with (
        created(pool) as store,
        handled(look),
        Late(signal.SIGUSR1),
    ):
        store.put(KEYS[:FEW], VALUES[:FEW])
        assert seen == [2]  # it waited for the batch's end
        assert len(store) == FEW + 1


def test_another_thread_sees_all_of_a_long_put_or_nothing(pool: str) -> None:
    ends = KEYS[[0, FEW // 2, FEW - 1]]
    with created(pool, threads=2) as store:
        store.put(KEYS[:FEW], VALUES[:FEW])
        seen: set[tuple[int, ...]] = set()
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                values = store.get(ends, dtype=np.uint64).values
                seen.add(tuple(int(value) for value in values[:, 0]))

        reader = threading.Thread(target=look)
        reader.start()
        store.put(KEYS[:FEW], VALUES[:FEW] + np.uint64(1))
        over.set()
        reader.join()
        old = tuple(int(key) * 3 for key in ends)
        assert seen <= {old, tuple(value + 1 for value in old)}


def test_a_call_of_another_thread_goes_on(pool: str) -> None:
    with created(pool) as store:
        writer = threading.Thread(target=lambda: store.put(KEYS, VALUES))

        def start_and_sleep() -> None:
            writer.start()
            time.sleep(5)

        with pytest.raises(KeyboardInterrupt) as raised, Late():
            start_and_sleep()
        assert not hasattr(raised.value, "operations_done")
        writer.join()
        assert len(store) == N


@contextmanager
def held_by_a_thread(store: perdure.Store) -> Iterator[threading.Event]:
    """A thread has a transaction open meanwhile, or until the event is set."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction(max_operations=16):
            store.put([1], [1])
            begun.set()
            over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    try:
        yield over
    finally:
        over.set()
        holder.join()


CALLS: dict[str, Callable[[perdure.Store], object]] = {
    "put": lambda store: store.put([2], [2]),
    "put of many": lambda store: store.put(KEYS, VALUES),
    "get": lambda store: store.get([1]),
    "one by one": lambda store: store[2],
    "erase": lambda store: store.erase([1]),
    "apply": lambda store: store.apply([1], ["erase"]),
    "transaction": lambda store: store.transaction(max_operations=16).__enter__(),
    "items": lambda store: list(store.items()),
    "verify": lambda store: store.verify(),
    "stats": lambda store: store.stats(),
    "close": lambda store: store.close(),
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_wait_for_another_threads_transaction(call: str, pool: str) -> None:
    with created(pool, expected_records=1000) as store:
        with held_by_a_thread(store):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            began = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                CALLS[call](store)
            assert 0.1 < time.perf_counter() - began < PROMPT_S + 0.2
            timer.join()
        assert len(store) == 1 and store.get([1]).found.all()


def test_a_call_goes_on_once_another_threads_transaction_has_ended(pool: str) -> None:
    with created(pool, expected_records=1000) as store:
        began = time.perf_counter()
        with held_by_a_thread(store) as over:
            writer = threading.Timer(0, lambda: store.put([3], [3]))  # looks for no signals
            writer.start()
            threading.Timer(0.1, over.set).start()
            store.put([2], [2])
            writer.join()
        assert 0.1 <= time.perf_counter() - began < PROMPT_S
        assert len(store) == 3


def test_a_child_that_a_handler_forks_is_refused_and_its_parent_goes_on(pool: str) -> None:
    children: list[int] = []
    parent = os.getpid()

    def fork(*_: object) -> None:
        children.append(os.fork())

    with created(pool) as store, handled(fork), Late(signal.SIGUSR1):
        code = 1
        try:
            store.put(KEYS[:FEW], VALUES[:FEW])
        except perdure.errors.Closed as error:
            code = 7 if "forked" in error.message else 2
        finally:
            if os.getpid() != parent:
                os._exit(code)
        _, status = os.waitpid(children[0], 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert len(store) == FEW


def test_ctrl_c_ends_load_and_scan_and_the_pool_is_sound(pool: str, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    csv.write_csv(pa.table({"key": KEYS, "value": VALUES}), table)
    perdure.create(pool, value_bytes=8).close()
    command = [sys.executable, "-m", "perdure.cli"]
    for words in (["load", pool, str(table)], ["scan", pool]):
        process = subprocess.Popen(
            [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if words[0] == "scan":
            assert process.stdout is not None
            process.stdout.read(1000)
        else:
            wait_for(lambda: Path(pool).stat().st_size > 8 << 20)
        sent = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert time.perf_counter() - sent < 3 * PROMPT_S
        assert process.returncode in (1, 130, -signal.SIGINT)
        with perdure.open(pool) as store:
            assert store.recovery().clean
            assert 0 < len(store) < N
            assert store.verify().fault_count == 0


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)
