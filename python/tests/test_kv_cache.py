"""Blocks of a KV cache: what was put is answered, nothing else is, and the oldest goes first."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import perdure
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from kv_blocks import PIECE, block_of, budget_for, check, opened, put, size_of
from perdure.kv import BlockCache, BlockReader, _pieces


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"perdure-kv-{tmp_path.name}-{id(tmp_path)}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def names(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


@pytest.mark.parametrize("size", [1, 4096, PIECE, PIECE + 1, 256 << 10, 1_000_003, 5 << 20])
def test_blocks_of_any_size_come_back(directory: Path, size: int) -> None:
    blocks = np.stack([block_of(f"b{i}", size) for i in range(5)])
    with BlockCache(directory, 96 << 20, size) as cache:
        assert cache.put(names(5), blocks).all()
        out = np.zeros_like(blocks)
        assert cache.get(names(5)[::-1], out).all()
        assert np.array_equal(out[::-1], blocks)
        reader = BlockReader(directory)
        out[:] = 0
        assert reader.get(names(5), out).all() and np.array_equal(out, blocks)


def test_sizes_metas_and_buffers_may_differ(directory: Path) -> None:
    keys = names(20)
    with opened(directory) as cache:
        assert put(cache, keys).all()
        assert check(cache, keys) == 20
        assert cache.find(["none"]) == [None]
        assert check(BlockReader(directory), keys) == 20


def test_one_array_goes_in_as_few_batches_and_with_gaps(directory: Path) -> None:
    rows = np.stack([block_of(f"r{i}", 2 * PIECE) for i in range(6)])
    with opened(directory) as cache:
        cache.put(["1", "4"], rows[[1, 4]])
        stored = cache.put([*names(6, ""), "5"], np.vstack([rows, rows[5]]))
        assert stored.tolist() == [
            True, False, True, True, False, True, False,
        ]  # fmt: skip
        out = np.zeros_like(rows)
        assert cache.get(names(6, ""), out).all() and np.array_equal(out, rows)


def test_a_key_stands_for_its_first_bytes(directory: Path) -> None:
    first, other = np.zeros((1, PIECE), np.uint8), np.ones((1, PIECE), np.uint8)
    with opened(directory) as cache:
        assert cache.put(["a"], first).tolist() == [True]
        assert cache.put(["a"], other).tolist() == [False]
        out = np.full_like(first, 9)
        assert cache.get(["a"], out).all() and not out.any()


def test_the_wrong_shape_is_refused_by_name(directory: Path) -> None:
    with opened(directory) as cache:
        cache.put(["a"], np.zeros((1, PIECE), np.uint8))
        with pytest.raises(perdure.InvalidArgument, match="2 rows for 1 keys"):
            cache.put(["b"], np.zeros((2, PIECE), np.uint8))
        with pytest.raises(perdure.InvalidArgument, match="its block has 131072 bytes"):
            cache.get(["a"], [np.zeros(10, np.uint8)])
        with pytest.raises(perdure.InvalidArgument, match="at least one byte"):
            cache.put(["b"], [b""])
        with pytest.raises(perdure.InvalidArgument, match="at most 104"):
            cache.put(["b"], [b"x"], [b"m" * 105])
        read_only = np.zeros(PIECE, np.uint8)
        read_only.flags.writeable = False
        with pytest.raises(perdure.InvalidArgument, match="writable"):
            cache.get(["a"], [read_only])
    with pytest.raises(perdure.Closed):
        cache.get(["a"], [np.zeros(PIECE, np.uint8)])
    with pytest.raises(perdure.InvalidArgument, match="takes at least"):
        BlockCache(directory.with_name("none"), 1 << 20, PIECE)


def test_what_it_was_made_with_is_asked_again(directory: Path) -> None:
    opened(directory).close()
    with pytest.raises(perdure.InvalidArgument, match="pieces of 131072 bytes"):
        BlockCache(directory, 64 << 20, 4096)


def test_a_cache_of_a_gpu_is_opened_on_a_cpu(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = np.stack([block_of(f"b{i}", 2 * PIECE) for i in range(5)])
    choose = _pieces.choose
    with monkeypatch.context() as as_on_a_gpu:
        as_on_a_gpu.setattr(_pieces, "choose", lambda block, device="cpu": choose(block, "cuda"))
        with BlockCache(directory, 96 << 20, 2 * PIECE) as cache:
            cache.put(names(4), blocks[:4])
    with BlockCache(directory, 96 << 20, 2 * PIECE) as cache:
        assert cache.put(names(5), blocks).tolist() == [False] * 4 + [True]
        out = np.zeros_like(blocks)
        for one in (cache, BlockReader(directory)):
            out[:] = 0
            assert one.get(names(5), out).all() and np.array_equal(out, blocks)


def test_a_second_writer_is_refused(directory: Path) -> None:
    with opened(directory), pytest.raises(perdure.Busy):
        opened(directory)


def test_a_reader_without_a_cache_is_told(directory: Path) -> None:
    with pytest.raises(perdure.NotFound, match="there is no cache"):
        BlockReader(directory)


def test_the_budget_bounds_the_files(directory: Path) -> None:
    with opened(directory, 40) as cache:
        for i in range(100):
            put(cache, [f"k{i}"])
        assert cache.used_bytes <= cache.capacity_bytes
        assert cache.counts().evicted > 0
    assert sum(file.stat().st_size for file in directory.iterdir()) <= budget_for(40)


def test_a_restart_finds_blocks_and_their_order(directory: Path) -> None:
    with opened(directory, 8) as cache:
        for name in "abcdefgh":
            cache.put([name], np.full((1, PIECE), ord(name), np.uint8))
        cache.touch(["a"])
        BlockReader(directory).touch(["b"])
    with opened(directory, 8) as cache:
        assert cache.contains(list("abcdefgh")).all()
        cache.put(["x", "y"], np.zeros((2, PIECE), np.uint8))
        assert cache.contains(list("abcdefghxy")).tolist() == [
            True, True, False, False, True, True, True, True, True, True,
        ]  # fmt: skip


def test_a_smaller_budget_keeps_what_was_used_last(directory: Path) -> None:
    with opened(directory, 12) as cache:
        cache.put(names(12), np.zeros((12, PIECE), np.uint8))
    with opened(directory, 4) as cache:
        assert cache.contains(names(12)).tolist() == [True] * 4 + [False] * 8
    with opened(directory, 12) as cache:
        assert len(cache) == 4
        assert cache.put(names(8, "n"), np.zeros((8, PIECE), np.uint8)).all()
        assert cache.contains(names(4)).all()


def test_pinned_blocks_stay(directory: Path) -> None:
    with opened(directory, 4) as cache:
        cache.put(names(4), np.zeros((4, PIECE), np.uint8))
        assert cache.pin(["k3", "k2", "none"]).tolist() == [True, True, False]
        assert cache.put(names(4, "n"), np.zeros((4, PIECE), np.uint8)).tolist() == [
            True, True, False, False,
        ]  # fmt: skip
        assert cache.contains(["k2", "k3"]).all()
        assert cache.unpin(["k3", "k3", "n0"]).tolist() == [True, False, False]
        assert cache.put(["z"], np.zeros((1, PIECE), np.uint8)).all()
        assert cache.contains(["k2", "k3"]).tolist() == [True, False]


def test_a_cache_that_is_made_anew_is_found_by_its_readers(directory: Path) -> None:
    with opened(directory) as cache:
        cache.put(["a"], np.ones((1, PIECE), np.uint8))
        reader = BlockReader(directory)
    shutil.rmtree(directory)
    with opened(directory) as cache:
        cache.put(["b"], np.ones((1, PIECE), np.uint8))
        assert reader.contains(["a", "b"]).tolist() == [False, True]


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))


def places_of(path: Path, bytes_: bytes) -> int:
    return path.read_bytes().index(bytes_)


def test_damaged_blocks_are_dropped_and_never_answered(directory: Path) -> None:
    keys = [f"k{i}" for i in range(12)]
    with opened(directory) as cache:
        put(cache, keys)
        reader = BlockReader(directory)
        hurt = keys[::3]
        for key in hurt:
            middle = block_of(key, size_of(key))[1000:1064].tobytes()
            flip(directory / "blocks.pool", places_of(directory / "blocks.pool", middle))
        assert check(reader, keys) == 8 and reader.counts().corrupt == 4
        assert check(cache, keys) == 8 and cache.counts().corrupt == 4
        assert not cache.contains(hurt).any()
        assert put(cache, hurt).all()
        assert check(cache, keys) == 12 and check(reader, keys) == 12


@pytest.mark.parametrize("name", ["blocks.pool", "index.pool", "uses"])
def test_bytes_that_flip_anywhere_are_never_answered(directory: Path, name: str) -> None:
    """Beside the writer, whose memory it is; afterwards an opening begins empty, or mends nothing
    that it cannot know."""
    keys = [f"k{i}" for i in range(12)]
    rng = np.random.default_rng(len(name))
    with opened(directory) as cache:
        put(cache, keys)
    size = (directory / name).stat().st_size
    for _ in range(6):
        for at in rng.integers(20480 if name != "uses" else 0, size, 300).tolist():
            flip(directory / name, at)
        check(BlockReader(directory), keys)
        with BlockCache(directory, budget_for(64), PIECE, on_damage="discard") as cache:
            check(cache, keys)
            put(cache, keys)
            assert check(cache, keys) == 12


def test_threads_share_a_cache(directory: Path) -> None:
    failed: list[BaseException] = []

    def work(prefix: str) -> None:
        try:
            for i in range(12):
                keys = [f"{prefix}{i}", f"k{i}"]
                put(cache, keys)
                check(cache, keys)
        except BaseException as error:
            failed.append(error)

    with opened(directory, 30) as cache:
        threads = [threading.Thread(target=work, args=(prefix,)) for prefix in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


@pytest.mark.parametrize("block", [16, 4096, 65_536, 131_072, 262_144, 786_432, 2 << 20, 32 << 20])
def test_pieces_waste_little(block: int) -> None:
    piece = _pieces.choose(block)
    assert piece % 16 == 0 and piece <= (1 << 20) - 56
    count = -(-block // piece)
    assert count * piece - block < 16 * count
    if block >= 131_072:
        assert count * (4 << 20) / _pieces.in_superblock(piece) <= block * 1.05


Content = tuple[int, int]  # size, time of last use

KEYS = st.lists(st.sampled_from([f"k{i}" for i in range(14)]), min_size=1, max_size=5)


class LruMachine(RuleBasedStateMachine):
    """Against a dictionary. Room for eight pieces."""

    PIECES = 8
    made = 0

    @initialize()
    def make(self) -> None:
        LruMachine.made += 1
        self.directory = Path("/dev/shm") / f"perdure-kv-lru-{id(self)}-{LruMachine.made}"
        self.cache = opened(self.directory, self.PIECES)
        self.reader = BlockReader(self.directory)
        self.blocks: dict[str, Content] = {}
        self.pins: dict[str, int] = {}
        self.time = 0

    def used(self, keys: list[str]) -> None:
        for key in reversed(keys):
            if key in self.blocks:
                self.time += 1
                self.blocks[key] = (self.blocks[key][0], self.time)

    @staticmethod
    def pieces(key: str) -> int:
        return -(-size_of(key) // PIECE)

    @rule(keys=KEYS)
    def put(self, keys: list[str]) -> None:
        there = [key for key in keys if key in self.blocks]
        self.used(there)
        new = list(dict.fromkeys(key for key in keys if key not in self.blocks))
        needed = sum(self.pieces(key) for key in new)
        held = sum(self.pieces(key) for key in self.blocks)
        oldest = sorted(self.blocks, key=lambda key: self.blocks[key][1])
        for victim in oldest:
            if held + needed <= self.PIECES:
                break
            if victim not in there and not self.pins.get(victim):
                held -= self.pieces(victim)
                del self.blocks[victim]
        admitted: list[str] = []
        for key in new:
            held += self.pieces(key)
            if held > self.PIECES:
                break
            admitted.append(key)
            self.blocks[key] = (size_of(key), 0)
        self.used(admitted)
        stored = put(self.cache, keys)
        first = {key: keys.index(key) for key in admitted}
        assert stored.tolist() == [first.get(key) == i for i, key in enumerate(keys)]

    @rule(keys=KEYS, by_reader=st.booleans())
    def get(self, keys: list[str], by_reader: bool) -> None:
        which: Any = self.reader if by_reader else self.cache
        assert check(which, keys) == sum(key in self.blocks for key in keys)
        self.used(keys)

    @rule(keys=KEYS)
    def remove(self, keys: list[str]) -> None:
        assert self.cache.remove(keys).tolist() == [key in self.blocks for key in keys]
        for key in keys:
            self.blocks.pop(key, None)
            self.pins.pop(key, None)

    @rule(key=st.sampled_from(["k1", "k2", "k3"]))
    def pin(self, key: str) -> None:
        assert self.cache.pin([key]).tolist() == [key in self.blocks]
        if key in self.blocks:
            self.pins[key] = self.pins.get(key, 0) + 1

    @rule(key=st.sampled_from(["k1", "k2", "k3"]))
    def unpin(self, key: str) -> None:
        assert self.cache.unpin([key]).tolist() == [self.pins.get(key, 0) > 0]
        self.pins[key] = max(0, self.pins.get(key, 0) - 1)

    @rule()
    def reopen(self) -> None:
        self.cache.close()
        self.cache = opened(self.directory, self.PIECES)
        self.pins.clear()

    def teardown(self) -> None:
        if not hasattr(self, "cache"):
            return
        assert self.cache.contains(sorted(self.blocks)).all()
        assert len(self.cache) == len(self.blocks)
        self.cache.close()
        shutil.rmtree(self.directory)


LruMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLeastRecentlyUsed = LruMachine.TestCase
