"""What is no array yet, as one: lists, ranges, arrays of Python objects and of text, one key, and
integer keys narrower than the pool's.

Invariant: an array whose bytes are what the user sees comes out as it went in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from perdure import _arrow
from perdure._single import INTEGER_WIDTHS
from perdure._streams import library_of

if TYPE_CHECKING:
    from perdure.typing import Key

_FOREIGN_INTEGER = re.compile(r"(u?int)(8|16|32)")


_ONE = (str, bytes, int, np.generic)


def is_scalar(key: Any) -> TypeGuard[Key]:
    """One key rather than an array of them."""
    return isinstance(key, _ONE)


def one_row(value: Any) -> Any:
    """The value of one key as an array of one row."""
    if hasattr(value, "shape") and not isinstance(value, np.generic):
        return value[None]
    return np.asarray([value]) if isinstance(value, np.generic | float) else [value]


def as_array(name: str, array: Any, width: int | None) -> Any:
    """An array whose bytes say what its elements hold; varying lengths as Arrow's."""
    if isinstance(array, np.ndarray):
        kind = array.dtype.kind
        # Text and objects have no bytes of their own; NumPy's padding is no part of an element.
        array = array.tolist() if kind in "OU" or (kind == "S" and width is None) else array
    elif _holds_items(array):
        array = list(array)
    return _from_list(name, array, width) if isinstance(array, list) else array


def _holds_items(array: Any) -> bool:
    """Any sequence of items: a range or a deque, too."""
    octets = str | bytes | bytearray | memoryview
    return (
        isinstance(array, Sequence)
        and not isinstance(array, octets)
        and library_of(array) != "array"
    )


def _from_list(name: str, items: Sequence[Any], width: int | None) -> Any:
    """A short list as a NumPy array (fixed width) or an Arrow array (varying length)."""
    if all(isinstance(item, bytes | bytearray | memoryview | str) for item in items):
        return _arrow.from_list(name, items) if width is None else _joined(name, items, width)
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        return _integers(name, [int(item) for item in items], 8 if width is None else width)
    kinds = {type(item) for item in items}
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"{name}: a list of {names}; pass a list of bytes, str or int, or an array")


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
            "of that length"
        )
    bits = 8 * width
    wrong = next(
        (row for row, item in enumerate(items) if not -(1 << (bits - 1)) <= item < 1 << bits), None
    )
    if wrong is not None:
        raise ValueError(f"{name}: element {wrong} ({items[wrong]}) does not fit in {width} bytes")
    mask = (1 << bits) - 1
    return np.array([item & mask for item in items], dtype=f"uint{bits}")


def widened(keys: Any, width: int | None) -> Any:
    """Integer keys narrower than the pool's, as wide as those."""
    if width not in INTEGER_WIDTHS:
        return keys
    if not isinstance(keys, np.ndarray):
        return _widened_foreign(keys, width)
    kind = keys.dtype
    narrow = kind.itemsize < width and kind.kind in "iu" and kind.isnative and keys.ndim == 1
    return keys.astype(f"{kind.kind}{width}") if narrow else keys


def _widened_foreign(keys: Any, width: int) -> Any:
    kind = str(getattr(keys, "dtype", "")).rpartition(".")[2]  # torch.int32, int32
    match = _FOREIGN_INTEGER.fullmatch(kind)
    if match is None or int(match[2]) >= 8 * width or len(keys.shape) != 1:
        return keys
    wide = f"{match[1]}{8 * width}"
    if library_of(keys) == "torch":
        return keys.to(getattr(sys.modules["torch"], wide))
    return keys.astype(wide) if library_of(keys) == "cupy" else keys
