// How far all workers have come together, and when that is enough. Invariant: a run that is quiet,
// because it repeats or minimises a finding, counts nothing, and is never told that it is enough.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "explore/options.hpp"

namespace perdure::explore {

/// Runs, their crash points, and the states that crashes left.
struct Explored {
  std::atomic<std::uint64_t> scenarios{0}, runs{0}, points{0}, crash_points{0}, windows{0},
      windows_seen{0}, windows_sampled{0}, windows_skipped{0}, states{0}, nested{0},
      nested_sampled{0};
};
/// How often what runs must meet was met.
struct Met {
  std::atomic<std::uint64_t> growths{0}, displacements{0}, batches_refused{0}, inside_growths{0},
      session_operations{0}, session_refusals{0}, steps{0}, checkpoints{0};
  std::atomic<std::uint64_t> merges{0};  // of Dash's segments; their splits are growths
};
/// The same of recoveries. `replayed`: batches taken from a log.
struct Recovered {
  std::atomic<std::uint64_t> resumed{0}, duplicates{0}, half_inserted{0}, refused{0}, undone{0},
      replayed{0};
};
/// libGPM: operations of kernels, entries that found no room; entries after crashes, checkpoints
/// restored.
struct MetOfGpm {
  std::atomic<std::uint64_t> operations{0}, overflows{0}, entries{0}, restored{0};
};
/// The G-WAL: records, segments handed over; after crashes those that came back, and those that
/// RocksDB had.
struct MetOfGwal {
  std::atomic<std::uint64_t> records{0}, ingests{0}, replayed{0}, discarded{0};
};

/// Repairs that nothing cut off: refused, with something to mend, with something to drop; and of
/// damage that no opening sees without one.
struct MetOfRepairs {
  std::atomic<std::uint64_t> refused{0}, mended{0}, lossy{0}, unseen{0};
};

/// Shared by all workers.
struct Totals {
  Explored explored;
  Met met;
  Recovered recovered;
  MetOfGpm gpm;
  MetOfGwal gwal;
  MetOfRepairs repairs;
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards the rest
  std::unordered_set<std::uint64_t> distinct, logical;
  std::vector<Finding> findings;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

/// One worker's part of it.
class Progress {
 public:
  Progress(Options const& options, Totals& totals) : options_(options), totals_(&totals) {}

  void begin_scenario() { fresh_ = 0; }
  void report(Finding finding);
  /// One more state was judged; whether it is the first of its kind.
  bool count_state(std::uint64_t state, std::uint64_t logical);
  [[nodiscard]] bool enough_here();  // of this scenario
  /// Where to count; null while quiet.
  [[nodiscard]] Totals* counted() const { return quiet ? nullptr : totals_; }

  bool quiet = false;  // replaying or minimising

 private:
  [[nodiscard]] bool enough();  // of everything

  Options options_;
  Totals* totals_;
  std::uint64_t fresh_ = 0;  // distinct states found in this scenario
};

}  // namespace perdure::explore
