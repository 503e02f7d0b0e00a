// What the tests of named tables share: pools of each kind that can have tables, and rows whose
// bytes follow from table, id and version. Invariant: a row of another table, id or version, or of
// two versions, is none of these.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "perdure/store.h"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {

struct TablePool {
  char const* name;
  Index index = Index::gphash;
  Layout layout = Layout::word;
  std::uint32_t value_bytes = 64;
  bool power = false;
};
inline void PrintTo(TablePool const& pool, std::ostream* out) { *out << pool.name; }
inline std::vector<TablePool> table_pools() {
  return {{"word"},
          {"word_of_any_length", Index::gphash, Layout::word, 0},
          {"in_place", Index::gphash, Layout::in_place},
          {"dash_eh", Index::dash_eh},
          {"btree", Index::btree},
          {"btree_of_any_length", Index::btree, Layout::word, 0},
          {"power", Index::gphash, Layout::word, 64, true}};
}

inline Store value_of(Result<Store> store) {
  if (!store) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

inline Table table_of(Store& store, std::string_view name, std::uint32_t row_bytes = 0) {
  auto found = store.table(name, row_bytes);
  if (!found) throw std::runtime_error(found.status().message());
  return *found;
}

using RowBytes = std::vector<std::byte>;
using Ids = std::vector<std::int64_t>;
using Ends = std::vector<std::int64_t>;

inline void add_row(RowBytes& rows, Table const& table, std::int64_t id, int version) {
  for (std::uint32_t i = 0; i < table.row_bytes; ++i)
    rows.push_back(static_cast<std::byte>(table.number * 41 + static_cast<std::uint64_t>(id) * 7 +
                                          static_cast<unsigned>(version) * 101 + i));
}

/// Those of a batch, all of one version.
inline RowBytes rows_of(TableBatch const& batch, int version) {
  RowBytes rows;
  for (std::size_t t = 0; t < batch.tables.size(); ++t) {
    auto const begin = batch.offsets.empty() ? 0 : batch.offsets[t];
    auto const end = batch.offsets.empty() ? std::ssize(batch.ids) : batch.offsets[t + 1];
    for (auto i = begin; i < end; ++i)
      add_row(rows, batch.tables[t], batch.ids[static_cast<std::size_t>(i)], version);
  }
  return rows;
}

/// Where the pool's file and, with durability power, its log lie.
class Tables : public ::testing::TestWithParam<TablePool> {
 protected:
  Store create(std::uint32_t value_bytes) const {
    CreateOptions o;
    o.key_bytes = sizeof(TableKey);
    o.value_bytes = value_bytes;
    o.expected_records = 100;
    o.index = GetParam().index;
    o.layout = GetParam().layout;
    o.file.overwrite = true;
    if (GetParam().power) {
      o.durability = Durability::power;
      o.log.dir = log_.path;
    }
    return value_of(Store::create(scratch_.file("pool"), o, options()));
  }
  Store create() const { return create(GetParam().value_bytes); }
  Store open() const { return value_of(Store::open(scratch_.file("pool"), options())); }
  OpenOptions options() const {
    OpenOptions o;
    o.threads = 2;
    if (GetParam().power) o.log_dir = log_.path;
    return o;
  }
  ScratchDir scratch_;
  DiskDir log_{"tables"};
};

}  // namespace perdure::test
