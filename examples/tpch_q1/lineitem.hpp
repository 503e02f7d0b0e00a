// What TPC-H's Q1 reads of lineitem: seven columns of unsigned integers, and the bounds that the
// sums count on. Decimals are in hundredths, dates in days since 1970-01-01. Invariant: whatever
// is loaded into a pool passed check() (column_files.hpp), so a query need not look.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host_device.hpp"

namespace perdure::q1 {

enum class Name : std::uint8_t { price, quantity, shipdate, discount, tax, flag, status };
inline constexpr std::size_t kColumns = 7;

struct ColumnKind {
  char const* name;
  std::uint32_t width;  // bytes
  std::uint32_t most;   // the largest value
};

// Prices reach 104,949.50 in TPC-H, quantities 50.00, discounts 0.10, taxes 0.08.
inline constexpr std::uint32_t kMostPrice = (1u << 24) - 1;
inline constexpr std::uint32_t kMostQuantity = (1u << 13) - 1;
inline constexpr std::uint32_t kMostPercent = 100;
inline constexpr std::uint16_t kNoDay = 0xFFFF;  // of rows that pad the last block

/// In the order of Name.
inline constexpr ColumnKind kKinds[kColumns] = {
    {"l_extendedprice", 4, kMostPrice}, {"l_quantity", 2, kMostQuantity},
    {"l_shipdate", 2, kNoDay - 1},      {"l_discount", 1, kMostPercent},
    {"l_tax", 1, kMostPercent},         {"l_returnflag", 1, 255},
    {"l_linestatus", 1, 255},
};

/// A row as a record of its own has it.
struct Row {
  std::uint32_t price;
  std::uint16_t quantity, shipdate;
  std::uint8_t discount, tax, flag, status;
};
static_assert(sizeof(Row) == 12);

/// Rows that one thread or one thread block adds up at a time. The sums of so many rows fit in the
/// words of RowSums (sums.hpp).
inline constexpr std::uint32_t kBlockRows = 16384;

/// Of a column that lies in a pool as records of its own: each has so many bytes, which are as
/// many rows of a column of one byte, and whole blocks of every column.
inline constexpr std::uint32_t kRecordBytes = 65536;
static_assert(kRecordBytes % (4 * kBlockRows) == 0);

/// Where the rows of a block are. Columns: an array a column, in the order of Name. Rows: the
/// first alone counts, an array of Row. All at multiples of 16 bytes.
struct Block {
  std::byte const* data[kColumns];
  std::uint32_t rows;  // a multiple of 4: the last are filled up with rows of kNoDay
  std::uint32_t reserved;
};

/// Four rows side by side.
struct Quad {
  std::uint32_t price[4];
  std::uint16_t quantity[4], shipdate[4];
  std::uint8_t discount[4], tax[4], flag[4], status[4];
};

template <std::size_t kBytes>
Q1_FN void fetch(void* to, std::byte const* from) {
  constexpr std::size_t kAligned = kBytes < 16 ? kBytes : 16;
  __builtin_memcpy(to, __builtin_assume_aligned(from, kAligned), kBytes);
}

/// A block of columns.
class ColumnBlock {
 public:
  Q1_FN explicit ColumnBlock(Block const& block) : block_(block) {}
  Q1_FN std::uint32_t quads() const { return block_.rows / 4; }
  Q1_FN void dates(std::uint32_t i, std::uint16_t (&to)[4]) const {
    fetch<sizeof to>(to, at<Name::shipdate>(i));
  }
  Q1_FN Quad quad(std::uint32_t i) const {
    Quad four;
    fetch<sizeof four.price>(four.price, at<Name::price>(i));
    fetch<sizeof four.quantity>(four.quantity, at<Name::quantity>(i));
    fetch<sizeof four.shipdate>(four.shipdate, at<Name::shipdate>(i));
    fetch<sizeof four.discount>(four.discount, at<Name::discount>(i));
    fetch<sizeof four.tax>(four.tax, at<Name::tax>(i));
    fetch<sizeof four.flag>(four.flag, at<Name::flag>(i));
    fetch<sizeof four.status>(four.status, at<Name::status>(i));
    return four;
  }

 private:
  template <Name kName>
  Q1_FN std::byte const* at(std::uint32_t i) const {
    constexpr auto kColumn = static_cast<std::size_t>(kName);
    constexpr std::uint32_t kWidth = kKinds[kColumn].width;
    return block_.data[kColumn] + std::size_t{i} * 4 * kWidth;
  }

  Block const& block_;
};

/// A block of rows.
class RowBlock {
 public:
  Q1_FN explicit RowBlock(Block const& block) : block_(block) {}
  Q1_FN std::uint32_t quads() const { return block_.rows / 4; }
  Q1_FN void dates(std::uint32_t i, std::uint16_t (&to)[4]) const {
    Quad const four = quad(i);
    for (unsigned lane = 0; lane < 4; ++lane) to[lane] = four.shipdate[lane];
  }
  Q1_FN Quad quad(std::uint32_t i) const {
    Row rows[4];
    fetch<sizeof rows>(rows, block_.data[0] + std::size_t{i} * sizeof rows);
    Quad four;
    for (unsigned lane = 0; lane < 4; ++lane) {
      four.price[lane] = rows[lane].price;
      four.quantity[lane] = rows[lane].quantity;
      four.shipdate[lane] = rows[lane].shipdate;
      four.discount[lane] = rows[lane].discount;
      four.tax[lane] = rows[lane].tax;
      four.flag[lane] = rows[lane].flag;
      four.status[lane] = rows[lane].status;
    }
    return four;
  }

 private:
  Block const& block_;
};

}  // namespace perdure::q1
