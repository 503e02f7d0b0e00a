"""Values whose type the pool knows: arrays of one dtype and shape, a row each.

Invariant: what goes into such a pool is of its dtype and row shape, or was made so without loss, or
is the bytes of a whole row; what comes out is of its dtype and shape. Nothing is reinterpreted.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure import _checks, _native
from perdure._deferred import Deferred

if TYPE_CHECKING:
    import numpy as np

    from perdure import _arrow
else:
    np, _arrow = Deferred("numpy"), Deferred("perdure._arrow")

_MOST_EXTENTS = 8
_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True)
class RowType:
    """What a value is."""

    name: str  # of the dtype, as NumPy has it
    shape: tuple[int, ...]

    @staticmethod
    def of_pool(kept: _native.ValueType) -> RowType | None:
        return RowType(kept.dtype, kept.extents) if kept.dtype else None

    def __str__(self) -> str:
        return f"{self.name} of shape {self.shape}" if self.shape else self.name

    def numpy(self) -> np.dtype[Any]:
        try:
            return np.dtype(self.name)
        except TypeError:
            pass
        try:
            import ml_dtypes  # teaches NumPy the name
        except ImportError:
            raise TypeError(
                f"dtype: this pool's values are {self}, which NumPy lacks; pip install "
                "ml_dtypes, pass"
                " torch tensors, or read the bits with dtype=np.uint8"
            ) from None
        return np.dtype(getattr(ml_dtypes, self.name))


# --- what create is asked for -------------------------------------------------------------------


def value_type(dtype: Any, shape: Any) -> _native.ValueType | None:
    """The type of a new pool's values, or none."""
    if dtype is None:
        if shape is not None:
            raise ValueError(f"shape: {shape!r} is a row's, of elements of dtype=; pass that, too")
        return None
    return _native.ValueType(_name(dtype), _extents(shape))


def _extents(shape: Any) -> list[int]:
    if shape is None:
        return []
    extents = list(shape) if hasattr(shape, "__iter__") and not isinstance(shape, str) else [shape]
    if len(extents) > _MOST_EXTENTS:
        raise ValueError(
            f"shape: {shape!r} has {len(extents)} extents; at most {_MOST_EXTENTS} are kept"
        )
    return [_checks.whole("shape", extent, least=1) for extent in extents]


def _name(dtype: Any) -> str:
    text = dtype if isinstance(dtype, str) else str(dtype)
    if text.rpartition(".")[2] in _native.ValueType.dtypes:  # "bfloat16", torch.float32
        return text.rpartition(".")[2]
    kind = np.dtype(dtype)
    if kind.name in _native.ValueType.dtypes:  # of whatever byte order: values are little-endian
        return kind.name
    raise TypeError(f"dtype: {_why_not(kind)}")


def _why_not(kind: np.dtype[Any]) -> str:
    if kind.hasobject:
        return f"{kind} holds Python objects, which have no bytes of their own; store their bytes"
    if kind.subdtype is not None:
        element, extents = kind.subdtype
        return f"{kind} is an array; pass dtype={element.name!r}, shape={extents}"
    if kind.names is not None:
        return (
            f"structured types such as {kind} are not kept; leave dtype= away, pass"
            f" value_bytes={kind.itemsize}, and put rows.view(np.uint8).reshape(-1, "
            f"{kind.itemsize})"
        )
    if kind.kind in "SUV":
        return f"{kind} is text or bytes; leave dtype= away, and pass value_bytes=N or None"
    if kind.kind in "mM":
        return f"{kind} is not kept; pass dtype='int64', and view dates as that"
    return f"pools do not keep {kind}; they know {', '.join(_native.ValueType.dtypes)}"


# --- rows on their way in -----------------------------------------------------------------------


def fitting(what: str, values: Any, row: RowType) -> Any:
    """`values` as an array of the pool's dtype and row shape; bytes stay as they are: their length
    tells."""
    if _arrow.is_arrow(values):
        values = _from_arrow(what, values, row)
    if isinstance(values, list | tuple):
        values = _from_list(what, values, row)
    if isinstance(values, list | tuple) or _arrow.is_arrow(values):
        return values
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        return _shaped(what, _foreign(what, values, row), row)
    array = np.asarray(values)
    _refuse_no_numbers(what, array, row)
    _shaped(what, array, row)
    return _cast(what, array, row)


def one_row(value: Any) -> Any:
    """One value as an array, or a list, of one row."""
    if isinstance(value, _BYTES) or not hasattr(value, "shape"):
        return [value]
    return np.asarray([value]) if not value.shape else value[None]


def _from_arrow(what: str, values: Any, row: RowType) -> Any:
    import pyarrow as pa

    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    kind = getattr(array, "type", None)
    if kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise TypeError(_no_text(what, array[0].as_py() if len(array) else "", row))
    array = _arrow.normalise(what, array)
    if _arrow.is_variable(array) or pa.types.is_fixed_size_binary(array.type):
        return array
    if pa.types.is_boolean(array.type):
        return array.to_numpy(zero_copy_only=False)
    return _arrow.fixed_rows(what, array, None)


def _from_list(what: str, items: Any, row: RowType) -> Any:
    """Lists of numbers as NumPy reads them: their floats have no dtype, and round to the pool's."""
    for item in items:
        if isinstance(item, str):
            raise TypeError(_no_text(what, item, row))
    if items and all(isinstance(item, _BYTES) for item in items):
        return items
    try:
        array = np.asarray(items)
    except ValueError as ragged:
        raise ValueError(
            f"{what}: rows of different lengths, but this pool's values are {row}"
        ) from ragged
    if not len(items):
        return np.empty((0, *row.shape), row.numpy())
    rounds = array.dtype.kind == "f" and row.numpy().kind not in "biu"
    if not rounds or any(hasattr(item, "dtype") for item in items):
        return array
    _shaped(what, array, row)
    with np.errstate(over="ignore"):
        rounded = array.astype(row.numpy())
    _refuse_where(what, array, np.isfinite(rounded) | ~np.isfinite(array), row, "is too large for")
    return rounded


def _foreign(what: str, array: Any, row: RowType) -> Any:
    """Arrays of other libraries stay where they are; PyTorch and CuPy widen theirs."""
    name = str(array.dtype).rpartition(".")[2]
    if name == row.name:
        return array
    library = type(array).__module__.partition(".")[0]
    safe = name in _native.ValueType.dtypes and "bfloat16" not in (name, row.name)
    if safe and _always_fits(np.dtype(name), row.numpy()):
        if library == "torch":
            return array.to(getattr(sys.modules["torch"], row.name))
        if hasattr(array, "astype"):
            return array.astype(row.name)
    raise TypeError(
        f"{what}: this {library} array holds {name}, but this pool's values are {row}; convert "
        "it first"
    )


def _no_text(what: str, item: str, row: RowType) -> str:
    return f"{what}: {item[:20]!r} is text, but this pool's values are {row}; pass numbers"


def _refuse_no_numbers(what: str, array: np.ndarray[Any, Any], row: RowType) -> None:
    kind = array.dtype
    if kind.name in _native.ValueType.dtypes or kind.kind in "biufc":
        return
    if kind.kind == "U":
        raise TypeError(_no_text(what, str(array.flat[0]) if array.size else "", row))
    raise TypeError(
        f"{what}: dtype {kind} is no number, but this pool's values are {row}; pass numbers"
    )


def _shaped(what: str, array: Any, row: RowType) -> Any:
    shape = tuple(int(extent) for extent in array.shape)
    if shape[1:] == row.shape and shape:
        return array
    raise ValueError(
        f"{what}: an array of shape {shape} holds values of shape {shape[1:]}, but this pool's "
        f"are {row};"
        f" pass one of shape {('n', *row.shape)}".replace("'", "")
    )


def _cast(what: str, array: np.ndarray[Any, Any], row: RowType) -> np.ndarray[Any, Any]:
    """Of the pool's dtype, every element as it was."""
    kind = row.numpy()
    if _always_fits(array.dtype, kind):
        return array.astype(kind, copy=False)
    source = array
    kept = np.ones(array.shape, bool)
    if array.dtype.kind == "c" and kind.kind != "c":
        kept, source = np.equal(array.imag, 0), array.real
    with np.errstate(all="ignore"):
        cast = source.astype(kind)
        # There and back for what a common type would round; by value for signs, which wrap both
        # ways.
        back = cast if source.dtype.kind == "c" else cast.real
        kept &= (back.astype(source.dtype) == source) & (cast == source) & ~_beyond(cast, source)
    if kind.kind not in "biu" and source.dtype.kind not in "biu":
        kept |= np.isnan(source) & np.isnan(cast)
    _refuse_where(what, array, kept, row, "is not exactly")
    return cast


def _always_fits(given: np.dtype[Any], kind: np.dtype[Any]) -> bool:
    """Every number of the one is one of the other; NumPy calls int64 to float64 safe, too, which
    rounds."""
    rounds = given.kind in "iu" and given.itemsize == 8 and kind.kind in "fc"
    return not rounds and np.can_cast(given, kind, "safe")


def _beyond(cast: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> Any:
    """Floats that an integer became by rounding, and that no integer of its dtype is."""
    if source.dtype.kind not in "iu" or cast.dtype.kind in "biu":
        return np.zeros(source.shape, bool)
    real = cast.real if cast.dtype.kind == "c" else cast
    return real.astype(np.float64) >= float(int(np.iinfo(source.dtype).max) + 1)


def _refuse_where(
    what: str, array: np.ndarray[Any, Any], kept: Any, row: RowType, why: str
) -> None:
    if kept.all():
        return
    place = tuple(int(at) for at in np.argwhere(~kept)[0])
    number, others = array[place].item(), int(np.size(kept) - np.count_nonzero(kept)) - 1
    where = f"row {place[0]}" + (f", element {place[1:]}" if len(place) > 1 else "")
    more = f" (and {others:,} more)" if others else ""
    raise ValueError(
        f"{what}: {where}{more}: {number!r} ({array.dtype}) {why} a {row.name}, which this pool "
        "holds; to"
        f" round, pass {what}.astype({row.name!r})"
    )


# --- rows on their way out ----------------------------------------------------------------------


def result(row: RowType, dtype: Any, shape: Any, library: str = "numpy") -> tuple[Any, Any]:
    """dtype and row shape of what is read: the pool's, its bytes, or a row in another shape."""
    if dtype is not None and _name(dtype) not in (row.name, "uint8"):
        raise TypeError(
            f"dtype: this pool's values are {row}, not {_name(dtype)}; leave dtype= away and "
            "convert what"
            " comes, or pass np.uint8 for its bytes"
        )
    if dtype is not None and _name(dtype) != row.name:
        return dtype, shape
    torch = sys.modules.get("torch") if library == "torch" else None
    kind = row.numpy() if torch is None else getattr(torch, row.name)
    return kind, row.shape if shape is None else shape


def check_out(row: RowType, out: Any) -> None:
    name = str(getattr(out, "dtype", "uint8")).rpartition(".")[2]
    if name.lstrip("<>=|") not in (row.name, "uint8"):
        raise TypeError(
            f"out: holds {name}, but this pool's values are {row}; pass an array of that dtype"
        )


def element(row: RowType, given: Any) -> str:
    """What an update sees values as."""
    if given is not None and _name(given) != row.name:
        raise TypeError(
            f"element: {_name(given)}, but this pool's values are {row}; leave element= away"
        )
    return row.name


def octets_of(value: Any, row: RowType) -> bytes:
    """The bytes of one value."""
    if isinstance(value, _BYTES):
        return bytes(value)
    fitted = fitting("value", one_row(value), row)
    return np.asarray(fitted).tobytes()


def row_of(octets: bytes, row: RowType) -> Any:
    """One value: an array of its own, or a scalar where rows have no shape."""
    array = np.frombuffer(bytearray(octets), row.numpy()).reshape(row.shape)
    return array if row.shape else array[()]
