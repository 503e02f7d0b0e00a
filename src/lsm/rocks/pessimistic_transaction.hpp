// Transactions that lock each key before they touch it.
//
// Invariant: every key in `keys_` is locked by this transaction until clear(), unless its time was
// over and another took them all: then the state says so, and it never commits.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include "lsm/rocks/lock_table.hpp"
#include "lsm/rocks/transaction.hpp"

namespace perdure::lsm {

/// The names of transactions.
class TransactionNames {
 public:
  /// False: another has it.
  [[nodiscard]] bool add(rocksdb::Transaction& transaction, rocksdb::TransactionName const& name);
  /// Its own name; another's that is the same stays.
  void remove(rocksdb::Transaction const& transaction);
  [[nodiscard]] rocksdb::Transaction* find(rocksdb::TransactionName const& name) const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<rocksdb::TransactionName, rocksdb::Transaction*> named_
      PERDURE_GUARDED_BY(mutex_);
};

/// What the transactions of one database share.
struct TransactionShared {
  TransactionShared(rocksdb::DB& base, TransactionStore& below,
                    rocksdb::TransactionDBOptions const& given)
      : db(base),
        store(below),
        options(given),
        locks({.stripes = stripes_of(given),
               .max_locks = given.max_num_locks,
               .paths_kept = given.max_num_deadlocks}) {}

  /// Those of RocksDB's default are few for transactions of millions of keys; who asks for fewer
  /// gets these.
  static std::size_t stripes_of(rocksdb::TransactionDBOptions const& given) {
    constexpr std::size_t kDefault = 16, kMore = 16;
    return given.num_stripes < kDefault ? given.num_stripes : given.num_stripes * kMore;
  }

  rocksdb::DB& db;
  TransactionStore& store;
  rocksdb::TransactionDBOptions const options;
  LockTable locks;
  TransactionNames names;
};

class PessimisticTransaction final : public BaseTransaction, private LockOwner {
 public:
  PessimisticTransaction(TransactionShared& shared, rocksdb::WriteOptions const& write,
                         rocksdb::TransactionOptions const& options);
  ~PessimisticTransaction() override;

  void begin_again(rocksdb::WriteOptions const& write, rocksdb::TransactionOptions const& options);

  rocksdb::Status Prepare() override;
  rocksdb::Status Commit() override;
  rocksdb::Status Rollback() override;
  rocksdb::Status RollbackToSavePoint() override;

  rocksdb::Status SetName(rocksdb::TransactionName const& name) override;
  rocksdb::TransactionID GetID() const override { return lock_id; }
  void SetLockTimeout(int64_t milliseconds) override { timeout_us = milliseconds * 1000; }
  bool IsDeadlockDetect() const override { return detects_deadlocks; }
  std::vector<rocksdb::TransactionID> GetWaitingTxns(uint32_t* family,
                                                     std::string* key) const override;

 private:
  rocksdb::Status guard(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key,
                        Guard const& how) override;
  void unguard(KeyRef const& key) override { shared_.locks.release(*this, key); }
  bool give_up() override;

  struct Hold {
    rocksdb::Status status;
    TrackedKeys::Entry* before;  // null: it was not tracked
  };
  Hold lock(KeyRef const& key, bool exclusive);
  void start(rocksdb::TransactionOptions const& options);
  void end();
  void release_all();
  rocksdb::Status validate(KeyRef const& key, rocksdb::SequenceNumber& since);
  /// OK: it commits from here on, and nobody can take its locks.
  rocksdb::Status begin_commit();
  [[nodiscard]] bool is_expired() const;

  TransactionShared& shared_;
  bool skip_concurrency_control_ = false;
  bool skip_prepare_ = true;
};

}  // namespace perdure::lsm
