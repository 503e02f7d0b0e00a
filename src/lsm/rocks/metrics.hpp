// What a database counts, by name: a number a property (GetIntProperty), and all of them as text in
// RocksDB's and in Prometheus' way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perdure::lsm {

struct DatabaseParts;

struct Metric {
  char const* property;
  char const* prometheus;  // without "perdure_rocks_"; counters end with "_total"
  char const* help;
  std::uint64_t value = 0;
  bool is_micros = false;  // Prometheus counts seconds
};

/// All of them, as they are now.
[[nodiscard]] std::vector<Metric> metrics_of(DatabaseParts const& parts);
/// A line each, as rocksdb::Statistics::ToString() has them.
[[nodiscard]] std::string as_statistics(std::span<Metric const> metrics);
/// Prometheus' text format 0.0.4. `database` is a label, so that several may be scraped together.
[[nodiscard]] std::string as_prometheus(std::span<Metric const> metrics,
                                        std::string const& database);

}  // namespace perdure::lsm
