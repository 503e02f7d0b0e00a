"""Arrays of any library as columns of bytes: NumPy, anything with `__dlpack__`, Arrow, short lists.

Invariant: contiguous arrays of the pool's widths are not copied on the way to the engine. Copied
are Python lists, arrays of Python objects and of text, slices with strides, integer keys narrower
than the pool's, and Arrow arrays whose chunks or types must be joined; outputs never. Whatever does
not fit is refused with the argument's name, what was expected, and the way out.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from perdure import _arrow, _native
from perdure._single import INTEGER_WIDTHS

if TYPE_CHECKING:
    from perdure.typing import Key

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
_KEY_TYPES = ("int", "uint", "void", "bytes", "record")  # those whose bytes are what the user sees
_LEGACY_STREAM = 1  # how DLPack and CUDA both name the legacy default stream


@dataclass(frozen=True)
class Rows:
    """A contiguous array seen as rows of bytes."""

    native: _native.Array
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    device: str
    device_id: int
    library: str

    @property
    def count(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape[1:]) * self.itemsize

    def describe(self) -> str:
        return f"{self.dtype} array of shape {self.shape}"


@dataclass(frozen=True)
class Input:
    """One argument of a batch, ready for the engine."""

    column: _native.Column
    count: int
    rows: Rows | None  # None for byte strings of varying length
    ends: np.ndarray[Any, Any] | None = None  # of those

    def length(self, row: int) -> int:
        """Bytes of one element."""
        if self.ends is None:
            assert self.rows is not None
            return self.rows.row_bytes
        return int(self.ends[row + 1] - self.ends[row])


# --- which device, which stream -----------------------------------------------------------------


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _dlpack_device(name: str, array: Any) -> tuple[str, int]:
    kind, number = array.__dlpack_device__()
    if int(kind) in (_CPU, _CUDA_HOST):
        return "cpu", 0
    if int(kind) in (_CUDA, _CUDA_MANAGED):
        return "cuda", int(number)
    raise TypeError(
        f"{name}: the array lies on DLPack device type {int(kind)}; copy it to the host or to a "
        "CUDA device"
    )


def _on_cuda(array: Any) -> bool:
    if array is None or isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return False
    if hasattr(
        array, "__arrow_c_array__"
    ):  # before version 26 pyarrow's raise for what DLPack has no type for
        return False
    return int(array.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)


def _current_stream(array: Any) -> int:
    library = _library(array)
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.cuda.current_stream(array.device).cuda_stream or _LEGACY_STREAM
    if library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr or _LEGACY_STREAM
    return _LEGACY_STREAM


def stream_of(stream: Any, *arrays: Any) -> int:
    """The CUDA stream of a call as an integer handle; 0 when no array is on a GPU.

    `stream` is the user's: None (the current stream of the first CUDA array's library), an integer
    handle, or a PyTorch or CuPy stream.
    """
    if stream is not None:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
        if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
            raise TypeError(
                f"stream: {stream!r} is neither a cudaStream_t as an integer nor a PyTorch or "
                "CuPy stream"
            )
        return handle or _LEGACY_STREAM
    on_gpu = next((array for array in arrays if _on_cuda(array)), None)
    return 0 if on_gpu is None else _current_stream(on_gpu)


# --- arrays as rows -----------------------------------------------------------------------------


def _refuse_scalar(name: str, array: Any) -> None:
    if isinstance(array, str | bytes | int | float):
        raise TypeError(
            f"{name}: {type(array).__name__} is one element, not an array; pass a list, "
            f"[{name[:-1]}]"
        )


def _not_contiguous(name: str, shape: tuple[int, ...]) -> ValueError:
    return ValueError(
        f"{name}: the array of shape {shape} is not C-contiguous; pass "
        f"np.ascontiguousarray({name}) or"
        " its like"
    )


@functools.cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy builds it anew each time, which a batch of one key would feel


def _contiguous(array: Any) -> Any:
    """A slice with strides as a copy without, where its library makes one."""
    if isinstance(array, np.ndarray):
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if _library(array) == "torch":
        return array.contiguous()
    if _library(array) == "cupy":
        return sys.modules["cupy"].ascontiguousarray(array)
    return array


def _numpy_rows(name: str, array: np.ndarray[Any, Any], writable: bool) -> Rows:
    if array.dtype.hasobject:
        raise TypeError(
            f"{name}: dtype {array.dtype} holds Python objects; pass an array of bytes or numbers"
        )
    if not array.dtype.isnative:
        raise TypeError(
            f"{name}: dtype {array.dtype} is of foreign byte order; pass"
            f" {name}.astype({name}.dtype.newbyteorder('='))"
        )
    if not array.flags.c_contiguous:
        raise _not_contiguous(name, array.shape)
    if writable and not array.flags.writeable:
        raise ValueError(f"{name}: the array is read-only; pass one that can be written")
    octets = (
        array.reshape(-1).view(np.uint8)
        if array.dtype.itemsize and array.size
        else np.empty(0, np.uint8)
    )
    native = _native.Array(octets, writable)
    return Rows(
        native, array.shape, _dtype_name(array.dtype), array.dtype.itemsize, "cpu", 0, "numpy"
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
            f"{name}: {_library(array)} does not lend this array through DLPack: {refused}"
        ) from refused


def _dlpack_rows(name: str, array: Any, stream: int, writable: bool, store_device: str) -> Rows:
    device, number = _dlpack_device(name, array)
    if device == "cuda" and store_device == "cpu":
        raise TypeError(
            f"{name}: the array lies on cuda:{number}, but this store runs on the cpu;"
            " open the store with device='cuda', or pass a copy in host memory"
        )
    capsule = _capsule(name, array, stream, device)
    try:
        native = _native.Array(capsule, writable)
    except (RuntimeError, TypeError) as refused:
        if not writable:
            raise TypeError(f"{name}: this DLPack array cannot be read: {refused}") from refused
        raise ValueError(
            f"{name}: the array is read-only; pass one that can be written"
        ) from refused
    if not native.contiguous:
        raise _not_contiguous(name, native.shape)
    return Rows(
        native, native.shape, native.dtype, native.itemsize, device, number, _library(array)
    )


def _lends(array: Any) -> bool:
    return hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")


def rows(name: str, array: Any, stream: int, store_device: str, *, writable: bool = False) -> Rows:
    """An array of any library as rows of bytes, or TypeError/ValueError naming the argument."""
    _refuse_scalar(name, array)
    if isinstance(array, np.ndarray):
        seen = _numpy_rows(name, array, writable)
    elif _lends(array):
        seen = _dlpack_rows(name, array, stream, writable, store_device)
    elif (
        hasattr(array, "__array__")
        or isinstance(array, memoryview | bytearray)
        or _library(array) == "array"
    ):
        seen = _numpy_rows(name, np.asarray(array), writable)
    else:
        raise TypeError(
            f"{name}: cannot use a {type(array).__name__}; pass an array (NumPy, CuPy, PyTorch, "
            "JAX,"
            " anything with"
            " __dlpack__), an Arrow array, or a list of bytes"
        )
    if not seen.shape:
        raise ValueError(
            f"{name}: the array has no dimensions; pass one row a key, for example "
            f"{name}.reshape(1)"
        )
    return seen


# --- lists --------------------------------------------------------------------------------------


def _joined(name: str, items: Sequence[Any], width: int) -> np.ndarray[Any, Any]:
    octets = [item.encode() if isinstance(item, str) else bytes(item) for item in items]
    wrong = next((row for row, item in enumerate(octets) if len(item) != width), None)
    if wrong is not None:
        raise ValueError(
            f"{name}: element {wrong} has {len(octets[wrong])} bytes, but this pool's {name} "
            f"have {width}"
        )
    return np.frombuffer(b"".join(octets), np.uint8).reshape(len(octets), width)


def _integers(name: str, items: Sequence[int], width: int) -> np.ndarray[Any, Any]:
    if width not in INTEGER_WIDTHS:
        raise TypeError(
            f"{name}: this pool's {name} have {width} bytes, so integers do not fit; pass bytes "
            "of that"
            " length"
        )
    bits = 8 * width
    wrong = next(
        (row for row, item in enumerate(items) if not -(1 << (bits - 1)) <= item < 1 << bits), None
    )
    if wrong is not None:
        raise ValueError(f"{name}: element {wrong} ({items[wrong]}) does not fit in {width} bytes")
    mask = (1 << bits) - 1
    return np.array([item & mask for item in items], dtype=f"uint{bits}")


def _from_list(name: str, items: Sequence[Any], width: int | None) -> Any:
    """A short list as a NumPy array (fixed width) or an Arrow array (varying length)."""
    if all(isinstance(item, bytes | bytearray | memoryview | str) for item in items):
        return _arrow.from_list(name, items) if width is None else _joined(name, items, width)
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        return _integers(name, [int(item) for item in items], 8 if width is None else width)
    kinds = {type(item) for item in items}
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"{name}: a list of {names}; pass a list of bytes, str or int, or an array")


# --- the arguments of a batch -------------------------------------------------------------------


def _example(width: int) -> str:
    example = f"uint8 of shape (n, {width})"
    return f"int64 of shape (n,) or {example}" if width == 8 else example


def _check_width(name: str, seen: Rows, width: int | None) -> None:
    if width is not None and seen.row_bytes != width:
        raise ValueError(
            f"{name}: a row of this {seen.describe()} has {seen.row_bytes} bytes, but this "
            f"pool's {name}"
            f" have {width};"
            f" pass rows of {width} bytes, for example {_example(width)}"
        )


def _check_key_type(name: str, seen: Rows) -> None:
    if seen.dtype.startswith(_KEY_TYPES):
        return
    raise TypeError(
        f"{name}: keys are integers or bytes, not {seen.dtype}; convert them (for example"
        f" {name}.astype(np.int64)), or view their bytes ({name}.view(np.uint8))"
    )


def is_scalar(key: Any) -> TypeGuard[Key]:
    """One key rather than an array of them."""
    return isinstance(key, str | bytes | int | np.generic)


def one_row(value: Any) -> Any:
    """The value of one key as an array of one row."""
    if hasattr(value, "shape") and not isinstance(value, np.generic):
        return value[None]
    return np.asarray([value]) if isinstance(value, np.generic | float) else [value]


def _as_items(array: Any) -> Any:
    """Arrays of Python objects and of text as lists, for their own bytes would mean nothing
    elsewhere; any sequence of items, a range or a deque, too."""
    if isinstance(array, np.ndarray):
        return array.tolist() if array.dtype.kind in "OU" else array
    holds_items = isinstance(array, Sequence) and not isinstance(
        array, str | bytes | bytearray | memoryview
    )
    return list(array) if holds_items and _library(array) != "array" else array


def _widened(array: Any, width: int | None) -> Any:
    """Integer keys narrower than the pool's, as wide as those."""
    kind = str(getattr(array, "dtype", "")).rpartition(".")[2]  # torch.int32, int32
    match = re.fullmatch(r"(u?int)(8|16|32)", kind)
    if (
        match is None
        or width not in (2, 4, 8)
        or int(match[2]) >= 8 * width
        or len(array.shape) != 1
    ):
        return array
    wide = f"{match[1]}{8 * width}"
    if _library(array) == "torch":
        return array.to(getattr(sys.modules["torch"], wide))
    return array.astype(wide) if _library(array) in ("numpy", "cupy") else array


def _input(name: str, array: Any, width: int | None, stream: int, device: str) -> Input:
    array = _as_items(array)
    if width is None and isinstance(array, np.ndarray) and array.dtype.kind == "S":
        array = (
            array.tolist()
        )  # without NumPy's padding, which is no part of what the elements hold
    if isinstance(array, list):
        array = _from_list(name, array, width)
    if _arrow.is_arrow(array):
        array = _arrow.normalise(name, array)
        if width is None and _arrow.is_variable(array):
            offsets, data = _arrow.offsets_and_data(array)
            column = _native.Column.variable(_native.Array(offsets), _native.Array(data))
            return Input(column, len(array), None, offsets)
        array = _arrow.fixed_rows(name, array, width)
    seen = rows(name, _contiguous(array), stream, device)
    _check_width(name, seen, width)
    return Input(_native.Column.fixed(seen.native, seen.row_bytes, seen.count), seen.count, seen)


def keys_input(array: Any, width: int | None, stream: int, device: str) -> Input:
    given = _input("keys", _widened(array, width), width, stream, device)
    if given.rows is not None:
        _check_key_type("keys", given.rows)
    return given


def values_input(
    name: str, array: Any, width: int | None, count: int, stream: int, device: str
) -> Input:
    given = _input(name, array, width, stream, device)
    if given.count != count:
        raise ValueError(f"{name}: {given.count} rows for {count} keys; pass one row a key")
    return given


def output(array: Any, width: int, count: int, stream: int, device: str) -> _native.MutableColumn:
    if isinstance(array, list | tuple) or _arrow.is_arrow(array):
        raise TypeError(
            f"out: a {type(array).__name__} cannot be written; pass a writable array, or leave "
            "out= away"
        )
    seen = rows("out", array, stream, device, writable=True)
    if seen.count != count:
        raise ValueError(f"out: {seen.count} rows for {count} keys; pass one row a key")
    if seen.row_bytes != width:
        raise ValueError(
            f"out: a row of this {seen.describe()} has {seen.row_bytes} bytes, but this pool's "
            "values"
            f" have {width};"
            f" pass rows of {width} bytes, for example {_example(width)}"
        )
    return _native.MutableColumn.fixed(seen.native, width, count)


def whole(name: str, array: Any, stream: int, device: str) -> _native.MutableColumn:
    """A writable array of any shape as one run of bytes, which stay where they are."""
    if isinstance(array, np.ndarray):
        seen = _numpy_rows(name, array, writable=True)
    elif _lends(array):
        seen = _dlpack_rows(name, array, stream, True, device)
    else:
        raise TypeError(
            f"{name}: a {type(array).__name__} is no array that can be filled in place; pass a "
            "NumPy array,"
            " or a writable one with __dlpack__ (CuPy, PyTorch)"
        )
    return _native.MutableColumn.fixed(seen.native, 1, math.prod(seen.shape) * seen.itemsize)


# --- arrays for results -------------------------------------------------------------------------


def _row_shape(shape: Any, itemsize: int, width: int, what: str) -> tuple[int, ...]:
    if shape is None:
        if width % itemsize:
            raise ValueError(
                f"dtype: elements of {itemsize} bytes do not divide this pool's {width}-byte {what}"
            )
        return (width // itemsize,)
    extents = tuple(shape) if isinstance(shape, Sequence) else (int(shape),)
    if math.prod(extents) * itemsize != width:
        raise ValueError(
            f"shape: rows of shape {extents} and {itemsize}-byte elements have"
            f" {math.prod(extents) * itemsize} bytes,"
            f" but this pool's {what} have {width}"
        )
    return extents


def _torch_zeros(like: Rows, count: int, width: int, dtype: Any, shape: Any) -> Any:
    torch: Any = sys.modules["torch"]
    kind = dtype if isinstance(dtype, torch.dtype) else getattr(torch, np.dtype(dtype).name, None)
    if kind is None:
        raise TypeError(f"dtype: PyTorch has no {np.dtype(dtype).name}; pass a torch.dtype")
    extents = _row_shape(
        shape,
        kind.itemsize if hasattr(kind, "itemsize") else torch.empty(0, dtype=kind).element_size(),
        width,
        "values",
    )
    where = "cpu" if like.device == "cpu" else f"cuda:{like.device_id}"
    return torch.zeros((count, *extents), dtype=kind, device=where)


def _cupy_zeros(like: Rows, count: int, width: int, dtype: Any, shape: Any) -> Any:
    cupy: Any = sys.modules["cupy"]
    with cupy.cuda.Device(like.device_id):
        return cupy.zeros(
            (count, *_row_shape(shape, np.dtype(dtype).itemsize, width, "values")), dtype=dtype
        )


def zeros(like: Rows | None, count: int, width: int, dtype: Any, shape: Any) -> Any:
    """An array for values, of the library and on the device of the keys; NumPy for host keys of
    libraries whose arrays cannot be written (JAX, Arrow, lists)."""
    dtype = np.uint8 if dtype is None else dtype
    if like is not None and like.library == "torch":
        return _torch_zeros(like, count, width, dtype, shape)
    if like is not None and like.device == "cuda":
        if like.library == "cupy":
            return _cupy_zeros(like, count, width, dtype, shape)
        raise TypeError(
            f"out: cannot make a {like.library} array on the GPU; pass out= (a CuPy array or a "
            "PyTorch"
            " tensor)"
        )
    return np.zeros((count, *_row_shape(shape, np.dtype(dtype).itemsize, width, "values")), dtype)


def as_rows(
    octets: np.ndarray[Any, Any], count: int, width: int, dtype: Any, shape: Any, what: str
) -> Any:
    """Bytes the engine handed over, seen as rows of a dtype."""
    kind = np.dtype(np.uint8 if dtype is None else dtype)
    return octets.view(kind).reshape(count, *_row_shape(shape, kind.itemsize, width, what))
