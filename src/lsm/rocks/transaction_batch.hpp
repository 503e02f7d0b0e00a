// What a transaction has written so far, and reading it over the database.
//
// Invariant: where it counts as indexed, every write since clear() that was to be indexed is in the
// index. Until somebody reads, writes are only appended: the index of a batch that nobody reads
// would cost more than all else.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <cstdint>
#include <vector>

#include "lsm/rocks/transaction_store.hpp"

namespace perdure::lsm {

enum class ChangeKind : std::uint8_t { put, merge, erase, erase_single };

struct Change {
  ChangeKind kind = ChangeKind::put;
  rocksdb::ColumnFamilyHandle* family = nullptr;
  rocksdb::Slice key;
  rocksdb::Slice value;
};

class TransactionBatch {
 public:
  TransactionBatch(rocksdb::DB& db, TransactionStore& store);

  // Families are RocksDB's own handles.
  rocksdb::Status add(Change const& change);
  rocksdb::Status put_log_data(rocksdb::Slice const& blob);
  /// Whether what comes is to be found by reads.
  void index_writes(bool on) { index_writes_ = on; }
  void limit_bytes(std::size_t bytes) { batch_.SetMaxBytes(bytes); }
  void clear();

  void set_savepoint() { plain().SetSavePoint(); }
  rocksdb::Status rollback_to_savepoint();
  rocksdb::Status pop_savepoint() { return plain().PopSavePoint(); }

  /// There is nothing in it, log data neither.
  [[nodiscard]] bool is_blank() { return plain().GetDataSize() == blank_bytes_; }
  /// As DB::Write() takes it.
  [[nodiscard]] rocksdb::WriteBatch& plain() { return *batch_.GetWriteBatch(); }
  [[nodiscard]] rocksdb::WriteBatchWithIndex& indexed();

  rocksdb::Status get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  /// What the batch does not answer is one MultiGet() of the database.
  void multi_get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 std::size_t count, rocksdb::Slice const* keys, rocksdb::PinnableSlice* values,
                 rocksdb::Status* statuses, bool sorted);
  rocksdb::Iterator* iterate(rocksdb::ReadOptions const& options,
                             rocksdb::ColumnFamilyHandle* family);

 private:
  /// What the batch says of a key.
  struct Pending {
    enum class Base : std::uint8_t { database, put, nothing } base = Base::database;
    rocksdb::Slice put;
    std::vector<rocksdb::Slice> operands;  // over the base, oldest first
  };

  void build_index();
  Pending find(rocksdb::ColumnFamilyHandle* family, rocksdb::Slice const& key);
  /// `below` and its status are what the database said, where the base is the database.
  rocksdb::Status answer(Pending const& pending, rocksdb::Status const& below_status,
                         rocksdb::PinnableSlice const& below, rocksdb::ColumnFamilyHandle* family,
                         rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  [[nodiscard]] bool empty() { return plain().Count() == 0; }

  rocksdb::DB& db_;
  TransactionStore& store_;
  rocksdb::Comparator const* const comparator_;  // the default family's
  rocksdb::WriteBatchWithIndex batch_;
  std::size_t const blank_bytes_ = batch_.GetWriteBatch()->GetDataSize();
  bool index_writes_ = true;
  bool is_indexed_ = false;
};

}  // namespace perdure::lsm
