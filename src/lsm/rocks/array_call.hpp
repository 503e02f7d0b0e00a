// What the calls on arrays share (column_calls.cpp, column_apply.cpp): checks of their arguments,
// elements of their columns, and one state of the database to read.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "lsm/rocks/database.hpp"
#include "lsm/rocks/device_columns.hpp"
#include "perdure/rocks.h"

namespace perdure::lsm {

/// The database behind the interface.
[[nodiscard]] rocksdb::Status check_call(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                         Database*& database);
[[nodiscard]] rocksdb::Status check_statuses(std::size_t keys, std::span<KeyStatus> statuses);
[[nodiscard]] rocksdb::Status check_output(MutableColumn const& values, std::size_t keys);
/// Whether memtables take the batch; else RocksDB's own way of writing does, or refuses it.
[[nodiscard]] bool is_for_tables(Database& database, rocksdb::ColumnFamilyHandle* family,
                                 bool merges, std::size_t operations);

[[nodiscard]] rocksdb::Slice element(Column const& column, std::size_t i);
/// Elements [begin, end), with offsets from 0 on: a machine is brought no bytes before the first.
[[nodiscard]] Column part_of(Column const& column, std::size_t begin, std::size_t end,
                             Room<std::int64_t>& room);
[[nodiscard]] rocksdb::WriteOptions write_options(rocks::ArrayOptions const& options);
rocksdb::Status add_operation(rocksdb::WriteBatch& batch, rocksdb::ColumnFamilyHandle* family,
                              OpKind kind, rocksdb::Slice const& key, rocksdb::Slice const& value);
[[nodiscard]] KeyStatus status_of(rocksdb::Status const& status);

/// What all reads of a call see.
class OneState {
 public:
  OneState(Database& database, rocks::ArrayOptions const& options);
  [[nodiscard]] rocksdb::ReadOptions const& options() const { return options_; }

 private:
  rocksdb::ReadOptions options_;
  std::unique_ptr<ViewSnapshot> own_;
};

}  // namespace perdure::lsm
