// What a store of a Dash index counts for its statistics, batches of several threads beside each
// other. Invariant: `records` is how many keys the table holds once it is counted: an orderly close
// leaves that, and after a crash somebody has to go through the table first.
#pragma once

#include <atomic>
#include <cstdint>

#include "perdure/store.h"
#include "store/dash/dash_engine.hpp"

namespace perdure::threads {

class Counters {
 public:
  explicit Counters(bool count_accesses) : count_accesses_(count_accesses) {}

  /// What a run of operations came to.
  void add(Tally const& tally) {
    if (tally.inserted != tally.erased) records_ += tally.inserted - tally.erased;
    if (!count_accesses_) return;
    reads_ += tally.reads;
    writes_ += tally.writes;
    orders_ += tally.orders;
  }
  void add_batch() { ++batches_; }
  void reset_accesses() { reads_ = writes_ = orders_ = 0; }

  [[nodiscard]] bool counted() const { return counted_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  /// `whole`: these are all; nobody changes the table.
  void set_records(std::uint64_t records, bool whole) {
    records_ = records;
    counted_ = whole;
  }
  void tell(Stats& stats) const {
    stats.records = records_;
    stats.batches = batches_;
    stats.accesses = {reads_, writes_, orders_, 0};
  }

 private:
  bool const count_accesses_;
  std::atomic<bool> counted_{false};
  std::atomic<std::uint64_t> records_{0}, batches_{0}, reads_{0}, writes_{0}, orders_{0};
};

}  // namespace perdure::threads
