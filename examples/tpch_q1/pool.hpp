// lineitem in a pool of Perdure's, in one of two forms. `rows`: a record a row, whose key is the
// row's number. `columns`: a record 65,536 bytes of one column, whose key is the column and the
// number of the piece. Invariant: the record that says how many rows there are is written last, so
// a load that was cut short is no table; and what reads a damaged record answers no rows at all.
#pragma once

#include <perdure/store.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "column_files.hpp"
#include "lineitem.hpp"
#include "memory.hpp"

namespace perdure::q1 {

enum class Form : std::uint8_t { columns, rows };

/// Makes the pool anew.
Status load(std::string const& pool, Columns const& from, Form form);

/// Rows as blocks that threads and kernels read where they are: columns in the pool itself, rows in
/// a copy, for a record has other bytes before each.
struct Table {
  Form form = Form::columns;
  std::uint64_t rows = 0;
  std::optional<ValuesView> view;  // of columns
  Bytes copy;  // of rows
  std::span<std::byte const> memory;  // that all blocks lie in
  std::vector<Block> blocks;
};

/// What the pool is mapped for: CUDA refuses to pin, by the usual flags, what is mapped for reading
/// alone.
enum class Access : std::uint8_t { reading, pinning };

/// Finds the rows in a pool, by all threads, and checks each record's checksum.
Result<Table> open_table(std::string const& pool, Access access = Access::reading);

}  // namespace perdure::q1
