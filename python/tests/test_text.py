"""Keys and values as text, one by one and whole pages at once; sizes as text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from perdure import _text
from perdure.cli_support import Failure, parse_size, show_size

# --- text forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 4, 8, 3, 16, None])
def test_text_forms_come_back(width):
    random = np.random.default_rng(7)
    samples = [random.bytes(width if width is not None else n) for n in range(20)]
    samples += [b"a" * (width or 5), b" " * (width or 2), bytes(width or 0)]
    if width is None:
        samples += [b"hex:00", b"text:", b"int:5", "zwölf".encode(), b"a\nb", b"\t"]
    for octets in samples:
        assert _text.parse("KEY", _text.show(octets, width), width) == octets


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4GiB", 4 << 30),
        ("4G", 4 << 30),
        ("1.5 MiB", 3 << 19),
        ("512kib", 512 << 10),
        ("2T", 2 << 40),
        ("7B", 7),
    ],
)
def test_sizes(text, size):
    assert parse_size("--max-bytes", text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "4 GB extra"])
def test_sizes_that_are_none(text):
    with pytest.raises(Failure, match="--max-bytes"):
        parse_size("--max-bytes", text)


def test_sizes_are_shown_short():
    assert [show_size(size) for size in (5, 2048, 3 << 20, 5 << 30)] == [
        "5 B",
        "2.0 KiB",
        "3.0 MiB",
        "5.0 GiB",
    ]


# --- whole pages as text ------------------------------------------------------------------------

CELLS = [
    b"",
    b"plain",
    b"hex:00",
    b"text:",
    b"int:5",
    b"hex",
    "zwölf".encode(),
    "日本".encode(),
    b"a\nb",
]
CELLS += [
    b"\x7f",
    b"\x80",
    b"a\x80",
    b"\xc3",
    "\u200b".encode(),
    "\ue000".encode(),
    b"\xed\xa0\x80",
    b"\xf5abc",
]
CELLS += [
    b" ",
    b"\xc0\x80",
    "\xa0".encode(),
    "é".encode() + b"\xc3",
    b"\xbfa\xc3",
    "text:é".encode(),
]


def page_of(cells: list[bytes], width: int | None):
    import pyarrow as pa

    if width is None:
        return pa.array([b"skipped", *cells], pa.large_binary())[1:]
    rows = np.frombuffer(b"".join(cells), np.uint8).reshape(len(cells), width)
    return rows.view(np.uint64).reshape(-1) if width == 8 else rows


@example(None, CELLS)
@example(None, ["é".encode()[:1], "é".encode()[1:]])
@given(
    st.one_of(st.none(), st.sampled_from([1, 2, 3, 4, 8, 16])),
    st.lists(
        st.one_of(
            st.sampled_from(CELLS), st.binary(max_size=20), st.text(max_size=6).map(str.encode)
        )
    ),
)
def test_pages_are_shown_as_their_cells_are(width, cells):
    from perdure import _pages

    if width is not None:
        cells = [(cell * width)[:width].ljust(width, b"x") for cell in cells]
    shown = _pages.show(page_of(cells, width), width).to_pylist()
    assert shown == [_text.show(cell, width).encode() for cell in cells]
