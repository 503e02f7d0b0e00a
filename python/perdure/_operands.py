"""What a batch does: the kinds of its operations, and the type of what an update combines.

Invariant: what the engine is told is a member of its enums, or the call was refused by the
argument's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perdure import _checks, _native

if TYPE_CHECKING:
    from perdure.typing import Kinds

_GET, _UPDATE = int(_native.OpKind.get), int(_native.OpKind.update)  # the least and the greatest


def element_of(name: str, rows: _native.Column, rmw: _native.Rmw, element: Any) -> _native.Element:
    if rmw is _native.Rmw.replace:
        return _native.Element.uint8  # bytes are replaced as they are
    if element is None and rows.dtype is None:
        raise TypeError(
            f"element: {name} are byte strings; say what they hold, for example element='int64'"
        )
    given = np.dtype(element).name if element is not None else str(rows.dtype)
    if given not in _native.Element.__members__:
        known = ", ".join(_native.Element.__members__)
        raise TypeError(
            f"{name}: cannot {rmw.name} elements of {given}; use one of {known}, or element="
        )
    return _native.Element[given]


class Codes(NamedTuple):
    """The kinds of a batch as the engine reads them, and what there is among them."""

    array: npt.NDArray[np.uint8]
    gets: bool
    updates: bool

    def any(self, kind: _native.OpKind) -> bool:
        return bool((self.array == int(kind)).any())


def kinds_of(kinds: Kinds, count: int) -> Codes:
    if not isinstance(kinds, np.ndarray):
        kinds = np.asarray(
            [
                _checks.named("kinds", kind, _native.OpKind) if isinstance(kind, str) else kind
                for kind in kinds
            ]
        )
    codes = kinds
    if codes.size and codes.dtype.kind not in "iu":
        raise TypeError(
            f"kinds: dtype {codes.dtype}; pass OpKind numbers or the names get, put, erase, update"
        )
    if codes.shape != (count,):
        raise ValueError(f"kinds: shape {codes.shape} for {count} keys; pass one a key")
    if not codes.size:
        return Codes(np.empty(0, np.uint8), False, False)
    # Of a million these two take microseconds; a comparison with each kind makes an array, which
    # takes a tenth of a millisecond.
    least, most = int(codes.min()), int(codes.max())
    if not _GET <= least <= most <= _UPDATE:
        raise ValueError(f"kinds: numbers must be OpKind's, {_GET} to {_UPDATE}")
    # A copy: the engine reads kinds again and again, and an operation that becomes a put in between
    # has no record reserved, and would be written over the pool's first bytes.
    array = np.array(codes, np.uint8, order="C")
    return Codes(array, least == _GET, most == _UPDATE)
