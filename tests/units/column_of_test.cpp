// Columns made of a program's own arrays: which types and ranges there are columns of, what a store
// answers where sizes do not fit, and the contracts of perdure/batch.h on alignment and overlap.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "perdure/store.h"

namespace perdure {
namespace {

struct Pair {
  std::uint32_t left, right;
};
struct Padded {
  char small;
  std::uint32_t large;
};
using Row = std::array<float, 32>;

static_assert(FixedBytes<std::uint64_t> && FixedBytes<double> && FixedBytes<std::byte> &&
              FixedBytes<Pair>);
static_assert(FixedBytes<Row> && FixedBytes<float[32]> && FixedBytes<float[4][8]>);
static_assert(!FixedBytes<Padded> && !FixedBytes<std::array<Padded, 2>>, "padding holds anything");
static_assert(!FixedBytes<long double> && !FixedBytes<long double[2]>, "six bytes of padding");
static_assert(!FixedBytes<char const*>, "an address says nothing to whoever opens the pool");
static_assert(!FixedBytes<std::string> && !FixedBytes<std::vector<int>> &&
              !FixedBytes<std::array<int, 0>>);

template <class R>
concept ColumnOf = requires(R&& range) { Column::of(std::forward<R>(range)); };
template <class R>
concept MutableColumnOf = requires(R&& range) { MutableColumn::of(std::forward<R>(range)); };

static_assert(ColumnOf<std::vector<int>&> && ColumnOf<std::vector<int> const&> &&
              ColumnOf<int (&)[3]>);
static_assert(ColumnOf<std::span<int const>> && ColumnOf<std::span<int>> &&
              ColumnOf<std::span<int const, 4>&>);
static_assert(!ColumnOf<std::vector<int>>, "it is gone before the column");
static_assert(!ColumnOf<std::vector<bool>&> && !ColumnOf<std::vector<Padded>&>);
static_assert(MutableColumnOf<std::vector<int>&> && MutableColumnOf<std::span<int>> &&
              MutableColumnOf<Row (&)[2]>);
static_assert(!MutableColumnOf<std::vector<int> const&> && !MutableColumnOf<std::span<int const>>);

static_assert(std::is_assignable_v<decltype((std::declval<CallOptions&>().stream)), CUstream_st*>);
static_assert(
    !std::is_assignable_v<decltype((std::declval<CallOptions&>().stream)), std::uint64_t*>,
    "no stream");

TEST(ColumnOf, HasTheBytesWidthAndCountOfItsElements) {
  std::vector<std::uint16_t> const numbers = {1, 2, 3};
  Column const column = Column::of(numbers);
  EXPECT_EQ(static_cast<void const*>(column.data), numbers.data());
  EXPECT_EQ(column.width, 2u);
  EXPECT_EQ(column.count, 3u);
  EXPECT_EQ(column.offsets, nullptr);
  EXPECT_EQ(column.space, MemorySpace::host);

  float rows[3][32];
  EXPECT_EQ(Column::of(rows).width, 128u);
  EXPECT_EQ(Column::of(rows).count, 3u);
  EXPECT_EQ(MutableColumn::of(rows).width, 128u);
  EXPECT_EQ(MutableColumn::of(std::span(rows), MemorySpace::device).space, MemorySpace::device);
}

Store small_store(std::uint32_t value_bytes) {
  auto made =
      Store::create("memfd:columns", {.key_bytes = 8, .value_bytes = value_bytes}, {.threads = 1});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

TEST(ColumnOf, IsRefusedByNameWhereItsElementsHaveAnotherSizeThanThePools) {
  Store store = small_store(128);
  std::vector<std::uint64_t> const keys = {7, 8, 9};
  std::vector<std::uint32_t> const narrow = {7, 8, 9};
  std::vector<Row> rows(3);
  Status const keys_refused = store.put(Column::of(narrow), Column::of(rows));
  EXPECT_EQ(keys_refused.code(), Code::invalid_argument);
  EXPECT_NE(keys_refused.message().find("keys are 4 bytes wide"), std::string::npos)
      << keys_refused.message();
  Status const values_refused = store.put(Column::of(keys), Column::of(keys));
  EXPECT_EQ(values_refused.code(), Code::invalid_argument);
  EXPECT_NE(values_refused.message().find("values are 8 bytes wide"), std::string::npos)
      << values_refused.message();

  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].fill(static_cast<float>(i) + 0.5f);
  ASSERT_TRUE(store.put(Column::of(keys), Column::of(rows)).ok());
  std::vector<Row> found(3);
  std::vector<KeyStatus> statuses(3);
  ASSERT_TRUE(store.get(Column::of(keys), MutableColumn::of(found), statuses).ok());
  EXPECT_EQ(found, rows);
}

TEST(ColumnContracts, ColumnsMayBeginAtAnyAddress) {
  constexpr std::size_t kRecords = 100;
  std::vector<std::uint64_t> numbers(kRecords);
  std::iota(numbers.begin(), numbers.end(), 0u);
  for (std::size_t at = 0; at < 16; ++at) {
    Store store = small_store(8);
    std::vector<std::byte> keys(8 * kRecords + 16), values(8 * kRecords + 16),
        found(8 * kRecords + 16);
    std::memcpy(keys.data() + at, numbers.data(), 8 * kRecords);
    std::memcpy(values.data() + (15 - at), numbers.data(), 8 * kRecords);
    std::vector<KeyStatus> statuses(kRecords);
    Column const of_keys{keys.data() + at, nullptr, 8, kRecords};
    ASSERT_TRUE(store.put(of_keys, {values.data() + (15 - at), nullptr, 8, kRecords}).ok()) << at;
    ASSERT_TRUE(store.get(of_keys, {found.data() + (at + 5) % 16, 8, kRecords}, statuses).ok())
        << at;
    EXPECT_EQ(std::memcmp(found.data() + (at + 5) % 16, numbers.data(), 8 * kRecords), 0) << at;
  }
}

TEST(ColumnContracts, KeysAndValuesMayBeTheSameBytesOrOverlap) {
  Store store = small_store(8);
  std::vector<std::uint64_t> numbers(101);
  std::iota(numbers.begin(), numbers.end(), 0u);
  Column const keys = Column::of(std::span(numbers).first(100));
  std::vector<std::uint64_t> found(100);
  std::vector<KeyStatus> statuses(100);
  for (std::size_t shift : {0, 1}) {
    Column const values = Column::of(std::span(numbers).subspan(shift, 100));
    ASSERT_TRUE(store.put(keys, values).ok());
    ASSERT_TRUE(store.get(keys, MutableColumn::of(found), statuses).ok());
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(found[i], i + shift);
  }
}

}  // namespace
}  // namespace perdure
