// TransactionDB and OptimisticTransactionDB over a database that answers as a TransactionStore.
// RocksDB's own cast the database below to their implementation, and so miss what memtables of ours
// hold.
//
// Invariant: plain writes through a TransactionDB lock their keys as transactions do. Only what
// goes to the database below past it (GetBaseDB) locks nothing; snapshots find it all the same.
#pragma once

#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction_db.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lsm/rocks/pessimistic_transaction.hpp"
#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {

class LockingDb final : public rocksdb::TransactionDB {
 public:
  /// Owns `db`, which `store` is a part of.
  LockingDb(rocksdb::DB* db, TransactionStore& store, rocksdb::TransactionDBOptions const& options)
      : TransactionDB(db), shared_(*db, store, options) {}

  rocksdb::Transaction* BeginTransaction(rocksdb::WriteOptions const& write,
                                         rocksdb::TransactionOptions const& options,
                                         rocksdb::Transaction* old) override;
  rocksdb::Transaction* GetTransactionByName(rocksdb::TransactionName const& name) override {
    return shared_.names.find(name);
  }
  void GetAllPreparedTransactions(std::vector<rocksdb::Transaction*>* transactions) override {
    transactions->clear();  // nothing is ever prepared
  }

  using StackableDB::Delete;
  using StackableDB::Merge;
  using StackableDB::Put;
  using StackableDB::SingleDelete;
  rocksdb::Status Put(rocksdb::WriteOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::Slice const& value) override;
  rocksdb::Status PutEntity(rocksdb::WriteOptions const& options,
                            rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key,
                            rocksdb::WideColumns const& columns) override;
  rocksdb::Status Delete(rocksdb::WriteOptions const& options, rocksdb::ColumnFamilyHandle* family,
                         rocksdb::Slice const& key) override;
  rocksdb::Status SingleDelete(rocksdb::WriteOptions const& options,
                               rocksdb::ColumnFamilyHandle* family,
                               rocksdb::Slice const& key) override;
  rocksdb::Status Merge(rocksdb::WriteOptions const& options, rocksdb::ColumnFamilyHandle* family,
                        rocksdb::Slice const& key, rocksdb::Slice const& value) override;
  rocksdb::Status Write(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch) override;
  rocksdb::Status Write(rocksdb::WriteOptions const& options,
                        rocksdb::TransactionDBWriteOptimizations const& optimizations,
                        rocksdb::WriteBatch* batch) override;

  rocksdb::Status DropColumnFamily(rocksdb::ColumnFamilyHandle* handle) override;
  rocksdb::Status DropColumnFamilies(
      std::vector<rocksdb::ColumnFamilyHandle*> const& handles) override;

  std::unordered_multimap<uint32_t, rocksdb::KeyLockInfo> GetLockStatusData() override {
    return shared_.locks.locks();
  }
  std::vector<rocksdb::DeadlockPath> GetDeadlockInfoBuffer() override {
    return shared_.locks.waits().paths();
  }
  void SetDeadlockInfoBufferSize(uint32_t count) override {
    shared_.locks.waits().keep_paths(count);
  }

  // There are no timestamps.
  std::pair<rocksdb::Status, SnapshotPtr> CreateTimestampedSnapshot(
      rocksdb::TxnTimestamp timestamp) override;
  SnapshotPtr GetTimestampedSnapshot(rocksdb::TxnTimestamp) const override { return nullptr; }
  void ReleaseTimestampedSnapshotsOlderThan(rocksdb::TxnTimestamp) override {}
  rocksdb::Status GetTimestampedSnapshots(rocksdb::TxnTimestamp from, rocksdb::TxnTimestamp to,
                                          std::vector<SnapshotPtr>& snapshots) const override;

 private:
  template <class Call>
  rocksdb::Status locked(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key,
                         Call const& call);

  TransactionShared shared_;
};

class OptimisticDb final : public rocksdb::OptimisticTransactionDB {
 public:
  OptimisticDb(rocksdb::DB* db, TransactionStore& store)
      : OptimisticTransactionDB(given(db)), store_(store) {}

  rocksdb::Transaction* BeginTransaction(rocksdb::WriteOptions const& write,
                                         rocksdb::OptimisticTransactionOptions const& options,
                                         rocksdb::Transaction* old) override;

  // Whether a range was deleted over a key cannot be told later.
  using StackableDB::DeleteRange;
  rocksdb::Status DeleteRange(rocksdb::WriteOptions const& options,
                              rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& begin,
                              rocksdb::Slice const& end) override;
  rocksdb::Status Write(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch) override;

 private:
  TransactionStore& store_;
};

/// Takes `base` when it succeeds. A database that is no TransactionStore becomes one by
/// PlainTransactionStore, which needs the open families' handles.
rocksdb::Status over(rocksdb::DB* base, rocksdb::TransactionDBOptions const& options,
                     std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
                     rocksdb::TransactionDB** db);
rocksdb::Status over(rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
                     rocksdb::OptimisticTransactionDB** db);

}  // namespace perdure::lsm
