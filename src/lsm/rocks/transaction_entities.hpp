// Wide columns and iterators over several families in transactions: RocksDB's transactions have
// them from 9.x on, ours refuse them.
//
// Invariant: no function here says `override`, for each overrides one in some versions of RocksDB
// and none in others. They are pure there, so a form that changes does not compile.
#pragma once

#include <rocksdb/utilities/transaction.h>
#include <rocksdb/wide_columns.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "lsm/rocks/rocksdb_version.hpp"

namespace perdure::lsm {

class TransactionEntities : public rocksdb::Transaction {
  using Family = rocksdb::ColumnFamilyHandle;
  using Key = rocksdb::Slice;
  using Options = rocksdb::ReadOptions;
  using Answer = rocksdb::Status;

 public:
  virtual Answer PutEntity(Family*, Key const&, rocksdb::WideColumns const&, bool) {
    return refusal();
  }
  virtual Answer PutEntityUntracked(Family*, Key const&, rocksdb::WideColumns const&) {
    return refusal();
  }
  virtual Answer GetEntity(Options const&, Family*, Key const&, rocksdb::PinnableWideColumns*) {
    return refusal();
  }
  virtual Answer GetEntityForUpdate(Options const&, Family*, Key const&,
                                    rocksdb::PinnableWideColumns*, bool, bool) {
    return refusal();
  }
  virtual void MultiGetEntity(Options const&, Family*, std::size_t count, Key const*,
                              rocksdb::PinnableWideColumns*, Answer* statuses, bool) {
    std::fill_n(statuses, count, refusal());
  }
  virtual std::uint64_t GetNumPutEntities() const { return 0; }
  virtual std::unique_ptr<rocksdb::Iterator> GetCoalescingIterator(Options const&,
                                                                   std::vector<Family*> const&) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(refusal()));
  }
#if PERDURE_ROCKSDB >= 902
  virtual std::unique_ptr<rocksdb::AttributeGroupIterator> GetAttributeGroupIterator(
      Options const&, std::vector<Family*> const&) {
    return std::make_unique<RefusedGroups>(refusal());
  }
#endif
  /// Deadlocks are found when a lock has to wait, at once.
  virtual void SetDeadlockTimeout(std::int64_t) {}

 private:
  static Answer refusal() {
    return Answer::NotSupported("wide columns and iterators over several families in transactions");
  }
};

}  // namespace perdure::lsm
