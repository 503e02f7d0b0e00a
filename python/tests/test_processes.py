"""Processes that fork while a store is open: the child is refused, and parent and pool notice
nothing."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import perdure
import pytest
from perdure import errors

KEYS = np.arange(5000, dtype=np.uint64)
FORK = multiprocessing.get_context("fork")
KINDS = {
    "word": {},
    "in_place": {"index": perdure.GPHash(layout="in_place")},
    "dash-eh": {"index": "dash-eh"},
    "btree": {"index": "btree"},
    "btree-log": {"index": "btree", "values": "log"},
    "btree-index": {"index": "btree", "persist": "index"},
    "dash-lh": {"index": "dash-lh"},
    "power": {"durability": "power"},
}


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, pool: str, log_dir: str) -> perdure.Store:
    more = dict(KINDS[request.param])
    if request.param == "power":
        more |= {"log_dir": log_dir, "log_bytes": 1 << 20}
    store = perdure.create(pool, value_bytes=8, threads=2, **more)
    store.put(KEYS, KEYS)
    return store


def read(store: perdure.Store) -> np.ndarray:
    return np.asarray(store.get(KEYS, dtype=np.uint64).values).ravel()


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except errors.Closed as error:
        return "process" in error.message
    return False


def refusals(store: perdure.Store) -> list[bool]:
    return [
        is_refused(call)
        for call in (
            lambda: store.get(KEYS),
            lambda: store.put(KEYS, KEYS + 1),
            lambda: store.erase(KEYS[:5]),
            lambda: store.update(KEYS, KEYS),
            lambda: store.apply(KEYS[:1], ["erase"]),
            lambda: list(store.scan()),
            store.stats,
            store.recovery,
            store.survives,
            store.reset_counts,
            store.verify,
            store.close,
            lambda: store.snapshot("/dev/shm/perdure-no-snapshot"),
            lambda: len(store),
        )
    ]


def in_fork(body: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(body())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_parent(store: perdure.Store, pool: str) -> None:
    assert (read(store) == KEYS).all()
    store.put(KEYS + 10_000, KEYS)
    if not store.stats().log_method:
        shutil.copy(pool, pool + "-killed")
        try:
            with perdure.open(pool + "-killed") as killed:
                assert not killed.recovery().clean
                assert len(killed) == 2 * len(KEYS)
        finally:
            os.unlink(pool + "-killed")
    assert store.verify().fault_count == 0
    store.close()


def test_every_call_is_refused_in_a_child(store: perdure.Store, pool: str) -> None:
    assert in_fork(lambda: 0 if all(refusals(store)) else 1) == 0
    check_parent(store, pool)


def test_a_child_that_loses_the_store_changes_nothing(store: perdure.Store, pool: str) -> None:
    held = [store]

    def lose() -> int:
        nonlocal store
        held.clear()
        del store
        gc.collect()
        return 0

    copy = store
    assert in_fork(lose) == 0
    check_parent(copy, pool)


def _ask(answers: multiprocessing.Queue, store: perdure.Store) -> None:
    answers.put(all(refusals(store)))


def test_a_worker_of_multiprocessing_is_refused_and_leaves_in_order(
    store: perdure.Store, pool: str
) -> None:
    answers = FORK.Queue()
    workers = [FORK.Process(target=_ask, args=(answers, store)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [answers.get(timeout=30) for _ in workers] == [True] * 3
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    check_parent(store, pool)


class Rows:
    """A data set as a loader's workers have it: opened by the parent, or anew by each of them."""

    def __init__(self, store: perdure.Store, path: str) -> None:
        self.store, self.path, self.owner = store, path, os.getpid()

    def here(self) -> perdure.Store:
        if os.getpid() != self.owner:
            self.store, self.owner = perdure.open(self.path, read_only=True, threads=1), os.getpid()
        return self.store


_rows: Rows | None = None


def _load_stale(i: int) -> str:
    assert _rows is not None
    try:
        _rows.store.get(KEYS[i : i + 10])
    except errors.Closed:
        return "refused"
    return "read"


def _load(i: int) -> int:
    assert _rows is not None
    return int(np.asarray(_rows.here().get(KEYS[i : i + 10], dtype=np.uint64).values).sum())


def test_a_loaders_workers_open_it_themselves(pool: str) -> None:
    global _rows
    with perdure.create(pool, value_bytes=8) as made:
        made.put(KEYS, KEYS)
    _rows = Rows(perdure.open(pool, read_only=True), pool)
    with FORK.Pool(2) as workers:
        assert set(workers.map(_load_stale, range(0, 100, 10))) == {"refused"}
        assert workers.map(_load, range(0, 100, 10)) == [
            int(KEYS[i : i + 10].sum()) for i in range(0, 100, 10)
        ]
    assert (read(_rows.store) == KEYS).all()
    _rows = None


def test_a_store_that_is_pickled_or_copied_says_that_its_path_is_to_be_passed(
    store: perdure.Store, pool: str
) -> None:
    """A dataset for spawned workers has it, or a module that is copied for its averages."""
    for taken in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"pool {pool}: a store is of one process"):
            taken(store)


def test_an_orphan_does_not_keep_the_pool(store: perdure.Store, pool: str, log_dir: str) -> None:
    power = {"log_dir": log_dir} if store.stats().log_method else {}
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        signal.pause()
        os._exit(0)
    store.close()
    try:
        with perdure.open(pool, **power) as again:
            assert len(again) == len(KEYS)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_transaction_left_by_its_thread_does_not_lock_the_store(pool: str) -> None:
    with perdure.create(pool, value_bytes=8) as store:
        store.put(KEYS, KEYS)
        blocks = []

        def begin() -> None:
            block = store.transaction()
            block.__enter__()
            store.put(KEYS, KEYS + 1)
            blocks.append(block)

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        del blocks[:]  # the block is closed as garbage: it aborts
        gc.collect()
        seen: list[np.ndarray] = []
        reader = threading.Thread(target=lambda: seen.append(read(store)), daemon=True)
        reader.start()
        reader.join(20)
        assert seen, "the store is locked for ever"
        assert (seen[0] == KEYS).all()


def test_a_child_that_exits_inside_its_parents_transaction_exits_as_it_says(pool: str) -> None:
    parent = os.getpid()
    with perdure.create(pool, value_bytes=8) as store:
        try:
            with store.transaction():
                store.put(KEYS, KEYS)
                child = os.fork()
                if child == 0:
                    sys.exit(3)
        except BaseException as left:
            if os.getpid() == parent:
                raise
            os._exit(left.code if isinstance(left, SystemExit) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert (read(store) == KEYS).all()


AT_WORK = """
import sys, threading, time
import numpy as np, perdure
store = perdure.create(sys.argv[1], value_bytes=8)
keys = np.arange(1000)
store.put(keys, keys)
def work():
    while True:
        store.put(keys, keys)
        store.get(keys)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


def test_a_process_ends_in_order_while_daemon_threads_are_in_calls(pool: str) -> None:
    """Before Python 3.14 such a thread is unwound when it asks for the GIL again."""
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", AT_WORK, pool], capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stderr
        with perdure.open(pool) as left:
            assert read(left)[:1000].tolist() == list(range(1000))
        os.unlink(pool)
