"""Cells to bytes: a column of a file as rows of one width, or as byte strings.

Invariant: every cell either has its bytes or is marked bad, with what is wrong with it; a bad cell
changes no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perdure._arrow import offsets_and_data
from perdure.cli_support import plural

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
)
TYPES = (*NUMBERS, "hex", "text")

Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class TextFormat(StrEnum):
    auto = "auto"
    int = "int"
    hex = "hex"
    text = "text"


@dataclass(frozen=True)
class ColumnSpec:
    """A column of the file, and how its cells become bytes; type None is the file's own."""

    name: str  # as the file has it
    type: str | None

    @staticmethod
    def of_header(header: str) -> ColumnSpec:
        name, _, suffix = header.rpartition(":")
        return ColumnSpec(header, suffix if name and suffix in TYPES else None)


@dataclass(frozen=True)
class Encoded:
    """The cells of one column as bytes, one row each: `rows` of one width, or Arrow byte
    strings."""

    rows: Octets | None
    strings: pa.LargeBinaryArray | None
    bad: Mask
    why: Callable[[int], str]  # row -> what is wrong with it


def always(why: str) -> Callable[[int], str]:
    return lambda row: why


def _fixed(numbers: npt.NDArray[Any], bad: Mask, why: str) -> Encoded:
    octets = (
        np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)
    )
    return Encoded(octets, None, bad, always(why))


def nulls(column: pa.Array) -> Mask:
    return column.is_null().to_numpy(zero_copy_only=False).astype(bool)


def encode_numbers(column: pa.Array, kind: str) -> Encoded:
    """Numbers, or text that holds them, as little-endian elements of `kind`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    why = f"not {'an' if kind.startswith('int') else 'a'} {kind}"
    missing = nulls(column)
    if is_bytes(column.type):
        column = column.cast(pa.large_binary())
    try:
        text = column.cast(pa.large_string()) if is_bytes(column.type) else column
        numbers = text.cast(pa.type_for_alias(arrow_name(kind)))
        return _fixed(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), missing, why)
    except pa.ArrowInvalid:  # some cell does not fit: find which
        return _encode_each_number(column, kind, why)


def arrow_name(kind: str) -> str:
    return {"float32": "float", "float64": "double"}.get(kind, kind)


def _encode_each_number(column: pa.Array, kind: str, why: str) -> Encoded:
    """Cells that are plainly numbers of that kind all at once, the others one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    dtype = np.dtype(kind)
    numbers = np.zeros(len(column), dtype)
    plain = np.zeros(len(column), bool)
    if is_bytes(column.type) and dtype.kind in "iu":
        digits = len(str(np.iinfo(dtype).max)) - 1
        trimmed = pc.ascii_trim_whitespace(
            pc.if_else(_is_ascii(column), column, b"").cast(pa.large_string())
        )
        plain = pc.match_substring_regex(trimmed, f"^[0-9]{{1,{digits}}}$").to_numpy(
            zero_copy_only=False
        )
        plain = np.where(nulls(column), False, plain).astype(bool)
        numbers[plain] = trimmed.filter(pa.array(plain)).cast(pa.type_for_alias(kind)).to_numpy()
    bad = np.zeros(len(column), bool)
    others = np.flatnonzero(~plain)
    for row, cell in zip(others, column.take(pa.array(others)).to_pylist(), strict=True):
        try:
            numbers[row] = _number(cell, dtype)
        except (OverflowError, TypeError, UnicodeDecodeError, ValueError):
            bad[row] = True
    return _fixed(numbers, bad, why)


def _is_ascii(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.match_substring_regex(column.cast(pa.large_binary()), "^[[:ascii:]]*$")


def _number(cell: Any, dtype: np.dtype[Any]) -> Any:
    text = cell.decode("ascii").strip() if isinstance(cell, bytes) else cell
    if isinstance(text, str) and "_" in text:
        raise ValueError  # Python's digit groups are no number in a file
    if dtype.kind == "f":
        return float(text)
    # Arrow takes 0x.. for an integer, so a cell means the same whichever way its batch is read.
    number = int(text, 16) if isinstance(text, str) and text[:2] in ("0x", "0X") else int(text)
    if isinstance(text, float) and text != number:
        raise ValueError
    if not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        raise OverflowError
    return number


def encode_key_integers(column: pa.Array, width: int) -> Encoded:
    """Integers signed or unsigned, whichever a cell needs: both have one pattern of bytes."""
    unsigned = encode_numbers(column, f"uint{8 * width}")
    if not unsigned.bad.any():
        return unsigned
    signed = encode_numbers(column, f"int{8 * width}")
    assert signed.rows is not None and unsigned.rows is not None
    rows = np.where(unsigned.bad[:, None], signed.rows, unsigned.rows)
    return Encoded(
        rows, None, signed.bad & unsigned.bad, always(f"not a whole number of {width} bytes")
    )


def _encode_hex(column: pa.Array) -> Encoded:
    import pyarrow as pa

    cells: list[bytes] = []
    bad = np.zeros(len(column), bool)
    for row, cell in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            cells.append(bytes.fromhex(cell.decode("ascii")))
        except (AttributeError, UnicodeDecodeError, ValueError):
            cells.append(b"")
            bad[row] = True
    return Encoded(
        None, pa.array(cells, pa.large_binary()), bad, always("not pairs of hexadecimal digits")
    )


def _encode_strings(column: pa.Array) -> Encoded:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = nulls(column)
    return Encoded(
        None, pc.fill_null(column.cast(pa.large_binary()), b""), missing, always("empty")
    )


def is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def encode(column: pa.Array, kind: str) -> Encoded:
    if kind == "hex":
        return _encode_hex(column)
    return _encode_strings(column) if kind == "text" else encode_numbers(column, kind)


def looks_like(column: pa.Array) -> str:
    """int64, float64 or text, as most cells have it; a few bad cells do not change what a column
    is."""
    numbers = ~encode_numbers(column, "float64").bad
    if 2 * np.count_nonzero(numbers) <= len(numbers):
        return "text"
    integers = ~encode_numbers(column, "int64").bad
    return "int64" if integers[numbers].all() else "float64"


def of_width(encoded: Encoded, width: int | None) -> Encoded:
    """Byte strings as rows of the pool's width; those of another length are bad."""
    if width is None or encoded.strings is None:
        return encoded
    ends, data = offsets_and_data(encoded.strings)
    wrong = (np.diff(ends) != width) | encoded.bad
    rows = np.zeros((len(wrong), width), np.uint8)
    if not wrong.any():
        rows = data[int(ends[0]) : int(ends[-1])].reshape(rows.shape)
    else:
        for row in np.flatnonzero(~wrong):
            rows[row] = data[int(ends[row]) : int(ends[row + 1])]

    def why(row: int) -> str:
        return (
            encoded.why(row)
            if encoded.bad[row]
            else f"{plural(int(ends[row + 1] - ends[row]), 'byte')} instead of {width}"
        )

    return Encoded(rows, None, wrong, why)
