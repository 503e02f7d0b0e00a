"""A storage plugin of LMCache, in a Perdure cache. In LMCache's configuration:

    storage_plugins: ["perdure"]
    extra_config:
      storage_plugin.perdure.module_path: perdure.kv.lmcache
      storage_plugin.perdure.class_name: PerdureBackend
      perdure.directory: /dev/shm/kv
      perdure.budget_bytes: 34359738368

docs/kv-cache.md says which of LMCache's versions the interface is of.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lmcache.utils import STR_DTYPE_TO_TORCH_DTYPE, TORCH_DTYPE_TO_STR_DTYPE, CacheEngineKey
from lmcache.v1.memory_management import MemoryFormat, MemoryObj
from lmcache.v1.storage_backend.abstract_backend import StoragePluginInterface

from perdure import errors
from perdure.kv import BlockCache, BlockInfo, BlockReader
from perdure.kv._files import log

if TYPE_CHECKING:
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.metadata import LMCacheMetadata
    from lmcache.v1.storage_backend.abstract_backend import AllocatorBackendInterface
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

Done = Callable[[CacheEngineKey], None]


class PerdureBackend(StoragePluginInterface):
    """Chunks by LMCache's key, with shape, dtype and format. Puts run in a thread of their own;
    gets copy into memory of LMCache's own CPU backend."""

    def __init__(
        self,
        dst_device: str = "cpu",
        config: LMCacheEngineConfig | None = None,
        metadata: LMCacheMetadata | None = None,
        local_cpu_backend: LocalCPUBackend | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`extra_config` has `perdure.directory`, `perdure.budget_bytes` (the writer's), and may
        have `perdure.role` ("writer", the default, or "reader"), `perdure.block_bytes` (by default
        a full chunk's), `perdure.threads` and `perdure.on_damage` ("discard", the default, or
        "raise")."""
        super().__init__(dst_device, config, metadata, local_cpu_backend, loop)
        options = _Options((config.extra_config if config else None) or {})
        self._writer = self._made(options) if options.role == "writer" else None
        self._cache: BlockCache | BlockReader = (
            self._writer
            if self._writer is not None  # an empty cache is false
            else BlockReader(options.directory, threads=options.threads)
        )
        self._puts = ThreadPoolExecutor(1, "perdure-kv-put")
        self._lock = threading.Lock()  # guards what follows
        self._pending: set[CacheEngineKey] = set()
        self._asked: list[CacheEngineKey] = []  # of the request that is being looked up

    def __str__(self) -> str:
        return "PerdureBackend"

    def contains(self, key: CacheEngineKey, pin: bool = False) -> bool:
        return self.batched_contains([key], pin) == 1

    def batched_contains(self, keys: list[CacheEngineKey], pin: bool = False) -> int:
        there = self._cache.contains(_names(keys))
        count = len(keys) if there.all() else int(np.argmin(there))
        if pin:
            self._pin(keys[:count])
            with self._lock:
                self._asked.extend(keys[:count])
        return count

    def exists_in_put_tasks(self, key: CacheEngineKey) -> bool:
        with self._lock:
            return key in self._pending

    def batched_submit_put_task(
        self,
        keys: Sequence[CacheEngineKey],
        objs: list[MemoryObj],
        transfer_spec: Any = None,
        on_complete_callback: Done | None = None,
    ) -> list[Future[None]] | None:
        if self._writer is None:
            return None
        there = self._writer.contains(_names(keys)).tolist()
        chosen: list[tuple[CacheEngineKey, MemoryObj]] = []
        with self._lock:
            for key, obj, stored in zip(keys, objs, there, strict=True):
                if stored or key in self._pending:
                    continue
                self._pending.add(key)
                obj.ref_count_up()
                chosen.append((key, obj))
        if not chosen:
            return None
        return [self._puts.submit(self._put, chosen, on_complete_callback)]

    def get_blocking(self, key: CacheEngineKey) -> MemoryObj | None:
        return self.batched_get_blocking([key])[0]

    def batched_get_blocking(self, keys: list[CacheEngineKey]) -> list[MemoryObj | None]:
        names = _names(keys)
        objs = self._allocated(self._cache.find(names))
        given = [i for i, obj in enumerate(objs) if obj is not None]
        found = self._cache.get(
            [names[i] for i in given], [_bytes_of(obj) for obj in objs if obj is not None]
        )
        for i, there in zip(given, found.tolist(), strict=True):
            obj = objs[i]
            if not there and obj is not None:
                obj.ref_count_down()
                objs[i] = None
        return objs

    async def batched_async_contains(
        self, lookup_id: str, keys: list[CacheEngineKey], pin: bool = False
    ) -> int:
        return self.batched_contains(keys, pin)

    async def batched_get_non_blocking(
        self, lookup_id: str, keys: list[CacheEngineKey], transfer_spec: Any = None
    ) -> list[MemoryObj]:
        """Those of the first keys that are there without a gap."""
        objs = await asyncio.to_thread(self.batched_get_blocking, keys)
        first: list[MemoryObj] = []
        for obj in objs:
            if obj is None:
                break
            first.append(obj)
        for obj in objs[len(first) :]:
            if obj is not None:
                obj.ref_count_down()
        return first

    def pin(self, key: CacheEngineKey) -> bool:
        return self._pin([key])

    def unpin(self, key: CacheEngineKey) -> bool:
        if self._writer is None:
            return bool(self._cache.contains(_names([key]))[0])
        return bool(self._writer.unpin(_names([key]))[0])

    def remove(self, key: CacheEngineKey, force: bool = True) -> bool:
        return self.batched_remove([key], force) == 1

    def batched_remove(self, keys: list[CacheEngineKey], force: bool = True) -> int:
        if self._writer is None:
            return 0
        return int(self._writer.remove(_names(keys)).sum())

    def touch_cache(self) -> None:
        """What the last request looked up was used, the first of it last."""
        with self._lock:
            asked, self._asked = self._asked, []
        self._cache.touch(_names(asked))

    def get_allocator_backend(self) -> AllocatorBackendInterface:
        if self.local_cpu_backend is None:
            raise errors.Unsupported(
                "PerdureBackend reads into LMCache's CPU backend, and there is none: set "
                "max_local_cpu_size"
            )
        return self.local_cpu_backend

    def close(self) -> None:
        self._puts.shutdown()
        self._cache.close()

    def _made(self, options: _Options) -> BlockCache:
        block = options.block_bytes
        if block == 0 and self.local_cpu_backend is not None:
            block = int(self.local_cpu_backend.get_full_chunk_size_bytes())
        if block == 0:
            raise errors.InvalidArgument("set extra_config perdure.block_bytes: a chunk's bytes")
        return BlockCache(
            options.directory,
            options.budget_bytes,
            block,
            threads=options.threads,
            on_damage=options.on_damage,
        )

    def _pin(self, keys: Sequence[CacheEngineKey]) -> bool:
        """A reader's blocks are the writer's to evict."""
        if self._writer is None:
            return bool(self._cache.contains(_names(keys)).all())
        return bool(self._writer.pin(_names(keys)).all())

    def _put(self, chosen: list[tuple[CacheEngineKey, MemoryObj]], done: Done | None) -> None:
        keys, objs = [key for key, _ in chosen], [obj for _, obj in chosen]
        writer = self._writer
        assert writer is not None
        try:
            writer.put(_names(keys), [_bytes_of(obj) for obj in objs], [_meta(obj) for obj in objs])
            there = writer.contains(_names(keys)).tolist()
        finally:
            for obj in objs:
                obj.ref_count_down()
            with self._lock:
                self._pending.difference_update(keys)
        for key, stored in zip(keys, there, strict=True):
            if stored and done is not None:
                _tell(done, key)

    def _allocated(self, infos: Sequence[BlockInfo | None]) -> list[MemoryObj | None]:
        """Memory for each block that is there; None too where LMCache has none left."""
        objs: list[MemoryObj | None] = []
        backend = self.get_allocator_backend()
        for info in infos:
            if info is None:
                objs.append(None)
                continue
            shapes, dtypes, fmt = _described(info.meta)
            objs.append(backend.allocate(shapes, dtypes, fmt, busy_loop=False))
        return objs


class _Options:
    def __init__(self, extra: dict[str, Any]) -> None:
        self.directory = str(extra.get("perdure.directory") or "")
        if not self.directory:
            raise errors.InvalidArgument("set extra_config perdure.directory: where the cache lies")
        self.role = str(extra.get("perdure.role", "writer"))
        if self.role not in ("writer", "reader"):
            raise errors.InvalidArgument(f'perdure.role {self.role!r}: choose "writer" or "reader"')
        self.budget_bytes = int(extra.get("perdure.budget_bytes", 0))
        self.block_bytes = int(extra.get("perdure.block_bytes", 0))
        threads = extra.get("perdure.threads")
        self.threads = None if threads is None else int(threads)
        self.on_damage: Any = extra.get("perdure.on_damage", "discard")


def _names(keys: Sequence[CacheEngineKey]) -> list[str]:
    return [key.to_string() for key in keys]


def _bytes_of(obj: MemoryObj) -> Any:
    return obj.byte_array


def _meta(obj: MemoryObj) -> bytes:
    """What makes the same memory again: shapes, dtypes and format."""
    described = [
        [list(shape) for shape in obj.get_shapes()],
        [TORCH_DTYPE_TO_STR_DTYPE[dtype] for dtype in obj.get_dtypes()],
        obj.get_memory_format().value,
    ]
    return json.dumps(described, separators=(",", ":")).encode()


def _described(meta: bytes) -> tuple[list[torch.Size], list[torch.dtype], MemoryFormat]:
    shapes, dtypes, fmt = json.loads(meta)
    return (
        [torch.Size(shape) for shape in shapes],
        [STR_DTYPE_TO_TORCH_DTYPE[dtype] for dtype in dtypes],
        MemoryFormat(fmt),
    )


def _tell(done: Done, key: CacheEngineKey) -> None:
    try:
        done(key)
    except Exception:
        log.exception("KV cache: the callback for %s failed", key)
