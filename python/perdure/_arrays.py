"""Arrays of any library as columns of bytes: NumPy, anything with `__dlpack__`, Arrow, short lists.

An array crosses to the engine's side once, when its column is made, and each of its properties is
checked in one place: here, in the user's words, but for what memory safety asks of the column
itself (native/arrays.hpp).

Invariant: contiguous arrays of the pool's widths are not copied on the way to the engine. Copied
are Python lists, arrays of Python objects and of text, slices with strides, integer keys narrower
than the pool's, and Arrow arrays whose chunks or types must be joined; outputs never. Whatever does
not fit is refused with the argument's name, what was expected, and the way out.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any, TypeVar

import numpy as np

from perdure import _arrow, _made, _native
from perdure._items import as_array, is_scalar, one_row, widened
from perdure._made import as_rows
from perdure._streams import device_of, library_of, stream_of

__all__ = [
    "as_rows",
    "is_scalar",
    "keys_column",
    "made",
    "one_row",
    "output",
    "stream_of",
    "values_column",
    "whole",
]

_KEY_TYPES = ("int", "uint", "void", "bytes", "record")  # those whose bytes are what the user sees


Kind = TypeVar("Kind", _native.Column, _native.MutableColumn)


# --- one check of each property -----------------------------------------------------------------


@functools.cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy builds it anew each time, which a batch of one key would feel


def _check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise TypeError(
            f"{name}: dtype {dtype} holds Python objects; pass an array of bytes or numbers"
        )
    if not dtype.isnative:
        raise TypeError(
            f"{name}: dtype {dtype} is of foreign byte order; pass"
            f" {name}.astype({name}.dtype.newbyteorder('='))"
        )


def _check_dimensions(name: str, shape: tuple[int, ...]) -> None:
    if not shape:
        raise ValueError(
            f"{name}: the array has no dimensions; pass one row a key, for example "
            f"{name}.reshape(1)"
        )


def _check_width(
    name: str, pools: str, dtype: str, shape: tuple[int, ...], row_bytes: int, width: int | None
) -> None:
    """`pools`: what this pool's columns of that width are, "keys" or "values"."""
    if width is None or row_bytes == width:
        return
    example = f"uint8 of shape (n, {width})"
    example = f"int64 of shape (n,) or {example}" if width == 8 else example
    raise ValueError(
        f"{name}: a row of this {dtype} array of shape {shape} has {row_bytes} bytes, but this "
        f"pool's {pools} have {width}; pass rows of {width} bytes, for example {example}"
    )


def _check_count(name: str, rows: int, keys: int) -> None:
    if rows != keys:
        raise ValueError(f"{name}: {rows} rows for {keys} keys; pass one row a key")


@functools.lru_cache(maxsize=64)  # of those that pass, whose names are looked at once
def _check_key_type(dtype: str | None) -> None:
    if dtype is not None and not dtype.startswith(_KEY_TYPES):
        raise TypeError(
            f"keys: keys are integers or bytes, not {dtype}; convert them (for example"
            " keys.astype(np.int64)), or view their bytes (keys.view(np.uint8))"
        )


def _not_contiguous(name: str, shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"{name}: the array of shape {shape} is not C-contiguous; pass "
        f"np.ascontiguousarray({name}) or its like"
    )


def _read_only(name: str) -> ValueError:
    return ValueError(f"{name}: the array is read-only; pass one that can be written")


# --- arrays of NumPy ----------------------------------------------------------------------------


def _row_bytes(array: np.ndarray[Any, Any]) -> int:
    shape = array.shape
    return array.itemsize if len(shape) == 1 else math.prod(shape[1:]) * array.itemsize


def _is_masked(array: np.ndarray[Any, Any]) -> bool:
    """Where nobody has imported numpy.ma, no array is masked. To import it here would take a while
    in the first call, in which a signal's handler or a forked child finds it half imported."""
    ma = sys.modules.get("numpy.ma")
    kind = getattr(ma, "MaskedArray", None)
    return kind is not None and isinstance(array, kind) and bool(np.ma.is_masked(array))


def _numpy_column(name: str, array: np.ndarray[Any, Any], width: int | None) -> _native.Column:
    _check_dtype(name, array.dtype)
    if _is_masked(array):
        at = int(np.argmax(np.ma.getmaskarray(array).reshape(len(array), -1).any(axis=1)))
        raise ValueError(f"{name}: element {at} is masked; fill or drop masked ones first")
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    shape, dtype = array.shape, _dtype_name(array.dtype)
    _check_dimensions(name, shape)
    row_bytes = _row_bytes(array)
    _check_width(name, name, dtype, shape, row_bytes, width)
    return _native.Column.rows(array, row_bytes, shape[0], dtype)


def _check_writable(name: str, array: np.ndarray[Any, Any]) -> None:
    _check_dtype(name, array.dtype)
    if not array.flags.c_contiguous:
        raise _not_contiguous(name, array.shape)
    if not array.flags.writeable:
        raise _read_only(name)


# --- arrays that speak DLPack -------------------------------------------------------------------


def _lends(array: Any) -> bool:
    return hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")


def check_near(name: str, device: str, number: int, store_device: str) -> None:
    if device == "cuda" and store_device == "cpu":
        raise TypeError(
            f"{name}: the array lies on cuda:{number}, but this store runs on the cpu;"
            " open the store with device='cuda', or pass a copy in host memory"
        )
    if device == "cuda" and number != 0:
        raise TypeError(
            f"{name}: the array lies on cuda:{number}, but stores are on the first GPU of their"
            f" process, cuda:0; pass a copy there, or begin the process with"
            f" CUDA_VISIBLE_DEVICES={number}, which makes that one its first"
        )


def _capsule(name: str, array: Any, stream: int, device: str) -> Any:
    """Exports with DLPack 1.0, or in the older form where a library does not know 1.0."""
    consumer = stream if device == "cuda" else None
    try:
        try:
            return array.__dlpack__(stream=consumer, max_version=(1, 0))
        except TypeError:
            return array.__dlpack__(stream=consumer)
    except (BufferError, RuntimeError, TypeError, ValueError) as refused:
        raise TypeError(
            f"{name}: {library_of(array)} does not lend this array through DLPack: {refused}"
        ) from refused


def _exchanged(
    array: Any, width: int | None, stream: int, store_device: str, kind: type[Kind]
) -> Kind | None:
    """Rows of the pool's width that their library lends without Python; None: others, or what the
    store cannot reach, which is looked at closer."""
    if width is None or isinstance(array, np.ndarray):
        return None
    return kind.exchange(array, width, stream, store_device == "cuda")


def _lent(
    name: str,
    array: Any,
    stream: int,
    store_device: str,
    kind: type[Kind],
    *,
    whole: bool = False,
) -> tuple[Kind, tuple[int, ...]]:
    """An array as a column of `kind`, and its shape."""
    device, number = device_of(name, array)
    check_near(name, device, number, store_device)
    capsule = _capsule(name, array, stream, device)
    try:
        column, shape = kind.lend(capsule, whole)
    except (RuntimeError, TypeError) as refused:
        if kind is _native.MutableColumn:
            raise _read_only(name) from refused
        raise TypeError(f"{name}: this DLPack array cannot be read: {refused}") from refused
    if column is None:
        raise _not_contiguous(name, shape)
    if not whole:
        _check_dimensions(name, shape)
    return column, shape


def _contiguous(array: Any) -> Any:
    """A slice with strides as a copy without, where its library makes one."""
    if library_of(array) == "torch":
        return array.contiguous()
    if library_of(array) == "cupy":
        return sys.modules["cupy"].ascontiguousarray(array)
    return array


# --- the arguments of a batch -------------------------------------------------------------------


def _as_numpy(name: str, array: Any) -> np.ndarray[Any, Any]:
    """An array of a library without DLPack, or TypeError for what is none."""
    if isinstance(array, str | bytes | int | float):
        raise TypeError(
            f"{name}: {type(array).__name__} is one element, not an array; pass a list, "
            f"[{name[:-1]}]"
        )
    buffers = isinstance(array, memoryview | bytearray) or library_of(array) == "array"
    if hasattr(array, "__array__") or buffers:
        return np.asarray(array)
    raise TypeError(
        f"{name}: cannot use a {type(array).__name__}; pass an array (NumPy, CuPy, PyTorch, "
        "JAX, anything with __dlpack__), an Arrow array, or a list of bytes"
    )


def _column(name: str, array: Any, width: int | None, stream: int, device: str) -> _native.Column:
    array = as_array(name, array, width)
    if not isinstance(array, np.ndarray) and _arrow.is_arrow(array):
        array = _arrow.normalise(name, array)
        if width is None and _arrow.is_variable(array):
            return _native.Column.variable(*_arrow.offsets_and_data(array))
        array = _arrow.fixed_rows(name, array, width)
    if isinstance(array, np.ndarray):
        return _numpy_column(name, array, width)
    if not _lends(array):
        return _numpy_column(name, _as_numpy(name, array), width)
    given, shape = _lent(name, _contiguous(array), stream, device, _native.Column)
    _check_width(name, name, str(given.dtype), shape, given.row_bytes, width)
    return given


def keys_column(array: Any, width: int | None, stream: int, device: str) -> _native.Column:
    given = _exchanged(array, width, stream, device, _native.Column)
    if given is None:
        given = _column("keys", widened(array, width), width, stream, device)
    _check_key_type(given.dtype)
    return given


def values_column(
    name: str, array: Any, width: int | None, count: int, stream: int, device: str
) -> _native.Column:
    given = _exchanged(array, width, stream, device, _native.Column)
    if given is None:
        given = _column(name, array, width, stream, device)
    _check_count(name, given.count, count)
    return given


# --- where the engine writes --------------------------------------------------------------------


def output(
    array: Any, width: int | None, count: int, stream: int, device: str
) -> _native.MutableColumn:
    """The user's array, for values; `width` is None where they are as long as its rows."""
    known = _exchanged(array, width, stream, device, _native.MutableColumn)
    if known is not None:
        _check_count("out", known.count, count)
        return known
    if not isinstance(array, np.ndarray):
        if isinstance(array, list | tuple) or _arrow.is_arrow(array):
            raise TypeError(
                f"out: a {type(array).__name__} cannot be written; pass a writable array, or leave "
                "out= away"
            )
        if _lends(array):
            given, shape = _lent("out", array, stream, device, _native.MutableColumn)
            _check_count("out", given.count, count)
            _check_width("out", "values", str(given.dtype), shape, given.row_bytes, width)
            return given
        array = _as_numpy("out", array)
    _check_writable("out", array)
    _check_dimensions("out", array.shape)
    _check_count("out", array.shape[0], count)
    dtype, row_bytes = _dtype_name(array.dtype), _row_bytes(array)
    _check_width("out", "values", dtype, array.shape, row_bytes, width)
    return _native.MutableColumn.rows(array, row_bytes, count)


def made(
    keys: Any,
    given: _native.Column,
    width: int,
    dtype: Any,
    shape: Any,
    stream: int,
    device: str,
    *,
    zeros: bool = True,
) -> tuple[Any, _native.MutableColumn]:
    """An array for the values of `keys`, which needs no check, and its column; see values_for.
    `given` is the keys' own column."""
    array = _made.values_for(keys, given, width, dtype, shape, zeros=zeros)
    if isinstance(array, np.ndarray):
        return array, _native.MutableColumn.rows(array, width, given.count)
    known = _exchanged(array, width, stream, device, _native.MutableColumn)
    if known is None:
        known, _ = _lent("out", array, stream, device, _native.MutableColumn)
    return array, known


def whole(name: str, array: Any, stream: int, device: str) -> _native.MutableColumn:
    """A writable array of any shape as one run of bytes, which stay where they are."""
    if isinstance(array, np.ndarray):
        _check_writable(name, array)
        return _native.MutableColumn.rows(array, 1, array.nbytes)
    if _lends(array):
        return _lent(name, array, stream, device, _native.MutableColumn, whole=True)[0]
    raise TypeError(
        f"{name}: a {type(array).__name__} is no array that can be filled in place; pass a "
        "NumPy array, or a writable one with __dlpack__ (CuPy, PyTorch)"
    )
