"""Arrays that batches and scans make for what they read.

Invariant: a row of such an array has as many bytes as a value of the pool, or the call was refused.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure._streams import library_of

if TYPE_CHECKING:
    from perdure import _native


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
            f" {math.prod(extents) * itemsize} bytes, but this pool's {what} have {width}"
        )
    return extents


@functools.lru_cache(maxsize=64)
def _torch_dtype(dtype: Any) -> tuple[Any, int]:
    """PyTorch's dtype, or the one that is called like NumPy's, and the bytes of an element."""
    torch: Any = sys.modules["torch"]
    kind = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype.name, None)
    if kind is None:
        raise TypeError(f"dtype: PyTorch has no {dtype.name}; pass a torch.dtype")
    return kind, getattr(kind, "itemsize", None) or torch.empty(0, dtype=kind).element_size()


def _of_torch(keys: Any, count: int, width: int, dtype: Any, shape: Any, zeros: bool) -> Any:
    torch: Any = sys.modules["torch"]
    kind, itemsize = _torch_dtype(dtype if isinstance(dtype, torch.dtype) else np.dtype(dtype))
    extents = _row_shape(shape, itemsize, width, "values")
    make = torch.zeros if zeros else torch.empty
    return make((count, *extents), dtype=kind, device=keys.device)


def _cupy_zeros(keys: Any, count: int, width: int, dtype: Any, shape: Any) -> Any:
    cupy: Any = sys.modules["cupy"]
    extents = _row_shape(shape, np.dtype(dtype).itemsize, width, "values")
    with keys.device:
        return cupy.zeros((count, *extents), dtype=dtype)


def values_for(
    keys: Any,
    given: _native.Column,
    width: int,
    dtype: Any,
    shape: Any,
    *,
    zeros: bool = True,
) -> Any:
    """An array for values, of the library and on the device of the keys, whose column is `given`;
    NumPy for host keys of libraries whose arrays cannot be written (JAX, Arrow, lists). Without
    `zeros` PyTorch's holds anything, until the caller has written it and called `clear_absent`."""
    dtype, library = np.uint8 if dtype is None else dtype, library_of(keys)
    if library == "torch":
        return _of_torch(keys, given.count, width, dtype, shape, zeros)
    if given.on_gpu:
        if library == "cupy":
            return _cupy_zeros(keys, given.count, width, dtype, shape)
        raise TypeError(
            f"out: cannot make a {library} array on the GPU; pass out= (a CuPy array or a "
            "PyTorch tensor)"
        )
    extents = _row_shape(shape, np.dtype(dtype).itemsize, width, "values")
    return np.zeros((given.count, *extents), dtype)


def clear_absent(values: Any, found: Any) -> None:
    """Zeros where no value was found, in an array of `values_for` without zeros."""
    if isinstance(values, np.ndarray) or found.all():
        return
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(values, torch.Tensor):
        return
    absent = torch.from_numpy(np.flatnonzero(~found)).to(values.device)
    octets = values.view(values.shape[0], -1).view(torch.uint8)  # which every dtype can be
    octets.index_fill_(0, absent, 0)


def as_rows(
    octets: np.ndarray[Any, Any], count: int, width: int, dtype: Any, shape: Any, what: str
) -> Any:
    """Bytes the engine handed over, seen as rows of a dtype."""
    kind = np.dtype(np.uint8 if dtype is None else dtype)
    return octets.view(kind).reshape(count, *_row_shape(shape, kind.itemsize, width, what))
