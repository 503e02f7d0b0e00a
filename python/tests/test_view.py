"""Views from Python: arrays of values where they lie, and how long they last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import perdure
import pytest


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = tmp_path / "pool"
    with perdure.create(where, key_bytes=8, value_bytes=16) as store:
        store.put(np.arange(100), np.arange(400, dtype=np.float32).reshape(100, 4))
    return str(where)


def test_shows_what_get_copies(path: str) -> None:
    with perdure.open(path, read_only=True) as store:
        keys = np.array([3, 1000, 99])
        values, found, _ = store.view(keys, dtype=np.float32)
        assert found.tolist() == [True, False, True] and values[1] is None
        copied = store.get(keys, dtype=np.float32).values
        assert np.array_equal(values[0], copied[0]) and np.array_equal(values[2], copied[2])
        assert not values[0].flags.writeable and not values[0].flags.owndata
        one = store.view(3).values
        assert one.dtype == np.uint8 and one.tobytes() == copied[0].tobytes()


def test_writers_wait_for_the_last_array(path: str) -> None:
    with perdure.open(path) as store:
        first, second = store.view([1, 2]).values
        part = second[:4]
        del first, second
        with pytest.raises(perdure.Busy, match="views of its values: 1"):
            store.put([1], np.zeros((1, 16), np.uint8))
        del part
        store.put([1], np.zeros((1, 16), np.uint8))


def test_arrays_outlive_their_store(path: str) -> None:
    store = perdure.open(path)
    (value,) = store.view([7], dtype=np.float32).values
    store.close()
    assert value.tolist() == [28.0, 29.0, 30.0, 31.0]
    with pytest.raises(perdure.Busy):
        perdure.open(path)
    del value
    perdure.open(path).close()


def test_other_indexes_have_none(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    with (
        perdure.create(path, key_bytes=8, value_bytes=8, index="dash-eh") as store,
        pytest.raises(perdure.Unsupported, match="use get"),
    ):
        store.view([1])
