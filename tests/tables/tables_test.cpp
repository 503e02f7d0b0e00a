// Batches over named tables: what they answer, in pools of each kind.
#include <algorithm>
#include <array>

#include "tables/tables.hpp"

namespace perdure::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Pools, Tables, testing::ValuesIn(table_pools()),
                         [](auto const& of) { return std::string(of.param.name); });

constexpr std::array<char const*, 3> kNames = {"wide", "narrow", "odd"};
constexpr std::array<std::uint32_t, 3> kWidths = {64, 12, 41};

std::vector<Table> three(Store& store) {
  std::vector<Table> tables;
  for (std::size_t t = 0; t < kNames.size(); ++t)
    tables.push_back(table_of(store, kNames[t], kWidths[t]));
  return tables;
}

/// That the batch's ids are there, of this version, by a batch over all its tables.
void expect_version(Store& store, TableBatch const& batch, int version) {
  RowBytes const expected = rows_of(batch, version);
  RowBytes found(expected.size());
  std::vector<KeyStatus> statuses(batch.ids.size());
  Status const s = store.get_tables(batch, found, statuses);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(std::ranges::count(statuses, KeyStatus::ok), std::ssize(batch.ids));
  EXPECT_TRUE(found == expected);
}

TEST_P(Tables, OneBatchWritesAndReadsTablesOfSeveralWidths) {
  Ids const ids = {1, 2, -5, 1, 7, 1};
  Ends const ends = {0, 3, 5, 6};
  Store store = create();
  auto const tables = three(store);
  TableBatch const batch{tables, ids, ends};
  std::vector<KeyStatus> statuses(ids.size());
  ASSERT_TRUE(store.put_tables(batch, rows_of(batch, 1), statuses).ok());
  EXPECT_EQ(std::ranges::count(statuses, KeyStatus::ok), std::ssize(ids));
  expect_version(store, batch, 1);
  ASSERT_TRUE(store.put_tables(batch, rows_of(batch, 2)).ok());
  ASSERT_TRUE(store.close().ok());
  Store again = open();
  auto const listed = again.tables();
  ASSERT_TRUE(listed.ok()) << listed.status().message();
  ASSERT_EQ(listed.value().size(), kNames.size());
  for (std::size_t t = 0; t < kNames.size(); ++t) {
    EXPECT_EQ(listed.value()[t].name, kNames[t]);
    EXPECT_EQ(listed.value()[t].number, t + 1);
    EXPECT_EQ(listed.value()[t].row_bytes, kWidths[t]);
  }
  expect_version(again, {listed.value(), ids, ends}, 2);
}

TEST_P(Tables, AbsentRowsAreLeftAsTheyWere) {
  Store store = create();
  auto const tables = three(store);
  Ids const ids = {1, 2, 1, 2}, there = {1, 1};
  Ends const ends = {0, 2, 4}, there_ends = {0, 1, 2};
  std::vector<Table> const two = {tables[1], tables[2]};
  TableBatch const some{two, there, there_ends};
  ASSERT_TRUE(store.put_tables(some, rows_of(some, 1)).ok());
  RowBytes rows(2 * 12 + 2 * 41, std::byte{0xee});
  std::vector<KeyStatus> statuses(4);
  ASSERT_TRUE(store.get_tables({two, ids, ends}, rows, statuses).ok());
  EXPECT_EQ(statuses, (std::vector{KeyStatus::ok, KeyStatus::not_found, KeyStatus::ok,
                                   KeyStatus::not_found}));
  RowBytes expected;
  add_row(expected, two[0], 1, 1);
  expected.resize(24, std::byte{0xee});
  add_row(expected, two[1], 1, 1);
  expected.resize(rows.size(), std::byte{0xee});
  EXPECT_TRUE(rows == expected);
}

TEST_P(Tables, AnIdOfOneTableIsNoneOfAnother) {
  Store store = create();
  auto const tables = three(store);
  Ids const id = {42};
  TableBatch const wide{std::span(tables).first(1), id};
  ASSERT_TRUE(store.put_tables(wide, rows_of(wide, 1)).ok());
  Ids const both = {42, 42};
  Ends const ends = {0, 1, 2};
  std::vector<KeyStatus> statuses(2);
  ASSERT_TRUE(store.erase_tables({std::span(tables).subspan(1), both, ends}, statuses).ok());
  EXPECT_EQ(std::ranges::count(statuses, KeyStatus::not_found), 2);
  expect_version(store, wide, 1);
  ASSERT_TRUE(store.erase_tables({std::span(tables).first(2), both, ends}, statuses).ok());
  EXPECT_EQ(statuses, (std::vector{KeyStatus::ok, KeyStatus::not_found}));
}

TEST_P(Tables, UpdatesComputeElementByElement) {
  Store store = create();
  std::vector<Table> const tables = {table_of(store, "three", 12), table_of(store, "one", 4)};
  Ids const ids = {1, 1, 9};
  Ends const ends = {0, 1, 3};
  TableBatch const batch{tables, ids, ends};
  std::array<std::int32_t, 5> const first = {1, 2, 3, 40, 50}, more = {10, -20, 30, 1, 1};
  Ids const there = {1, 1};
  Ends const there_ends = {0, 1, 2};
  ASSERT_TRUE(
      store.put_tables({tables, there, there_ends}, std::as_bytes(std::span(first).first(4))).ok());
  std::vector<KeyStatus> statuses(3);
  ASSERT_TRUE(
      store.update_tables(batch, std::as_bytes(std::span(more)), Rmw::add, Element::i32, statuses)
          .ok());
  EXPECT_EQ(statuses, (std::vector{KeyStatus::ok, KeyStatus::ok, KeyStatus::not_found}));
  std::array<std::int32_t, 5> found{};
  ASSERT_TRUE(store.get_tables(batch, std::as_writable_bytes(std::span(found)), statuses).ok());
  EXPECT_EQ(found, (std::array<std::int32_t, 5>{11, -18, 33, 41, 0}));
  Status const s =
      store.update_tables(batch, std::as_bytes(std::span(more)), Rmw::add, Element::f64);
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("'three' have 12 bytes"), std::string::npos) << s.message();
}

TEST_P(Tables, ATransactionSpansThemAndAnAbortLeavesNothingOfIt) {
  Store store = create();
  auto const tables = three(store);
  Ids const ids = {1, 2, 3};
  Ends const ends = {0, 1, 2, 3};
  TableBatch const batch{tables, ids, ends};
  ASSERT_TRUE(store.put_tables(batch, rows_of(batch, 1)).ok());
  auto transaction = store.begin({16});
  if (!transaction) {
    EXPECT_EQ(transaction.status().code(), Code::unsupported) << transaction.status().message();
    return;  // pools without them
  }
  CallOptions in;
  in.transaction = &*transaction;
  ASSERT_TRUE(store.put_tables(batch, rows_of(batch, 2), {}, in).ok());
  ASSERT_TRUE(
      store.erase_tables({std::span(tables).first(1), std::span(ids).first(1)}, {}, in).ok());
  Status const made = store.table("late", 8).status();
  EXPECT_EQ(made.code(), Code::invalid_argument);
  EXPECT_NE(made.message().find("before the transaction"), std::string::npos) << made.message();
  ASSERT_TRUE(transaction->abort().ok());
  expect_version(store, batch, 1);
  EXPECT_EQ(store.table("late").status().code(), Code::not_found);
}

TEST_P(Tables, WhatDoesNotFitIsRefusedByName) {
  Store store = create();
  auto const tables = three(store);
  Ids const ids = {1, 2};
  RowBytes rows(2 * 64);
  std::vector<KeyStatus> statuses(2);
  auto const refused = [&](Status const& s, char const* says) {
    EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
    EXPECT_NE(s.message().find(says), std::string::npos) << s.message();
  };
  auto const wide = std::span(tables).first(1);
  Ends const falling = {0, 2, 1, 2}, short_of = {0, 1, 1, 1}, from_one = {1, 1, 1, 2};
  for (Ends const& ends : {falling, short_of, from_one, Ends{0, 2}})
    refused(store.get_tables({tables, ids, ends}, rows, statuses), "rise from 0 to 2");
  refused(store.get_tables({tables, ids}, rows, statuses), "rise from 0 to 2");
  refused(store.get_tables({wide, ids}, std::span(rows).first(127), statuses), "have 128");
  refused(store.put_tables({wide, ids}, std::span(rows).first(64)), "have 128");
  refused(store.get_tables({wide, ids}, rows, std::span(statuses).first(1)), "1 entries for 2");
  Table foreign = tables[0];
  foreign.row_bytes = 63;
  refused(store.erase_tables({{&foreign, 1}, ids}), "'wide' is of another pool");
  foreign = {"other", 9, 64};
  refused(store.erase_tables({{&foreign, 1}, ids}), "'other' is of another pool");
  EXPECT_EQ(store.stats().records, 4u) << "the catalogue's, and no others";
}

TEST_P(Tables, AnEmptyBatchIsDone) {
  Store store = create();
  auto const tables = three(store);
  Ends const none = {0, 0, 0, 0};
  EXPECT_TRUE(store.get_tables({tables, {}, none}, {}, {}).ok());
  EXPECT_TRUE(store.put_tables({tables, {}, none}, {}).ok());
  EXPECT_TRUE(store.erase_tables({tables, {}, none}).ok());
}

/// A value that somebody put under a table's key, of another length than its rows.
TEST(TablesOfAnyLength, AValueThatIsNoRowIsTold) {
  CreateOptions o;
  o.key_bytes = sizeof(TableKey);
  o.value_bytes = 0;
  Store store = value_of(Store::create("memfd:no-row", o));
  Table const table = table_of(store, "a", 8);
  std::vector<TableKey> const key = {{1, table.number}};
  RowBytes const value(7);
  ASSERT_TRUE(store.put(Column::of(key), {value.data(), nullptr, 7, 1}).ok());
  Ids const ids = {1};
  RowBytes row(8, std::byte{0xee});
  std::vector<KeyStatus> statuses(1);
  ASSERT_TRUE(store.get_tables({{&table, 1}, ids}, row, statuses).ok());
  EXPECT_EQ(statuses[0], KeyStatus::size_mismatch);
  EXPECT_TRUE(row == RowBytes(8, std::byte{0xee}));
}

/// What docs/guide/cpp.md says of widths: in a pool of any length each row has its own width's
/// room.
TEST(TablesOfAnyLength, NarrowRowsTakeTheirOwnWidthsRoom) {
  constexpr std::int64_t kRows = 50'000;
  auto const used = [&](std::uint32_t value_bytes) {
    CreateOptions o;
    o.key_bytes = sizeof(TableKey);
    o.value_bytes = value_bytes;
    o.expected_records = kRows;
    Store store = value_of(Store::create("memfd:widths", o));
    std::vector<Table> const tables = {table_of(store, "wide", 512), table_of(store, "narrow", 16)};
    Ids ids;
    for (std::int64_t i = 0; i < kRows; ++i) ids.push_back(i);
    Ends const ends = {0, kRows / 10, kRows};
    TableBatch const batch{tables, ids, ends};
    EXPECT_TRUE(store.put_tables(batch, rows_of(batch, 1)).ok());
    expect_version(store, batch, 1);
    return store.stats().space.used_bytes;
  };
  std::uint64_t const of_the_widest = used(512), of_its_own = used(0);
  EXPECT_LT(of_its_own, of_the_widest / 2) << "45,000 rows of 16 bytes and 5,000 of 512 take "
                                           << of_its_own << " and " << of_the_widest << " bytes";
}

}  // namespace
}  // namespace perdure::test
