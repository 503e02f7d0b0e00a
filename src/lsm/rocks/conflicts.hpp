// Whether keys were written since a sequence number: by the memtables and those flushed lately, and
// where RocksDB had writes of its own, by its versions of the key.
//
// Invariant: a batch of keys is one question to the machine for each family, and RocksDB is asked
// about single keys only where it had writes of its own meanwhile.
#pragma once

#include <rocksdb/db.h>

#include <span>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/families.hpp"
#include "lsm/rocks/tables.hpp"
#include "lsm/rocks/transaction_store.hpp"

namespace perdure::lsm {

/// The newest sequence number that RocksDB has of a key, 0 where it has none.
rocksdb::Status newest_version(rocksdb::DB& base, rocksdb::ColumnFamilyHandle* handle,
                               rocksdb::Slice const& key, rocksdb::SequenceNumber& newest);

class Conflicts {
 public:
  Conflicts(rocksdb::DB& base, Engine& engine, Tables const& tables, Families const& families)
      : base_(base), engine_(engine), tables_(tables), families_(families) {}

  /// As TransactionStore::unwritten().
  [[nodiscard]] rocksdb::Status unwritten(std::span<TrackedKey const> keys) const;

 private:
  rocksdb::Status unwritten(Tables::Past const& past, std::uint32_t family,
                            std::vector<TrackedKey> keys) const;
  /// Keeps of the keys those that the runs do not have; all of them where `keep_known`.
  rocksdb::Status not_in(RunList runs, std::vector<TrackedKey>& keys, bool keep_known) const;
  rocksdb::Status not_in_base(Tables::Past const& past, rocksdb::ColumnFamilyHandle* handle,
                              std::span<TrackedKey const> keys) const;

  rocksdb::DB& base_;
  Engine& engine_;
  Tables const& tables_;
  Families const& families_;
};

}  // namespace perdure::lsm
