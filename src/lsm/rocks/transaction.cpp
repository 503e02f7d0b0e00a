#include "lsm/rocks/transaction.hpp"

#include <utility>

#include "lsm/rocks/lock_table.hpp"

namespace perdure::lsm {
namespace {

/// Does in a transaction what a batch does.
class Rebuilding final : public rocksdb::WriteBatch::Handler {
 public:
  Rebuilding(rocksdb::Transaction& transaction, TransactionStore& store)
      : transaction_(transaction), store_(store) {}

  rocksdb::Status PutCF(std::uint32_t family, rocksdb::Slice const& key,
                        rocksdb::Slice const& value) override {
    return with(family, [&](auto* handle) { return transaction_.Put(handle, key, value); });
  }
  rocksdb::Status DeleteCF(std::uint32_t family, rocksdb::Slice const& key) override {
    return with(family, [&](auto* handle) { return transaction_.Delete(handle, key); });
  }
  rocksdb::Status SingleDeleteCF(std::uint32_t family, rocksdb::Slice const& key) override {
    return with(family, [&](auto* handle) { return transaction_.SingleDelete(handle, key); });
  }
  rocksdb::Status MergeCF(std::uint32_t family, rocksdb::Slice const& key,
                          rocksdb::Slice const& value) override {
    return with(family, [&](auto* handle) { return transaction_.Merge(handle, key, value); });
  }
  void LogData(rocksdb::Slice const& blob) override { transaction_.PutLogData(blob); }
  rocksdb::Status MarkNoop(bool) override { return rocksdb::Status::OK(); }

 private:
  template <class Call>
  rocksdb::Status with(std::uint32_t family, Call const& call) {
    rocksdb::ColumnFamilyHandle* const handle = store_.rocksdb_handle(family);
    if (handle == nullptr)
      return rocksdb::Status::InvalidArgument("Invalid column family specified in write batch");
    return call(handle);
  }

  rocksdb::Transaction& transaction_;
  TransactionStore& store_;
};

}  // namespace

BaseTransaction::BaseTransaction(rocksdb::DB& db, TransactionStore& store,
                                 rocksdb::WriteOptions const& options)
    : db_(db),
      store_(store),
      batch_(db, store),
      write_options_(options),
      began_us_(lock_clock_us()) {}

void BaseTransaction::clear() {
  savepoints_.clear();
  batch_.clear();
  commit_time_batch_.Clear();
  keys_.clear();
  now_.puts = now_.deletes = now_.merges = 0;
}

void BaseTransaction::begin_anew(rocksdb::WriteOptions const& options) {
  clear();
  now_ = {};
  name_.clear();
  log_number_ = 0;
  write_options_ = options;
  began_us_ = lock_clock_us();
  batch_.index_writes(true);
}

void BaseTransaction::SetSnapshot() {
  now_.snapshot = store_.pin();
  now_.snapshot_due = false;
  now_.notifier = nullptr;
}

void BaseTransaction::SetSnapshotOnNextOperation(
    std::shared_ptr<rocksdb::TransactionNotifier> notifier) {
  now_.snapshot_due = true;
  now_.notifier = std::move(notifier);
}

void BaseTransaction::take_due_snapshot() {
  if (!now_.snapshot_due) return;
  std::shared_ptr<rocksdb::TransactionNotifier> const notifier = now_.notifier;
  SetSnapshot();
  if (notifier != nullptr) notifier->SnapshotCreated(GetSnapshot());
}

void BaseTransaction::ClearSnapshot() {
  now_.snapshot = nullptr;
  now_.snapshot_due = false;
  now_.notifier = nullptr;
}

void BaseTransaction::SetSavePoint() {
  savepoints_.push_back({now_, {}});
  batch_.set_savepoint();
}

rocksdb::Status BaseTransaction::RollbackToSavePoint() {
  if (savepoints_.empty()) return rocksdb::Status::NotFound();
  SavePoint const& last = savepoints_.back();
  now_ = last.state;
  rocksdb::Status status = batch_.rollback_to_savepoint();
  keys_.subtract(last.keys);
  last.keys.for_each([&](KeyRef const& key, TrackedKeys::Entry const&) {
    if (keys_.find(key) == nullptr) unguard(key);
  });
  savepoints_.pop_back();
  return status;
}

rocksdb::Status BaseTransaction::PopSavePoint() {
  if (savepoints_.empty()) return rocksdb::Status::NotFound();
  rocksdb::Status status = batch_.pop_savepoint();
  TrackedKeys const newer = std::move(savepoints_.back().keys);
  savepoints_.pop_back();
  if (!savepoints_.empty()) savepoints_.back().keys.add(newer);
  return status;
}

void BaseTransaction::PutLogData(rocksdb::Slice const& blob) {
  batch_.put_log_data(blob).PermitUncheckedError();
}

rocksdb::Status BaseTransaction::RebuildFromWriteBatch(rocksdb::WriteBatch* batch) {
  Rebuilding rebuilding(*this, store_);
  return batch->Iterate(&rebuilding);
}

uint64_t BaseTransaction::GetElapsedTime() const { return (lock_clock_us() - began_us_) / 1000; }

rocksdb::Status BaseTransaction::write(Change const& change) {
  rocksdb::Status status = batch_.add(change);
  if (!status.ok()) return status;
  switch (change.kind) {
    case ChangeKind::put: ++now_.puts; break;
    case ChangeKind::merge: ++now_.merges; break;
    default: ++now_.deletes;
  }
  return status;
}

void BaseTransaction::track(KeyRef const& key, TrackedKeys::Entry* known,
                            rocksdb::SequenceNumber since, Guard const& how) {
  keys_.track(key, known, since, how.read_only, how.exclusive);
  if (savepoints_.empty()) return;
  TrackedKeys& later = savepoints_.back().keys;
  later.track(key, later.find(key), since, how.read_only, how.exclusive);
}

void BaseTransaction::UndoGetForUpdate(rocksdb::ColumnFamilyHandle* family,
                                       rocksdb::Slice const& key) {
  using Forgotten = TrackedKeys::Forgotten;
  KeyRef const ref(handle_of(family)->GetID(), key);
  // A read from before the savepoint stays, for a rollback to it would need it.
  if (!savepoints_.empty() && savepoints_.back().keys.forget_read(ref) == Forgotten::nothing)
    return;
  if (keys_.forget_read(ref) == Forgotten::the_key) unguard(ref);
}

}  // namespace perdure::lsm
