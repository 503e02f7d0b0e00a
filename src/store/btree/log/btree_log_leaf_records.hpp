// The records of a value log, as durable leaves ask about them. Invariant: as
// pm/value_log/recovery.hpp between begin_count() and end_count().
#pragma once

#include "pm/value_log/recovery.hpp"
#include "store/btree/leaves/btree_leaves.hpp"

namespace perdure {

/// Records of the log.
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
