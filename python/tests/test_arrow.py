"""Byte strings of varying length as Arrow arrays, and Arrow columns of fixed width."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import perdure
import pyarrow as pa
import pytest
from perdure import KeyStatus


@pytest.fixture
def store(pool) -> Iterator[perdure.Store]:
    with perdure.create(pool, None, None) as opened:
        yield opened


WORDS = ["", "a", "bc", "zwölf", "x" * 1000]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_types_of_strings(store, kind):
    words = (
        pa.array(WORDS).cast(pa.binary()).cast(kind)
        if pa.types.is_binary(kind)
        else pa.array(WORDS).cast(kind)
    )
    store.put(words, words)
    got, found, _ = store.get(words)
    assert got.type == pa.large_binary() and found.all()
    assert got.to_pylist() == [word.encode() for word in WORDS]


def test_arrays_that_dlpack_has_no_type_for(store):
    class Older:  # as pyarrow's are before version 26
        def __init__(self, array: pa.Array) -> None:
            self.__arrow_c_array__ = array.__arrow_c_array__
            self.__len__ = array.__len__

        def __dlpack__(self) -> None:
            raise TypeError("DataType is not compatible with DLPack spec: string")

        __dlpack_device__ = __dlpack__

    words = Older(pa.array(WORDS))
    store.put(words, words)
    assert store.get(words).found.all()


def test_lists_of_bytes_and_text(store):
    store.put(["a", b"b", bytearray(b"c")], [b"1", "zwei", memoryview(b"3")])
    assert store.get(["c", "b", "a"]).values.to_pylist() == [b"3", b"zwei", b"1"]


def test_absent_keys_are_null(store):
    store.put(["a", "empty"], [b"1", b""])
    got, found, statuses = store.get(["nope", "a", "empty", "neither"])
    assert got.to_pylist() == [None, b"1", b"", None]
    assert got.null_count == 2
    got.validate(full=True)
    assert found.tolist() == [False, True, True, False]
    assert statuses.tolist() == [
        KeyStatus.not_found,
        KeyStatus.ok,
        KeyStatus.ok,
        KeyStatus.not_found,
    ]


def test_slices_and_chunks(store):
    words = pa.array([f"word {number}" for number in range(100)])
    chunked = pa.chunked_array([words.slice(10, 5), words.slice(50, 7)])
    store.put(chunked, chunked)
    assert len(store) == 12
    assert store.get(words.slice(52, 2)).values.to_pylist() == [b"word 52", b"word 53"]


def test_arrays_as_byte_strings(store):
    """In a pool of varying lengths a row of any array is a byte string."""
    store.put(np.arange(3), np.arange(6.0).reshape(3, 2))
    got = store.get(np.arange(4)).values
    assert np.frombuffer(got[1].as_py(), np.float64).tolist() == [2.0, 3.0]
    assert got[3].as_py() is None


def test_scan_and_erase(store):
    store.put(WORDS, WORDS)
    assert store.erase(["a", "b"]).done.tolist() == [True, False]
    pages = list(store.scan(2))
    seen = {
        key: value
        for keys, values in pages
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    }
    assert seen == {word.encode(): word.encode() for word in WORDS if word != "a"}


def test_update_of_strings(store):
    store.put(["n", "short"], [np.array([1, 2]).tobytes(), b"abc"])
    operand = np.array([10, 20]).tobytes()
    with pytest.raises(
        perdure.InvalidArgument,
        match="update: key 1 of 3: operand and stored value differ in length",
    ):
        store.update(["n", "short", "absent"], [operand] * 3, "add", element="int64")
    assert np.frombuffer(store.get(["n"]).values[0].as_py(), np.int64).tolist() == [11, 22]
    done, statuses = store.update(["short", "absent"], [b"xyz"] * 2, "replace")
    assert done.tolist() == [True, False] and statuses[1] == KeyStatus.not_found
    with pytest.raises(TypeError, match=r"element: operands are byte strings; say what they hold"):
        store.update(["n"], [operand], "add")


def test_key_too_long_and_value_too_large(store):
    longest = store.stats().max_key_bytes
    too_long = (
        f"put: key 1 of 2: the key has {longest + 1} bytes, at most {longest} fit in a record"
    )
    with pytest.raises(perdure.InvalidArgument, match=too_long):
        store.put(["fits", "k" * (longest + 1)], ["1", "2"])
    assert store.get(["fits"]).found.all(), "the other keys took effect"
    largest = store.stats().max_value_bytes
    _, statuses = store.put(["big", "small"], [bytes(largest + 1), b"s"], check=False)
    assert statuses.tolist() == [KeyStatus.too_large, KeyStatus.ok]
    store.put(["k" * longest], [bytes(largest)])
    assert len(store.get(["k" * longest]).values[0].as_py()) == largest


def test_strings_that_do_not_fit(store):
    with pytest.raises(ValueError, match="keys: element 1 is null"):
        store.get(pa.array(["a", None]))
    with pytest.raises(TypeError, match="keys: a table with several columns"):
        store.get(pa.table({"a": [1]}))
    with pytest.raises(TypeError, match="keys: Arrow type bool has no fixed bytes"):
        store.get(pa.array([True]))
    with pytest.raises(ValueError, match="values: 1 rows for 2 keys"):
        store.put(["a", "b"], ["1"])
    with pytest.raises(ValueError, match=r"dtype: lengths vary in this pool"):
        store.get(["a"], dtype=np.uint8)
    with pytest.raises(
        ValueError, match=r"kinds: a mixed batch cannot get values of varying length"
    ):
        store.apply(["a"], ["get"])
    assert store.apply(["a", "a"], ["put", "erase"], ["1", ""]).found.tolist() == [True, True]


def test_fixed_width_pool_takes_arrow(pool):
    with perdure.create(pool, 8, 8) as store:
        store.put(pa.array([1, 2, 3]), pa.array([1.5, 2.5, 3.5]))
        store.put(pa.array([b"12345678"]), pa.array([b"abcdefgh"], pa.binary(8)))
        store.put(pa.array([4]).slice(0), pa.array([[7, 8]], pa.list_(pa.int32(), 2)))
        assert store.get(pa.array([0, 2]).slice(1), dtype=np.float64, shape=()).values.tolist() == [
            2.5
        ]
        assert store.get([4], dtype=np.int32).values.tolist() == [[7, 8]]
        store.update(pa.array([1]), pa.array([1.0]), "add")
        assert store.get([1], dtype=np.float64, shape=()).values.tolist() == [2.5]
        with pytest.raises(
            ValueError, match="keys: element 1 has 3 bytes, but this pool's keys have 8"
        ):
            store.get(pa.array([b"12345678", b"123"]))
        with pytest.raises(TypeError, match="keys: keys are integers or bytes, not float64"):
            store.get(pa.array([1.5]))


def test_varying_keys_with_fixed_values(pool):
    with perdure.create(pool, None, 4) as store:
        store.put(["a", "bb"], np.array([1, 2], np.int32))
        values, found, _ = store.get(["bb", "none", "a"], dtype=np.int32, shape=())
        assert values.tolist() == [2, 0, 1] and found.tolist() == [True, False, True]


def test_fixed_keys_with_varying_values(pool):
    with perdure.create(pool, 8, None) as store:
        store.put([1, 2], ["eins", ""])
        assert store.get([2, 1, 3]).values.to_pylist() == [b"", b"eins", None]
        keys, values = next(store.scan())
        assert dict(zip(keys.tolist(), values.to_pylist(), strict=True)) == {1: b"eins", 2: b""}


@pytest.mark.framework("polars")
def test_polars_columns(store):
    import polars

    words = polars.Series(["a", "bb"])
    store.put(words, words)
    assert store.get(words).values.to_pylist() == [b"a", b"bb"]
