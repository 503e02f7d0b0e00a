// RocksDB as it is, as what transactions stand on.
//
// Invariant: writes that come through here wait while a transaction's keys are looked at and its
// batch is written. Writes that go past it, to the RocksDB below, are seen by every look that
// begins later.
#pragma once

#include <rocksdb/utilities/stackable_db.h>

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "base/mutex.hpp"
#include "lsm/rocks/transaction_store.hpp"

namespace perdure::lsm {

/// Exact by RocksDB's own versions of a key, about 10 us a key that has to be looked at. Keys whose
/// `since` is the latest sequence number cost nothing.
class PlainTransactionStore final : public rocksdb::StackableDB, public TransactionStore {
 public:
  /// Owns `base`. `handles` are the open families; without the default one it is found by itself.
  PlainTransactionStore(rocksdb::DB* base,
                        std::vector<rocksdb::ColumnFamilyHandle*> const& handles);

  std::shared_ptr<rocksdb::Snapshot const> pin() override;
  rocksdb::Status unwritten(std::span<TrackedKey const> keys) override;
  rocksdb::Status write_if_unwritten(rocksdb::WriteOptions const& options,
                                     std::span<TrackedKey const> keys,
                                     rocksdb::WriteBatch* batch) override;
  rocksdb::ColumnFamilyHandle* rocksdb_handle(rocksdb::ColumnFamilyHandle* handle) override;
  rocksdb::ColumnFamilyHandle* rocksdb_handle(std::uint32_t family) override;
  std::shared_ptr<rocksdb::MergeOperator> merge_operator(
      rocksdb::ColumnFamilyHandle* handle) override;
  rocksdb::Logger* logger() override { return logger_.get(); }

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

  rocksdb::Status CreateColumnFamily(rocksdb::ColumnFamilyOptions const& options,
                                     std::string const& name,
                                     rocksdb::ColumnFamilyHandle** handle) override;
  rocksdb::Status CreateColumnFamilies(rocksdb::ColumnFamilyOptions const& options,
                                       std::vector<std::string> const& names,
                                       std::vector<rocksdb::ColumnFamilyHandle*>* handles) override;
  rocksdb::Status CreateColumnFamilies(std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
                                       std::vector<rocksdb::ColumnFamilyHandle*>* handles) override;
  rocksdb::Status DestroyColumnFamilyHandle(rocksdb::ColumnFamilyHandle* handle) override;

 private:
  struct Family {
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    std::shared_ptr<rocksdb::MergeOperator> merge_operator;
  };

  void add(rocksdb::ColumnFamilyHandle* handle);
  void add(std::vector<rocksdb::ColumnFamilyHandle*> const& handles);

  std::shared_ptr<rocksdb::Logger> const logger_;
  std::shared_mutex writes_;  // shared: a write; alone: a transaction's look and write
  Mutex mutex_;
  std::map<std::uint32_t, Family> families_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::lsm
