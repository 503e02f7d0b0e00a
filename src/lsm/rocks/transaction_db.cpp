#include "lsm/rocks/transaction_db.hpp"

#include <algorithm>

#include "lsm/rocks/optimistic_transaction.hpp"
#include "lsm/rocks/plain_transaction_store.hpp"

namespace perdure::lsm {
namespace {

using rocksdb::Slice;

/// A plain write, for as long as it has its keys.
class PlainWriter final : public LockOwner {
 public:
  explicit PlainWriter(TransactionShared& shared) : shared_(shared) {
    lock_id = shared.locks.next_id();
    timeout_us = shared.options.default_lock_timeout;
    if (timeout_us > 0) timeout_us *= 1000;
  }
  ~PlainWriter() override {
    for (KeyRef const& key : keys_) shared_.locks.release(*this, key);
  }
  rocksdb::Status lock(KeyRef const& key) {
    rocksdb::Status status = shared_.locks.acquire(*this, key, true, 0).status;
    if (status.ok()) keys_.push_back(key);
    return status;
  }

 private:
  TransactionShared& shared_;
  std::vector<KeyRef> keys_;
};

/// The keys that a batch writes. What else it may hold is refused, as RocksDB refuses it.
class KeysOfBatch final : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(std::uint32_t family, Slice const& key, Slice const&) override {
    return add(family, key);
  }
  rocksdb::Status PutEntityCF(std::uint32_t family, Slice const& key, Slice const&) override {
    return add(family, key);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, key);
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, Slice const& key) override {
    return add(family, key);
  }
  rocksdb::Status MergeCF(std::uint32_t family, Slice const& key, Slice const&) override {
    return add(family, key);
  }
  void LogData(Slice const&) override {}
  rocksdb::Status MarkNoop(bool) override { return rocksdb::Status::OK(); }

  /// Each once. In one order for all writers, so that no two of them wait for each other.
  std::vector<KeyRef> const& in_order() {
    auto const before = [](KeyRef const& a, KeyRef const& b) {
      return a.family != b.family ? a.family < b.family : a.bytes < b.bytes;
    };
    std::sort(keys_.begin(), keys_.end(), before);
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    return keys_;
  }

 private:
  rocksdb::Status add(std::uint32_t family, Slice const& key) {
    keys_.emplace_back(family, key);
    return rocksdb::Status::OK();
  }

  std::vector<KeyRef> keys_;
};

rocksdb::Status check(rocksdb::TransactionDBOptions const& options) {
  if (options.write_policy != rocksdb::WRITE_COMMITTED)
    return rocksdb::Status::NotSupported("write_policy: only WRITE_COMMITTED is supported");
  if (options.lock_mgr_handle != nullptr)
    return rocksdb::Status::NotSupported(
        "lock_mgr_handle: only locks on single keys are supported");
  if (options.custom_mutex_factory != nullptr)
    return rocksdb::Status::NotSupported(
        "custom_mutex_factory: locks use the library's own mutexes");
  return rocksdb::Status::OK();
}

struct Below {
  rocksdb::DB* db;
  TransactionStore& store;
};
Below store_over(rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles) {
  if (auto* const store = dynamic_cast<TransactionStore*>(base)) return {base, *store};
  auto* const plain = new PlainTransactionStore(base, handles);
  return {plain, *plain};
}

}  // namespace

template <class Call>
rocksdb::Status LockingDb::locked(rocksdb::ColumnFamilyHandle* family, Slice const& key,
                                  Call const& call) {
  if (shared_.options.skip_concurrency_control) return call();
  PlainWriter writer(shared_);
  rocksdb::Status status = writer.lock(KeyRef(shared_.store.rocksdb_handle(family)->GetID(), key));
  return status.ok() ? call() : status;
}

rocksdb::Transaction* LockingDb::BeginTransaction(rocksdb::WriteOptions const& write,
                                                  rocksdb::TransactionOptions const& options,
                                                  rocksdb::Transaction* old) {
  if (old == nullptr) return new PessimisticTransaction(shared_, write, options);
  static_cast<PessimisticTransaction*>(old)->begin_again(write, options);
  return old;
}

rocksdb::Status LockingDb::Put(rocksdb::WriteOptions const& options,
                               rocksdb::ColumnFamilyHandle* family, Slice const& key,
                               Slice const& value) {
  return locked(family, key, [&] { return db_->Put(options, family, key, value); });
}

rocksdb::Status LockingDb::PutEntity(rocksdb::WriteOptions const& options,
                                     rocksdb::ColumnFamilyHandle* family, Slice const& key,
                                     rocksdb::WideColumns const& columns) {
  return locked(family, key, [&] { return db_->PutEntity(options, family, key, columns); });
}

rocksdb::Status LockingDb::Delete(rocksdb::WriteOptions const& options,
                                  rocksdb::ColumnFamilyHandle* family, Slice const& key) {
  return locked(family, key, [&] { return db_->Delete(options, family, key); });
}

rocksdb::Status LockingDb::SingleDelete(rocksdb::WriteOptions const& options,
                                        rocksdb::ColumnFamilyHandle* family, Slice const& key) {
  return locked(family, key, [&] { return db_->SingleDelete(options, family, key); });
}

rocksdb::Status LockingDb::Merge(rocksdb::WriteOptions const& options,
                                 rocksdb::ColumnFamilyHandle* family, Slice const& key,
                                 Slice const& value) {
  return locked(family, key, [&] { return db_->Merge(options, family, key, value); });
}

rocksdb::Status LockingDb::Write(rocksdb::WriteOptions const& options, rocksdb::WriteBatch* batch) {
  if (shared_.options.skip_concurrency_control) return db_->Write(options, batch);
  KeysOfBatch keys;
  rocksdb::Status status = batch->Iterate(&keys);
  PlainWriter writer(shared_);
  for (KeyRef const& key : keys.in_order()) {
    if (!status.ok()) return status;
    status = writer.lock(key);
  }
  return status.ok() ? db_->Write(options, batch) : status;
}

rocksdb::Status LockingDb::Write(rocksdb::WriteOptions const& options,
                                 rocksdb::TransactionDBWriteOptimizations const& optimizations,
                                 rocksdb::WriteBatch* batch) {
  return optimizations.skip_concurrency_control ? db_->Write(options, batch)
                                                : Write(options, batch);
}

rocksdb::Status LockingDb::DropColumnFamily(rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::Status status = db_->DropColumnFamily(handle);
  if (status.ok()) shared_.locks.drop_family(handle->GetID());
  return status;
}

rocksdb::Status LockingDb::DropColumnFamilies(
    std::vector<rocksdb::ColumnFamilyHandle*> const& handles) {
  for (rocksdb::ColumnFamilyHandle* const handle : handles)
    if (rocksdb::Status status = DropColumnFamily(handle); !status.ok()) return status;
  return rocksdb::Status::OK();
}

std::pair<rocksdb::Status, SnapshotPtr> LockingDb::CreateTimestampedSnapshot(
    rocksdb::TxnTimestamp) {
  return {rocksdb::Status::NotSupported("snapshots with timestamps"), nullptr};
}

rocksdb::Status LockingDb::GetTimestampedSnapshots(rocksdb::TxnTimestamp, rocksdb::TxnTimestamp,
                                                   std::vector<SnapshotPtr>& snapshots) const {
  snapshots.clear();
  return rocksdb::Status::OK();
}

rocksdb::Transaction* OptimisticDb::BeginTransaction(
    rocksdb::WriteOptions const& write, rocksdb::OptimisticTransactionOptions const& options,
    rocksdb::Transaction* old) {
  if (old == nullptr) return new OptimisticTransaction(*db_, store_, write, options);
  static_cast<OptimisticTransaction*>(old)->begin_again(write, options);
  return old;
}

rocksdb::Status OptimisticDb::DeleteRange(rocksdb::WriteOptions const&,
                                          rocksdb::ColumnFamilyHandle*, Slice const&,
                                          Slice const&) {
  return rocksdb::Status::NotSupported("DeleteRange() beside optimistic transactions");
}

rocksdb::Status OptimisticDb::Write(rocksdb::WriteOptions const& options,
                                    rocksdb::WriteBatch* batch) {
  if (batch->HasDeleteRange())
    return rocksdb::Status::NotSupported("DeleteRange() beside optimistic transactions");
  return db_->Write(options, batch);
}

rocksdb::Status over(rocksdb::DB* base, rocksdb::TransactionDBOptions const& options,
                     std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
                     rocksdb::TransactionDB** db) {
  *db = nullptr;
  if (rocksdb::Status status = check(options); !status.ok()) return status;
  Below const below = store_over(base, handles);
  *db = new LockingDb(below.db, below.store, options);
  return rocksdb::Status::OK();
}

rocksdb::Status over(rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
                     rocksdb::OptimisticTransactionDB** db) {
  *db = nullptr;
  Below const below = store_over(base, handles);
  *db = new OptimisticDb(below.db, below.store);
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
