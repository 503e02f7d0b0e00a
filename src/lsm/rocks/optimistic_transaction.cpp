#include "lsm/rocks/optimistic_transaction.hpp"

namespace perdure::lsm {

OptimisticTransaction::OptimisticTransaction(rocksdb::DB& db, TransactionStore& store,
                                             rocksdb::WriteOptions const& write,
                                             rocksdb::OptimisticTransactionOptions const& options)
    : BaseTransaction(db, store, write) {
  if (options.set_snapshot) SetSnapshot();
}

void OptimisticTransaction::begin_again(rocksdb::WriteOptions const& write,
                                        rocksdb::OptimisticTransactionOptions const& options) {
  end();
  begin_anew(write);
  if (options.set_snapshot) SetSnapshot();
}

void OptimisticTransaction::end() {
  clear();
  pinned_ = nullptr;
}

rocksdb::Status OptimisticTransaction::guard(rocksdb::ColumnFamilyHandle* family,
                                             rocksdb::Slice const& key, Guard const& how) {
  if (!how.validate) return rocksdb::Status::OK();
  take_due_snapshot();
  rocksdb::SequenceNumber since = 0;
  if (SnapshotPtr const& snapshot = snapshot_ptr(); snapshot != nullptr) {
    since = snapshot->GetSequenceNumber();
    // An older one comes back with a savepoint.
    if (pinned_ == nullptr || pinned_->GetSequenceNumber() > since) pinned_ = snapshot;
  } else {
    if (pinned_ == nullptr) pinned_ = store_.pin();
    since = db_.GetLatestSequenceNumber();
  }
  KeyRef const ref(family->GetID(), key);
  track(ref, keys_.find(ref), since, how);
  return rocksdb::Status::OK();
}

rocksdb::Status OptimisticTransaction::Prepare() {
  return rocksdb::Status::InvalidArgument(
      "Two phase commit not supported for optimistic transactions.");
}

rocksdb::Status OptimisticTransaction::Commit() {
  std::vector<TrackedKey> const keys = keys_.list();
  rocksdb::Status status;
  if (batch_.is_blank() && !write_options_.sync) {
    status = store_.unwritten(keys);
  } else {
    status = store_.write_if_unwritten(write_options_, keys, &batch_.plain());
  }
  if (status.ok()) end();
  return status;
}

rocksdb::Status OptimisticTransaction::Rollback() {
  end();
  return rocksdb::Status::OK();
}

rocksdb::Status OptimisticTransaction::SetName(rocksdb::TransactionName const&) {
  return rocksdb::Status::InvalidArgument("Optimistic transactions cannot be named.");
}

}  // namespace perdure::lsm
