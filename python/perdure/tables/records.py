"""Several columns as one value a row: JSON objects, or Arrow streams of one row.

Invariant: a JSON value is the columns' names and cells and nothing else, numbers as numbers, what
is not there as null; json.loads of it gives them back, but for numbers that JSON has not (NaN,
infinities: null).
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from perdure import _pages, _text
from perdure._arrow import offsets_and_data
from perdure.tables.cells import Encoded, Mask, arrow_name, encode_numbers, is_bytes, nulls

if TYPE_CHECKING:
    import pyarrow as pa


class RowFormat(StrEnum):
    auto = "auto"
    packed = "packed"
    json = "json"
    arrow = "arrow"


def kind_of(column: pa.Array) -> str:
    """int64, float64 or text: what every cell of a text column is, but for empty ones. Whole
    numbers with leading zeros, or of more than 64 bits, are text, which keeps them as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.large_binary())
    text = text.filter(pc.greater(pc.binary_length(text), 0))
    if (
        not len(text)
        or pc.any(pc.match_substring_regex(text, r"^[+-]?0[0-9xX]|^[+-]?[0-9]{20,}$")).as_py()
    ):
        return "text"
    for kind in ("int64", "uint64", "float64"):
        if not encode_numbers(text, kind).bad.any():
            return kind
    return "text"


def typed(column: pa.Array, kind: str | None) -> tuple[pa.Array, Mask]:
    """A column of text as numbers or strings, null where a cell is empty; and which are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind is None:  # the file has types of its own
        return column, np.zeros(len(column), bool)
    if kind in ("text", "hex"):
        return column, ~_utf8(column) if is_bytes(column.type) else np.zeros(len(column), bool)
    empty = nulls(column)
    if is_bytes(column.type):
        empty = pc.equal(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) | empty
    encoded = encode_numbers(column, kind)
    assert encoded.rows is not None
    numbers = pa.array(
        encoded.rows.view(kind).reshape(-1), pa.type_for_alias(arrow_name(kind)), mask=empty
    )
    return numbers, encoded.bad & ~empty


def _utf8(column: pa.Array) -> Mask:
    import pyarrow as pa

    octets = column.cast(pa.large_binary())
    try:
        octets.cast(pa.large_string())
        return np.ones(len(column), bool)
    except pa.ArrowInvalid:
        return np.array([cell is None or _text.decodes(cell) for cell in octets.to_pylist()], bool)


# --- JSON ---------------------------------------------------------------------------------------


def objects(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """A JSON object a row, as large_binary of UTF-8."""
    parts: list[pa.Array | str] = []
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [
            "{" if at == 0 else ",",
            json.dumps(name, ensure_ascii=False) + ":",
            _json(column),
        ]
    return _pages.join(*parts, "}")


def _json(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.large_string()), "null").cast(pa.large_binary())
    if is_bytes(kind):
        return _json_strings(column)
    return pa.array([_dumps(cell) for cell in column.to_pylist()], pa.large_binary())


def _json_strings(column: pa.Array) -> pa.Array:
    """In quotes; those with characters that JSON escapes, and nulls, one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    strings = pc.fill_null(column.cast(pa.large_binary()), b"")
    special = nulls(column) | ~_utf8(column)
    ends, _ = offsets_and_data(strings)
    octets = _pages.octets_of(strings)
    escaped = (octets < 32) | (octets == 34) | (octets == 92)
    if escaped.any():
        full = np.flatnonzero(np.diff(ends))
        special[full] |= np.logical_or.reduceat(escaped, (ends[:-1] - ends[0])[full])
    quoted = _pages.join('"', strings, '"')
    if not special.any():
        return quoted
    cells = column.cast(pa.large_binary()).filter(pa.array(special)).to_pylist()
    one_by_one = pa.array([_dumps(cell) for cell in cells], pa.large_binary())
    return _pages.merged(~special, quoted.filter(pa.array(~special)), one_by_one)


def _dumps(cell: Any) -> bytes:
    return json.dumps(cell, ensure_ascii=False, default=_as_json).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8") if _text.decodes(value) else f"hex:{value.hex()}"
    return str(value)


# --- both ---------------------------------------------------------------------------------------


def encode_rows(
    form: RowFormat, names: list[str], kinds: list[str | None], columns: list[pa.Array]
) -> Encoded:
    """One value a row, of varying length."""
    found = [typed(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    bad = np.array([one[1] for one in found])
    arrays = [_as_text(array, kind) for (array, _), kind in zip(found, kinds, strict=True)]
    encode = objects if form is RowFormat.json else _streams

    def why(row: int) -> str:
        column = int(np.argmax(bad[:, row]))
        kind = kinds[column] or ""
        return (
            f"{names[column]} {'not UTF-8' if kind in ('text', 'hex') else f'not {_article(kind)}'}"
        )

    return Encoded(None, encode(names, arrays), bad.any(axis=0), why)


def _article(kind: str) -> str:
    return f"{'an' if kind.startswith('int') else 'a'} {kind}"


def _as_text(array: pa.Array, kind: str | None) -> pa.Array:
    """Text of a CSV file is a string in Arrow, too; what is no UTF-8 is among the bad rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind not in ("text", "hex") or not is_bytes(array.type):
        return array
    octets = array.cast(pa.large_binary())
    good = _utf8(octets)
    return (octets if good.all() else pc.if_else(pa.array(good), octets, b"")).cast(
        pa.large_string()
    )


def _streams(names: list[str], columns: list[pa.Array]) -> pa.Array:
    """An Arrow IPC stream a row, schema included: pyarrow.ipc.open_stream(value).read_all()."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays(columns, names)
    values: list[bytes] = []
    for row in range(batch.num_rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch.slice(row, 1))
        values.append(sink.getvalue().to_pybytes())
    return pa.array(values, pa.large_binary())
