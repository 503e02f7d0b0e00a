"""Arrow arrays in and out: byte strings of varying length, and fixed-width columns.

Invariant: pyarrow is imported only once a caller or a result needs it. Arrays out are large_binary,
with a null where the key is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa


def is_arrow(array: Any) -> bool:
    """A pyarrow array, or one of a library that speaks Arrow's C interface (Polars, for
    example)."""
    return hasattr(array, "__arrow_c_array__") or hasattr(array, "__arrow_c_stream__")


def normalise(name: str, array: Any) -> pa.Array:
    """One chunk, no dictionary, no nulls; byte strings as large_binary."""
    import pyarrow as pa

    if isinstance(array, pa.Table | pa.RecordBatch) or hasattr(array, "columns"):
        raise TypeError(f"{name}: a table with several columns; pass one of them")
    if not isinstance(array, pa.Array | pa.ChunkedArray):
        array = pa.chunked_array(array) if hasattr(array, "__arrow_c_stream__") else pa.array(array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise ValueError(f"{name}: element {_first_null(array)} is null; fill or drop nulls first")
    return array.cast(pa.large_binary()) if is_variable(array) else array


def _first_null(array: pa.Array) -> int:
    return int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])


def is_variable(array: pa.Array) -> bool:
    import pyarrow as pa

    kind = array.type
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_string_view(kind)
    )


def offsets_and_data(
    array: pa.LargeBinaryArray,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The two buffers of a large_binary array without nulls, not copied."""
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return ends, np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def fixed_rows(name: str, array: pa.Array, width: int | None) -> npt.NDArray[Any]:
    """A normalised array as NumPy rows: byte strings of one length, numbers, fixed-size lists of
    them."""
    import pyarrow as pa

    if is_variable(array):
        assert (
            width is not None
        )  # callers keep varying lengths as they are in a pool of varying lengths
        return _equal_lengths(name, array, width)
    if pa.types.is_fixed_size_binary(array.type):
        octets = (
            np.frombuffer(array.buffers()[1], np.uint8) if len(array) else np.empty(0, np.uint8)
        )
        size = array.type.byte_width
        return octets[array.offset * size : (array.offset + len(array)) * size].reshape(
            len(array), size
        )
    if pa.types.is_fixed_size_list(array.type):
        flat = fixed_rows(name, normalise(name, array.flatten()), width)
        return flat.reshape(len(array), array.type.list_size, *flat.shape[1:])
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        numbers: npt.NDArray[Any] = array.to_numpy()
        return numbers
    raise TypeError(
        f"{name}: Arrow type {array.type} has no fixed bytes; pass integers, floats, binary or "
        "string"
    )


def _equal_lengths(name: str, array: pa.LargeBinaryArray, width: int) -> npt.NDArray[np.uint8]:
    ends, data = offsets_and_data(array)
    lengths = np.diff(ends)
    wrong = np.flatnonzero(lengths != width)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"{name}: element {row} has {int(lengths[row])} bytes, but this pool's {name} have "
            f"{width}"
        )
    return data[int(ends[0]) : int(ends[-1])].reshape(len(array), width)


def from_list(name: str, items: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    octets = [item.encode() if isinstance(item, str) else bytes(item) for item in items]
    return pa.array(octets, pa.large_binary())


def to_array(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    found: npt.NDArray[np.bool_] | None = None,
) -> Any:
    """The engine's byte strings as a pyarrow.LargeBinaryArray (pyarrow has no types), not copied;
    null where `found` is false."""
    import pyarrow as pa

    validity = None
    if found is not None and not found.all():
        validity = pa.py_buffer(np.packbits(found, bitorder="little").tobytes())
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
