"""Arrays that are lent through DLPack's C functions (`__dlpack_c_exchange_api__`), as PyTorch lends
its own: by a library of the test's, which can refuse, lie elsewhere, or be of another version."""

from __future__ import annotations

import ctypes

import numpy as np
import perdure
import pytest

CPU, CUDA, READ_ONLY = 1, 2, 1
INT, COMPLEX = 0, 5


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Lent(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class Functions(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("make", ctypes.c_void_p),
        ("lend", ctypes.c_void_p),
        ("to_python", ctypes.c_void_p),
        ("look", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    )


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = (
    ctypes.py_object,
    (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
)
_kept = []  # what C holds pointers to


def _tensor(array) -> Tensor:
    extents = (ctypes.c_int64 * 2)(*array.rows.shape)
    strides = (ctypes.c_int64 * 2)(*(step // array.rows.itemsize for step in array.rows.strides))
    _kept.append((extents, strides))
    return Tensor(
        array.rows.ctypes.data, array.device, 0, array.rows.ndim, array.code,
        array.rows.itemsize * 8, 1, extents, strides, 0,
    )  # fmt: skip


def library(*, major: int = 1, older: bool = False) -> type:
    """A library's type of arrays, new each time."""

    class Array:
        lent = deleted = asked = 0
        device, code, flags, refuses, version = CPU, INT, 0, False, 1

        def __init__(self, rows):
            self.rows = rows

        def __dlpack__(self, **_):
            type(self).asked += 1
            return self.rows.__dlpack__()

        def __dlpack_device__(self):
            return self.device, 0

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def delete(_):
        Array.deleted += 1

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Lent)))
    def lend(array, out):
        if array.refuses:
            return -1
        Array.lent += 1
        of_c = ctypes.cast(delete, ctypes.c_void_p)
        lent = Lent(array.version, 3, None, of_c, array.flags, _tensor(array))
        _kept.append(lent)
        out[0] = ctypes.pointer(lent)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
    def look(array, out):
        out[0] = _tensor(array)
        return 0

    @ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )
    def current_stream(_, __, out):
        out[0] = None
        return 0

    pointers = [ctypes.cast(one, ctypes.c_void_p) for one in (lend, look, current_stream)]
    table = Functions(1, 3, None, None, pointers[0], None, *pointers[1:])
    _kept.append((delete, lend, look, current_stream, table))
    if older:
        table = Functions(2, 0, ctypes.cast(ctypes.pointer(table), ctypes.c_void_p))
        _kept.append(table)
    elif major != 1:
        table.major = major
    Array.__dlpack_c_exchange_api__ = _capsule(
        ctypes.addressof(table), b"dlpack_exchange_api", None
    )
    return Array


@pytest.fixture
def store():
    with perdure.create("memfd:exchange", 8, 16) as opened:
        yield opened


KEYS = np.arange(6, dtype=np.int64).reshape(6, 1)
ROWS = np.arange(24, dtype=np.int32).reshape(6, 4)


def test_columns_come_without_a_question_to_python(store):
    array = library()
    keys, rows, out = array(KEYS), array(ROWS), array(np.zeros_like(ROWS))
    assert store.put(keys, rows).done.all()
    assert store.get(keys, out=out).found.all() and (out.rows == ROWS).all()
    assert array.lent == 4 and array.asked == 0


def test_what_was_lent_is_given_back_once(store):
    array = library()
    store.put(array(KEYS), array(ROWS))
    assert array.lent == array.deleted == 2
    with pytest.raises(ValueError, match="rows of 16 bytes"):
        store.put(array(KEYS), array(KEYS))
    with pytest.raises(ValueError, match="not C-contiguous"):
        store.put(array(KEYS), array(np.asfortranarray(ROWS)))
    assert array.lent == array.deleted >= 4


def test_an_array_that_is_refused_there_is_asked_by_python(store):
    array = library()
    keys = array(KEYS)
    keys.refuses = True
    assert store.put(keys, array(ROWS)).done.all() and array.asked == 1


def test_complex_numbers_may_be_conjugated_so_python_is_asked(store):
    array = library()
    rows = array(ROWS)
    rows.code = COMPLEX
    assert store.put(KEYS, rows).done.all()
    assert array.asked == array.lent == array.deleted == 1
    assert (store.get(KEYS, dtype=np.int32).values == ROWS).all()


def test_what_may_only_be_read_takes_no_answer(store):
    array = library()
    out = array(np.zeros_like(ROWS))
    out.flags, out.rows.flags.writeable = READ_ONLY, False
    with pytest.raises((TypeError, ValueError), match=r"out: .*(read-only|readonly)"):
        store.get(KEYS, out=out)
    assert array.lent == array.deleted == 1


def test_a_gpu_array_is_no_column_of_a_store_on_the_cpu(store):
    array = library()
    keys = array(KEYS)
    keys.device = CUDA
    with pytest.raises(TypeError, match=r"keys: the array lies on cuda:0, but this store runs on"):
        store.put(keys, ROWS)


def test_functions_of_a_later_version_are_left_alone_unless_older_ones_follow(store):
    later, both = library(major=2), library(older=True)
    assert store.put(later(KEYS), ROWS).done.all() and later.asked == 1 and later.lent == 0
    assert store.put(both(KEYS), ROWS).done.all() and both.asked == 0 and both.lent == 1


def test_an_array_of_a_later_version_is_given_back_unread(store):
    array = library()
    keys = array(KEYS)
    keys.version = 2
    assert store.put(keys, ROWS).done.all() and array.asked == 1
    assert array.lent == array.deleted == 1


def test_a_subclass_lends_as_it_says_itself(store):
    base = library()

    class Own(base):
        def __dlpack__(self, **_):
            return (self.rows + 10).__dlpack__()

    store.put(KEYS + 10, ROWS)
    assert store.get(base(KEYS)).found.sum() == 0 and store.get(Own(KEYS)).found.all()


def test_many_types_come_and_go(store):
    for _ in range(50):
        assert store.put(library()(KEYS), ROWS).done.all()
