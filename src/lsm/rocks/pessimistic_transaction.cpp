#include "lsm/rocks/pessimistic_transaction.hpp"

#include <algorithm>
#include <span>

namespace perdure::lsm {

bool TransactionNames::add(rocksdb::Transaction& transaction,
                           rocksdb::TransactionName const& name) {
  MutexLock lock(mutex_);
  return named_.try_emplace(name, &transaction).second;
}

void TransactionNames::remove(rocksdb::Transaction const& transaction) {
  MutexLock lock(mutex_);
  auto const found = named_.find(transaction.GetName());
  if (found != named_.end() && found->second == &transaction) named_.erase(found);
}

rocksdb::Transaction* TransactionNames::find(rocksdb::TransactionName const& name) const {
  MutexLock lock(mutex_);
  auto const found = named_.find(name);
  return found != named_.end() ? found->second : nullptr;
}

PessimisticTransaction::PessimisticTransaction(TransactionShared& shared,
                                               rocksdb::WriteOptions const& write,
                                               rocksdb::TransactionOptions const& options)
    : BaseTransaction(shared.db, shared.store, write), shared_(shared) {
  start(options);
}

PessimisticTransaction::~PessimisticTransaction() { end(); }

void PessimisticTransaction::begin_again(rocksdb::WriteOptions const& write,
                                         rocksdb::TransactionOptions const& options) {
  end();
  begin_anew(write);
  start(options);
}

void PessimisticTransaction::start(rocksdb::TransactionOptions const& options) {
  lock_id = shared_.locks.next_id();
  txn_state_ = STARTED;
  timeout_us = options.lock_timeout >= 0 ? options.lock_timeout * 1000
                                         : shared_.options.transaction_lock_timeout * 1000;
  detects_deadlocks = options.deadlock_detect;
  detection_depth = options.deadlock_detect_depth;
  skip_concurrency_control_ = options.skip_concurrency_control;
  skip_prepare_ = options.skip_prepare;
  batch_.limit_bytes(options.max_write_batch_size);
  expires_us = options.expiration >= 0
                   ? began_us_ + static_cast<std::uint64_t>(options.expiration) * 1000
                   : 0;
  if (options.set_snapshot) SetSnapshot();
  if (expires_us != 0) shared_.locks.enroll(*this);
}

void PessimisticTransaction::end() {
  release_all();
  if (expires_us != 0) shared_.locks.withdraw(*this);
  if (!name_.empty()) shared_.names.remove(*this);
}

void PessimisticTransaction::release_all() {
  shared_.locks.release(*this, keys_);
  keys_.clear();
}

bool PessimisticTransaction::is_expired() const {
  return expires_us != 0 && lock_clock_us() >= expires_us;
}

bool PessimisticTransaction::give_up() {
  TransactionState expected = STARTED;
  return txn_state_.compare_exchange_strong(expected, LOCKS_STOLEN) || expected == LOCKS_STOLEN;
}

rocksdb::Status PessimisticTransaction::guard(rocksdb::ColumnFamilyHandle* family,
                                              rocksdb::Slice const& key, Guard const& how) {
  if (skip_concurrency_control_) return rocksdb::Status::OK();
  KeyRef const ref(family->GetID(), key);
  auto [status, before] = lock(ref, how.exclusive);
  bool const upgrade = before != nullptr && how.exclusive && !before->exclusive;

  take_due_snapshot();
  rocksdb::SequenceNumber since = before != nullptr ? before->since : kNotYet;
  if (!how.validate || GetSnapshot() == nullptr) {
    if (how.assume_tracked && before == nullptr)
      status = rocksdb::Status::InvalidArgument("assume_tracked is set but it is not tracked yet");
    // Nobody writes it from now on.
    if (since == kNotYet) since = db_.GetLatestSequenceNumber();
  } else if (status.ok()) {
    status = validate(ref, since);
    if (!status.ok() && upgrade) {
      shared_.locks.lower(*this, ref);
    } else if (!status.ok() && before == nullptr) {
      unguard(ref);
    }
  }
  if (status.ok() && !how.assume_tracked) track(ref, before, since, how);
  return status;
}

PessimisticTransaction::Hold PessimisticTransaction::lock(KeyRef const& key, bool exclusive) {
  // One whose time may end may have lost locks of keys that it tracks. It takes none of them again.
  if (expires_us != 0) {
    TrackedKeys::Entry* const before = keys_.find(key);
    if (before != nullptr && (before->exclusive || !exclusive))
      return {rocksdb::Status::OK(), before};
    return {shared_.locks.acquire(*this, key, exclusive, 0).status, before};
  }
  // Others have the locks of all that they track, so the one look tells both.
  auto taken = shared_.locks.acquire(*this, key, exclusive, keys_.next_place());
  if (taken.status.ok())
    return {rocksdb::Status::OK(), taken.had_it ? keys_.find_at(taken.place, key) : nullptr};
  TrackedKeys::Entry* const before = keys_.find(key);
  // The locks of a family that was dropped are gone.
  if (before != nullptr && (before->exclusive || !exclusive))
    return {rocksdb::Status::OK(), before};
  return {std::move(taken.status), before};
}

rocksdb::Status PessimisticTransaction::validate(KeyRef const& key,
                                                 rocksdb::SequenceNumber& since) {
  rocksdb::SequenceNumber const snapshot = GetSnapshot()->GetSequenceNumber();
  if (since <= snapshot) return rocksdb::Status::OK();  // it was looked at, and locked ever since
  since = snapshot;
  TrackedKey const one{key.family, key.slice(), snapshot};
  return store_.unwritten(std::span(&one, 1));
}

rocksdb::Status PessimisticTransaction::Prepare() {
  return rocksdb::Status::NotSupported(
      "Two-phase commit is not supported here: Commit() without Prepare()");
}

rocksdb::Status PessimisticTransaction::begin_commit() {
  if (is_expired()) return rocksdb::Status::Expired();
  if (txn_state_ == STARTED && !skip_prepare_) return rocksdb::Status::TxnNotPrepared();
  TransactionState state = STARTED;
  if (txn_state_.compare_exchange_strong(state, AWAITING_COMMIT)) return rocksdb::Status::OK();
  switch (state) {
    case LOCKS_STOLEN: return rocksdb::Status::Expired();
    case COMMITTED:
      return rocksdb::Status::InvalidArgument("Transaction has already been committed.");
    case ROLLEDBACK:
      return rocksdb::Status::InvalidArgument("Transaction has already been rolledback.");
    default: return rocksdb::Status::InvalidArgument("Transaction is not in state for commit.");
  }
}

rocksdb::Status PessimisticTransaction::Commit() {
  if (GetCommitTimeWriteBatch()->Count() > 0)
    return rocksdb::Status::InvalidArgument(
        "Commit-time batch contains values that will not be committed.");
  rocksdb::Status status = begin_commit();
  if (!status.ok()) return status;
  if (!batch_.is_blank() || write_options_.sync)
    status = db_.Write(write_options_, &batch_.plain());
  if (!name_.empty()) shared_.names.remove(*this);
  release_all();
  clear();
  if (status.ok()) txn_state_ = COMMITTED;
  return status;
}

rocksdb::Status PessimisticTransaction::Rollback() {
  switch (txn_state_) {
    case STARTED:
      release_all();
      clear();
      return rocksdb::Status::OK();
    case COMMITTED:
      return rocksdb::Status::InvalidArgument("This transaction has already been committed.");
    default:
      return rocksdb::Status::InvalidArgument(
          "Two phase transaction is not in state for rollback.");
  }
}

rocksdb::Status PessimisticTransaction::RollbackToSavePoint() {
  if (txn_state_ != STARTED)
    return rocksdb::Status::InvalidArgument("Transaction is beyond state for rollback.");
  return BaseTransaction::RollbackToSavePoint();
}

rocksdb::Status PessimisticTransaction::SetName(rocksdb::TransactionName const& name) {
  if (txn_state_ != STARTED)
    return rocksdb::Status::InvalidArgument("Transaction is beyond state for naming.");
  if (!name_.empty())
    return rocksdb::Status::InvalidArgument("Transaction has already been named.");
  if (name.empty() || name.size() > 512)
    return rocksdb::Status::InvalidArgument(
        "Transaction name length must be between 1 and 512 chars.");
  if (!shared_.names.add(*this, name))
    return rocksdb::Status::InvalidArgument("Transaction name must be unique.");
  name_ = name;
  return rocksdb::Status::OK();
}

std::vector<rocksdb::TransactionID> PessimisticTransaction::GetWaitingTxns(uint32_t* family,
                                                                           std::string* key) const {
  WaitGraph::Wait wait = waits();
  if (family != nullptr) *family = wait.family;
  if (key != nullptr) *key = std::move(wait.key);
  return std::move(wait.on);
}

}  // namespace perdure::lsm
