// Column families as the store knows them, by RocksDB's own handles, for RocksDB's helpers cast
// them.
//
// Invariant: while memtables have entries of a family that is not dropped, there is a handle of it
// to flush them by. Of families that were there at the opening it is one of ours; of later ones it
// is the user's, and when he deletes it (FamilyListener) their entries are flushed first.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/merge_operator.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

struct Family {
  std::uint32_t id = 0;
  std::string name;
  std::atomic<rocksdb::ColumnFamilyHandle*> base = nullptr;  // null: nobody has a handle any more
  std::shared_ptr<rocksdb::MergeOperator> merge_operator;
  Operation operation = Operation::none;  // what the merge operator is to machines
  std::string why_passed_through;  // not empty: RocksDB alone serves it
  std::atomic<bool> dropped = false;

  /// Whether memtables take its writes.
  [[nodiscard]] bool has_tables() const {
    return !dropped && base != nullptr && why_passed_through.empty();
  }
};
using FamilyPtr = std::shared_ptr<Family>;

class Families {
 public:
  /// `ours`: the handle is not the user's, and goes with the database.
  FamilyPtr add(rocksdb::ColumnFamilyHandle* base, rocksdb::ColumnFamilyOptions const& options,
                bool ours);
  [[nodiscard]] FamilyPtr find(std::uint32_t id) const;
  /// Whether what RocksDB says of a family's keys changes by writes alone, so that the block cache
  /// may keep it. No lock; of families with larger numbers than kMostCached the answer is no.
  [[nodiscard]] bool is_cached(std::uint32_t id) const {
    return id < kMostCached && (cached_[id / 64].load() >> id % 64 & 1) != 0;
  }
  void drop(std::uint32_t id);
  /// Whether this handle is the one that a family is flushed by.
  [[nodiscard]] bool uses(rocksdb::ColumnFamilyHandle const* handle) const;
  void forget(rocksdb::ColumnFamilyHandle const* handle);
  /// Our handles go; before RocksDB does.
  void close(rocksdb::DB& base);

 private:
  struct Held {
    FamilyPtr family;
    bool ours = false;
  };
  static constexpr std::uint32_t kMostCached = 1024;

  mutable Mutex mutex_;
  std::vector<Held> held_ PERDURE_GUARDED_BY(mutex_);
  std::array<std::atomic<std::uint64_t>, kMostCached / 64> cached_{};
};

/// Hears when users delete handles, whichever way they do. Keeps RocksDB from recovering by itself
/// from a failed write of its MANIFEST: the new one could forget an ingest (Flusher).
class FamilyListener final : public rocksdb::EventListener {
 public:
  using Deleted = std::function<void(rocksdb::ColumnFamilyHandle*)>;
  /// Empty: nobody listens any more.
  void set(Deleted deleted);
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status failure,
                            bool* recovers) override {
    if (reason == rocksdb::BackgroundErrorReason::kManifestWrite ||
        reason == rocksdb::BackgroundErrorReason::kManifestWriteNoWAL)
      *recovers = false;
    failure.PermitUncheckedError();
  }

 private:
  Mutex mutex_;
  std::shared_ptr<Deleted const> deleted_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
