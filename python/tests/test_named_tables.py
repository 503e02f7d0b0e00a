"""Named tables of one pool: each a key space of its own, all of one commit, beside plain
dictionaries."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WIDTHS = {"a": 64, "b": 64, "narrow": 12}
IDS = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
MANY_IDS = st.lists(IDS, max_size=20)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put both", "erase both", "get both", "erase", "abort", "reopen"]),
        st.sampled_from(sorted(WIDTHS)),
        MANY_IDS,
        MANY_IDS,
    ),
    max_size=25,
)


def made(pool: str, width: int | None = 64, **options: Any) -> perdure.Store:
    return perdure.create(pool, 16, width, overwrite=True, **options)


def rows_of(count: int, width: int, salt: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(salt).integers(0, 256, (count, width), dtype=np.uint8)


class Beside:
    """A pool of tables, and what each must hold."""

    def __init__(self, pool: str, width: int | None) -> None:
        self.pool, self.salt = pool, 0
        self.held: dict[str, dict[int, bytes]] = {name: {} for name in WIDTHS}
        self.store = made(pool, width)
        self.tables = {name: self.store.table(name, width) for name, width in WIDTHS.items()}

    def reopen(self) -> None:
        self.store.close()
        self.store = perdure.open(self.pool)
        self.tables = self.store.tables()
        assert {name: table.value_bytes for name, table in self.tables.items()} == WIDTHS

    def put(self, name: str, ids: list[int]) -> None:
        self.salt += 1
        rows = rows_of(len(ids), WIDTHS[name], self.salt)
        assert self.tables[name].put(np.array(ids, np.int64), rows).done.all()
        self.held[name].update(zip(ids, map(bytes, rows), strict=True))

    def put_both(self, ids: list[int], others: list[int]) -> None:
        self.salt += 1
        rows = rows_of(len(ids) + len(others), 64, self.salt)
        both = [self.tables["a"], self.tables["b"]]
        together = np.array(ids + others, np.int64)
        self.store.put_tables(both, together, rows, [0, len(ids), len(together)])
        self.held["a"].update(zip(ids, map(bytes, rows[: len(ids)]), strict=True))
        self.held["b"].update(zip(others, map(bytes, rows[len(ids) :]), strict=True))

    def erase_both(self, ids: list[int], others: list[int]) -> None:
        both = [self.tables["narrow"], self.tables["b"]]  # of two widths
        together = np.array(ids + others, np.int64)
        done = self.store.erase_tables(both, together, [0, len(ids), len(together)]).done
        was = [self.held["narrow"].pop(one, None) is not None for one in ids]
        was += [self.held["b"].pop(one, None) is not None for one in others]
        assert done.tolist() == was

    def get_both(self, ids: list[int], others: list[int]) -> None:
        both = [self.tables["b"], self.tables["a"]]
        together = np.array(ids + others, np.int64)
        values, found, _ = self.store.get_tables(both, together, [0, len(ids), len(together)])
        expected = [self.held["b"].get(one) for one in ids]
        expected += [self.held["a"].get(one) for one in others]
        assert found.tolist() == [one is not None for one in expected]
        assert [bytes(row) for row in values] == [one or bytes(64) for one in expected]

    def abort(self, name: str, ids: list[int]) -> None:
        before = {table: dict(held) for table, held in self.held.items()}
        with suppress(ZeroDivisionError), self.store.transaction():
            self.put(name, ids)
            self.put_both(ids, ids)
            raise ZeroDivisionError
        self.held = before

    def check(self) -> None:
        for name, table in self.tables.items():
            found = {
                int(one): bytes(row)
                for ids, rows in table.scan(7)
                for one, row in zip(ids, rows, strict=True)
            }
            assert found == self.held[name]
        rows = sum(map(len, self.held.values()))
        assert len(self.store) == rows + 1 + len(WIDTHS), "the catalogue's records, and no others"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(STEPS, st.sampled_from([64, None]))
def test_tables_are_as_dictionaries_beside_one_another(steps: Any, width: int | None) -> None:
    path = Path("/dev/shm") / f"perdure-test-tables-{os.getpid()}"
    try:
        reopens = any(step[0] == "reopen" for step in steps)
        pool_and_model = Beside(str(path) if reopens else "memfd:tables", width)
        for what, name, ids, others in steps:
            match what:
                case "put":
                    pool_and_model.put(name, list(dict.fromkeys(ids)))
                case "put both":
                    pool_and_model.put_both(list(dict.fromkeys(ids)), list(dict.fromkeys(others)))
                case "erase both":
                    pool_and_model.erase_both(list(dict.fromkeys(ids)), list(dict.fromkeys(others)))
                case "get both":
                    pool_and_model.get_both(ids, others)
                case "erase":
                    pool_and_model.tables[name].erase(np.array(ids, np.int64))
                    for one in ids:
                        pool_and_model.held[name].pop(one, None)
                case "abort":
                    pool_and_model.abort(name, list(dict.fromkeys(ids)))
                case "reopen":
                    pool_and_model.reopen()
        pool_and_model.check()
        pool_and_model.store.close()
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("width", [64, None])
@pytest.mark.parametrize("layout", ["word", "in_place"])
def test_tables_are_there_after_a_reopening_in_each_layout(
    pool: str, layout: str, width: int | None
) -> None:
    with made(pool, width, index=perdure.GPHash(layout=layout)) as store:
        for number in range(20):
            store.table(f"table {number}", 4 * (1 + number % 16)).put(
                [number], np.full((1, 1 + number % 16), number, np.uint32)
            )
    with perdure.open(pool, read_only=True) as store:
        assert len(store.tables()) == 20
        for number in range(20):
            rows = store.table(f"table {number}").get([number, 99], dtype=np.uint32)
            assert rows.values[0].tolist() == [number] * (1 + number % 16)
            assert rows.found.tolist() == [True, False]
        with pytest.raises(perdure.InvalidArgument):
            store.table("new", 8)


MAKES_TABLES = """
import sys, numpy as np, perdure
store = perdure.create(sys.argv[1], 16, int(sys.argv[2]) or None)
number = 0
print("ready", flush=True)
while True:
    table = store.table(f"t{number}", 8)
    with store.transaction():
        table.put([1], np.array([[number]], np.int64))
        store.table("t0").put([0], np.array([[number]], np.int64))
    number += 1
    print(number, flush=True)
"""


@pytest.mark.parametrize("width", [64, None])
def test_a_kill_leaves_tables_whole_and_commits_that_span_them_of_one_moment(
    pool: str, width: int | None
) -> None:
    for after in (1, 5, 20):
        Path(pool).unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", MAKES_TABLES, pool, str(width or 0)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(after + 1)]
            process.send_signal(signal.SIGKILL)
            said += process.stdout.readlines()
        acknowledged = int(said[-1])
        with perdure.open(pool) as store:
            tables = store.tables()
            assert len(tables) in (acknowledged, acknowledged + 1)
            assert [table.number for table in tables.values()] == list(range(1, len(tables) + 1))
            last = int(tables["t0"].get([0], dtype=np.int64).values[0, 0])
            assert last in (acknowledged - 1, acknowledged)
            for number in range(last + 1):
                assert tables[f"t{number}"].get([1], dtype=np.int64).values[0, 0] == number
            store.table("after", 16).put([1], np.zeros((1, 16), np.uint8))


def test_threads_that_ask_for_one_table_get_one() -> None:
    store = made("memfd:tables")
    got: list[perdure.Table] = []
    threads = [
        threading.Thread(
            target=lambda: got.extend(store.table(f"t{number}", 16) for number in range(10))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(table.name, table.number) for table in got}) == 10 and len(store.tables()) == 10


def test_a_transaction_asks_for_tables_while_another_thread_that_asks_waits_for_it() -> None:
    store = made("memfd:tables")
    store.table("a", 16)
    begun, asks = threading.Event(), threading.Event()
    seen: list[list[str]] = []

    def transaction() -> None:
        with store.transaction():
            begun.set()
            asks.wait()
            time.sleep(0.1)  # the other one waits for the store by then
            store.table("a").put([1], np.ones((1, 2)))
            seen.append(sorted(store.tables()))

    def other() -> None:
        begun.wait()
        asks.set()
        seen.append(sorted(store.tables()))

    threads = [threading.Thread(target=one, daemon=True) for one in (transaction, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [["a"], ["a"]], "they wait for each other"


def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(pool: str) -> None:
    store = made(pool)
    table = store.table("a", 16)
    store.table("b", 64)
    for call, error, says in (
        (lambda: store.table("none"), KeyError, "'a', 'b'"),
        (lambda: store.table("a", 8), ValueError, "16 bytes, not 8"),
        (lambda: store.table("c", 65), ValueError, "1 to 64"),
        (lambda: store.table("n" * 49, 8), ValueError, "1 to 48"),
        (lambda: store.table("", 8), ValueError, "1 to 48"),
        (lambda: store.table(5), TypeError, "name: expected a str, not 5"),
        (lambda: store.table(b"a"), TypeError, "name: expected a str, not b'a'"),
        (lambda: store.table("\ud800", 8), ValueError, "name: .*half a character"),
        (lambda: store.table("c", 1 << 32), ValueError, r"value_bytes: 4294967296"),
        (lambda: table.get([1.5]), TypeError, "integers"),
        (lambda: table.get(1), TypeError, "ids: int; pass one column of integers"),
        (lambda: table.put([1], np.zeros((1, 17), np.uint8)), ValueError, "17"),
        (lambda: table.put([1, 2], np.zeros((1, 16), np.uint8)), ValueError, "2"),
        (
            lambda: store.get_tables(list(store.tables().values()), [1, 2], [0, 1, 2]),
            ValueError,
            "one width",
        ),
        (
            lambda: store.get_tables([table, table], [1, 2], [0, 1.5, 2]),
            TypeError,
            "offsets: float64",
        ),
        (lambda: store.get_tables([table], [1, 2], ["0", "2"]), TypeError, "offsets: <U1"),
        (lambda: store.get_tables([table], [1, 2], [0, 1]), ValueError, "rise from 0 to 2"),
        (lambda: store.erase_tables(list(store.tables().values()), [1]), ValueError, "offsets"),
    ):
        with pytest.raises(error, match=says):
            call()
    with (
        pytest.raises(perdure.InvalidArgument, match="before the transaction"),
        store.transaction(),
    ):
        store.table("c", 8)
    other = made("memfd:other")
    with pytest.raises(perdure.InvalidArgument, match="another store"):
        other.get_tables([table], [1])
    assert len(store) == 3 and sorted(store.tables()) == ["a", "b"]


def test_pools_of_other_keys_have_no_tables() -> None:
    for keys, values in ((8, 64), (16, 8), (None, 64)):
        store = perdure.create("memfd:other", keys, values)
        with pytest.raises(perdure.Unsupported, match="keys of 16 bytes"):
            store.table("a", 8)
    with perdure.create("memfd:other", 16, 64) as store:
        store.put(np.ones((1, 2), np.int64), np.zeros((1, 64), np.uint8))
        with pytest.raises(perdure.InvalidArgument, match="a new pool"):
            store.table("a", 8)


# The catalogue's records as docs/format.md has them: what the engine writes is these bytes, and
# these bytes, written here, are what it reads.
def entry(name: str, width: int) -> bytes:
    return struct.pack("<4sIII", b"PRTT", width, len(name), 0) + name.encode()


def count(tables: int) -> bytes:
    return struct.pack("<4sIQ", b"PRTC", 1, tables)


def put_record(store: perdure.Store, at: int, content: bytes) -> None:
    value: Any = [content] if store.value_bytes is None else np.zeros((1, 64), np.uint8)
    if store.value_bytes is not None:
        value[0, : len(content)] = np.frombuffer(content, np.uint8)
    store.put(np.array([[at, 0]], np.int64), value)


def record(store: perdure.Store, at: int) -> bytes:
    values = store.get(np.array([[at, 0]], np.int64)).values
    return values[0].as_py() if store.value_bytes is None else bytes(values[0])


@pytest.mark.parametrize("width", [64, None])
def test_the_catalogue_has_the_bytes_of_the_format(width: int | None) -> None:
    padding = 64 if width else 0
    store = made("memfd:written", width)
    store.table("users", 64), store.table("Größen", 12)
    assert record(store, 0) == count(2).ljust(padding, b"\0")
    assert record(store, 1) == entry("users", 64).ljust(padding, b"\0")
    name = struct.pack("<4sIII", b"PRTT", 12, 8, 0) + "Größen".encode()
    assert record(store, 2) == name.ljust(padding, b"\0")
    other = made("memfd:read", width)
    put_record(other, 1, entry("users", 64))
    put_record(other, 2, name)
    put_record(other, 0, count(2))
    assert {n: t.value_bytes for n, t in other.tables().items()} == {"users": 64, "Größen": 12}
    assert other.table("third", 4).number == 3


def test_a_first_table_that_a_kill_kept_from_counting_is_made_again(pool: str) -> None:
    with made(pool) as store:
        put_record(store, 1, entry("a", 8))
    with perdure.open(pool) as store:
        assert store.tables() == {} and len(store) == 1
        assert store.table("b", 16).number == 1
        assert list(store.tables()) == ["b"] and len(store) == 2


def test_a_thread_in_a_transaction_never_waits_for_one_that_makes_a_table() -> None:
    store = made("memfd:tables")
    known = store.table("known", 8)
    maker = threading.Thread(target=lambda: store.table("new", 8), daemon=True)
    with store.transaction():
        maker.start()
        maker.join(0.1)  # it waits for the transaction
        assert maker.is_alive()
        store.table("known").put([1], np.zeros((1, 8), np.uint8))
        assert list(store.tables()) == ["known"] and store.tables()["known"] is known
    maker.join(20)
    assert sorted(store.tables()) == ["known", "new"]


def test_rows_of_several_widths_take_their_own_room_in_a_pool_of_any_length() -> None:
    used = []
    for width in (512, None):
        store = made("memfd:widths", width, expected_records=20_000)
        wide, narrow = store.table("wide", 512), store.table("narrow", 16)
        ids = np.arange(20_000)
        wide.put(ids[:1000], np.ones((1000, 128), np.float32))
        narrow.put(ids, np.full((20_000, 4), 2, np.float32))
        assert (wide.get(ids[:1000], dtype=np.float32).values == 1).all()
        assert (narrow.get(ids, dtype=np.float32).values == 2).all()
        used.append(store.stats().used_bytes)
    assert used[1] < used[0] / 2, used


@pytest.mark.parametrize("width", [64, 36, None])
def test_updates_of_several_tables_are_one_batch(width: int | None) -> None:
    store = made("memfd:updates", width)
    both = [store.table("a", 8), store.table("b", 8)]
    kind = np.dtype(np.float64)
    store.put_tables(both, [1, 2, 1], np.array([[1.5], [2.5], [-3.5]]), [0, 2, 3])
    operands = np.array([[1.0], [5.0], [7.0], [-9.0]])
    done = store.update_tables(both, [1, 9, 2, 1], operands, [0, 3, 4], op="max").done
    assert done.tolist() == [True, False, True, True]
    rows = store.get_tables(both, [1, 2, 1], [0, 2, 3], dtype=kind, shape=()).values
    assert rows.tolist() == [1.5, 7.0, -3.5]
    both[1].update([1], np.array([[1]], np.int64), "replace")
    assert both[1].get([1], dtype=np.int64).values.tolist() == [[1]]
    with pytest.raises(ValueError, match="rows of this table have 8"):
        both[0].update([1], np.array([1], np.int32))
    with pytest.raises(TypeError, match="cannot add elements of float16"):
        both[0].update([1], np.ones((1, 4), np.float16))
    with pytest.raises(ValueError, match="op"):
        both[0].update([1], np.ones((1, 1)), "divide")  # type: ignore[arg-type]


def test_what_is_no_row_is_refused_in_a_pool_of_any_length() -> None:
    store = made("memfd:rows", None)
    table = store.table("a", 8)
    for rows in (np.zeros((1, 7), np.uint8), np.zeros((1, 3), np.float32), np.zeros(1, np.int16)):
        with pytest.raises(ValueError, match="rows of this table have 8"):
            table.put([1], rows)
    store.put(np.array([[1, table.number]], np.int64), [b"7 bytes"])
    table.put([2], np.array([5], np.int64))
    with pytest.raises(perdure.InvalidArgument, match="no row of its table"):
        table.get([1, 2])
    values, found, statuses = table.get([2, 1, 3], dtype=np.int64, shape=(), check=False)
    assert values.tolist() == [5, 0, 0] and found.tolist() == [True, False, False]
    assert statuses.tolist() == [
        perdure.KeyStatus.ok,
        perdure.KeyStatus.size_mismatch,
        perdure.KeyStatus.not_found,
    ]
    with pytest.raises(perdure.Corrupt, match="no row of table 'a'"):
        list(table.scan())
