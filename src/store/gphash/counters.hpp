// What a store counts for its statistics. Invariant: `records` is how many keys the table holds,
// after each batch.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/assert.hpp"
#include "batch/counts.hpp"
#include "perdure/store.h"

namespace perdure {

class Counters {
 public:
  explicit Counters(bool count_accesses) : count_accesses_(count_accesses) {}

  /// What a launch did.
  void add(exec::Counts const& counts) {
    std::lock_guard const lock(mutex_);
    records_ += counts[BatchCounts::inserted];
    records_ -= counts[BatchCounts::erased];
    displacements_ += counts[BatchCounts::displaced];
    if (!count_accesses_) return;
    accesses_.pm_reads += counts[exec::Counts::reads];
    accesses_.pm_writes += counts[exec::Counts::writes];
    accesses_.cache_hits += counts[BatchCounts::cached];
    accesses_.orders += counts[exec::Counts::orders];
  }
  void add_orders(std::uint64_t n) {
    exec::Counts orders;
    orders[exec::Counts::orders] = n;
    add(orders);
  }
  /// One more growth, or one fewer, where it was abandoned.
  void add_growth(int n) {
    std::lock_guard const lock(mutex_);
    PERDURE_ASSERT(n > 0 || growths_ > 0);  // one that was counted is abandoned
    growths_ += static_cast<std::uint64_t>(n);
  }
  [[nodiscard]] std::uint64_t records() const {
    std::lock_guard const lock(mutex_);
    return records_;
  }
  void set_records(std::uint64_t records) {
    std::lock_guard const lock(mutex_);
    records_ = records;
  }
  void reset_accesses() {
    std::lock_guard const lock(mutex_);
    accesses_ = {};
  }
  void tell(Stats& stats) const {
    std::lock_guard const lock(mutex_);
    stats.records = records_;
    stats.growths = growths_;
    stats.displacements = displacements_;
    stats.accesses = accesses_;
  }

 private:
  bool const count_accesses_;
  mutable std::mutex mutex_;  // guards the rest
  std::uint64_t records_ = 0, growths_ = 0, displacements_ = 0;
  AccessCounts accesses_;
};

}  // namespace perdure
