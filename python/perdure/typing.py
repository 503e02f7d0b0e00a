"""Types of what stores take, for annotations: `from perdure.typing import Keys`.

Invariant: these say what is taken, not more; `perdure` itself does not import them, for they need
NumPy.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from perdure._native import OpKind


class SupportsDLPack(Protocol):
    """An array of CuPy, PyTorch, JAX or another library that lends it through DLPack."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...


class SupportsArrowArray(Protocol):
    """A pyarrow.Array, or another that speaks Arrow's C data interface."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class SupportsArrowStream(Protocol):
    """A pyarrow.ChunkedArray, a polars.Series, or another that speaks Arrow's C stream
    interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class SupportsToBytes(Protocol):
    """A NumPy scalar or row, or another that gives its bytes."""

    def tobytes(self) -> bytes: ...


class TorchDType(Protocol):
    """A torch.dtype."""

    @property
    def itemsize(self) -> int: ...
    @property
    def is_floating_point(self) -> bool: ...


class TorchStream(Protocol):
    """A torch.cuda.Stream."""

    @property
    def cuda_stream(self) -> int: ...


class CupyStream(Protocol):
    """A cupy.cuda.Stream."""

    @property
    def ptr(self) -> int: ...


Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | SupportsDLPack"
Column: TypeAlias = (
    "Array | SupportsArrowArray | SupportsArrowStream | bytearray | memoryview | array[Any]"
)
Item: TypeAlias = (
    "bytes | bytearray | memoryview | str | int | np.integer[Any]"  # an element of a list
)
Key: TypeAlias = (
    "bytes | str | int | np.integer[Any]"  # one key, where an array of them could be, too
)
Keys: TypeAlias = "Key | Column | Sequence[Item]"
Value: TypeAlias = "bytes | str | int | float | np.generic"  # that of one key
Values: TypeAlias = "Value | Column | Sequence[Item]"
Kinds: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | Sequence[OpKind | str | int]"
DType: TypeAlias = "npt.DTypeLike | TorchDType"
RowShape: TypeAlias = "int | Sequence[int]"
Stream: TypeAlias = "int | TorchStream | CupyStream"
Octets: TypeAlias = (
    "bytes | bytearray | str | SupportsIndex | SupportsToBytes"  # a key or value of `store[key]`
)
