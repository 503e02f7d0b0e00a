"""The index of a cache: a pool with an entry a block, by the digest of the block's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from perdure import errors
from perdure.kv._pieces import DIGEST, Octets

READY = 1  # all pieces are in the pool
CHANGING = 2  # pieces are being put or erased; after a kill they are dropped
MOST_META = 104
ENTRY = np.dtype(
    [
        ("size", "<u8"),
        ("generation", "<u4"),  # of the pieces' keys
        ("slot", "<u4"),  # where the time of its last use is
        ("state", "u1"),
        ("meta_bytes", "u1"),
        ("reserved", "V6"),
        ("meta", f"V{MOST_META}"),
    ]
)
ENTRY_BYTES = ENTRY.itemsize

Key = bytes | str


@dataclass(frozen=True)
class BlockInfo:
    """What is known of a block that is there.

    Attributes
    ----------
    size : int
        Its bytes.
    meta : bytes
        What was given with it.
    """

    size: int
    meta: bytes


def digest(key: Key) -> bytes:
    return blake2b(key.encode() if isinstance(key, str) else key, digest_size=DIGEST).digest()


def digests_of(keys: Sequence[Key]) -> list[bytes]:
    return [digest(key) for key in keys]


def as_rows(digests: Sequence[bytes]) -> Octets:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST)


def check_meta(meta: bytes) -> bytes:
    if len(meta) > MOST_META:
        raise errors.InvalidArgument(f"meta has {len(meta)} bytes; at most {MOST_META} fit")
    return meta


def meta_of(entry: np.void) -> bytes:
    return bytes(entry["meta"])[: int(entry["meta_bytes"])]


def info_of(entry: np.void) -> BlockInfo:
    return BlockInfo(int(entry["size"]), meta_of(entry))
