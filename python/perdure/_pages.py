"""Whole pages of keys and values as text, by Arrow and NumPy: what `perdure scan` and `export`
print.

Invariant: cell for cell the text is what `_text.show` gives; a test holds one against the other.
"""

from __future__ import annotations

import binascii
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perdure import _text
from perdure._arrow import offsets_and_data

if TYPE_CHECKING:
    import pyarrow as pa

Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


def ahead(pages: Iterator[Any]) -> Generator[Any, None, None]:
    """The same pages, each read while the one before it is worked on. Close it before what it reads
    from."""
    with ThreadPoolExecutor(1) as reader:
        page = reader.submit(next, pages, None)
        while (found := page.result()) is not None:
            page = reader.submit(next, pages, None)
            yield found


def rows_of(column: Any, width: int) -> Octets:
    """A page's column of fixed width as rows of bytes."""
    return np.ascontiguousarray(column).view(np.uint8).reshape(len(column), width)


def integers(rows: Octets, width: int, signed: bool = False) -> pa.Array:
    import pyarrow as pa

    return (
        pa.array(rows.view(f"<{'i' if signed else 'u'}{width}").reshape(-1))
        .cast(pa.large_string())
        .cast(pa.large_binary())
    )


def byte_strings(rows: Octets) -> pa.Array:
    """Rows of one width as Arrow's byte strings, not copied."""
    count, width = rows.shape
    return _strings(np.arange(count + 1, dtype=np.int64) * width, rows)


def _strings(ends: npt.NDArray[np.int64], data: Any) -> pa.Array:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def join(*parts: pa.Array | str) -> pa.Array:
    """The parts of each row, one after the other; a str is the same in every row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()
    columns = [pa.scalar(part.encode(), kind) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", kind))


def octets_of(strings: pa.Array) -> Octets:
    """The bytes of all rows, one after the other, not copied."""
    ends, data = offsets_and_data(strings)
    return data[int(ends[0]) : int(ends[-1])]


def hexadecimal(strings: pa.Array) -> pa.Array:
    """Two digits a byte."""
    ends, _ = offsets_and_data(strings)
    return _strings((ends - ends[0]) * 2, binascii.hexlify(octets_of(strings)))


def show(column: Any, width: int | None, signed: bool = False) -> pa.Array:
    """`_text.show` of each cell of a page's column, as large_binary of UTF-8."""
    import pyarrow as pa

    if width in _text.INTEGER_WIDTHS:
        return integers(rows_of(column, width), width, signed)
    strings = column if width is None else byte_strings(rows_of(column, width))
    text = _printable(strings)
    if text.all():
        return _told_apart(strings)
    if not text.any():
        return join("hex:", hexadecimal(strings))
    binary = join("hex:", hexadecimal(strings.filter(pa.array(~text))))
    return merged(text, _told_apart(strings.filter(pa.array(text))), binary)


def merged(mask: Mask, true: pa.Array, false: pa.Array) -> pa.Array:
    """Rows in order, the next of `true` where the mask is set, else the next of `false`."""
    import pyarrow as pa

    order = np.empty(len(mask), np.int64)
    order[mask] = np.arange(len(true))
    order[~mask] = np.arange(len(true), len(mask))
    return pa.concat_arrays([true, false]).take(pa.array(order))


def _told_apart(strings: pa.Array) -> pa.Array:
    """Text that begins as one of our own forms does has `text:` before it."""
    import pyarrow.compute as pc

    forms = [pc.starts_with(strings, form) for form in ("hex:", "text:", "int:")]
    formed = pc.or_(pc.or_(forms[0], forms[1]), forms[2])
    if not pc.any(formed).as_py():
        return strings
    return pc.if_else(formed, join("text:", strings), strings)


def _printable(strings: pa.Array) -> Mask:
    """Which byte strings are UTF-8 that Python prints."""
    octets = octets_of(strings)
    if not len(octets) or (octets.min() >= 32 and octets.max() < 127):
        return np.ones(len(strings), bool)
    ends, _ = offsets_and_data(strings)
    full = np.flatnonzero(np.diff(ends))
    starts = (ends[:-1] - ends[0])[full]
    # A control character is never printable; a byte above 127 is part of a longer character, or of
    # none.
    control = np.minimum.reduceat(octets, starts) < 32
    control |= np.logical_or.reduceat(octets == 127, starts)
    longer = np.maximum.reduceat(octets, starts) > 127
    printable = np.ones(len(strings), bool)
    printable[full[control]] = False
    _judge_longer(strings, full[longer & ~control], printable)
    return printable


def _judge_longer(strings: pa.Array, rows: npt.NDArray[np.intp], printable: Mask) -> None:
    """Rows with bytes above 127 and no control characters: all at once where all are text."""
    import pyarrow as pa

    if not len(rows):
        return
    cells = strings.take(pa.array(rows))
    ends, data = offsets_and_data(cells)
    firsts = data[ends[:-1]]
    printable[rows] = (firsts < 0x80) | (
        firsts > 0xBF
    )  # no text begins in the middle of a character
    whole = printable[rows].all() and _is_text(octets_of(cells).tobytes())
    if not whole:
        likely = np.flatnonzero(printable[rows] & _balanced(ends, octets_of(cells)))
        printable[rows] = False
        for row, cell in zip(rows[likely], cells.take(pa.array(likely)).to_pylist(), strict=True):
            printable[row] = _is_text(cell)


def _balanced(ends: npt.NDArray[np.int64], octets: Octets) -> Mask:
    """Rows whose first bytes of characters promise as many further ones as there are: most rows
    that are no text fail this, which spares looking at each."""
    promised = np.zeros(256, np.int8)
    promised[0x80:0xC0] = -1
    promised[0xC0:0xE0], promised[0xE0:0xF0], promised[0xF0:] = 1, 2, 3
    return np.add.reduceat(promised[octets], ends[:-1] - ends[0], dtype=np.int64) == 0


def _is_text(octets: bytes) -> bool:
    try:
        return octets.decode().isprintable()
    except UnicodeDecodeError:
        return False
