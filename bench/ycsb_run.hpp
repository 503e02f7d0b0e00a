// One YCSB workload on one device, with each of the caches asked for, one after the other.
//
// Invariant: whatever cache is measured, the requests are the same, of the same seed, and all that
// they leave behind is read back and checked before the next one's turn. One cache is measured by
// the store that loaded the pool. Of several none is: each opens the loaded pool anew. A workload
// that updates leaves newer versions to the next, and one that inserts a pool that is loaded anew.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common.hpp"
#include "pass.hpp"
#include "ycsb.hpp"

namespace perdure::bench {

/// A share of the records, or of layout `in_place` of the buckets; 0: none.
struct YcsbCache {
  double share = 0;
  std::string policy = "lfu";
};

struct YcsbOptions {
  std::string workload = "c";
  std::uint64_t records = 1'000'000;
  std::uint64_t expected_records = 0;
  std::uint64_t ops = 0;
  std::size_t batch = std::size_t{1} << 16;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  std::vector<std::string> devices{"cpu"};
  std::string index;  // empty: the one for the workload
  std::string layout = "word";
  std::string shape = "2L-2H-8S";
  std::string residency = "automatic";
  std::vector<double> caches{0};
  std::vector<std::string> cache_policies{"lfu"};
  std::string arrays = "both";
  std::uint32_t threads = 0;
  std::string pool;
  bool count_accesses = true;
  std::uint32_t repeats = 5;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  std::string json;
};

struct YcsbAccesses {
  std::uint64_t ops = 0;
  std::uint64_t batches = 0;
  std::uint64_t gets = 0;  // 0: some are mixed with writes, and their hits not counted
  AccessCounts counts;
};

/// Everything that one device with one cache gave.
struct YcsbOutcome {
  YcsbCache asked;
  std::uint32_t turn = 0;  // of this cache on its pool; 0: nothing was measured there before
  std::vector<Pass> passes;  // arrays where the device has them nearest
  std::vector<Pass> passes_end_to_end;  // arrays in host memory; empty where that is the same, or
                                        // not asked for
  Pass checks;  // untimed: every record read back in the end
  std::optional<YcsbAccesses> accesses;
  CacheReport cache;  // of the last load
  std::uint64_t learned_ops = 0;  // that it went by, those of the warm-up among them
  Stats stats;
  std::string survives;
};

/// The caches that the options ask for, in order: all shares of each policy; no cache, which has
/// none, is there once.
[[nodiscard]] std::vector<YcsbCache> caches_of(YcsbOptions const& options);

/// Hands over each cache's outcome once it is there.
void run_ycsb(YcsbOptions const& options, Device device,
              std::function<void(YcsbOutcome const&)> const& done);

}  // namespace perdure::bench
