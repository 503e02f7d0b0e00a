"""Pools of index btree: ranges, counts and scans against a sorted dictionary; what has no order
refuses them. Records in a heap and in logs: the same to a dictionary and after a kill, and what
only one of them has is told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import numpy as np
import perdure
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure.cli import app
from typer.testing import CliRunner

WORDS = st.binary(max_size=6)
FEW = st.integers(0, 12).map(lambda number: b"key" * (number % 3) + bytes([number]))
CHANGES = st.dictionaries(FEW, st.none() | st.binary(max_size=40), max_size=12)  # None: erase


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


def change(store, held, changes):
    """A batch of puts, a batch of erasures, and the same to a dictionary."""
    gone = [key for key, value in changes.items() if value is None]
    puts = {key: value for key, value in changes.items() if value is not None}
    store.put(list(puts), list(puts.values()))
    erased = store.erase(gone).statuses
    assert (erased == perdure.KeyStatus.ok).tolist() == [key in held for key in gone]
    for key in gone:
        held.pop(key, None)
    held.update(puts)


@settings(max_examples=25, deadline=None)
@given(values=st.sampled_from(["heap", "log"]), before=st.lists(CHANGES), after=st.lists(CHANGES))
def test_heap_and_log_are_the_same_dictionary(values, before, after):
    path, held = Path("/dev/shm") / f"perdure-test-{uuid.uuid4().hex}", {}
    options = perdure.Options(collectors=2, most_queued=1) if values == "log" else None
    try:
        store = perdure.create(path, None, None, index="btree", values=values, options=options)
        for changes in (before, after):
            with store:
                for each in changes:
                    change(store, held, each)
                assert list(store.items()) == sorted(held.items())
            store = perdure.open(path, options=options)
            assert store.recovery().clean and store.stats().values.name == values
            assert list(store.items()) == sorted(held.items())
            assert store.verify().fault_count == 0
        store.close()
    finally:
        path.unlink(missing_ok=True)


def test_logs_are_collected_and_say_so(pool):
    keys, rows = np.arange(2000), np.zeros((2000, 600), np.uint8)
    with perdure.create(pool, 8, 600, index="btree", values="log") as store:
        for round_ in range(12):
            rows[:] = round_
            store.put(keys, rows)
        store.erase(keys[:500])
        log = store.stats().value_log
        assert log.appended_bytes > 12 * rows.nbytes and log.tombstone_bytes > 0
        assert log.collections > 0 and log.failed_collections == 0
        assert log.used_bytes < 12 * rows.nbytes  # collections freed some
        assert store.stats().as_dict()["value_log"].keys() >= {"segments", "moved_bytes", "waits"}
        assert (store.get(keys[500:]).values == 11).all() and len(store) == 1500
    with perdure.create(pool, 8, 600, index="btree", overwrite=True) as store:
        store.put(keys, rows)
        assert set(store.stats().value_log.as_dict().values()) == {0}


def test_a_read_only_opening_tells_of_a_log_what_its_writer_did(pool):
    keys, rows = np.arange(4000), np.zeros((4000, 600), np.uint8)
    sizes = ("segments", "free_segments", "used_bytes", "outdated_bytes", "tombstone_bytes")
    with perdure.create(pool, 8, 600, index="btree", values="log") as store:
        store.put(keys, rows)
        store.put(keys[:300], rows[:300])  # not enough for a collection
        store.erase(keys[:100])
        of_writer = store.stats()
    assert of_writer.value_log.outdated_bytes >= 300 * 608
    with perdure.open(pool, read_only=True) as store:
        of_reader = store.stats()
        for name in sizes:
            assert getattr(of_reader.value_log, name) == getattr(of_writer.value_log, name)
        assert of_reader.used_bytes == of_writer.used_bytes
        assert of_reader.value_log.appended_bytes == 0  # since the store was opened


WRITER = """
    import numpy as np, perdure
    keys, rows = np.arange(400), np.zeros((400, 120), np.int64)
    store = perdure.create({pool!r}, 8, 960, index="btree", values={values!r})
    for number in range(1, 3000):  # where it is not killed, the test fails
        rows[:] = number
        store.put(keys, rows)
        print("put", number, store.stats().value_log.collections, flush=True)
        store.erase(keys[:50])
        print("erased", number, 0, flush=True)
"""


@pytest.mark.parametrize("values", ["heap", "log"])
def test_survives_a_kill_in_mid_writing(pool, values):
    """Each record is as an acknowledged round left it, or as the round has it that was cut off."""
    program = textwrap.dedent(WRITER.format(pool=pool, values=values))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        for line in child.stdout:
            did, number, collections = line.split()
            if int(number) >= 20 and did == b"put" and (values == "heap" or int(collections) > 2):
                break
        child.kill()
        more = child.stdout.read().splitlines(keepends=True)
    assert child.returncode == -signal.SIGKILL
    for line in more:
        if line.endswith(b"\n"):  # not cut off
            did, number, _ = line.split()
    last, keys = int(number), np.arange(400)
    with perdure.open(pool) as store:
        assert not store.recovery().clean and store.recovery().dropped == 0
        rows, found, _ = store.get(keys, dtype=np.int64, shape=(120,))
        rows = np.asarray(rows)
        assert found[50:].all()
        assert (rows[found] == rows[found][:, :1]).all()  # none is of two rounds
        assert np.isin(rows[found][:, 0], [last] if did == b"put" else [last, last + 1]).all()
        if did == b"erased":  # what came back is of the next round
            assert (rows[:50][found[:50]] == last + 1).all()
        assert store.verify().fault_count == 0


def test_logs_are_for_one_index(pool):
    for index in ("gphash", "dash-eh", "dash-lh"):
        with pytest.raises(perdure.InvalidArgument, match=r"values in the heap;.*index btree"):
            perdure.create(pool, 8, 8, index=index, values="log")
    with pytest.raises(ValueError, match="values: 'tree' is not one of 'heap', 'log'"):
        perdure.create(pool, 8, 8, index="btree", values="tree")
    many = perdure.Options(collectors=1 << 31)
    with pytest.raises(perdure.InvalidArgument, match="choose 1 to 256 collectors"):
        perdure.create(pool, 8, 8, index="btree", values="log", options=many)
    assert not Path(pool).exists()


def test_the_command_line_makes_and_tells_logs(pool, cli):
    made = cli("create", pool, "--index", "btree", "--values", "log", "--key-bytes", "var")
    assert made.status == 0 and "records in logs" in made.out
    assert cli("put", pool, "apple", "red").status == 0
    told = cli("stats", pool, "--json", "-").json()
    assert told["values"] == "log" and told["value_log"]["used_bytes"] > 0
    assert "'used_bytes': " in cli("stats", pool).out
    heap = cli("create", pool, "--index", "btree", "--overwrite")
    assert "records in a heap" in heap.out
    shown = cli("stats", pool).out
    assert "\nvalues             heap" in shown and "value_log" not in shown
    refused = cli("create", pool + "-other", "--values", "log")
    assert refused.status == 2 and "choose index btree" in refused.err
