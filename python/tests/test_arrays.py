"""Arrays in and out: dtypes, shapes, libraries, devices, and what does not fit."""

from __future__ import annotations

import array
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import perdure
import pytest
from perdure import _arrays, _native


@pytest.fixture
def store(pool) -> Iterator[perdure.Store]:
    with perdure.create(pool, 8, 16) as opened:
        yield opened


VALUES = np.arange(20, dtype=np.float32).reshape(5, 4)


@pytest.mark.parametrize(
    "keys",
    [
        np.arange(5, dtype=np.int64),
        np.arange(5, dtype=np.uint64),
        np.arange(5, dtype=np.uint64).view(np.uint8).reshape(5, 8),
        np.arange(10, dtype=np.int32).reshape(5, 2),
        np.arange(5, dtype=np.int64).view("V8"),
        np.arange(5, dtype=np.int64).view([("a", "i4"), ("b", "i4")]),
        [0, 1, 2, 3, -1],
        [b"12345678", b"abcdefgh", "ABCDEFGH", b"\0" * 8, b"\xff" * 8],
        array.array("q", range(5)),
        memoryview(np.arange(5)),
        np.arange(5)[::1],
        range(5),
        deque(range(5)),
    ],
    ids=lambda keys: f"{type(keys).__name__}-{getattr(keys, 'dtype', '')}",
)
def test_forms_of_keys(store, keys):
    store.put(keys, VALUES)
    assert (store.get(keys, dtype=np.float32).values == VALUES).all()
    assert len(store) == 5


def unaligned(array: np.ndarray) -> np.ndarray:
    moved = (
        np.frombuffer(bytearray(array.nbytes + 1), np.uint8, offset=1)
        .view(array.dtype)
        .reshape(array.shape)
    )
    moved[...] = array
    assert not moved.flags.aligned
    return moved


def test_any_alignment_will_do(store):
    keys, values, out = unaligned(np.arange(5)), unaligned(VALUES), unaligned(np.zeros_like(VALUES))
    store.put(keys, values)
    assert store.get(keys, out=out).found.all() and (out == VALUES).all()
    store.update(keys, values)
    assert (store.get(np.arange(5), dtype=np.float32).values == 2 * VALUES).all()
    store.register_dense(weights=values)
    with store.step(1):
        pass
    values[...] = 0
    assert store.restore_step() == 1 and (values == VALUES).all()


def test_integers_in_lists_are_their_bytes(store):
    store.put([-1], VALUES[:1])
    assert store.get(np.array([2**64 - 1], np.uint64)).found.all()
    with pytest.raises(ValueError, match=r"keys: element 1 .* does not fit in 8 bytes"):
        store.get([1, 2**64])


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        VALUES.view(np.uint8).reshape(5, 16),
        VALUES.reshape(5, 2, 2),
        VALUES.astype(np.complex64)[:, :2].copy(),
        VALUES.view("V16").reshape(5),
        np.zeros(5, [("a", "i8"), ("b", "f4", 2)]),
        np.arange(10).astype("datetime64[s]").reshape(5, 2),
        np.zeros((5, 16), bool),
        [b"0123456789abcdef"] * 5,
    ],
    ids=lambda values: f"{type(values).__name__}-{getattr(values, 'dtype', '')}",
)
def test_forms_of_values(store, values):
    store.put(np.arange(5), values)
    expected = (
        values
        if isinstance(values, np.ndarray)
        else np.array([list(row) for row in values], np.uint8)
    )
    assert store.get(np.arange(5)).values.tobytes() == expected.tobytes()


def test_get_into_an_array(store):
    store.put(np.arange(3), VALUES[:3])
    out = np.full((5, 4), 7, np.float32)
    values, found, _ = store.get(np.arange(5), out=out)
    assert values is out and found.tolist() == [True] * 3 + [False] * 2
    assert (out[:3] == VALUES[:3]).all()
    assert (out[3:] == 7).all(), "rows of absent keys are left as they were"


def test_an_array_crosses_to_the_engine_once(store, monkeypatch):
    made = []

    def counted(kind):
        def rows(*array):
            made.append(kind)
            return kind.rows(*array)

        return SimpleNamespace(rows=rows)

    kinds = _native.Column, _native.MutableColumn
    monkeypatch.setattr(_native, "Column", counted(kinds[0]))
    monkeypatch.setattr(_native, "MutableColumn", counted(kinds[1]))
    store.put(np.arange(5), VALUES)
    assert made == [kinds[0]] * 2
    store.get(np.arange(5))
    store.get(np.arange(5), out=np.zeros_like(VALUES))
    assert made[2:] == list(kinds) * 2


def test_shapes_of_results(store):
    store.put(np.arange(5), VALUES)
    assert store.get(np.arange(5)).values.shape == (5, 16)
    assert store.get(np.arange(5), dtype=np.float32).values.shape == (5, 4)
    assert store.get(np.arange(5), dtype=np.float32, shape=(2, 2)).values.shape == (5, 2, 2)
    assert store.get(np.arange(5), dtype=np.complex128, shape=()).values.shape == (5,)
    assert store.get(np.empty(0, np.int64)).values.shape == (0, 16)
    with pytest.raises(
        ValueError, match=r"shape: rows of shape \(3,\) .* 12 bytes, but this pool's values have 16"
    ):
        store.get([1], dtype=np.float32, shape=3)
    with pytest.raises(ValueError, match="dtype: elements of 3 bytes"):
        store.get([1], dtype="V3")
    with pytest.raises(ValueError, match=r"pass either out=, or dtype= and shape="):
        store.get([1], out=np.zeros((1, 16), np.uint8), dtype=np.uint8)


@pytest.mark.parametrize(
    "kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64]
)
def test_narrow_integer_keys_are_those_numbers(store, kind):
    keys = np.arange(5).astype(kind) - (3 if np.issubdtype(kind, np.signedinteger) else 0)
    store.put(keys, np.arange(20, dtype=np.float32).reshape(5, 4))
    assert sorted(np.array(list(store.keys()), np.uint64).view(np.int64)) == sorted(keys.tolist())
    assert store.get(keys.astype(np.int64)).found.all()


def test_slices_with_strides_are_copied(store):
    rows = np.arange(80, dtype=np.float32).reshape(10, 8)
    store.put(np.arange(20)[::2], rows[:, ::2])
    assert (store.get(np.arange(0, 20, 2), dtype=np.float32).values == rows[:, ::2]).all()
    backwards = np.arange(0, 20, 2)[::-1]
    assert (store.get(backwards, dtype=np.float32).values == rows[::-1, ::2]).all()
    bytes_of_keys = np.arange(10).view(np.uint8).reshape(10, 8)
    assert store.get(np.asfortranarray(bytes_of_keys)).found.tolist() == [True, False] * 5


def test_arrays_of_objects_and_of_text(pool):
    with perdure.create(pool, None, None) as store:
        store.put(np.array(["a", "bcd", "\u00e9"]), np.array([b"1", b"22", b"333"], dtype="S8"))
        assert dict(store.items()) == {b"a": b"1", b"bcd": b"22", "\u00e9".encode(): b"333"}
        assert store.get(np.array([b"a", "bcd"], dtype=object)).values.to_pylist() == [b"1", b"22"]
        assert store.get(np.array([b"a", b"bcd"])).found.all(), "padding is no part of a key"


def test_one_key_instead_of_an_array(store):
    row = np.arange(4, dtype=np.float32)
    done, status = store.put(7, row)
    assert done and status == perdure.KeyStatus.ok
    values, found, _ = store.get(np.int32(7), dtype=np.float32)
    assert found and (values == row).all()
    assert store.update(7, row).done
    assert (store.get(7, dtype=np.float32).values == 2 * row).all()
    assert not store.get(8).found
    assert store.erase(7).done and not store.erase(7).done


def test_empty_batches(store):
    nothing = np.empty(0, np.int64)
    assert store.put(nothing, np.empty((0, 16), np.uint8)).done.tolist() == []
    assert store.get([]).values.shape == (0, 16)
    assert store.erase([]).done.size == 0
    assert store.update(nothing, np.empty((0, 4), np.float32)).done.size == 0


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (
            np.arange(10, dtype=np.int16).reshape(5, 2),
            ValueError,
            r"keys: a row of this int16 array of shape \(5, 2\) has 4 bytes, but",
        ),
        (np.arange(5.0), TypeError, r"keys: keys are integers or bytes, not float64; convert"),
        (np.zeros(5, bool), ValueError, "keys: a row of this bool array"),
        (np.arange(5, dtype=">i8"), TypeError, "foreign byte order"),
        (np.ma.masked_equal(np.arange(5), 3), ValueError, "keys: element 3 is masked; fill or"),
        (
            np.array([object()]),
            TypeError,
            "keys: a list of object; pass a list of bytes, str or int",
        ),
        (1.5, TypeError, r"keys: float is one element, not an array; pass a list"),
        (b"1234", ValueError, "keys: element 0 has 4 bytes, but this pool's keys have 8"),
        (np.array(5), ValueError, "has no dimensions"),
        (np.zeros((5, 7), np.uint8), ValueError, "has 7 bytes, but this pool's keys have 8"),
        (
            [b"12345678", b"123"],
            ValueError,
            "keys: element 1 has 3 bytes, but this pool's keys have 8",
        ),
        ([1, b"12345678"], TypeError, "keys: a list of bytes, int"),
        ([1.5], TypeError, "keys: a list of float"),
        ({1: 2}, TypeError, "keys: cannot use a dict"),
        (None, TypeError, "keys: cannot use a NoneType"),
    ],
)
def test_keys_that_do_not_fit(store, keys, error, message):
    with pytest.raises(error, match=message):
        store.get(keys)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (
            np.zeros((5, 3), np.float32),
            ValueError,
            "values: a row .* has 12 bytes, but this pool's values have 16",
        ),
        (np.zeros((4, 4), np.float32), ValueError, "values: 4 rows for 5 keys"),
        ([b"short"] * 5, ValueError, "values: element 0 has 5 bytes"),
        ([1, 2, 3, 4, 5], TypeError, "values have 16 bytes, so integers do not fit"),
    ],
)
def test_values_that_do_not_fit(store, values, error, message):
    with pytest.raises(error, match=message):
        store.put(np.arange(5), values)
    assert len(store) == 0, "nothing of a refused batch took effect"


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.zeros((5, 3), np.float32), ValueError, "out: a row .* has 12 bytes"),
        (np.zeros((4, 4), np.float32), ValueError, "out: 4 rows for 5 keys"),
        (np.zeros((5, 32), np.uint8)[:, ::2], ValueError, "out: .* not C-contiguous"),
        (
            np.frombuffer(bytes(80), np.uint8).reshape(5, 16),
            ValueError,
            "out: the array is read-only",
        ),
        ([0] * 5, TypeError, "out: a list cannot be written"),
    ],
)
def test_outputs_that_do_not_fit(store, out, error, message):
    with pytest.raises(error, match=message):
        store.get(np.arange(5), out=out)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float16", "complex64", "bool"])
def test_element_types_that_cannot_be_added(store, dtype):
    operands = np.zeros((1, 16 // np.dtype(dtype).itemsize), dtype)
    with pytest.raises(
        TypeError, match=f"operands: cannot add elements of {dtype}; use one of uint8, int32"
    ):
        store.update([1], operands)
    store.update([1], operands, "replace")


def test_unknown_operation(store):
    with pytest.raises(
        ValueError, match="op: 'multiply' is not one of 'replace', 'add', 'min', 'max'"
    ):
        store.update([1], VALUES[:1], "multiply")


def test_element_of_byte_operands(store):
    one = np.ones(2, np.int64).tobytes()
    store.put([1], [one])
    store.update([1], [one], "add", element="int64")
    assert store.get([1], dtype=np.int64).values.tolist() == [[2, 2]]


# --- other libraries ----------------------------------------------------------------------------


class OnlyDlpack:
    """An array that offers nothing but DLPack, in its older or its newer form."""

    def __init__(self, held: np.ndarray, versioned: bool) -> None:
        self._held, self._versioned = held, versioned

    def __dlpack_device__(self):
        return self._held.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        if options and not self._versioned:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self._held.__dlpack__(stream=stream, **options)


@pytest.mark.parametrize("versioned", [False, True])
def test_any_dlpack_array(store, versioned):
    keys = OnlyDlpack(np.arange(5), versioned)
    out = OnlyDlpack(np.zeros((5, 4), np.float32), versioned)
    store.put(keys, OnlyDlpack(VALUES.copy(), versioned))
    assert store.get(keys, out=out).values is out
    assert (out._held == VALUES).all()
    assert isinstance(store.get(keys).values, np.ndarray)
    store.update(keys, OnlyDlpack(VALUES.copy(), versioned), "add")
    assert (store.get(keys, dtype=np.float32).values == 2 * VALUES).all()


def test_dlpack_array_that_is_not_contiguous(store):
    with pytest.raises(ValueError, match=r"keys: the array of shape .* is not C-contiguous"):
        store.get(OnlyDlpack(np.arange(10)[::2], True))


def test_dlpack_array_that_is_read_only(store):
    out = np.zeros((1, 16), np.uint8)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: the array is read-only"):
        store.get([1], out=OnlyDlpack(out, True))


class OnDevice:
    """Says that it lies on some device, without one being there."""

    def __init__(self, kind: int, number: int = 0) -> None:
        self._kind, self._number = kind, number

    def __dlpack_device__(self):
        return self._kind, self._number

    def __dlpack__(self, **options):
        raise AssertionError("must not be asked for on a cpu store")


def test_cuda_array_on_a_cpu_store(store):
    with pytest.raises(
        TypeError, match=r"keys: the array lies on cuda:0, but this store runs on the cpu; open"
    ):
        store.get(OnDevice(2))
    with pytest.raises(TypeError, match=r"out: the array lies on cuda:0"):
        store.get([1], out=OnDevice(2))


def test_array_on_an_unknown_device(store):
    with pytest.raises(TypeError, match="keys: the array lies on DLPack device type 10"):
        store.get(OnDevice(10))


def test_stream_of_the_wrong_type(store):
    with pytest.raises(TypeError, match="stream: 'fast' is neither"):
        store.get([1], stream="fast")


def test_an_array_on_another_gpu_names_the_way_to_it():
    elsewhere = r"on cuda:1, but stores are on the first GPU .* CUDA_VISIBLE_DEVICES=1"
    with pytest.raises(TypeError, match="keys: the array lies " + elsewhere):
        _arrays.keys_column(OnDevice(2, 1), 8, 1, "cuda")
    with pytest.raises(TypeError, match="out: the array lies " + elsewhere):
        _arrays.output(OnDevice(2, 1), 16, 1, 1, "cuda")


@pytest.mark.framework("torch")
def test_torch_on_the_host(store):
    import torch

    keys, values = torch.arange(5), torch.arange(20, dtype=torch.float32).reshape(5, 4)
    assert store.put(keys, values).done.all()
    got, found, _ = store.get(keys, dtype=torch.float32)
    assert isinstance(got, torch.Tensor) and torch.equal(got, values) and found.all()
    assert store.get(keys, dtype="float32", shape=(2, 2)).values.shape == (5, 2, 2)
    out = torch.zeros(5, 4)
    store.get(keys, out=out)
    assert torch.equal(out, values)
    store.update(keys, values, "add")
    store.get(keys, out=out)
    assert torch.equal(out, 2 * values)
    assert store.get(torch.arange(10)[::2]).found.tolist() == [True] * 3 + [False] * 2
    assert store.get(torch.arange(5, dtype=torch.int32)).found.all()
    with pytest.raises(TypeError, match=r"values: torch does not lend this array through DLPack"):
        store.put(keys, values.clone().requires_grad_())
    with pytest.raises(TypeError, match="keys: keys are integers or bytes, not float64"):
        store.get(torch.zeros(5, dtype=torch.float64))


@pytest.mark.framework("jax")
def test_jax_on_the_host(store):
    import jax

    with jax.default_device(jax.devices("cpu")[0]):  # beside a GPU, arrays lie there unless told
        values = jax.numpy.arange(20, dtype=jax.numpy.float32).reshape(5, 4)
        keys = jax.numpy.arange(10, dtype=jax.numpy.int32).reshape(5, 2)
    assert store.put(keys, values).done.all()
    got = store.get(keys, dtype=np.float32).values
    assert isinstance(got, np.ndarray) and (got == np.asarray(values)).all()


@pytest.mark.framework("pandas")
def test_pandas_columns(store):
    import pandas

    frame = pandas.DataFrame({"id": [1, 2, 3]})
    store.put(frame["id"], VALUES[:3])
    assert store.get(frame["id"]).found.all()


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_the_engine_answers_the_worst_status(store, count):
    keys, rows = np.arange(count), np.zeros((count, 16), np.uint8)
    column, out = _native.Column.rows(keys, 8, count), _native.MutableColumn.rows(rows, 16, count)
    statuses = np.full(count, 6, np.uint8)
    ok, absent = int(perdure.KeyStatus.ok), int(perdure.KeyStatus.not_found)
    assert store._engine.put(column, _native.Column.rows(rows, 16, count), statuses) == ok
    assert store._engine.get(column, out, statuses) == ok
    for one in range(count):
        keys[one] += 1000
        assert store._engine.get(column, out, statuses) == absent
        assert np.flatnonzero(statuses).tolist() == [one]
        keys[one] -= 1000


def test_a_column_says_what_it_is():
    fixed = _arrays.keys_column(np.arange(6, dtype=np.int32).reshape(3, 2), 8, 0, "cpu")
    assert (fixed.count, fixed.row_bytes, fixed.dtype, fixed.on_gpu) == (3, 8, "int32", False)
    varying = _arrays.values_column("values", ["a", "bcd"], None, 2, 0, "cpu")
    assert (varying.count, varying.row_bytes, varying.dtype) == (2, 0, None)
    assert fixed.length(2) == 8 and [varying.length(row) for row in range(2)] == [1, 3]
    with pytest.raises(IndexError):
        varying.length(2)


def test_a_call_does_not_import_masked_arrays(pool: str) -> None:
    """A handler that runs meanwhile, or a forked child, would find the module half imported."""
    program = """
import sys, numpy as np, perdure
before = "numpy.ma" in sys.modules
store = perdure.create(sys.argv[1], value_bytes=8)
store.put(np.arange(3), np.arange(3))
assert before or "numpy.ma" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, pool], check=True, timeout=60)
