// Pools in memory, with the smallest superblocks, for the tests of what lies in pools.
#pragma once

#include <stdexcept>
#include <utility>

#include "pm/pool.hpp"

namespace perdure::pm {

/// `most`: superblocks that it may grow to; 0 = as many as there is memory for.
inline Pool make_pool(std::uint64_t superblocks, std::uint64_t most = 0,
                      std::uint32_t key_bytes = 0) {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  shape.key_bytes = key_bytes;
  shape.max_bytes = most * kMinSuperblock;
  auto pool = Pool::create("memfd:units", shape, superblocks, {}, {});
  if (!pool) throw std::runtime_error(pool.status().message());
  return std::move(*pool);
}

}  // namespace perdure::pm
