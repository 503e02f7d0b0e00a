// Named tables: several key spaces of 64-bit ids in one pool, with one heap, one log and one
// commit. A table has a name, a number, and rows of one width. Store::table makes and finds them,
// and Store's get_tables, put_tables, update_tables and erase_tables are one batch each, however
// many tables they span (perdure/store.h).
//
// A pool of tables has keys of 16 bytes, a TableKey each. Where its values have one size, that is
// the widest row's, and a narrower row is followed by zeros. Where they have any size, each row
// takes its own width's room.
//
// Ids in device memory: these calls take host memory. Who has ids on a GPU makes an array of
// TableKey there, and passes it to the plain calls of the store, with rows of the pool's width.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace perdure {

/// A table of the pool that it was taken from.
struct Table {
  std::string name;  // UTF-8
  std::uint64_t number = 0;  // in the pool's keys, from 1 on
  std::uint32_t row_bytes = 0;
};

/// The pool's key of an id.
struct TableKey {
  std::int64_t id = 0;
  std::uint64_t table = 0;  // Table::number
};
static_assert(sizeof(TableKey) == 16);

/// Ids of several tables, those of one after those of the other (FBGEMM's table-batched form), in
/// host memory. Rows that go with them lie in the same order without gaps, `row_bytes` of their
/// table each.
struct TableBatch {
  std::span<Table const> tables = {};
  std::span<std::int64_t const> ids = {};
  /// tables.size() + 1 numbers that rise from 0 to ids.size(): the ids from offsets[t] on, up to
  /// offsets[t + 1], are of tables[t]. One table needs none.
  std::span<std::int64_t const> offsets = {};
};

}  // namespace perdure
