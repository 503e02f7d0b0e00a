"""Executables and libraries as perf and Valgrind name places in them: by offset in the file, by
address, by function.

Invariant: an offset outside of the file's segments has no address, and gets None.
"""

from __future__ import annotations

import bisect
import re
import struct
from functools import cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

_HEADER_VERSION, _DATA_RELATIVE = 1, 0x3B  # of the usual .eh_frame_hdr: sorted pairs of 4 bytes
_COPIES = "__memmove_*|__memcpy_*|__mempcpy_*"
_VARIANT = re.compile(
    r"__(\w+?)_(?:sse\w*|ssse3\w*|avx\w*|evex\w*|erms|unaligned\w*|chk_\w+)", re.ASCII
)


class Object:
    """One file. `code_at` and `function_at` take offsets in the file, as perf prints them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = path.read_bytes()
        with path.open("rb") as file:
            elf = ELFFile(file)
            self._segments = [
                (segment["p_offset"], segment["p_filesz"], segment["p_vaddr"])
                for segment in elf.iter_segments("PT_LOAD")
            ]
            self._starts = _function_starts(elf)
            self._text_end = max(
                (
                    s["p_vaddr"] + s["p_filesz"]
                    for s in elf.iter_segments("PT_LOAD")
                    if s["p_flags"] & 1
                ),
                default=0,
            )

    def address_of(self, offset: int) -> int | None:
        for start, size, address in self._segments:
            if start <= offset < start + size:
                return offset - start + address
        return None

    def offset_of(self, address: int) -> int | None:
        for start, size, first in self._segments:
            if first <= address < first + size:
                return address - first + start
        return None

    def function_at(self, offset: int) -> tuple[int, int] | None:
        """Addresses of its begin and of the next one's, by the table that unwinding uses; stripped
        files have it too."""
        address = self.address_of(offset)
        if address is None or not self._starts:
            return None
        at = bisect.bisect_right(self._starts, address)
        if at == 0:
            return None
        end = self._starts[at] if at < len(self._starts) else self._text_end
        return self._starts[at - 1], end


def _function_starts(elf: ELFFile) -> list[int]:
    section = elf.get_section_by_name(".eh_frame_hdr")
    if section is None:
        return []
    data, base = section.data(), section["sh_addr"]
    if len(data) < 12 or data[0] != _HEADER_VERSION or data[3] != _DATA_RELATIVE:
        return []
    (count,) = struct.unpack_from("<I", data, 8)
    pairs = struct.unpack_from(f"<{2 * count}i", data, 12)
    return [base + start for start in pairs[::2]]


@cache
def load(path: str) -> Object | None:
    """None: no file (the kernel's page, generated code), or none that can be read."""
    try:
        return Object(Path(path))
    except (OSError, ELFError, struct.error):
        return None


def watched_name(symbol: str) -> str:
    """The pattern that finds a function under Valgrind. The C library has its copying and setting
    functions in several variants, and chooses by processor; Valgrind's is another one."""
    symbol = symbol.split("@", 1)[0]
    match = _VARIANT.match(symbol)
    name = match[1] if match else symbol
    if name in ("memmove", "memcpy", "mempcpy"):
        return _COPIES
    return f"__{name}_*" if match or name == "memset" else symbol


def shown_name(symbol: str) -> str:
    if symbol == _COPIES:
        return "memcpy"
    match = re.fullmatch(r"__(\w+)_\*", symbol)
    return match[1] if match else symbol
