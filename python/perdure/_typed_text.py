"""Values of pools that know their type, on the command line: numbers in brackets, in C order.

Invariant: what `show` writes, `parse` takes for the same value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure import _text
from perdure._deferred import Deferred
from perdure._typed import RowType, octets_of
from perdure.cli_support import Failure, show_width

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from perdure.tables.pieces import Pool
else:
    np = Deferred("numpy")


def row_type(store: Pool) -> RowType | None:
    return None if store.dtype is None else RowType(store.dtype, store.row_shape or ())


def show_values(store: Pool) -> str:
    """What values are, for people."""
    row = row_type(store)
    return show_width(store.value_bytes) if row is None else str(row)


def show(rows: Any, row: RowType) -> pa.Array:
    """Each row as text, large_binary of UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = np.asarray(rows).reshape(len(rows), -1)
    flat = _cells(array.reshape(-1))
    if not row.shape:
        return flat.cast(pa.large_binary())
    width = array.shape[1]
    ends = pa.array(np.arange(len(array) + 1, dtype=np.int32) * width)
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, flat), ", ")
    return pc.binary_join_element_wise("[", joined, "]", "").cast(pa.large_binary())


def _cells(flat: Any) -> pa.Array:
    import pyarrow as pa

    if flat.dtype.kind == "c":
        return pa.array([str(number) for number in flat.tolist()], pa.string())
    if flat.dtype.kind not in "biu":
        flat = flat.astype(
            np.float64 if flat.dtype.itemsize == 8 else np.float32
        )  # Arrow lacks half floats' text
    return pa.array(flat).cast(pa.string())


def parse(text: str, row: RowType) -> bytes:
    """The bytes of a value: numbers, or hex: and all its digits."""
    if text.partition(":")[0] in ("hex", "text", "int"):
        width = int(np.prod(row.shape, dtype=np.int64)) * row.numpy().itemsize
        return _text.parse("VALUE", text, width)
    cells = [cell.strip() for cell in text.strip().removeprefix("[").removesuffix("]").split(",")]
    try:
        flat = [_number(cell, row.numpy().kind) for cell in cells]
        count = int(np.prod(row.shape, dtype=np.int64))
        if len(flat) != count:
            raise ValueError(f"{len(flat)} numbers instead of {count}")
        return octets_of(np.asarray(flat, object).reshape(row.shape).tolist(), row)
    except (OverflowError, ValueError) as wrong:
        raise Failure(f"VALUE {text}: this pool's values are {row}: {wrong}") from None


def _number(cell: str, kind: str) -> Any:
    if kind == "b":
        if cell.lower() not in ("true", "false"):
            raise ValueError(f"{cell!r} is neither true nor false")
        return cell.lower() == "true"
    return int(cell) if kind in "iu" else complex(cell) if kind == "c" else float(cell)
