// What transactions ask of the database below them, beside what rocksdb::DB has. A database that
// answers it is a rocksdb::DB and a TransactionStore; plain RocksDB gets one around it
// (plain_transaction_store.hpp).
//
// Invariant: whoever asks about a key holds a snapshot that pin() gave and that is not newer than
// the key's `since`. So the database knows which history it must keep.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/write_batch.h>

#include <cstdint>
#include <memory>
#include <span>

namespace perdure::lsm {

/// A key that must be as it was: no write of it has a sequence number above `since`.
struct TrackedKey {
  std::uint32_t family = 0;
  rocksdb::Slice key;
  rocksdb::SequenceNumber since = 0;
};

/// Sequence numbers are those of DB::GetLatestSequenceNumber() and Snapshot::GetSequenceNumber().
class TransactionStore {
 public:
  virtual ~TransactionStore() = default;

  /// A snapshot as DB::GetSnapshot() gives it; from it on, the database remembers what is written.
  virtual std::shared_ptr<rocksdb::Snapshot const> pin() = 0;

  /// Busy: somebody wrote one of the keys since, deletions among that. TryAgain: it cannot be told
  /// any more. All writes of the database count, whichever way they came.
  virtual rocksdb::Status unwritten(std::span<TrackedKey const> keys) = 0;

  /// Asks unwritten(), and writes the batch where the answer is OK. No other write comes in
  /// between. It gets the keys and not a function, so that it may look at them as one batch.
  virtual rocksdb::Status write_if_unwritten(rocksdb::WriteOptions const& options,
                                             std::span<TrackedKey const> keys,
                                             rocksdb::WriteBatch* batch) = 0;

  /// RocksDB's own handle for one of this database's, null for the default family. Indexes of
  /// batches need it, for RocksDB casts the handles that it gets. The database itself takes either.
  virtual rocksdb::ColumnFamilyHandle* rocksdb_handle(rocksdb::ColumnFamilyHandle* handle) = 0;
  /// Null: there is no such family.
  virtual rocksdb::ColumnFamilyHandle* rocksdb_handle(std::uint32_t family) = 0;

  /// Of RocksDB's own handle; null where the family has none.
  virtual std::shared_ptr<rocksdb::MergeOperator> merge_operator(
      rocksdb::ColumnFamilyHandle* handle) = 0;
  /// What merge operators log to.
  virtual rocksdb::Logger* logger() = 0;
};

}  // namespace perdure::lsm
