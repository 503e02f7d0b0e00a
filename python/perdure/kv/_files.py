"""The files of a cache, in a directory of its own.

`blocks.pool` has the pieces, `index.pool` an entry a block, `uses` when each was last used.
Invariants: `index.pool` has its name last when a cache is made, so where it is, the others are. Who
writes the cache has it open, and so locked.
"""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import perdure
from perdure import _native, errors
from perdure.kv import _pieces
from perdure.kv._entries import ENTRY_BYTES
from perdure.kv._pieces import DIGEST, KEY
from perdure.kv._uses import Uses
from perdure.options import DeviceName

log = logging.getLogger("perdure")

_SMALL = 224  # bytes a piece: an entry in its pool, slots of both pools, a time
_FIXED = 24 << 20  # heads, levels and what is not full of both pools


@dataclass(frozen=True)
class Paths:
    directory: Path

    @property
    def blocks(self) -> Path:
        return self.directory / "blocks.pool"

    @property
    def index(self) -> Path:
        return self.directory / "index.pool"

    @property
    def uses(self) -> Path:
        return self.directory / "uses"


@dataclass(frozen=True)
class Plan:
    """What a cache is made with."""

    budget: int  # bytes of all its files
    block: int
    device: DeviceName
    threads: int | None
    piece: int

    @classmethod
    def of(cls, budget: int, block: int, device: DeviceName, threads: int | None) -> Plan:
        return cls(budget, block, device, threads, _pieces.choose(block, device))

    def as_made(self, paths: Paths) -> Plan:
        """With the pieces of the cache that is there, which another device may have chosen."""
        pool = _native.PoolReader.open(str(paths.blocks), 1)
        if pool.key_bytes() != KEY:
            raise errors.InvalidArgument(
                f"{paths.directory}: this cache is of another version of perdure; remove it"
            )
        made = pool.value_bytes()
        if made not in {_pieces.choose(self.block, device) for device in ("cpu", "cuda")}:
            raise errors.InvalidArgument(
                f"{paths.directory}: this cache has pieces of {made} bytes, and block_bytes asks "
                f"for {self.piece}; open it with the block_bytes that it was made with, or remove "
                "the directory"
            )
        return replace(self, piece=made)

    def pieces(self) -> int:
        """Pieces that there is room for."""
        superblock = _pieces.SUPERBLOCK if self.piece >= _pieces.SUPERBLOCK // 32 else 1 << 20
        each = (superblock - 128) // _pieces.stride(self.piece)
        room = self.budget - _FIXED
        pieces = int(room / (superblock / each + _SMALL))
        if pieces < 1:
            raise errors.InvalidArgument(
                f"budget_bytes {self.budget}: a cache of such blocks takes at least "
                f"{_FIXED + superblock}"
            )
        return pieces


@dataclass
class Stores:
    index: perdure.Store
    uses: Uses
    pieces: int  # room for so many
    opening: Future[perdure.Store]  # of the blocks

    @property
    def blocks(self) -> perdure.Store:
        """Waits for the opening, and raises what that raised."""
        return self.opening.result()

    @property
    def blocks_if_open(self) -> perdure.Store | None:
        """None: it is being opened still, or could not be."""
        done = self.opening.done() and self.opening.exception() is None
        return self.opening.result() if done else None

    def close(self) -> None:
        if self.opening.exception() is None:
            self.blocks.close()
        self.index.close()


def make(paths: Paths, plan: Plan) -> Stores:
    """An empty cache, in place of what is there."""
    paths.directory.mkdir(parents=True, exist_ok=True)
    pieces = plan.pieces()
    paths.index.unlink(missing_ok=True)
    blocks = perdure.create(
        paths.blocks,
        KEY,
        plan.piece,
        expected_records=pieces,
        overwrite=True,
        device=plan.device,
        threads=plan.threads,
    )
    try:
        uses = Uses(paths.uses, pieces, anew=True)
        index = perdure.create(
            paths.index, DIGEST, ENTRY_BYTES, expected_records=pieces, overwrite=True
        )
    except BaseException:
        blocks.close()
        raise
    opened: Future[perdure.Store] = Future()
    opened.set_result(blocks)
    return Stores(index, uses, pieces, opened)


def open_there(paths: Paths, plan: Plan) -> Stores:
    """The cache that is there, as its last writer left it.

    The pool of blocks is opened by a thread: on a disk that takes a read for each of its
    superblocks, and whoever reads blocks need not wait for it."""
    index = perdure.open(paths.index, expect_value_bytes=ENTRY_BYTES)
    try:
        uses = Uses(paths.uses, plan.pieces())
    except BaseException:
        index.close()
        raise
    with_blocks = ThreadPoolExecutor(1, "perdure-kv-open")
    opening = with_blocks.submit(
        perdure.open, paths.blocks, device=plan.device, threads=plan.threads
    )
    with_blocks.shutdown(wait=False)
    return Stores(index, uses, plan.pieces(), opening)


def is_there(paths: Paths) -> bool:
    return os.path.lexists(paths.index)
