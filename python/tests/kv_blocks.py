"""Blocks whose bytes follow from their keys, and processes that write and read them; for the tests
of perdure.kv.

Run as a program it is the writer that gets killed: it puts blocks, gets them, and removes them, at
random, for ever.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from perdure.kv import BlockCache, BlockReader

PIECE = 128 << 10


def block_of(key: str, size: int) -> np.ndarray:
    seed = int.from_bytes(key.encode(), "little") % (1 << 63)
    return np.frombuffer(np.random.Generator(np.random.PCG64(seed)).bytes(size), np.uint8)


def size_of(key: str) -> int:
    """From less than a piece to a few, a third of them whole pieces."""
    number = sum(key.encode())
    return (
        PIECE * (1 + number % 3) if number % 2 else PIECE * (number % 3) + 1 + number * 97 % PIECE
    )


def budget_for(pieces: int) -> int:
    """Of a cache with room for so many pieces of 128 KiB."""
    return (24 << 20) + int((pieces + 0.5) * ((4 << 20) / 31 + 224))


def opened(directory: Path, pieces: int = 64) -> BlockCache:
    return BlockCache(directory, budget_for(pieces), PIECE, threads=2)


def check(cache: BlockCache | BlockReader, keys: list[str]) -> int:
    """How many of the blocks are there. Each that is has the bytes of its key."""
    infos = cache.find(keys)
    buffers = [np.zeros(3 * PIECE, np.uint8) for _ in keys]
    found = cache.get(keys, buffers).tolist()
    for key, buffer, there, info in zip(keys, buffers, found, infos, strict=True):
        size = size_of(key)
        if info is not None:
            assert info.size == size and info.meta == key.encode()
        if there:
            assert np.array_equal(buffer[:size], block_of(key, size)), f"{key} has other bytes"
    return sum(found)


def put(cache: BlockCache, keys: list[str]) -> np.ndarray:
    blocks = [block_of(key, size_of(key)) for key in keys]
    return cache.put(keys, blocks, [key.encode() for key in keys])


def write_for_ever(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    with opened(directory) as cache:
        print("open", len(cache), flush=True)
        put(cache, ["k0", "k1", "k2"])
        print("begun", flush=True)
        while True:
            keys = [f"k{rng.randrange(200)}" for _ in range(rng.randrange(1, 9))]
            kind = rng.random()
            if kind < 0.75:
                put(cache, keys)
            elif kind < 0.9:
                check(cache, keys)
            else:
                cache.remove(keys)


def read_until(directory: Path, stop: Path) -> None:
    """Reads beside the writer until the file is there and it was given some blocks, and prints how
    many."""
    reader, given = BlockReader(directory, threads=1), 0
    rng = random.Random(directory.name)
    while given == 0 or not stop.exists():
        given += check(reader, [f"k{rng.randrange(200)}" for _ in range(6)])
    print(given)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write_for_ever(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        read_until(Path(sys.argv[2]), Path(sys.argv[3]))
