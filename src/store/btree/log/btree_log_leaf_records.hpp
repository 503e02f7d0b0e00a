// The records of a value log, as durable leaves lead to them. Invariant: the log's recovery counts
// meanwhile (LogRecovery::begin_count).
#pragma once

#include <cstdint>

#include "base/offset.hpp"
#include "pm/value_log/recovery.hpp"
#include "store/btree/leaves/btree_leaves.hpp"

namespace perdure {

class LogLeafRecords final : public BtreeLeafRecords {
 public:
  explicit LogLeafRecords(pm::LogRecovery& log) : log_(log) {}
  btree::RecordMark use(std::uint64_t word) override {
    switch (log_.use(Offset{word})) {
      case pm::LogRecovery::Mark::first: return btree::RecordMark::first;
      case pm::LogRecovery::Mark::again: return btree::RecordMark::again;
      default: return btree::RecordMark::invalid;
    }
  }
  [[nodiscard]] bool is_record(std::uint64_t word) const override { return log_.has(Offset{word}); }

 private:
  pm::LogRecovery& log_;
};

}  // namespace perdure
