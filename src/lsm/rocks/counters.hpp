// What the store counts; GetProperty("perdure.*") shows it.
#pragma once

#include <atomic>
#include <cstdint>

#include "lsm/cache/cache_counters.hpp"

namespace perdure::lsm {

struct Counters {
  std::atomic<std::uint64_t> table_batches = 0;    // appended to memtables
  std::atomic<std::uint64_t> table_operations = 0;
  std::atomic<std::uint64_t> passed_through = 0;   // batches that RocksDB served alone
  std::atomic<std::uint64_t> table_hits = 0;       // keys that a read found in memtables
  std::atomic<std::uint64_t> flushed_hits = 0;     // in memtables that RocksDB has by now
  std::atomic<std::uint64_t> hot_hits = 0;         // in hot entries that the machine has
  std::atomic<std::uint64_t> hot_builds = 0;       // times that it got them
  std::atomic<std::uint64_t> table_misses = 0;     // keys that a read went to RocksDB for
  std::atomic<std::uint64_t> hand_overs = 0;       // memtables given up, for nothing large came
  std::atomic<std::uint64_t> flushed_generations = 0;
  std::atomic<std::uint64_t> flushed_entries = 0;
  std::atomic<std::uint64_t> writer_waits = 0;     // for memtables to be flushed
  std::atomic<std::uint64_t> writer_wait_micros = 0;
  std::atomic<std::uint64_t> ingest_waits = 0;     // for RocksDB's compaction
  std::atomic<std::uint64_t> recovered_generations = 0;
  std::atomic<std::uint64_t> recovered_requests = 0;
  std::atomic<std::uint64_t> keys_under_way = 0;   // of reads of many that go on
  CacheCounters cache;
};

/// Keys of a read, as long as it goes on.
class KeysUnderWay {
 public:
  KeysUnderWay(Counters& counters, std::uint64_t n) : keys_(counters.keys_under_way), n_(n) {
    keys_.fetch_add(n, std::memory_order_relaxed);
  }
  ~KeysUnderWay() { keys_.fetch_sub(n_, std::memory_order_relaxed); }
  KeysUnderWay(KeysUnderWay const&) = delete;
  KeysUnderWay& operator=(KeysUnderWay const&) = delete;

 private:
  std::atomic<std::uint64_t>& keys_;
  std::uint64_t n_;
};

}  // namespace perdure::lsm
