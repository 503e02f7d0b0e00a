"""Executables and libraries as perf and Valgrind name code in them: by offset in the file, by
address, by function.

Invariant: an offset outside of the file's segments has no address, and gets None.
"""

from __future__ import annotations

import bisect
import mmap
import re
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import overload

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

_HEADER_VERSION, _DATA_RELATIVE = 1, 0x3B  # of the usual .eh_frame_hdr: sorted pairs of 4 bytes
_COPIES = "__memmove_*|__memcpy_*|__mempcpy_*"
_VARIANT = re.compile(
    r"__(\w+?)_(?:sse\w*|ssse3\w*|avx\w*|evex\w*|erms|unaligned\w*|chk_\w+)", re.ASCII
)


class Object:
    """One file, mapped: of a library of a gigabyte only what is asked for is read. `address_of` and
    `function_at` take offsets in the file, as perf prints them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            elf = ELFFile(file)
            loaded = list(elf.iter_segments("PT_LOAD"))
            self._segments = [(s["p_offset"], s["p_filesz"], s["p_vaddr"]) for s in loaded]
            self._text_end = max(
                (s["p_vaddr"] + s["p_filesz"] for s in loaded if s["p_flags"] & 1), default=0
            )
            self._starts = _Starts(self.bytes, elf)

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
        if address is None or len(self._starts) == 0:
            return None
        at = bisect.bisect_right(self._starts, address)
        if at == 0:
            return None
        end = self._starts[at] if at < len(self._starts) else self._text_end
        return self._starts[at - 1], end


class _Starts(Sequence[int]):
    """Where functions begin: the sorted addresses of .eh_frame_hdr, each read when it is asked for.
    PyTorch's libraries have hundreds of thousands."""

    def __init__(self, file: mmap.mmap, elf: ELFFile) -> None:
        self._file, self._count, self._at, self._base = file, 0, 0, 0
        section = elf.get_section_by_name(".eh_frame_hdr")
        if section is None or section["sh_size"] < 12:
            return
        at = section["sh_offset"]
        if file[at] != _HEADER_VERSION or file[at + 3] != _DATA_RELATIVE:
            return
        (count,) = struct.unpack_from("<I", file, at + 8)
        if 12 + 8 * count > section["sh_size"] or at + section["sh_size"] > len(file):
            raise ELFError(".eh_frame_hdr ends before its last entry")
        self._count, self._at, self._base = count, at + 12, section["sh_addr"]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        (start,) = struct.unpack_from("<i", self._file, self._at + 8 * index)
        return int(self._base + start)


@cache
def load(path: str) -> Object | None:
    """None: no file (the kernel's page, generated code), or none that can be read."""
    try:
        return Object(Path(path))
    except (OSError, ValueError, ELFError, struct.error):
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


def pattern_by_hand(name: str) -> str:
    """Of a function that somebody names: as it is linked, or with C++'s namespaces and without its
    parameters (ns::Table::put)."""
    pattern = watched_name(name)
    if pattern != name:
        return pattern
    parts = "".join(f"{len(part)}{part}" for part in name.split("::"))
    linked = (f"_Z{parts}*", f"_ZL{parts}*", f"_Z*{parts}E*", f"_Z*{parts}I*")
    return "|".join((name, *linked))


def shown_name(symbol: str) -> str:
    if symbol == _COPIES:
        return "memcpy"
    match = re.fullmatch(r"__(\w+)_\*", symbol)
    return match[1] if match else symbol.split("|", 1)[0]
