"""How blocks are cut into pieces, the values of the pool.

A record of a pool has at most a quarter of a superblock, and blocks may have megabytes. So a block
is pieces of one size and perhaps a shorter one, which takes the room of a whole piece. Invariant: a
piece's key says which block it is of, which storing of that block, and which piece; so pieces of
two blocks, or of two storings, never mix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perdure import _native, errors
from perdure.options import DeviceName

# Bytes of a block's digest. With 24 bytes of key a piece lies at a multiple of 16, as a GPU copies.
DIGEST = 16
KEY = DIGEST + 8  # of a piece's key: digest, generation, number
SUPERBLOCK = 4 << 20  # of pools whose records have 128 KiB or more
_BEFORE_RECORDS = 128
_RECORD_HEAD = 24
_LARGEST = SUPERBLOCK // 4 - _RECORD_HEAD - KEY
_SMALLEST = 128 << 10
_WASTE = 0.04  # of a superblock; more is not taken for fewer pieces
_GPU = 16 << 10  # many warps have a piece each

Octets = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def stride(piece: int) -> int:
    """Bytes that a record of one piece takes."""
    return (_RECORD_HEAD + KEY + piece + 15) // 16 * 16


def in_superblock(piece: int) -> int:
    return (SUPERBLOCK - _BEFORE_RECORDS) // stride(piece)


def _waste(piece: int, block: int) -> float:
    """What part of the pool holds no byte of blocks of this size."""
    count = -(-block // piece)
    return 1 - block / (count * SUPERBLOCK / in_superblock(piece))


def choose(block: int, device: DeviceName = "cpu") -> int:
    """Bytes of a piece, for blocks of this size: as large as may be with little waste, and on a GPU
    no larger than what keeps all of it busy with a batch of a few dozen blocks."""
    if block < 1:
        raise errors.InvalidArgument(f"block_bytes {block}: a block has at least one byte")
    if device == "cuda" and block > _GPU:
        return (-(-block // -(-block // _GPU)) + 15) // 16 * 16
    if block <= _SMALLEST:
        return _SMALLEST if block > _SMALLEST // 2 else max(16, (block + 15) // 16 * 16)
    least = -(-block // _LARGEST)
    most = max(least, block // _SMALLEST)
    sizes = sorted({(-(-block // n) + 15) // 16 * 16 for n in range(least, most + 1)}, reverse=True)
    sizes = [size for size in sizes if size <= _LARGEST]
    for size in sizes:
        if _waste(size, block) <= _WASTE:
            return size
    return min(sizes, key=lambda size: _waste(size, block))


@dataclass(frozen=True)
class Cut:
    """Blocks of these sizes, cut: the pieces of all of them, in order."""

    counts: Numbers  # pieces of each block
    owner: Numbers  # of each piece: which block
    number: Numbers  # of each piece: which of its block
    lengths: Numbers  # of each piece: bytes of it that are the block's
    offsets: Numbers  # of each piece: where it begins in its block

    @classmethod
    def of(cls, sizes: Numbers, piece: int) -> Cut:
        counts = -(-sizes // piece)
        owner = np.repeat(np.arange(len(sizes)), counts)
        begins = np.cumsum(counts) - counts
        number = np.arange(len(owner)) - begins[owner]
        offsets = number * piece
        return cls(counts, owner, number, np.minimum(sizes[owner] - offsets, piece), offsets)

    def keys(self, digests: Octets, generations: npt.NDArray[np.uint32]) -> Octets:
        keys = np.empty((len(self.owner), KEY), np.uint8)
        keys[:, :DIGEST] = digests[self.owner]
        tail = np.empty((len(self.owner), 2), "<u4")
        tail[:, 0] = generations[self.owner]
        tail[:, 1] = self.number
        keys[:, DIGEST:] = tail.view(np.uint8)
        return keys

    def whole(self, answers: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Of each block, whether it is so of all its pieces."""
        wrong = np.bincount(self.owner[~answers], minlength=len(self.counts))
        return wrong == 0

    def judge(self, statuses: Octets) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Of each block, whether all its pieces were found, and whether one is damaged."""
        damaged = ~self.whole(statuses != int(_native.KeyStatus.corrupt))
        return self.whole(statuses == int(_native.KeyStatus.ok)), damaged
