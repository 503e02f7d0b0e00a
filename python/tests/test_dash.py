"""Pools whose index is Dash: made, opened and used as any other; what they lack is refused by
name."""

from __future__ import annotations

import threading

import numpy as np
import perdure
import pytest
from perdure import KeyStatus, Options


@pytest.mark.parametrize("index", ["dash-eh", "dash-lh"])
def test_holds_what_was_put_after_closing_and_opening(pool, index):
    keys = np.arange(5000, dtype=np.uint64)
    with perdure.create(pool, 8, 8, index=index) as store:
        assert store.put(keys, keys * 3).done.all()
        assert store.stats().index.name == index.replace("-", "_") and store.stats().segments > 1
    with perdure.open(pool) as store:
        assert store.recovery().clean and store.recovery().counted and len(store) == 5000
        values, found, _ = store.get(
            np.arange(4990, 5010, dtype=np.uint64), dtype=np.uint64, shape=()
        )
        assert (
            found.tolist() == [True] * 10 + [False] * 10 and (values[:10] == keys[-10:] * 3).all()
        )
        assert store.verify().fault_count == 0


def test_opening_counts_no_records(pool, monkeypatch):
    with perdure.create(pool, 8, None, index="dash-eh") as store:
        store.put(np.arange(100, dtype=np.uint64), [b"v"] * 100)
    with monkeypatch.context() as patched:
        patched.setattr(
            perdure._native.Store, "stats", lambda _: pytest.fail("opening asked for a count")
        )
        with perdure.open(pool) as store:
            assert (store.key_bytes, store.value_bytes, store.device) == (8, None, "cpu")
    with perdure.open(pool) as store:
        assert len(store) == 100


def test_threads_write_beside_each_other(pool):
    with perdure.create(pool, 8, 8, index="dash-eh") as store:
        store.put(np.array([7], np.uint64), np.array([0], np.uint64))

        def work(number: int) -> None:
            mine = np.arange(number * 1000, (number + 1) * 1000, dtype=np.uint64) + 1000
            for start in range(0, 1000, 100):
                store.put(mine[start : start + 100], mine[start : start + 100])
                store.update(np.array([7], np.uint64), np.array([1], np.uint64), op="add")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.get([7], dtype=np.uint64, shape=()).values.tolist() == [40]
        assert len(store) == 4001 and store.verify().fault_count == 0


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (
            {"durability": "power", "log_dir": "/var/tmp/none"},
            perdure.Unsupported,
            "durability process",
        ),
        ({"options": Options(residency="mirrored")}, perdure.InvalidArgument, "residency pm"),
        ({"options": Options(cache_bytes=1 << 20)}, perdure.Unsupported, "cache_bytes"),
        ({"options": Options(grow=False)}, perdure.Unsupported, "max_bytes"),
        ({"device": "cuda"}, perdure.Unsupported, "device cpu"),
    ],
)
def test_refuses_what_it_lacks(pool, options, error, says):
    with pytest.raises(error, match="index dash-eh") as refused:
        perdure.create(pool, 8, 8, index="dash-eh", **options)
    assert says in str(refused.value)


def test_refuses_calls_it_lacks(pool):
    with perdure.create(pool, 8, 8, index="dash-eh") as store:
        with pytest.raises(perdure.Unsupported, match="transactions"), store.transaction():
            pass
        with pytest.raises(perdure.Unsupported, match="atomic"):
            store.put([1], [1], atomic=True)
        with pytest.raises(perdure.Unsupported, match="steps"):
            store.register_dense(weights=np.zeros(4))
        with pytest.raises(perdure.Unsupported, match="cache"):
            store.load_cache()


def test_an_unknown_index_is_named(pool):
    with pytest.raises(
        ValueError, match="index: 'rtree' is not one of 'gphash', 'dash-eh', 'dash-lh', 'btree'"
    ):
        perdure.create(pool, index="rtree")


def test_the_command_line_makes_shows_and_checks_one(cli, pool):
    made = cli("create", pool, "--index", "dash-eh", "--value-bytes", "8", "--json", "-")
    assert made.status == 0 and made.json()["index"] == "dash_eh"
    assert cli("put", pool, 7, 70).status == 0
    assert cli("get", pool, 7).out == "70\n"
    shown = cli("stats", pool, "--json", "-")
    assert shown.status == 0 and shown.json()["index"] == "dash_eh" and shown.json()["records"] == 1
    assert cli("verify", pool).status == 0
    for option, value in (("--layout", "in_place"), ("--shape", "4L-2H-4S")):
        refused = cli("create", pool + "-2", "--index", "dash-eh", option, value)
        assert refused.status == 2 and "index dash-eh" in refused.err and option in refused.err


def test_statuses_tell_key_by_key_when_a_pool_is_full(pool):
    with perdure.create(
        pool, 8, 4000, index="dash-eh", expected_records=1, max_bytes=4 << 20
    ) as store:
        keys = np.arange(1000, dtype=np.uint64)
        with pytest.raises(perdure.NoSpace, match="found no room"):
            store.put(keys, np.zeros((1000, 4000), np.uint8))
        assert 0 < len(store) < 1000
        _, found, statuses = store.get(keys)
        assert found.sum() == len(store) and (statuses[~found] == KeyStatus.not_found).all()
