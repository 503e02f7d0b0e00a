"""Pools of index btree: ranges, counts and scans against a sorted dictionary; what has no order
refuses them."""

from __future__ import annotations

import json

import numpy as np
import perdure
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perdure.cli import app
from typer.testing import CliRunner

WORDS = st.binary(max_size=6)


@given(
    held=st.dictionaries(WORDS, st.binary(max_size=9), max_size=40),
    gone=st.sets(WORDS, max_size=10),
    start=st.none() | WORDS,
    end=st.none() | WORDS,
    reverse=st.booleans(),
    limit=st.none() | st.integers(0, 50),
)
def test_is_a_sorted_dictionary(held, gone, start, end, reverse, limit):
    with perdure.create("memfd:ordered", None, None, index="btree") as store:
        for key, value in held.items():
            store[key] = value
        for key in gone & held.keys():
            del store[key]
        left = sorted((k, v) for k, v in held.items() if k not in gone)
        assert list(store.items()) == left
        expected = [
            (k, v) for k, v in left if (start is None or k >= start) and (end is None or k < end)
        ]
        assert store.count(start, end) == len(expected)
        expected = (expected[::-1] if reverse else expected)[:limit]
        assert list(store.items(start, end, reverse=reverse, limit=limit)) == expected
        pages = store.scan(7, start=start, end=end, reverse=reverse, limit=limit)
        rows = [
            (k.as_py(), v.as_py()) for page in pages for k, v in zip(page[0], page[1], strict=True)
        ]
        assert rows == expected


@pytest.mark.parametrize("order", ["unsigned", "signed"])
def test_integers_are_in_their_order(pool, order):
    kind = np.uint64 if order == "unsigned" else np.int64
    keys = np.array([3, 256, 1, 65536, 2, 255], kind)
    if order == "signed":
        keys = np.concatenate([keys, -keys])
    with perdure.create(pool, 8, 8, index="btree", key_order=order) as store:
        store.put(keys, keys)
    with perdure.open(pool) as store:
        assert store.stats().key_order.name == order and store.stats().index.name == "btree"
        ((found, values),) = store.scan(dtype=kind, shape=())
        assert found.tolist() == sorted(keys.tolist()) == values.tolist()
        assert [key for key, _ in store.items(2, 256)] == [2, 3, 255]
        assert [key for key, _ in store.items(limit=2, reverse=True)] == [65536, 256]
        assert store.count(end=3) == int((keys < 3).sum())


def test_indexes_without_order_refuse_ranges(pool):
    with perdure.create(pool, 8, 8) as store:
        store.put(np.arange(10), np.arange(10))
        for call in (
            lambda: store.count(),
            lambda: list(store.items(3)),
            lambda: list(store.scan(reverse=True)),
        ):
            with pytest.raises(perdure.Unsupported, match=r"index gphash keeps no order.*btree"):
                call()
        assert len(list(store.items(limit=4))) == 4
    with pytest.raises(perdure.InvalidArgument, match="key_order"):
        perdure.create(pool, 8, 8, key_order="signed", overwrite=True)


def test_bounds_have_to_fit(pool):
    with perdure.create(pool, 4, 8, index="btree", key_order="signed") as store:
        with pytest.raises(perdure.InvalidArgument, match="start has 2 bytes"):
            list(store.scan(start=b"ab"))
        with pytest.raises(ValueError, match="does not fit in 4 bytes"):
            store.count(1 << 40)


def test_the_command_line_has_ranges(pool, tmp_path):
    run = CliRunner().invoke
    path = str(pool)
    assert run(app, ["create", path, "--index", "btree", "--key-order", "signed"]).exit_code == 0
    with perdure.open(pool) as store:
        store.put(np.arange(-5, 5), [b"v%d" % n for n in range(10)])
    shown = run(app, ["scan", path, "--from", "-2", "--to", "2", "--reverse"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines() == ["1\tv6", "0\tv5", "-1\tv4", "-2\tv3"]
    out = tmp_path / "count.json"
    assert run(app, ["count", path, "--to", "0", "--json", str(out)]).exit_code == 0
    assert json.loads(out.read_text())["count"] == 5
