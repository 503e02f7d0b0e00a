// What a reader sees: the memtables' runs, and RocksDB as it was when they were published.
//
// Invariants: a view never changes. All that is in RocksDB at `base` is older than what is in the
// runs, and what the runs and RocksDB at `base` hold together is every write up to `last`. A view
// without runs has no snapshot: RocksDB as it is then is all there is. What flushed memtables say
// of a key that no run has, RocksDB at `base` says too.
#pragma once

#include <rocksdb/db.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/key_span.hpp"

namespace perdure::lsm {

class Generation;

/// A snapshot of RocksDB, released with the last who has it.
class BaseSnapshot {
 public:
  explicit BaseSnapshot(rocksdb::DB& base) : base_(&base), snapshot_(base.GetSnapshot()) {}
  BaseSnapshot(BaseSnapshot const&) = delete;
  BaseSnapshot& operator=(BaseSnapshot const&) = delete;
  ~BaseSnapshot() { base_->ReleaseSnapshot(snapshot_); }
  [[nodiscard]] rocksdb::Snapshot const* get() const { return snapshot_; }
  /// What there is of a family; as long as this.
  [[nodiscard]] KeySpan const& keys(rocksdb::ColumnFamilyHandle* family) const {
    return spans_.of(*base_, snapshot_, family);
  }

 private:
  rocksdb::DB* base_;
  rocksdb::Snapshot const* snapshot_;
  KeySpans mutable spans_;
};

struct View {
  struct FamilyRuns {
    std::uint32_t family = 0;
    std::vector<RunPtr> runs;  // newest first
  };
  RequestId last = 0;
  std::vector<FamilyRuns> families;
  std::vector<std::shared_ptr<Generation const>> generations;  // whose values the runs point to
  std::shared_ptr<BaseSnapshot const> base;
  // Memtables that RocksDB has by now (FlushedTables); of each family, its runs and theirs behind.
  std::vector<std::shared_ptr<Generation const>> flushed;
  std::vector<FamilyRuns> known;
  RequestId last_flushed = 0;  // no request of theirs is above it, and none of the runs' is not

  [[nodiscard]] bool empty() const { return generations.empty(); }
  [[nodiscard]] RunList runs(std::uint32_t family) const { return of(families, family); }
  /// For reads of single keys: those of flushed memtables too.
  [[nodiscard]] RunList known_runs(std::uint32_t family) const {
    return of(flushed.empty() ? families : known, family);
  }
  /// Behind those that are there.
  static void add(std::vector<FamilyRuns>& families, FamilyRuns const& older) {
    auto at = std::find_if(families.begin(), families.end(),
                           [&](FamilyRuns const& one) { return one.family == older.family; });
    if (at == families.end()) at = families.insert(at, {older.family, {}});
    at->runs.insert(at->runs.end(), older.runs.begin(), older.runs.end());
  }
  [[nodiscard]] rocksdb::Snapshot const* base_snapshot() const {
    return base == nullptr ? nullptr : base->get();
  }

 private:
  static RunList of(std::vector<FamilyRuns> const& families, std::uint32_t family) {
    for (FamilyRuns const& one : families)
      if (one.family == family) return one.runs;
    return {};
  }
};
using ViewPtr = std::shared_ptr<View const>;

/// What GetSnapshot() gives a user. It pins what it sees, flushed or not.
class ViewSnapshot final : public rocksdb::Snapshot {
 public:
  /// `view` has a snapshot of RocksDB, even where it has no runs.
  ViewSnapshot(ViewPtr view, std::uint64_t sequence)
      : view_(std::move(view)), sequence_(sequence) {}
  ~ViewSnapshot() override = default;
  rocksdb::SequenceNumber GetSequenceNumber() const override { return sequence_; }
  int64_t GetUnixTime() const override { return view_->base_snapshot()->GetUnixTime(); }
  uint64_t GetTimestamp() const override { return view_->base_snapshot()->GetTimestamp(); }
  [[nodiscard]] ViewPtr const& view() const { return view_; }

 private:
  ViewPtr view_;
  std::uint64_t sequence_;
};

}  // namespace perdure::lsm
