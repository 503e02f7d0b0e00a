"""A tier for KV caches of language models: blocks of tensors by the hash of their tokens.

`BlockCache` is the one process that writes, `BlockReader` any number that read beside it. Neither
needs an inference engine. `perdure.kv.lmcache` is a storage plugin of LMCache, `perdure.kv.vllm` a
secondary tier of vLLM; each imports its engine.
"""

from perdure.kv._counts import Counts
from perdure.kv._entries import BlockInfo
from perdure.kv.cache import BlockCache
from perdure.kv.reader import BlockReader

__all__ = ["BlockCache", "BlockInfo", "BlockReader", "Counts"]
