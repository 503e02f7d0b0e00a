"""A secondary tier of vLLM's KV offloading, in a Perdure cache.

vLLM keeps blocks of the GPU in a primary tier in host memory, and copies them to secondary tiers,
from which it fetches them back. Name this one in `kv_connector_extra_config`:

    "secondary_tiers": [{"type": "PerdureTier", "module_path": "perdure.kv.vllm",
                         "directory": "/dev/shm/kv", "budget_bytes": 34359738368}]

docs/kv-cache.md says which of vLLM's versions the interface is of.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.file_mapper import FileMapper
from vllm.v1.kv_offload.tiering.base import (
    JobId,
    JobResult,
    SecondaryTierManager,
    TransferJob,
)

from perdure import errors
from perdure.kv import BlockCache, BlockReader
from perdure.kv._files import log
from perdure.kv._reads import Target, octets_of
from perdure.kv._writes import Source

if TYPE_CHECKING:
    from vllm.v1.kv_offload.base import OffloadingSpec
    from vllm.v1.kv_offload.tiering.backpressure import BackpressureDetector


class PerdureTier(SecondaryTierManager):
    """Blocks by vLLM's key, below a name for all that their bytes depend on beside their tokens:
    model, dtype, groups, parallelism.

    Lookups are answered at once, from memory; stores and loads run in threads of their own.
    """

    medium: ClassVar[Medium | None] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        tier_type: str,
        directory: str,
        budget_bytes: int = 0,
        role: Literal["writer", "reader"] = "writer",
        n_load_threads: int = 2,
        threads: int | None = None,
        on_damage: Literal["raise", "discard"] = "discard",
        backpressure_detector: BackpressureDetector | None = None,
    ) -> None:
        """Parameters of the configuration are:

        Parameters
        ----------
        directory : str
            Of the cache. Several engines of one host may name the same one.
        budget_bytes : int
            Of all its files; the writer's to choose.
        role : {"writer", "reader"}
            One engine writes a cache. Others read what it has stored, and store nothing.
        n_load_threads : int
            That serve loads side by side; stores have one.
        threads : int, optional
            That copy the blocks of a job; one a core unless given.
        on_damage : {"raise", "discard"}
            As of `BlockCache`; an engine would rather begin empty.
        """
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self._rows = octets_of(primary_kv_view, writable=True)
        self._prefix = _namespace(offloading_spec)
        if role not in ("writer", "reader"):
            raise errors.InvalidArgument(f'role {role!r}: choose "writer" or "reader"')
        self._writer = (
            BlockCache(
                directory,
                budget_bytes,
                self.block_size_bytes,
                threads=threads,
                on_damage=on_damage,
            )
            if role == "writer"
            else None
        )
        self._cache: BlockCache | BlockReader = (
            self._writer
            if self._writer is not None  # an empty cache is false
            else BlockReader(directory, threads=threads)
        )
        self._stores = ThreadPoolExecutor(1, "perdure-kv-store")
        self._loads = ThreadPoolExecutor(n_load_threads, "perdure-kv-load")
        self._lock = threading.Lock()  # guards what follows
        self._running: set[Future[None]] = set()
        self._finished: deque[JobResult] = deque()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        there = bool(self._cache.contains([self._prefix + key])[0])
        return LookupResult.HIT if there else LookupResult.MISS

    def submit_store(self, job_metadata: TransferJob) -> None:
        self._submit(self._stores, self._store, job_metadata)

    def submit_load(self, job_metadata: TransferJob) -> None:
        self._submit(self._loads, self._load, job_metadata)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        with self._lock:
            finished = list(self._finished)
            self._finished.clear()
        return finished

    def has_pending_work(self) -> bool:
        with self._lock:
            return bool(self._running or self._finished)

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        self._cache.touch([self._prefix + key for key in keys])

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def drain_jobs(self) -> None:
        while True:
            with self._lock:
                running = list(self._running)
            if not running:
                return
            wait(running)

    def shutdown(self) -> None:
        self._stores.shutdown()
        self._loads.shutdown()
        self._cache.close()

    def _submit(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[TransferJob], JobResult],
        job: TransferJob,
    ) -> None:
        with self._lock:  # so that it is among those that run before it can end
            future = pool.submit(self._run, work, job)
            self._running.add(future)
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._running.discard(future)

    def _run(self, work: Callable[[TransferJob], JobResult], job: TransferJob) -> None:
        begin = time.perf_counter()
        try:
            result = work(job)
        except Exception:
            log.exception("KV tier %s: job %s failed", self.tier_type, job.job_id)
            result = JobResult(job.job_id, success=False)
        result.transfer_time = time.perf_counter() - begin
        with self._lock:
            self._finished.append(result)

    def _store(self, job: TransferJob) -> JobResult:
        """Blocks for which there is no room even so were not stored, and nothing has failed."""
        if self._writer is None:
            return self._result(job.job_id, 0)
        keys, offsets = self._places(job)
        stored = self._writer.put_from(
            keys, Source.within(self._rows, offsets, self.block_size_bytes)
        )
        return self._result(job.job_id, int(stored.sum()))

    def _load(self, job: TransferJob) -> JobResult:
        keys, offsets = self._places(job)
        found = self._cache.get_into(
            keys, Target.within(self._rows, offsets, self.block_size_bytes)
        )
        result = self._result(job.job_id, int(found.sum()))
        if not found.all():
            result.success = False
            loaded = [key for key, there in zip(job.keys, found.tolist(), strict=True) if there]
            result.successful_keys = loaded or None
        return result

    def _places(self, job: TransferJob) -> tuple[list[bytes], np.ndarray]:
        offsets = np.asarray(job.chunk_ids, np.int64) * self.block_size_bytes
        return [self._prefix + key for key in job.keys], offsets

    def _result(self, job_id: JobId, blocks: int) -> JobResult:
        return JobResult(job_id, success=True, transfer_bytes=blocks * self.block_size_bytes)


def _namespace(spec: OffloadingSpec) -> bytes:
    """As vLLM's file tier names its directory, the rank included."""
    mapper = FileMapper.from_offloading_spec(
        root_dir="",
        offloading_spec=spec,
        blocks_per_file=spec.blocks_per_chunk,
        parallel_agnostic=True,
    )
    config = {**mapper.get_run_config(), "rank": mapper.rank}
    return json.dumps(config, sort_keys=True).encode() + b"\0"
