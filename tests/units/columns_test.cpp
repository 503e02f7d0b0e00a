// The columns of a batch at their bounds: offsets that go back, keys and values of the largest
// sizes and one byte more.
#include <gtest/gtest.h>

#include "store/checks.hpp"

namespace perdure {
namespace {

pm::PoolHeader variable_sizes() {
  pm::PoolHeader h{};
  h.max_key_bytes = 4;
  h.max_value_bytes = 6;
  return h;
}

struct Columns {
  std::vector<std::byte> bytes{64};
  std::vector<std::int64_t> keys, values;
  std::vector<OpKind> kinds;
  [[nodiscard]] Column column(std::vector<std::int64_t> const& offsets) const {
    return {bytes.data(), offsets.data(), 0, offsets.size() - 1, MemorySpace::host};
  }
  [[nodiscard]] Result<std::vector<std::uint8_t>> statuses(OpKind kind) const {
    Call call;
    call.keys = column(keys);
    if (!values.empty()) call.values = column(values);
    call.kind = kind;
    call.kinds = kinds;
    return first_statuses(variable_sizes(), call);
  }
};

TEST(Columns, OffsetsThatGoBackByOneByteAreRefused) {
  for (std::int64_t const back : {0, 1, 2}) {
    Columns c;
    c.keys = {0, 3, 3 - back, 5};
    EXPECT_EQ(c.statuses(OpKind::erase).ok(), back == 0) << back;
    c.keys = {0, 1, 2, 3};
    c.values = {0, 3, 3 - back, 5};
    EXPECT_EQ(c.statuses(OpKind::put).ok(), back == 0) << back;
  }
}

TEST(Columns, OffsetsBeforeTheBytesAreRefused) {
  Columns c;
  c.keys = {-1, 2, 3};
  EXPECT_FALSE(c.statuses(OpKind::erase).ok());
  c.keys = {2, 3, 4};  // a slice of a longer column
  EXPECT_TRUE(c.statuses(OpKind::erase).ok());
  c.values = {-8, 2, 3};
  EXPECT_FALSE(c.statuses(OpKind::put).ok());
}

TEST(Columns, WhatIsOneByteTooLongIsRefusedWhereItCounts) {
  auto const too_large = static_cast<std::uint8_t>(KeyStatus::too_large);
  Columns c;
  c.keys = {0, 0, 4, 9};  // of no bytes, of the most, of one more
  auto const keys = c.statuses(OpKind::erase);
  ASSERT_TRUE(keys.ok());
  EXPECT_NE(keys.value()[0], too_large);
  EXPECT_NE(keys.value()[1], too_large);
  EXPECT_EQ(keys.value()[2], too_large);
  c.keys = {0, 1, 2, 3, 4};
  c.values = {0, 7, 14, 21, 28};
  c.kinds = {OpKind::get, OpKind::put, OpKind::update, OpKind::erase};
  auto const values = c.statuses(OpKind::put);
  ASSERT_TRUE(values.ok());
  EXPECT_NE(values.value()[0], too_large);
  EXPECT_EQ(values.value()[1], too_large);
  EXPECT_EQ(values.value()[2], too_large);
  EXPECT_NE(values.value()[3], too_large);
  c.values = {0, 6, 12, 18, 24};
  auto const largest = c.statuses(OpKind::put);
  ASSERT_TRUE(largest.ok());
  EXPECT_NE(largest.value()[1], too_large);
  EXPECT_NE(largest.value()[2], too_large);
}

}  // namespace
}  // namespace perdure
