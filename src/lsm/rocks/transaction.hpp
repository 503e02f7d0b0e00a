// What pessimistic and optimistic transactions share: the batch, the keys that it depends on,
// snapshots, savepoints, counters.
//
// Invariant: `keys_` is what counts of the keys; a savepoint has, beside, what came after it alone.
// By these a rollback tells which keys nobody needs any more.
#pragma once

#include <memory>
#include <vector>

#include "lsm/rocks/tracked_keys.hpp"
#include "lsm/rocks/transaction_calls.hpp"

namespace perdure::lsm {

using SnapshotPtr = std::shared_ptr<rocksdb::Snapshot const>;

class BaseTransaction : public TransactionCalls {
 public:
  void SetSnapshot() override;
  void SetSnapshotOnNextOperation(std::shared_ptr<rocksdb::TransactionNotifier> notifier) override;
  rocksdb::Snapshot const* GetSnapshot() const override { return now_.snapshot.get(); }
  /// There are no timestamps: null.
  SnapshotPtr GetTimestampedSnapshot() const override { return nullptr; }
  void ClearSnapshot() override;

  void SetSavePoint() override;
  rocksdb::Status RollbackToSavePoint() override;
  rocksdb::Status PopSavePoint() override;

  void PutLogData(rocksdb::Slice const& blob) override;
  void DisableIndexing() override { batch_.index_writes(false); }
  void EnableIndexing() override { batch_.index_writes(true); }
  rocksdb::WriteBatchWithIndex* GetWriteBatch() override { return &batch_.indexed(); }
  rocksdb::WriteBatch* GetCommitTimeWriteBatch() override { return &commit_time_batch_; }
  rocksdb::Status RebuildFromWriteBatch(rocksdb::WriteBatch* batch) override;

  uint64_t GetNumKeys() const override { return keys_.size(); }
  uint64_t GetNumPuts() const override { return now_.puts; }
  uint64_t GetNumDeletes() const override { return now_.deletes; }
  uint64_t GetNumMerges() const override { return now_.merges; }
  uint64_t GetElapsedTime() const override;

  rocksdb::WriteOptions* GetWriteOptions() override { return &write_options_; }
  void SetWriteOptions(rocksdb::WriteOptions const& options) override { write_options_ = options; }

  void UndoGetForUpdate(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key) override;
  void UndoGetForUpdate(rocksdb::Slice const& key) override { UndoGetForUpdate(nullptr, key); }

 protected:
  BaseTransaction(rocksdb::DB& db, TransactionStore& store, rocksdb::WriteOptions const& options);

  rocksdb::ColumnFamilyHandle* handle_of(rocksdb::ColumnFamilyHandle* family) const override {
    return store_.rocksdb_handle(family);
  }
  rocksdb::Status write(Change const& change) override;
  TransactionBatch& batch() override { return batch_; }
  /// Nothing depends on the key any more.
  virtual void unguard(KeyRef const& key) = 0;

  /// As it was before the first call.
  void clear();
  void begin_anew(rocksdb::WriteOptions const& options);
  [[nodiscard]] SnapshotPtr const& snapshot_ptr() const { return now_.snapshot; }
  void take_due_snapshot();
  /// `known` is what keys_ has of the key.
  void track(KeyRef const& key, TrackedKeys::Entry* known, rocksdb::SequenceNumber since,
             Guard const& how);

  rocksdb::DB& db_;
  TransactionStore& store_;
  TransactionBatch batch_;
  TrackedKeys keys_;
  rocksdb::WriteOptions write_options_;
  std::uint64_t began_us_ = 0;

 private:
  /// What a rollback brings back.
  struct State {
    SnapshotPtr snapshot;
    bool snapshot_due = false;  // by the next operation
    std::shared_ptr<rocksdb::TransactionNotifier> notifier;
    std::uint64_t puts = 0;
    std::uint64_t deletes = 0;
    std::uint64_t merges = 0;
  };
  struct SavePoint {
    State state;
    TrackedKeys keys;
  };

  State now_;
  std::vector<SavePoint> savepoints_;
  rocksdb::WriteBatch commit_time_batch_;
};

}  // namespace perdure::lsm
