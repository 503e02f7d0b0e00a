// Where lineitem comes from: a folder with one file a column (l_quantity.u2 and so on: unsigned
// integers of that many bytes, little-endian), which lineitem.py makes with DuckDB's dbgen, or the
// generator here. Invariant: Columns have whole records of the pool's (kRecordBytes), and the rows
// behind the last one have kNoDay; every value is within its kind's bound.
#pragma once

#include <perdure/status.h>

#include <array>
#include <cstdint>
#include <string>

#include "lineitem.hpp"
#include "memory.hpp"

namespace perdure::q1 {

struct Columns {
  std::uint64_t rows = 0;
  std::array<Bytes, kColumns> data;  // in the order of Name

  /// Room for so many rows; all are padding until they are written.
  [[nodiscard]] static Columns of(std::uint64_t rows);
  template <class T>
  [[nodiscard]] T* as(Name name) const {
    return reinterpret_cast<T*>(data[static_cast<std::size_t>(name)].data());
  }
};

/// Bytes of a column of so many rows, whole records.
[[nodiscard]] std::uint64_t padded_bytes(std::uint64_t rows, std::uint32_t width);

Result<Columns> read_folder(std::string const& folder);
Status write_folder(std::string const& folder, Columns const& columns);

/// Rows with the distributions of TPC-H's specification (4.2.3), which dbgen's have too; other
/// random numbers, so other answers. Orders are 1,500,000 a scale, with 1 to 7 rows each. The same
/// scale gives the same rows, by however many threads.
[[nodiscard]] Columns generate(double scale, unsigned threads);

}  // namespace perdure::q1
