"""The plugin in LMCache's own StorageManager, on a CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import differing
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.event_manager import EventManager
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.abstract_backend import StoragePluginInterface
from lmcache.v1.storage_backend.storage_manager import StorageManager
from perdure.kv.lmcache import PerdureBackend

LAYERS, HEADS, HEAD, TOKENS = 4, 4, 64, 256
SHAPE = torch.Size([2, LAYERS, TOKENS, HEADS * HEAD])
CHUNK = 2 * LAYERS * TOKENS * HEADS * HEAD * 2


def key(number: int) -> CacheEngineKey:
    return CacheEngineKey("model", 1, 0, 0x9E3779B97F4A7C15 * (number + 1) % 2**63, torch.bfloat16)


def chunk(number: int, shape: torch.Size = SHAPE) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(shape, generator=generator).to(torch.bfloat16)


@contextmanager
def manager(directory: Path, **extra: Any) -> Iterator[StorageManager]:
    """As an engine's worker has it: LMCache's CPU backend, and the plugin behind it."""
    config = LMCacheEngineConfig.from_defaults(
        chunk_size=TOKENS,
        local_cpu=False,
        max_local_cpu_size=0.25,
        storage_plugins=["perdure"],
        extra_config={
            "storage_plugin.perdure.module_path": "perdure.kv.lmcache",
            "storage_plugin.perdure.class_name": "PerdureBackend",
            "perdure.directory": str(directory),
            "perdure.budget_bytes": 64 << 20,
            **extra,
        },
    )
    metadata = LMCacheMetadata(
        model_name="model",
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(LAYERS, 2, TOKENS, HEADS, HEAD),
        role="worker",
    )
    made = StorageManager(config, metadata, EventManager())
    try:
        assert "perdure" in made.storage_backends, "LMCache could not load the plugin"
        yield made
    finally:
        made.close()


def put(made: StorageManager, numbers: list[int], shape: torch.Size = SHAPE) -> None:
    objs = []
    for number in numbers:
        obj = made.allocate(shape, torch.bfloat16, MemoryFormat.KV_2LTD, busy_loop=False)
        assert obj is not None and obj.tensor is not None
        obj.tensor.copy_(chunk(number, shape))
        objs.append(obj)
    made.batched_put([key(number) for number in numbers], objs)
    backend = made.storage_backends["perdure"]
    backend._puts.submit(lambda: None).result()  # those before it are done


def check(made: StorageManager, numbers: list[int], shape: torch.Size = SHAPE) -> list[bool]:
    objs = made.batched_get([key(number) for number in numbers], location="perdure")
    for number, obj in zip(numbers, objs, strict=True):
        if obj is not None:
            assert obj.get_shape() == shape and torch.equal(obj.tensor, chunk(number, shape))
            obj.ref_count_down()
    return [obj is not None for obj in objs]


def test_all_that_the_interface_asks_is_there() -> None:
    assert not PerdureBackend.__abstractmethods__
    assert differing(PerdureBackend, StoragePluginInterface) == []
    names = [name for name in dir(StoragePluginInterface) if not name.startswith("_")]
    left = {"get_non_blocking", "async_batched_submit_put_task", "cancel_request"}
    assert {name for name in names if name not in vars(PerdureBackend)} == left


def test_chunks_come_back_through_the_manager(directory: Path) -> None:
    with manager(directory) as made:
        put(made, [1, 2, 3])
        assert made.contains(key(2)) == "perdure" and made.contains(key(9)) is None
        assert check(made, [3, 9, 1]) == [True, False, True]
        assert made.get(key(2)) is not None


def test_chunks_of_fewer_tokens_keep_their_shape(directory: Path) -> None:
    short = torch.Size([2, LAYERS, 37, HEADS * HEAD])
    with manager(directory) as made:
        put(made, [1], short)
        assert check(made, [1], short) == [True]


def test_a_restart_finds_them_at_once(directory: Path) -> None:
    with manager(directory) as made:
        put(made, list(range(8)))
    with manager(directory) as made:
        assert check(made, list(range(8))) == [True] * 8


def test_prefixes_are_looked_up_pinned_and_prefetched(directory: Path) -> None:
    with manager(directory) as made:
        put(made, [0, 1, 2, 4])
        backend = made.storage_backends["perdure"]
        keys = [key(number) for number in range(6)]

        async def ask() -> tuple[int, list[Any]]:
            count = await backend.batched_async_contains("request", keys, pin=True)
            return count, await backend.batched_get_non_blocking("request", keys)

        count, objs = asyncio.run_coroutine_threadsafe(ask(), made.loop).result(60)
        assert count == 3 and len(objs) == 3
        assert all(torch.equal(obj.tensor, chunk(i)) for i, obj in enumerate(objs))
        backend.touch_cache()
        put(made, list(range(100, 150)))  # more than there is room for
        assert check(made, [0, 1, 2]) == [True] * 3, "pinned chunks were evicted"
        assert [backend.unpin(one) for one in keys[:4]] == [True, True, True, False]
        assert backend.remove(keys[0]) and not backend.remove(keys[0])


def test_the_callback_comes_once_a_key_and_a_put_holds_its_memory(directory: Path) -> None:
    told: list[CacheEngineKey] = []
    with manager(directory) as made:
        backend = made.storage_backends["perdure"]
        obj = made.allocate(SHAPE, torch.bfloat16, MemoryFormat.KV_2LTD)
        obj.tensor.copy_(chunk(1))
        futures = backend.batched_submit_put_task([key(1)], [obj], on_complete_callback=told.append)
        futures[0].result()
        assert told == [key(1)] and not backend.exists_in_put_tasks(key(1))
        assert backend.batched_submit_put_task([key(1)], [obj]) is None
        assert obj.get_ref_count() == 1


def test_a_second_engine_reads_beside_it(directory: Path) -> None:
    with manager(directory) as writer, manager(directory, **{"perdure.role": "reader"}) as reader:
        put(writer, [1, 2])
        assert check(reader, [1, 2, 3]) == [True, True, False]
        put(reader, [5])
        assert check(writer, [5]) == [False]


def test_bad_configuration_is_named(directory: Path) -> None:
    with pytest.raises(ValueError, match=r"perdure\.directory"):
        PerdureBackend(config=LMCacheEngineConfig.from_defaults())
