"""Atomic batches and transactions from Python: all or nothing, whoever asks meanwhile."""

from __future__ import annotations

import threading

import numpy as np
import perdure
import pytest
from perdure import errors

KEYS = np.arange(1000, dtype=np.uint64)


@pytest.fixture(params=["word", "log"])
def store(pool: str, request: pytest.FixtureRequest) -> perdure.Store:
    store = perdure.create(pool, value_bytes=8, index=perdure.GPHash(layout=request.param))
    store.put(KEYS, KEYS)
    return store


def values(store: perdure.Store) -> np.ndarray:
    return np.asarray(store.get(KEYS, dtype=np.uint64).values).ravel()


def test_a_block_that_ends_commits(store: perdure.Store) -> None:
    with store.transaction():
        store.put(KEYS[:10], KEYS[:10] + 7)
        store.erase(KEYS[990:])
        assert (values(store)[:10] == KEYS[:10] + 7).all(), "its own gets see it"
    assert len(store) == 990


def test_a_block_that_raises_leaves_nothing(store: perdure.Store) -> None:
    def fails_in_the_middle() -> None:
        with store.transaction(max_operations=5000):
            store.put(KEYS + 5000, KEYS)
            store.erase(KEYS)
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fails_in_the_middle()
    assert len(store) == 1000
    assert (values(store) == KEYS).all()


def test_a_batch_beyond_the_room_says_how_much_it_takes(store: perdure.Store) -> None:
    with store.transaction(max_operations=32):
        store.put(KEYS[:32], KEYS[:32] + 1)
        with pytest.raises(errors.NoSpace, match="max_operations of at least 1032"):
            store.put(KEYS, KEYS)
    assert (values(store)[:32] == KEYS[:32] + 1).all()


def test_an_atomic_batch_grows_the_table(store: perdure.Store) -> None:
    many = np.arange(300_000, dtype=np.uint64)
    store.put(many, many * 2, atomic=True)
    assert len(store) == len(many)


def test_other_threads_wait(store: perdure.Store) -> None:
    seen: list[np.ndarray] = []
    reader = threading.Thread(target=lambda: seen.append(values(store)))
    with store.transaction():
        store.put(KEYS, KEYS + 1)
        reader.start()
        reader.join(0.05)
        assert not seen
    reader.join()
    assert (seen[0] == KEYS + 1).all()


def test_layout_in_place_says_that_it_cannot(pool: str) -> None:
    with perdure.create(pool, value_bytes=8, index=perdure.GPHash(layout="in_place")) as store:
        with pytest.raises(errors.Error, match="layout word"):
            store.put(KEYS, KEYS, atomic=True)
        with pytest.raises(errors.Error, match="layout word"), store.transaction():
            pass
