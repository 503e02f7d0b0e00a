"""Pools that know what their values are: arrays of one dtype and shape come and go, and nothing
that would change a number goes in unsaid."""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pyarrow as pa
import pytest
from conftest import Answer

KEYS = np.arange(1, 101, dtype=np.uint64)
KEPT = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def made(pool: str, dtype: Any = "float32", shape: Any = (4, 8), **more: Any) -> perdure.Store:
    return perdure.create(pool, dtype=dtype, shape=shape, **more)


def numbers(dtype: Any, shape: tuple[int, ...] = (4, 8), n: int = len(KEYS)) -> np.ndarray:
    rows = np.random.default_rng(3).integers(0, 2, (n, *shape))
    return rows.astype(dtype)


@pytest.mark.parametrize("dtype", KEPT)
@pytest.mark.parametrize("shape", [(), (3,), (4, 8)])
def test_what_is_put_is_what_get_and_scan_answer(
    pool: str, dtype: str, shape: tuple[int, ...]
) -> None:
    rows = numbers(dtype, shape)
    with made(pool, dtype, shape) as store:
        store.put(KEYS, rows)
    with perdure.open(pool) as store:
        assert (store.dtype, store.row_shape) == (dtype, shape)
        assert store.value_bytes == rows[0].nbytes
        values, found, _ = store.get(KEYS)
        assert found.all()
        assert values.dtype == rows.dtype and values.shape == rows.shape
        np.testing.assert_array_equal(values, rows)
        for keys, page in store.scan():
            assert page.dtype == rows.dtype
            np.testing.assert_array_equal(page, rows[keys.astype(int) - 1])
        one = store[1]
        assert one.dtype == rows.dtype and one.shape == shape
        np.testing.assert_array_equal(one, rows[0])
        np.testing.assert_array_equal(store.get(1).values, rows[0])
        assert dict(store.items()).keys() == set(KEYS.tolist())


def test_the_type_outlives_close_snapshot_restore_and_a_power_loss(
    pool: str, log_dir: str, tmp_path: Path
) -> None:
    snapshot, other = tmp_path / "s", tmp_path / "restored"
    rows = numbers("float32")
    with made(pool, durability="power", log_dir=log_dir) as store:
        store.put(KEYS, rows)
        store.snapshot(snapshot)
    Path(pool).unlink()  # as a power loss would
    with perdure.open(pool, log_dir=log_dir) as store:
        assert store.row_shape == (4, 8)
    with perdure.restore(snapshot, other, durability="process") as store:
        assert store.dtype == "float32"
        np.testing.assert_array_equal(store.get(KEYS).values, rows)


def test_pools_without_a_type_are_as_they_were(pool: str) -> None:
    with perdure.create(pool, value_bytes=8) as store:
        store.put(KEYS, KEYS)
        assert store.dtype is None and store.row_shape is None
        assert store.get(KEYS).values.dtype == np.uint8
        assert store[1] == (1).to_bytes(8, "little")


def test_it_is_shown(pool: str) -> None:
    with made(pool) as store:
        assert "values float32 of shape (4, 8)" in repr(store)
        assert store.stats().dtype == "float32" and store.stats().row_shape == (4, 8)


@pytest.mark.parametrize("dtype", [np.float32, "f4", ">f4", np.dtype("<f4"), "float32"])
def test_a_dtype_in_any_spelling_and_byte_order_is_the_same(pool: str, dtype: Any) -> None:
    with made(pool, dtype, 4) as store:
        assert (store.dtype, store.row_shape) == ("float32", (4,))


@pytest.mark.parametrize(
    ("dtype", "shape", "says"),
    [
        (object, (2,), "Python objects"),
        ("S10", (), "text or bytes; leave dtype= away"),
        ("U3", (), "text or bytes"),
        (np.dtype([("a", "i4"), ("b", "f8")]), (), "structured types .* value_bytes=12"),
        (np.dtype(("f4", (3,))), (), r"pass dtype='float32', shape=\(3,\)"),
        ("datetime64[ns]", (), "dtype='int64'"),
        (np.longdouble, (), "pools do not keep"),
        ("float32", (0,), "at least 1"),
        ("float32", (2.5,), "whole number"),
        ("float32", (1,) * 9, "9 extents; at most 8"),
        (None, (3,), "pass that, too"),
    ],
)
def test_types_that_are_not_kept_are_refused_with_the_way_out(
    pool: str, dtype: Any, shape: Any, says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        made(pool, dtype, shape)


def test_a_length_beside_the_type_must_be_its_own(pool: str) -> None:
    with pytest.raises(
        perdure.InvalidArgument, match="value_bytes 100: a value of the type given has 128 bytes"
    ):
        made(pool, value_bytes=100)
    made(pool, value_bytes=128).close()


# --- what goes in -------------------------------------------------------------------------------

FITS: list[tuple[str, Any]] = [
    ("float32", np.array([[1, -2, 3]], np.int8)),
    ("float32", np.array([[1, -2, 1 << 24]], np.int64)),
    ("float32", np.array([[0.5, np.nan, np.inf]], np.float64)),
    ("float32", np.array([[0.5, -0.0, 1e30]], ">f4")),
    ("float32", [[0.1, 0.2, 3]]),  # lists have no dtype, and round
    ("float64", np.array([[True, False, True]])),
    ("int64", np.array([[1, 2, (1 << 63) - 1]], np.uint64)),
    ("int64", np.array([[1.0, -2.0, 4e9]], np.float64)),
    ("uint8", [[0, 255, 7]]),
    ("uint8", np.array([[1, 2, 3]], np.int64)),
    ("bool", np.array([[0, 1, 1]], np.int64)),
    ("complex64", np.array([[1, 2, 0.5]])),
    ("float64", np.array([[1 + 0j, 2, 3]])),
    ("float32", pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.5], pa.float32()), 3)),
    ("int32", pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3], pa.int8()), 3)),
    ("float32", [np.array([1, 2, 3], np.float32).tobytes()]),
    ("float32", pa.array([np.array([1, 2, 3], np.float32).tobytes()])),
]


@pytest.mark.parametrize(("dtype", "values"), FITS)
def test_what_is_cast_without_loss_is_taken(pool: str, dtype: str, values: Any) -> None:
    with made(pool, dtype, 3) as store:
        store.put([1], values)
        if isinstance(values, pa.FixedSizeListArray):
            values = values.flatten().to_numpy().reshape(1, 3)
        elif isinstance(values, pa.Array) or isinstance(values[0], bytes):
            values = np.array([[1, 2, 3]])
        expected = np.asarray(values) if dtype != "float64" else np.asarray(values).real
        np.testing.assert_array_equal(store.get([1]).values, expected.astype(dtype))


LOSES: list[tuple[str, Any, str]] = [
    (
        "float32",
        np.array([[0.5, 0.1, 0.1]]),
        r"row 0, element \(1,\) \(and 1 more\): 0.1 \(float64\) is not exactly a float32",
    ),
    ("float32", np.array([[1, 2, (1 << 24) + 1]]), "16777217"),
    ("float32", np.array([[1e300, 1, 2]]), "1e[+]300"),
    ("float32", [[1e300, 1, 2]], "too large for a float32"),
    ("float64", np.array([[1, 2, (1 << 63) - 1]]), "9223372036854775807"),
    ("float64", np.array([[1, 2, (1 << 64) - 1]], np.uint64), "18446744073709551615"),
    ("int64", np.array([[1.5, 2, 3]]), "1.5"),
    ("int64", np.array([[np.nan, 2, 3]]), "nan"),
    ("int64", [[1.5, 2, 3]], "1.5"),
    ("int64", np.array([[1 << 63, 2, 3]], np.uint64), "9223372036854775808"),
    ("uint64", np.array([[-1, 2, 3]]), "-1"),
    ("uint8", np.array([[1, 256, 3]]), "256"),
    ("uint8", np.array([[1, -1, 3]], np.int8), "-1"),
    ("int8", np.array([[1, 255, 3]], np.uint8), "255"),
    ("bool", np.array([[1, 2, 0]]), "2 "),
    ("float64", np.array([[1 + 2j, 2, 3]]), r"\(1\+2j\)"),
    ("float16", np.array([[1, 2, 70000]], np.float32), "70000"),
]


@pytest.mark.parametrize(("dtype", "values", "says"), LOSES)
def test_what_would_lose_is_refused_with_the_number(
    pool: str, dtype: str, values: Any, says: str
) -> None:
    with made(pool, dtype, 3) as store:
        with pytest.raises(ValueError, match=says):
            store.put([1], values)
        assert len(store) == 0


WRONG: list[tuple[Any, str]] = [
    (
        np.zeros((1, 32), np.float32),
        r"shape \(1, 32\) holds values of shape \(32,\), .* pass one of shape \(n, 4, 8\)",
    ),
    (np.zeros((1, 8, 4), np.float32), r"shape \(8, 4\)"),
    (np.zeros((1, 128), np.uint8), r"shape \(128,\)"),
    (np.zeros((2, 4, 8), np.float32), "2 rows for 1 keys"),
    (np.float32(1), r"shape \(\)"),
    (["abc"], "'abc' is text, but this pool's values are float32 of shape"),
    (np.array(["abc"]), "'abc' is text"),
    (pa.array(["abc"]), "'abc' is text"),
    ([b"abc"], "element 0 has 3 bytes, but this pool's values have 128"),
    ([[1, 2], [3]], "rows of different lengths"),
    (np.array([{}, None]), "object is no number"),
    (np.array([datetime.date(2026, 1, 1)], "datetime64[D]"), "no number"),
    (np.zeros(1, [("a", "f4")]), "no number"),
]


@pytest.mark.parametrize(("values", "says"), WRONG)
def test_what_is_no_such_row_is_refused_in_plain_words(pool: str, values: Any, says: str) -> None:
    with made(pool) as store:
        with pytest.raises((TypeError, ValueError), match=says):
            store.put([1], values)
        assert len(store) == 0


def test_single_keys_take_and_give_rows(pool: str) -> None:
    with made(pool, "float32", 3) as store:
        store[1] = [0.5, 1, 2]
        store[2] = np.array([1, 2, 3], np.int8)
        store[3] = np.array([7, 8, 9], np.float32).tobytes()
        store.put(4, [1, 2, 3])
        store.put(5, np.ones(3, np.float32))
        row = store[1]
        row += 1
        store[1] = row
        assert store[1].tolist() == [1.5, 2, 3]
        assert store[3].tolist() == [7, 8, 9]
        assert sorted(value.sum() for value in store.values()) == [3, 6, 6, 6.5, 24]
        for wrong in (np.array([0.1, 0, 0]), [1, 2], "abc", b"abc", 5):
            with pytest.raises((TypeError, ValueError)):
                store[9] = wrong
        assert 9 not in store


def test_a_pool_of_single_numbers_takes_and_gives_numbers(pool: str) -> None:
    with made(pool, "float64", ()) as store:
        store[1] = 0.1
        store.put(2, 0.2)
        store.put([3, 4], [3, 0.4])
        assert [store[key] for key in (1, 2, 3, 4)] == [0.1, 0.2, 3.0, 0.4]
        assert store.get([1, 2]).values.tolist() == [0.1, 0.2]
        store.update([1, 2], [1, 2])
        assert store[1] == 1.1


def test_updates_see_values_as_what_they_are(pool: str) -> None:
    with made(pool, "float32", 3) as store:
        store.put([1], np.ones((1, 3), np.float32))
        store.update([1], np.array([[1, 2, 3]], np.int8), op="add")
        store.update([1], [[0, 9, 0]], op="max")
        assert store[1].tolist() == [2, 9, 4]
        answer = store.apply(
            [1, 1, 2], ["update", "get", "put"], np.full((3, 3), 2, np.int64), op="add"
        )
        assert answer.values[1].tolist() == [4, 11, 6]
        with pytest.raises(TypeError, match="element: int32, but this pool's values are float32"):
            store.update([1], np.ones((1, 3), np.float32), element="int32")
    with made(pool, "float16", 3, overwrite=True) as store:
        store.put([1], np.ones((1, 3), np.float16))
        with pytest.raises(TypeError, match="cannot add elements of float16"):
            store.update([1], np.ones((1, 3), np.float16))


def test_reads_are_not_reinterpreted_but_for_bytes(pool: str) -> None:
    with made(pool) as store:
        store.put(KEYS, numbers("float32"))
        assert store.get(KEYS, dtype=np.uint8).values.shape == (100, 128)
        assert store.get(KEYS, shape=32).values.shape == (100, 32)
        assert store.get(KEYS, dtype="f4").values.shape == (100, 4, 8)
        out = np.zeros((100, 4, 8), np.float32)
        assert store.get(KEYS, out=out).values is out
        with pytest.raises(TypeError, match=r"values are float32 of shape .* not int32"):
            store.get(KEYS, dtype=np.int32)
        with pytest.raises(TypeError, match="out: holds int32"):
            store.get(KEYS, out=np.zeros((100, 4, 8), np.int32))
        with pytest.raises(TypeError, match="not float64"):
            list(store.scan(dtype=np.float64, shape=16))


def test_bfloat16_needs_a_library_that_knows_it(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with made(pool, "bfloat16", 2) as store:
        assert store.dtype == "bfloat16" and store.value_bytes == 4
        store.put([1], [b"\x80\x3f\x00\x40"])  # 1.0, 2.0
        with pytest.raises(TypeError, match="pip install ml_dtypes"):
            store.get([1])
        assert bytes(store.get([1], dtype=np.uint8).values[0]) == b"\x80\x3f\x00\x40"


# --- the command line ---------------------------------------------------------------------------


def test_the_command_line_makes_shows_loads_scans_and_exports_them(
    pool: str, cli: Callable[..., Answer], tmp_path: Path
) -> None:
    table, again, other = tmp_path / "rows.csv", tmp_path / "again.csv", tmp_path / "other"
    table.write_text("id,x,y,z\n1,1,2.5,3\n2,4,5,6\n")
    create = ("--dtype", "float32", "--row-shape", "3")
    assert "values float32 of shape (3,)" in cli("create", pool, *create).out
    assert cli("load", pool, table).status == 0
    with perdure.open(pool) as store:
        assert store[1].tolist() == [1, 2.5, 3]
    assert re.search(r"dtype +float32\nrow_shape +\[3\]", cli("stats", pool).out)
    assert cli("get", pool, "1").out == "[1, 2.5, 3]\n"
    assert cli("get", pool, "1", "--format", "hex").out == "0000803f0000204000004040\n"
    assert cli("put", pool, "3", "7, 8, 9.5").status == 0
    assert sorted(cli("scan", pool).out.splitlines()) == [
        "1\t[1, 2.5, 3]",
        "2\t[4, 5, 6]",
        "3\t[7, 8, 9.5]",
    ]
    assert cli("export", pool, again).status == 0
    assert again.read_text().startswith(
        '"key:uint64","value_0:float32","value_1:float32","value_2:float32"\n'
    )
    assert cli("create", other, *create).status == 0
    assert cli("load", other, again).status == 0
    with perdure.open(other) as store:
        assert store[1].tolist() == [1, 2.5, 3] and store[3].tolist() == [7, 8, 9.5]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("put", "1", "1,2"), "values are float32 of shape (3,): 2 numbers instead of 3"),
        (("put", "1", "1,2,x"), "could not convert string to float: 'x'"),
        (("put", "1", "hex:00"), "has 1 byte, but this pool's have 12"),
        (
            ("load", "--value-columns", "x,y"),
            "x float32, y float32 have 8 bytes, but this pool's values have 12",
        ),
        (
            ("load", "--value-columns", "x:int32,y:int32,z:int32"),
            "but this pool's values are float32 of shape (3,)",
        ),
    ],
)
def test_the_command_line_refuses_what_is_no_value(
    pool: str, cli: Callable[..., Answer], tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("id,x,y,z\n1,1,2.5,3\n")
    cli("create", pool, "--dtype", "float32", "--row-shape", "3")
    command, *rest = words
    answer = cli(command, pool, *([table] if command == "load" else []), *rest)
    assert answer.status == 2
    assert says in answer.err


@pytest.mark.parametrize("dtype", KEPT)
def test_the_command_line_takes_back_what_it_shows(
    pool: str, cli: Callable[..., Answer], dtype: str
) -> None:
    rows = numbers(dtype, (2, 2), 1)
    with made(pool, dtype, (2, 2)) as store:
        store.put([1], rows)
    assert cli("put", pool, "2", cli("get", pool, "1").out.strip()).status == 0
    with perdure.open(pool) as store:
        np.testing.assert_array_equal(store[2], rows[0])
