// What a flush changed of what the block cache had: it gets the new values from the memtable, for
// who reads a key often does not stop when it is written.
#pragma once

#include <cstdint>
#include <span>

#include "exec/workers.hpp"
#include "lsm/cache/block_cache.hpp"
#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

/// Of a run without operands, which RocksDB's state `sequence` has: the newest versions of its keys
/// at these places, ascending, where each key counts once. The run's values are there still.
void refresh_cache(BlockCache& cache, Engine& engine, exec::Workers& workers,
                   std::uint64_t sequence, std::uint32_t family, Run const& run,
                   std::span<std::uint32_t const> places);

}  // namespace perdure::lsm
