// What `perdure-bench kv` is asked for, as cases: each a row. Invariants: of designs that are
// compared, repeats follow each other in turn; a store that workloads share is filled once for all
// of them, and they follow each other in the order given, but deletes, which come last.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "kv_bench.hpp"

namespace perdure::bench {

struct KvOptions {
  std::vector<std::string> designs{"heap", "log"};
  std::vector<std::string> workloads{"update", "delete"};
  std::vector<std::string> modes{"burst"};
  std::vector<std::string> caches{"flushed"};
  std::vector<std::string> keys{"uniform"};
  std::vector<std::uint32_t> value_bytes{64, 128, 256, 512, 1024, 2048, 4096};
  std::vector<std::uint32_t> threads{1};
  std::vector<std::uint32_t> recovery_threads{1};
  std::uint64_t records = 10'000'000;
  std::uint64_t ops = 0;  // 0: a tenth of the records, sustained twice as many as those
  double seconds = 0;  // of a workload; 0: until all its operations are done
  double max_minutes = 0;  // of all; 0: as long as it takes
  double age = 0;
  bool share = false;
  std::uint64_t batch = 1;
  double theta = 0.99;
  std::string host = "flushed";
  std::string medium = "optane";
  std::uint64_t emulated_cache = 0;
  std::uint32_t collectors = 1;
  std::uint64_t most_queued = 8;
  std::uint64_t series_ms = 0;
  bool parts = false;
  std::uint32_t repeats = 3;
  std::uint64_t seed = 1;
  std::string pool;
  std::string json;
};

/// What tells one row from another.
struct KvCase {
  std::string design, workload, mode, caches, keys;
  std::uint32_t value_bytes = 0, threads = 0;
  std::uint32_t recovery_threads = 0;  // of workload recover; 0: of others
  friend auto operator<=>(KvCase const&, KvCase const&) = default;
};

[[nodiscard]] std::vector<std::string> kv_media_names();
/// The thesis's cache, 36.75 MiB for 10 million records, by as many as there are.
[[nodiscard]] std::uint64_t kv_cache_bytes(KvOptions const& o);
[[nodiscard]] KvSetting kv_setting(KvOptions const& o, KvCase const& c, std::uint32_t repeat);
/// By store: the cases that run on it, one after the other. Throws a Failure where what is asked
/// for contradicts itself.
[[nodiscard]] std::vector<std::vector<KvCase>> kv_stores(KvOptions const& o);

[[nodiscard]] Json kv_row(KvOptions const& o, KvCase const& c,
                          std::vector<KvMeasured> const& repeats);
void print_kv_row(KvOptions const& o, Json const& row);

}  // namespace perdure::bench
