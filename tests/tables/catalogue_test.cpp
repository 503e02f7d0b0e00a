// The catalogue of named tables: its bytes, as docs/format.md has them; what a kill, other threads,
// other processes and readers beside the writer make of it.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "perdure/pool_reader.h"
#include "tables/tables.hpp"

namespace perdure::test {
namespace {

/// A record of table 0, without the zeros that follow.
RowBytes catalogue_record(Store& store, std::int64_t id) {
  std::vector<TableKey> const key = {{id, 0}};
  RowBytes value(64);
  std::vector<KeyStatus> statuses(1);
  Status const s = store.get(Column::of(key), {value.data(), 64, 1}, statuses);
  if (!s.ok()) throw std::runtime_error(s.message());
  return statuses[0] == KeyStatus::ok ? value : RowBytes{};
}

RowBytes padded(std::string const& text) {
  RowBytes bytes(64);
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

void write_record(Store& store, std::int64_t id, RowBytes const& value) {
  std::vector<TableKey> const key = {{id, 0}};
  ASSERT_TRUE(store.put(Column::of(key), {value.data(), nullptr, 64, 1}).ok());
}

using namespace std::string_literals;

std::string const kCountOfTwo = "PRTC\1\0\0\0\2\0\0\0\0\0\0\0"s;
std::string const kUsers = "PRTT\x40\0\0\0\5\0\0\0\0\0\0\0users"s;
std::string const kTags = "PRTT\x0c\0\0\0\4\0\0\0\0\0\0\0tags"s;

Store pool_of(std::uint32_t value_bytes = 64, std::uint32_t key_bytes = sizeof(TableKey)) {
  CreateOptions o;
  o.key_bytes = key_bytes;
  o.value_bytes = value_bytes;
  return value_of(Store::create("memfd:catalogue", o));
}

TEST(Catalogue, HasTheBytesOfTheFormat) {
  Store store = pool_of();
  table_of(store, "users", 64);
  table_of(store, "tags", 12);
  EXPECT_TRUE(catalogue_record(store, 0) == padded(kCountOfTwo));
  EXPECT_TRUE(catalogue_record(store, 1) == padded(kUsers));
  EXPECT_TRUE(catalogue_record(store, 2) == padded(kTags));
}

TEST(Catalogue, OfThoseBytesIsRead) {
  Store store = pool_of();
  write_record(store, 1, padded(kUsers));
  write_record(store, 2, padded(kTags));
  write_record(store, 0, padded(kCountOfTwo));
  EXPECT_EQ(table_of(store, "tags").number, 2u);
  EXPECT_EQ(table_of(store, "tags", 12).row_bytes, 12u);
  EXPECT_EQ(table_of(store, "users").row_bytes, 64u);
  EXPECT_EQ(table_of(store, "new", 1).number, 3u);
}

TEST(Catalogue, AnEntryBeyondTheCountMeansNothing) {
  Store store = pool_of();
  write_record(store, 1, padded(kUsers));
  auto const none = store.tables();
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none.value().empty());
  EXPECT_EQ(table_of(store, "tags", 12).number, 1u);
  EXPECT_TRUE(catalogue_record(store, 1) == padded(kTags));
}

TEST(Catalogue, ThatIsDamagedOrOfALaterVersionIsRefused) {
  Store without_entry = pool_of();
  write_record(without_entry, 0, padded(kCountOfTwo));
  Status const missing = without_entry.tables().status();
  EXPECT_EQ(missing.code(), Code::corrupt);
  EXPECT_NE(missing.message().find("entry of table 1 is missing"), std::string::npos);
  std::string const longer_than_the_record = "PRTT\x40\0\0\0\x31\0\0\0\0\0\0\0users"s;
  write_record(without_entry, 1, padded(longer_than_the_record));
  write_record(without_entry, 2, padded(kTags));
  EXPECT_EQ(without_entry.tables().status().code(), Code::corrupt);
  Store beyond_memory = pool_of();
  write_record(beyond_memory, 0, padded("PRTC\1\0\0\0\0\0\0\0\0\0\0\x7f"s));
  EXPECT_EQ(beyond_memory.tables().status().code(), Code::corrupt);
  Store later = pool_of();
  write_record(later, 0, padded("PRTC\2\0\0\0\2\0\0\0\0\0\0\0"s));
  Status const version = later.table("a", 8).status();
  EXPECT_EQ(version.code(), Code::unsupported);
  EXPECT_NE(version.message().find("version 1"), std::string::npos) << version.message();
}

TEST(Catalogue, IsForPoolsOfSuchKeysAloneAndOfNoOthers) {
  for (auto const& [value_bytes, key_bytes] :
       {std::pair(64u, 8u), std::pair(31u, 16u), std::pair(64u, 0u)}) {
    Store store = pool_of(value_bytes, key_bytes);
    Status const s = store.table("a", 8).status();
    EXPECT_EQ(s.code(), Code::unsupported);
    EXPECT_NE(s.message().find("keys of 16 bytes"), std::string::npos) << s.message();
  }
  Store used = pool_of();
  std::vector<TableKey> const key = {{1, 1}};
  RowBytes const value(64);
  ASSERT_TRUE(used.put(Column::of(key), {value.data(), nullptr, 64, 1}).ok());
  Status const s = used.table("a", 8).status();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("a new pool"), std::string::npos) << s.message();
}

TEST(Catalogue, NamesAndWidthsThatDoNotFitAreRefused) {
  Store store = pool_of();
  table_of(store, "a", 16);
  for (auto const& [name, width, says] :
       {std::tuple("a"s, 8u, "16 bytes, not 8"), std::tuple("b"s, 65u, "1 to 64"),
        std::tuple("\xff"s, 8u, "no UTF-8"), std::tuple("\xed\xa0\x80"s, 8u, "no UTF-8"),
        std::tuple("\xc0\x80"s, 8u, "no UTF-8"), std::tuple("\xe2\x82"s, 8u, "no UTF-8"),
        std::tuple("\xf4\x90\x80\x80"s, 8u, "no UTF-8"),
        std::tuple(std::string(49, 'n'), 8u, "1 to 48"), std::tuple(""s, 8u, "1 to 48")}) {
    Status const s = store.table(name, width).status();
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_NE(s.message().find(says), std::string::npos) << s.message();
  }
  EXPECT_EQ(table_of(store, "\u00e9\u20ac\U0001f600", 8).number, 2u);
  Status const none = store.table("none").status();
  EXPECT_EQ(none.code(), Code::not_found);
  EXPECT_NE(none.message().find("('a', '"), std::string::npos) << none.message();
  EXPECT_EQ(store.stats().records, 3u);
}

TEST(Catalogue, OfThousandsIsReadWhole) {
  ScratchDir const scratch;
  CreateOptions o;
  o.key_bytes = sizeof(TableKey);
  o.value_bytes = 64;
  Store store = value_of(Store::create(scratch.file("pool"), o));
  for (int t = 0; t < 2500; ++t) table_of(store, "t" + std::to_string(t), 8);
  ASSERT_TRUE(store.close().ok());
  Store again = value_of(Store::open(scratch.file("pool")));
  auto const tables = again.tables();
  ASSERT_TRUE(tables.ok()) << tables.status().message();
  ASSERT_EQ(tables.value().size(), 2500u);
  for (std::size_t t = 0; t < 2500; ++t) ASSERT_EQ(tables.value()[t].name, "t" + std::to_string(t));
}

TEST(Catalogue, ThreadsThatAskForOneTableGetOne) {
  Store store = pool_of();
  constexpr int kTables = 20;
  std::vector<std::vector<std::uint64_t>> numbers(4);
  std::vector<std::thread> threads;
  for (auto& mine : numbers)
    threads.emplace_back([&] {
      for (int t = 0; t < kTables; ++t)
        mine.push_back(table_of(store, "t" + std::to_string(t), 8).number);
    });
  for (auto& thread : threads) thread.join();
  for (auto const& mine : numbers) EXPECT_EQ(mine, numbers[0]);
  EXPECT_EQ(store.tables()->size(), static_cast<std::size_t>(kTables));
}

/// Whoever makes a table waits for the transaction; its thread must not wait for that one.
TEST(Catalogue, AThreadInATransactionNeverWaitsForOneThatMakesATable) {
  ::alarm(60);  // whoever waits for ever
  Store store = pool_of();
  table_of(store, "known", 8);
  auto transaction = store.begin({8});
  ASSERT_TRUE(transaction.ok());
  std::latch begun(1);
  std::thread maker([&] {
    begun.count_down();
    EXPECT_EQ(table_of(store, "new", 8).number, 2u);
  });
  begun.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits in the store by now
  EXPECT_EQ(table_of(store, "known").number, 1u);
  EXPECT_EQ(store.tables()->size(), 1u);
  EXPECT_EQ(store.table("other", 8).status().code(), Code::invalid_argument);
  ASSERT_TRUE(transaction->commit().ok());
  maker.join();
  EXPECT_EQ(store.tables()->size(), 2u);
  ::alarm(0);
}

TEST(Catalogue, OfAClosedStoreIsClosed) {
  Store store = pool_of();
  Table const table = table_of(store, "a", 8);
  ASSERT_TRUE(store.close().ok());
  Ids const ids = {1};
  EXPECT_EQ(store.table("a").status().code(), Code::closed);
  EXPECT_EQ(store.table("b", 8).status().code(), Code::closed);
  EXPECT_EQ(store.tables().status().code(), Code::closed);
  EXPECT_EQ(store.erase_tables({{&table, 1}, ids}).code(), Code::closed);
  Store const other = std::move(store);
  EXPECT_EQ(store.table("a").status().code(), Code::closed) << "of one that was moved elsewhere";
}

TEST(Catalogue, OfAnotherProcessIsClosed) {
  Store store = pool_of();
  Table const table = table_of(store, "a", 8);
  ::pid_t const child = ::fork();
  if (child == 0) {
    Ids const ids = {1};
    RowBytes row(8);
    std::vector<KeyStatus> statuses(1);
    bool const closed =
        store.table("a").status().code() == Code::closed &&
        store.tables().status().code() == Code::closed &&
        store.get_tables({{&table, 1}, ids}, row, statuses).code() == Code::closed &&
        store.put_tables({{&table, 1}, ids}, row).code() == Code::closed;
    ::_exit(closed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Catalogue, IsReadBesideItsWriter) {
  ScratchDir const scratch;
  CreateOptions o;
  o.key_bytes = sizeof(TableKey);
  o.value_bytes = 64;
  Store store = value_of(Store::create(scratch.file("pool"), o));
  auto reader = PoolReader::open(scratch.file("pool"));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_TRUE(reader->tables()->empty());
  EXPECT_EQ(reader->table("a").status().code(), Code::not_found);
  std::thread writer([&] {
    for (int t = 0; t < 200; ++t) {
      Table const table = table_of(store, "t" + std::to_string(t), 8);
      Ids const ids = {t};
      ASSERT_TRUE(store.put_tables({{&table, 1}, ids}, rows_of({{&table, 1}, ids}, 1)).ok());
    }
  });
  std::size_t seen = 0;
  while (seen < 200) {
    auto const tables = reader->tables();
    ASSERT_TRUE(tables.ok()) << tables.status().message();
    ASSERT_GE(tables.value().size(), seen);
    seen = tables.value().size();
    for (std::size_t t = 0; t < seen; ++t)
      ASSERT_EQ(tables.value()[t].name, "t" + std::to_string(t));
  }
  writer.join();
  EXPECT_EQ(reader->table("t199")->number, 200u);
}

}  // namespace
}  // namespace perdure::test
