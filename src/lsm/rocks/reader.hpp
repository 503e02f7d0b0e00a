// Point reads: memtables first, RocksDB for what they do not know.
//
// Invariant: what a read answers was so at one moment between its begin and its end, or at its
// snapshot: it looks at the view's runs, and at RocksDB as it was when the view was published.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/counters.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/tables.hpp"

namespace perdure::lsm {

/// What a read sees: the present, or a snapshot of ours.
struct Sight {
  rocksdb::Status refusal;  // not OK: the snapshot is RocksDB's own, which sees no memtables
  ViewPtr view;  // null: RocksDB alone, as the user's options say
  rocksdb::ReadOptions options;  // for RocksDB; where there is a view
};

class Reader {
 public:
  Reader(rocksdb::DB& base, Engine& engine, Tables const& tables, Families const& families,
         Counters& counters)
      : base_(base), engine_(engine), tables_(tables), families_(families), counters_(counters) {}

  [[nodiscard]] Sight sight(rocksdb::ReadOptions const& options) const;

  /// What the memtables say of a key; nothing: they do not know it.
  std::optional<rocksdb::Status> from_tables(Sight const& sight,
                                             rocksdb::ColumnFamilyHandle* family,
                                             rocksdb::Slice const& key,
                                             rocksdb::PinnableSlice* value);
  /// Whether what the memtables have of a key are operands of an entity in RocksDB.
  rocksdb::Status merges_entity(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                                rocksdb::Slice const& key, bool* answer);
  rocksdb::Status get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::Slice const& key, rocksdb::PinnableSlice* value);
  /// Keys of one family.
  void multi_get(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 std::span<rocksdb::Slice const> keys, rocksdb::PinnableSlice* values,
                 rocksdb::Status* statuses, bool sorted);
  /// The same of what is in sight; each key's own limit counts in a view.
  void multi_get(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                 std::span<rocksdb::Slice const> keys, Limits const& limits,
                 rocksdb::PinnableSlice* values, rocksdb::Status* statuses, bool sorted);
  bool may_exist(rocksdb::ReadOptions const& options, rocksdb::ColumnFamilyHandle* family,
                 rocksdb::Slice const& key, std::string* value, bool* value_found);

 private:
  /// The value of a key whose newest version in the memtables is an operand.
  rocksdb::Status merged(Sight const& sight, rocksdb::ColumnFamilyHandle* family,
                         rocksdb::Slice const& key, RequestId limit, rocksdb::PinnableSlice* value);
  static void pin(ViewPtr const& view, ValueRef const& found, rocksdb::PinnableSlice* value);

  rocksdb::DB& base_;
  Engine& engine_;
  Tables const& tables_;
  Families const& families_;
  Counters& counters_;
};

}  // namespace perdure::lsm
