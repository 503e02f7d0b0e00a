// What the block cache counts.
#pragma once

#include <atomic>
#include <cstdint>

namespace perdure::lsm {

struct CacheCounters {
  std::atomic<std::uint64_t> hits = 0;  // keys, those among them that are known to be absent
  std::atomic<std::uint64_t> misses =
      0;  // keys that RocksDB was asked for, for they were not known
  std::atomic<std::uint64_t> locked = 0;  // keys whose sets somebody was writing
  std::atomic<std::uint64_t> inserted = 0;
  std::atomic<std::uint64_t> refused = 0;  // all ways of the set are read more, or it was too late
  std::atomic<std::uint64_t> evicted = 0;  // for another entry
  std::atomic<std::uint64_t> invalidated = 0;  // for RocksDB got another value
  std::atomic<std::uint64_t> epochs = 0;  // times that all there was became unknown
};

}  // namespace perdure::lsm
