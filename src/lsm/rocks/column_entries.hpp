// Columns of a family as entries, whose keys and values lie in the G-WAL's record of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/entry.hpp"
#include "wal/batch_record.hpp"

namespace perdure::lsm {

class ColumnEntries {
 public:
  /// `ops` point into memory that stays, their offsets and `requests` as long as this; requests
  /// first + requests[i], or first + i.
  void read(exec::Workers& workers, wal::BatchOps const& ops, RequestId first,
            std::span<RequestId const> requests = {});
  /// Valid while this stays as it is.
  [[nodiscard]] Entries entries() const { return entries_; }
  [[nodiscard]] bool has_merges() const { return merges_; }

 private:
  Entries entries_;
  bool merges_ = false;
  std::vector<Kind> kinds_;
};

}  // namespace perdure::lsm
