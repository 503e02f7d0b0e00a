"""Blocks of a GPU's memory in a cache of host memory: PyTorch's tensors, on any stream."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from kv_blocks import PIECE, block_of, opened, size_of
from perdure.kv import BlockCache, BlockReader

pytestmark = [pytest.mark.gpu, pytest.mark.framework("torch")]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = Path("/dev/shm") / f"perdure-kv-{tmp_path.name}-{id(tmp_path)}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def on_gpu(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array.copy()).cuda()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("size", [1, 4096, PIECE, PIECE + 1, 1_000_003, 5 << 20])
def test_blocks_of_any_size_come_back(directory: Path, size: int, device: Any) -> None:
    names = [f"b{i}" for i in range(20)]
    blocks = np.stack([block_of(name, size) for name in names])
    with BlockCache(directory, 256 << 20, size, device=device) as cache:
        assert cache.put(names, on_gpu(blocks)).all()
        out = on_gpu(np.zeros_like(blocks))
        for one in (cache, BlockReader(directory)):
            out.zero_()
            assert one.get(names[::-1], out).all()
            assert np.array_equal(out.cpu().numpy()[::-1], blocks)
        host = np.zeros_like(blocks)
        assert cache.get(names, host).all() and np.array_equal(host, blocks)


def test_tensors_of_their_own_sizes_and_blocks_that_are_not_there(directory: Path) -> None:
    import torch

    names = [f"k{i}" for i in range(40)]
    with opened(directory, 128) as cache:
        stored = [name for i, name in enumerate(names) if i % 3]
        assert cache.put(stored, [on_gpu(block_of(one, size_of(one))) for one in stored]).all()
        out = [torch.zeros(3 * PIECE, dtype=torch.uint8, device="cuda") for _ in names]
        found = cache.get(names, out).tolist()
        assert found == [bool(i % 3) for i in range(40)]
        for name, there, tensor in zip(names, found, out, strict=True):
            if there:
                got = tensor[: size_of(name)].cpu().numpy()
                assert np.array_equal(got, block_of(name, size_of(name))), name


def test_more_than_the_pinned_memory_on_a_stream_that_is_busy(directory: Path) -> None:
    """What the stream had under way on the same memory comes before, what it does next after."""
    import torch

    names = [f"b{i}" for i in range(300)]
    blocks = np.stack([block_of(name, 2 * PIECE) for name in names])
    with BlockCache(directory, 256 << 20, 2 * PIECE) as cache:
        assert cache.put(names, blocks).all()
        out = on_gpu(np.zeros_like(blocks))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                torch.cuda._sleep(10_000_000)
                out.fill_(7)
                assert cache.get(names, out).all()
                doubled = out.to(torch.int16) * 2
        stream.synchronize()
        assert np.array_equal(doubled.cpu().numpy(), blocks.astype(np.int16) * 2)


def test_what_cannot_be_read_to_is_refused(directory: Path) -> None:
    import torch

    with opened(directory) as cache:
        cache.put(["a"], np.zeros((1, PIECE), np.uint8))
        with pytest.raises(perdure.InvalidArgument, match="contiguous"):
            cache.get(["a"], torch.zeros(PIECE, 2, dtype=torch.uint8, device="cuda").T[:1])
        with pytest.raises(perdure.InvalidArgument, match="host's, or one GPU's"):
            cache.get(["a", "a"], [torch.zeros(PIECE).cuda(), np.zeros(PIECE, np.uint8)])
        with pytest.raises(perdure.InvalidArgument, match="its block has 131072 bytes"):
            cache.get(["a"], [torch.zeros(10).cuda()])
