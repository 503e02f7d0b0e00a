// What TPC-H's Q1 reads of lineitem: seven columns of unsigned integers, and the bounds that the
// sums count on. Decimals are in hundredths, dates in days since 1970-01-01. Invariant: whatever
// is loaded into a pool passed check() (column_files.hpp), so a query need not look.
#pragma once

#include <bit>
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
inline constexpr std::size_t kRowWords = 3;
static_assert(sizeof(Row) == kRowWords * sizeof(std::uint32_t));
static_assert(std::endian::native == std::endian::little);

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
  constexpr std::size_t kPart = kBytes < 16 ? kBytes : 16;
  static_assert(kBytes % kPart == 0);
  for (std::size_t at = 0; at < kBytes; at += kPart)
    __builtin_memcpy(static_cast<std::byte*>(to) + at, __builtin_assume_aligned(from + at, kPart),
                     kPart);
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

  Block block_;
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
    // Three words a row. In whole words, for a kernel reads them by 16 bytes then.
    std::uint32_t words[4 * kRowWords];
    fetch<sizeof words>(words, block_.data[0] + std::size_t{i} * sizeof words);
    Quad four;
    for (unsigned lane = 0; lane < 4; ++lane) {
      std::uint32_t const* const row = words + lane * kRowWords;
      four.price[lane] = row[0];
      four.quantity[lane] = static_cast<std::uint16_t>(row[1]);
      four.shipdate[lane] = static_cast<std::uint16_t>(row[1] >> 16);
      four.discount[lane] = static_cast<std::uint8_t>(row[2]);
      four.tax[lane] = static_cast<std::uint8_t>(row[2] >> 8);
      four.flag[lane] = static_cast<std::uint8_t>(row[2] >> 16);
      four.status[lane] = static_cast<std::uint8_t>(row[2] >> 24);
    }
    return four;
  }

 private:
  Block block_;
};

}  // namespace perdure::q1
