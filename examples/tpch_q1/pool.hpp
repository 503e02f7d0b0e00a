// lineitem in a pool of Perdure's, in one of two forms. `rows`: a record a row, whose key is the
// row's number. `columns`: a record 65,536 bytes of one column, whose key is the column and the
// number of the piece. Invariant: the record that says how many rows there are is written last, so
// a load that was cut short is no table; and what reads a damaged record answers no rows at all.
#pragma once

#include <perdure/store.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "column_files.hpp"
#include "lineitem.hpp"
#include "memory.hpp"

namespace perdure::q1 {

enum class Form : std::uint8_t { columns, rows };

/// Makes the pool anew.
Status load(std::string const& pool, Columns const& from, Form form);

/// The rows in memory, as blocks that threads and kernels read where they are.
struct Table {
  Form form = Form::columns;
  std::uint64_t rows = 0;
  std::vector<Bytes> memory;
  std::vector<Block> blocks;
};

/// Reads the rows out of a pool, by all threads, and checks each record's checksum.
Result<Table> read_pool(std::string const& pool);

}  // namespace perdure::q1
