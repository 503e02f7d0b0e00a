"""The tier under vLLM's own TieringOffloadingManager, on a CPU: blocks go down to it from the
primary tier, and come back up once that has lost them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import differing
from perdure.kv.vllm import PerdureTier
from vllm.v1.kv_offload.base import (
    LookupResult,
    OffloadingSpec,
    ReqContext,
    ScheduleEndContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager, TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
from vllm.v1.kv_offload.tiering.manager import (
    CPUPrimaryTierOffloadingManager,
    TieringOffloadingManager,
)

BLOCK = 256 << 10
PRIMARY = 8  # blocks


class Spec(OffloadingSpec):
    def get_manager(self) -> Any:
        raise NotImplementedError

    def get_worker(self, kv_caches: Any) -> Any:
        raise NotImplementedError


def spec(model: str = "model") -> Spec:
    return Spec(
        OffloadingConfig(
            groups=(OffloadingGroupConfig(16, ("layer.0", "layer.1"), 0),),
            worker_kv_bytes_per_block=BLOCK,
            enable_kv_cache_events=False,
            extra_config={},
            engine_id="engine",
            model=OffloadingModelConfig(model, "bfloat16"),
            cache=OffloadingCacheConfig(16, 1),
            parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
        )
    )


def key(number: int) -> Any:
    return make_offload_key(number.to_bytes(32, "little"), 0)


def content(number: int) -> np.ndarray:
    return np.frombuffer(np.random.Generator(np.random.PCG64(number)).bytes(BLOCK), np.uint8)


def tier_config(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "type": "PerdureTier",
        "module_path": "perdure.kv.vllm",
        "directory": str(directory),
        "budget_bytes": 64 << 20,
        **more,
    }


@dataclass
class Engine:
    """What a scheduler's offloading connector does, without a GPU."""

    manager: TieringOffloadingManager
    tier: PerdureTier
    rows: np.ndarray
    requests: int = 0

    def step(self) -> None:
        self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def settle(self) -> None:
        begin = time.monotonic()
        while self.manager.has_pending_work():
            assert time.monotonic() - begin < 60
            self.step()
            time.sleep(0.001)

    def request(self) -> ReqContext:
        self.requests += 1
        context = ReqContext(f"request{self.requests}")
        self.manager.on_new_request(context)
        return context

    def store(self, numbers: list[int]) -> None:
        context, keys = self.request(), [key(number) for number in numbers]
        prepared = self.manager.prepare_store(keys, context)
        assert prepared is not None
        for one, chunk in zip(prepared.keys_to_store, prepared.store_spec.chunk_ids, strict=True):
            self.rows[chunk] = content(int.from_bytes(one[:32], "little"))
        self.manager.complete_store(prepared.keys_to_store, context)
        self.manager.on_request_finished(context)
        self.settle()

    def fetch(self, numbers: list[int]) -> list[bool]:
        """Whether each is there; those that are have their bytes."""
        context = self.request()
        for number in numbers:
            self.manager.lookup(key(number), context)
        self.step()
        self.settle()
        hits = [self.manager.lookup(key(one), context) is LookupResult.HIT for one in numbers]
        there = [number for number, hit in zip(numbers, hits, strict=True) if hit]
        loaded = self.manager.prepare_load([key(number) for number in there], context)
        for number, chunk in zip(there, loaded.chunk_ids, strict=True):
            assert np.array_equal(self.rows[chunk], content(number)), f"block {number}"
        self.manager.complete_load([key(number) for number in there], context)
        self.manager.on_request_finished(context)
        self.settle()
        return hits


@contextmanager
def engine(directory: Path, model: str = "model", **more: Any) -> Iterator[Engine]:
    region = SharedOffloadRegion(f"perdure-{uuid.uuid4().hex}", PRIMARY, None, BLOCK, BLOCK)
    primary = CPUPrimaryTierOffloadingManager(PRIMARY, region)
    view = primary.get_kv_memoryview()
    tier = SecondaryTierFactory.create_secondary_tier(
        tier_config(directory, **more), view, spec(model)
    )
    manager = TieringOffloadingManager(primary, [tier])
    rows = np.frombuffer(view.cast("B"), np.uint8).reshape(PRIMARY, BLOCK)
    made = Engine(manager, tier, rows)
    try:
        yield made
    finally:
        made.rows = rows = None  # else the region cannot be unmapped
        tier._rows = None
        manager.shutdown()


def test_all_that_the_interface_asks_is_there() -> None:
    assert not PerdureTier.__abstractmethods__
    assert differing(PerdureTier, SecondaryTierManager) == []


def test_blocks_come_back_that_the_primary_tier_has_lost(directory: Path) -> None:
    with engine(directory) as made:
        for first in range(0, 32, 8):
            made.store(list(range(first, first + 8)))
        assert made.fetch([0, 1, 2, 3]) == [True] * 4
        assert made.fetch([30, 99]) == [True, False]


def test_a_restart_finds_them_at_once(directory: Path) -> None:
    with engine(directory) as made:
        made.store([1, 2, 3])
    with engine(directory) as made:
        assert made.fetch([1, 2, 3, 4]) == [True, True, True, False]


def test_another_model_has_other_blocks(directory: Path) -> None:
    with engine(directory) as made:
        made.store([1])
    with engine(directory, model="other") as made:
        assert made.fetch([1]) == [False]


def test_a_second_engine_reads_beside_it(directory: Path) -> None:
    with engine(directory) as writer, engine(directory, role="reader") as reader:
        writer.store([1, 2])
        assert reader.fetch([1, 2, 3]) == [True, True, False]
        reader.store([7])
        assert writer.fetch([7]) == [False]


def test_a_load_that_fails_in_part_says_which_blocks_it_has(directory: Path) -> None:
    with engine(directory) as made:
        made.store([1, 2])
        request = made.request()
        job = TransferJob(99, [key(1), key(50), key(2)], np.array([5, 6, 7]), True, request)
        made.tier.submit_load(job)
        made.tier.drain_jobs()
        (result,) = made.tier.get_finished_jobs()
        assert (result.job_id, result.success) == (99, False)
        assert list(result.successful_keys) == [key(1), key(2)]
        assert np.array_equal(made.rows[5], content(1))
        assert np.array_equal(made.rows[7], content(2))


def test_a_reset_drains_its_jobs(directory: Path) -> None:
    with engine(directory) as made:
        made.store([1, 2, 3])
        made.manager.reset_cache()
        made.manager.on_reset_flushed()
        assert made.fetch([1, 2, 3]) == [True] * 3


def test_bad_configuration_is_named(directory: Path) -> None:
    view = memoryview(bytearray(2 * BLOCK)).cast("B", (2, BLOCK))
    with pytest.raises(ValueError, match="role 'none'"):
        SecondaryTierFactory.create_secondary_tier(
            tier_config(directory, role="none"), view, spec()
        )
