// A generation of what the block cache holds that is read often: for a machine with memory of its
// own, which then finds these keys in the same question as those of memtables (H-Rocks, section 5).
//
// Invariant: what it says is what RocksDB says in the ticket's state, if the cache knows that state
// still afterwards.
#pragma once

#include <cstdint>

#include "exec/workers.hpp"
#include "lsm/cache/block_cache.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/rocks/generation.hpp"

namespace perdure::lsm {

/// Requests of memtables begin with 1, so answers from hot entries are told by this one.
inline constexpr RequestId kHotRequest = 0;

struct HotAsked {
  std::uint64_t bytes = 0;  // at most, about; what is read most comes first
  std::uint32_t uses = 2;  // at least, as CacheSet counts them: about three reads
  std::uint64_t entries = 4096;  // at least: fewer are not worth a generation
};

struct HotGathered {
  CacheTicket ticket;
  GenerationPtr generation;  // null: too few entries are read often
  std::uint64_t entries = 0;
};

Result<HotGathered> gather_hot(BlockCache const& cache, Engine& engine, exec::Workers& workers,
                               CacheTicket const& ticket, HotAsked const& asked);

}  // namespace perdure::lsm
