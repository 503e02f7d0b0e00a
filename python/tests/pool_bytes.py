"""Files of Perdure as bytes, by docs/format.md: what tests spoil or rewrite of them."""

from __future__ import annotations

import struct
from pathlib import Path

LEVEL = b"gphash.level."


def crc32c(octets: bytes) -> int:
    crc = 0xFFFFFFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def set_version(path: str, version: int) -> None:
    """Rewrites the version of a pool or a snapshot, and its header's checksum to match."""
    with open(path, "r+b") as file:
        header = bytearray(file.read(128))
        struct.pack_into("<I", header, 8, version)
        struct.pack_into("<I", header, 124, crc32c(header[:124]))
        file.seek(0)
        file.write(header)


def log_segment(pool: str) -> int:
    """Where the first segment of the log of entries begins."""
    raw = Path(pool).read_bytes()
    root = max((4096, 8192), key=lambda at: struct.unpack_from("<Q", raw, at))
    (entries,) = struct.unpack_from("<I", raw, root + 20)
    for at in range(root + 32, root + 32 + 32 * entries, 32):
        name, offset = struct.unpack_from("<16sQ", raw, at)
        if name.rstrip(b"\0") == b"entries":
            return offset
    raise ValueError(f"{pool} has no log of entries")


def taken_slot(pool: str) -> int:
    """Where some slot word of the top level lies."""
    raw = Path(pool).read_bytes()
    root = max((4096, 8192), key=lambda at: struct.unpack_from("<Q", raw, at))
    (entries,) = struct.unpack_from("<I", raw, root + 20)
    levels = {}
    for at in range(root + 32, root + 32 + 32 * entries, 32):
        name, offset = struct.unpack_from("<16sQ", raw, at)
        if name.startswith(LEVEL):
            levels[int(name.rstrip(b"\0").removeprefix(LEVEL))] = offset
    return next(
        at for at in range(levels[max(levels)], len(raw), 8) if raw[at : at + 8] != bytes(8)
    )
