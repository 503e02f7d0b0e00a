// Transactions over a database that is open.
#include "lsm/rocks/transaction_db.hpp"
#include "perdure/rocks.h"

namespace perdure::rocks {

rocksdb::Status wrap_transactions(rocksdb::DB* base,
                                  rocksdb::TransactionDBOptions const& transactions,
                                  std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
                                  rocksdb::TransactionDB** db) {
  return lsm::over(base, transactions, handles, db);
}

rocksdb::Status wrap_optimistic_transactions(
    rocksdb::DB* base, std::vector<rocksdb::ColumnFamilyHandle*> const& handles,
    rocksdb::OptimisticTransactionDB** db) {
  return lsm::over(base, handles, db);
}

}  // namespace perdure::rocks
