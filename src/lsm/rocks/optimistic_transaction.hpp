// Transactions that lock nothing: Commit() fails where a key was written meanwhile.
//
// Invariant: `pinned_` is a snapshot not newer than the `since` of any key in `keys_`, so the
// database can tell what was written after it.
#pragma once

#include <rocksdb/utilities/optimistic_transaction_db.h>

#include "lsm/rocks/transaction.hpp"

namespace perdure::lsm {

class OptimisticTransaction final : public BaseTransaction {
 public:
  OptimisticTransaction(rocksdb::DB& db, TransactionStore& store,
                        rocksdb::WriteOptions const& write,
                        rocksdb::OptimisticTransactionOptions const& options);

  void begin_again(rocksdb::WriteOptions const& write,
                   rocksdb::OptimisticTransactionOptions const& options);

  rocksdb::Status Prepare() override;
  rocksdb::Status Commit() override;
  rocksdb::Status Rollback() override;
  rocksdb::Status SetName(rocksdb::TransactionName const& name) override;
  void SetLockTimeout(int64_t) override {}

 private:
  rocksdb::Status guard(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key,
                        Guard const& how) override;
  void unguard(KeyRef const&) override {}
  void end();

  SnapshotPtr pinned_;
};

}  // namespace perdure::lsm
