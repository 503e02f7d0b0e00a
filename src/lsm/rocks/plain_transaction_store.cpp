#include "lsm/rocks/plain_transaction_store.hpp"

#include <mutex>

#include "lsm/rocks/conflicts.hpp"

namespace perdure::lsm {

PlainTransactionStore::PlainTransactionStore(
    rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles)
    : StackableDB(base), logger_(base->GetDBOptions().info_log) {
  add(base->DefaultColumnFamily());
  add(handles);
}

/// RocksDB keeps the versions that are newer than any snapshot.
std::shared_ptr<rocksdb::Snapshot const> PlainTransactionStore::pin() {
  return {db_->GetSnapshot(), [this](rocksdb::Snapshot const* snapshot) {
            if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
          }};
}

rocksdb::Status PlainTransactionStore::unwritten(std::span<TrackedKey const> keys) {
  rocksdb::SequenceNumber const latest = db_->GetLatestSequenceNumber();
  for (TrackedKey const& key : keys) {
    if (key.since >= latest) continue;  // nothing at all was written
    rocksdb::ColumnFamilyHandle* const handle = rocksdb_handle(key.family);
    if (handle == nullptr)
      return rocksdb::Status::InvalidArgument("Could not access column family " +
                                              std::to_string(key.family));
    rocksdb::SequenceNumber newest = 0;
    if (auto s = newest_version(*db_, handle, key.key, newest); !s.ok()) return s;
    if (newest > key.since) return rocksdb::Status::Busy();
  }
  return rocksdb::Status::OK();
}

rocksdb::Status PlainTransactionStore::write_if_unwritten(rocksdb::WriteOptions const& options,
                                                          std::span<TrackedKey const> keys,
                                                          rocksdb::WriteBatch* batch) {
  std::unique_lock const alone(writes_);
  rocksdb::Status status = unwritten(keys);
  return status.ok() ? db_->Write(options, batch) : status;
}

rocksdb::ColumnFamilyHandle* PlainTransactionStore::rocksdb_handle(
    rocksdb::ColumnFamilyHandle* handle) {
  return handle != nullptr ? handle : DefaultColumnFamily();
}

rocksdb::ColumnFamilyHandle* PlainTransactionStore::rocksdb_handle(std::uint32_t family) {
  MutexLock lock(mutex_);
  auto const found = families_.find(family);
  return found != families_.end() ? found->second.handle : nullptr;
}

std::shared_ptr<rocksdb::MergeOperator> PlainTransactionStore::merge_operator(
    rocksdb::ColumnFamilyHandle* handle) {
  {
    MutexLock lock(mutex_);
    auto const found = families_.find(handle->GetID());
    if (found != families_.end()) return found->second.merge_operator;
  }
  return db_->GetOptions(handle).merge_operator;
}

rocksdb::Status PlainTransactionStore::Put(rocksdb::WriteOptions const& options,
                                           rocksdb::ColumnFamilyHandle* family,
                                           rocksdb::Slice const& key, rocksdb::Slice const& value) {
  std::shared_lock const beside(writes_);
  return db_->Put(options, family, key, value);
}

rocksdb::Status PlainTransactionStore::PutEntity(rocksdb::WriteOptions const& options,
                                                 rocksdb::ColumnFamilyHandle* family,
                                                 rocksdb::Slice const& key,
                                                 rocksdb::WideColumns const& columns) {
  std::shared_lock const beside(writes_);
  return db_->PutEntity(options, family, key, columns);
}

rocksdb::Status PlainTransactionStore::Delete(rocksdb::WriteOptions const& options,
                                              rocksdb::ColumnFamilyHandle* family,
                                              rocksdb::Slice const& key) {
  std::shared_lock const beside(writes_);
  return db_->Delete(options, family, key);
}

rocksdb::Status PlainTransactionStore::SingleDelete(rocksdb::WriteOptions const& options,
                                                    rocksdb::ColumnFamilyHandle* family,
                                                    rocksdb::Slice const& key) {
  std::shared_lock const beside(writes_);
  return db_->SingleDelete(options, family, key);
}

rocksdb::Status PlainTransactionStore::Merge(rocksdb::WriteOptions const& options,
                                             rocksdb::ColumnFamilyHandle* family,
                                             rocksdb::Slice const& key,
                                             rocksdb::Slice const& value) {
  std::shared_lock const beside(writes_);
  return db_->Merge(options, family, key, value);
}

rocksdb::Status PlainTransactionStore::Write(rocksdb::WriteOptions const& options,
                                             rocksdb::WriteBatch* batch) {
  std::shared_lock const beside(writes_);
  return db_->Write(options, batch);
}

rocksdb::Status PlainTransactionStore::CreateColumnFamily(
    rocksdb::ColumnFamilyOptions const& options, std::string const& name,
    rocksdb::ColumnFamilyHandle** handle) {
  rocksdb::Status status = db_->CreateColumnFamily(options, name, handle);
  if (status.ok()) add(*handle);
  return status;
}

rocksdb::Status PlainTransactionStore::CreateColumnFamilies(
    rocksdb::ColumnFamilyOptions const& options, std::vector<std::string> const& names,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles) {
  rocksdb::Status status = db_->CreateColumnFamilies(options, names, handles);
  add(*handles);  // those that were made before one failed are there
  return status;
}

rocksdb::Status PlainTransactionStore::CreateColumnFamilies(
    std::vector<rocksdb::ColumnFamilyDescriptor> const& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles) {
  rocksdb::Status status = db_->CreateColumnFamilies(families, handles);
  add(*handles);
  return status;
}

rocksdb::Status PlainTransactionStore::DestroyColumnFamilyHandle(
    rocksdb::ColumnFamilyHandle* handle) {
  {
    MutexLock lock(mutex_);
    auto const found = families_.find(handle->GetID());
    if (found != families_.end() && found->second.handle == handle) families_.erase(found);
  }
  return db_->DestroyColumnFamilyHandle(handle);
}

void PlainTransactionStore::add(rocksdb::ColumnFamilyHandle* handle) {
  Family family{handle, db_->GetOptions(handle).merge_operator};
  MutexLock lock(mutex_);
  families_[handle->GetID()] = std::move(family);
}

void PlainTransactionStore::add(std::vector<rocksdb::ColumnFamilyHandle*> const& handles) {
  for (rocksdb::ColumnFamilyHandle* const handle : handles) add(handle);
}

}  // namespace perdure::lsm
