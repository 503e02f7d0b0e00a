// Stories of a database of durability `power`: what its log takes and what it does not, a log that
// runs full or is too small, a disk that fails, and how a database changes its durability.
#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "rocks/power/machine.hpp"

namespace perdure::test {
namespace {

rocksdb::Status put_many(rocksdb::DB& db, std::size_t count, std::string const& value,
                         rocksdb::WriteOptions const& how = {}) {
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_TRUE(batch.Put("key" + std::to_string(i), value).ok());
  return db.Write(how, &batch);
}
rocksdb::WriteOptions unlogged() {
  rocksdb::WriteOptions how;
  how.disableWAL = true;
  return how;
}
std::string get(rocksdb::DB& db, std::string const& key) {
  std::string value;
  auto const s = db.Get({}, key, &value);
  return s.ok() ? value : s.ToString();
}
std::uint64_t number_of(rocksdb::DB& db, std::string const& property) {
  std::uint64_t number = 0;
  EXPECT_TRUE(db.GetIntProperty("perdure." + property, &number));
  return number;
}
/// Memtables stay until something else flushes them.
GpuOptions patient() {
  GpuOptions options = gpu();
  options.idle_millis = 1'000'000;
  return options;
}

TEST(PowerDatabase, WhatIsNotToBeLoggedIsNot) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 50, "logged").ok());
  std::uint64_t const before = machine.power_disk().requests();
  ASSERT_TRUE(put_many(machine.db(), 40, "not logged", unlogged()).ok());
  EXPECT_EQ(machine.power_disk().requests(), before);
  machine.lose_power();
  ASSERT_TRUE(machine.open(patient()).ok());
  EXPECT_EQ(get(machine.db(), "key0"), "logged");
  EXPECT_EQ(get(machine.db(), "key49"), "logged");
}

TEST(PowerDatabase, WhatLittleIsHandedOverLasts) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(gpu()).ok());
  ASSERT_TRUE(put_many(machine.db(), 25, "there").ok());
  while (number_of(machine.db(), "memtables") != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  machine.lose_power();
  ASSERT_TRUE(machine.open(gpu()).ok());
  EXPECT_EQ(get(machine.db(), "key24"), "there");
}

TEST(PowerDatabase, WhatWasRestoredAndThenHandedOverLasts) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 25, "there").ok());
  machine.lose_power();
  ASSERT_TRUE(machine.open(gpu()).ok());
  while (number_of(machine.db(), "memtables") != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  machine.lose_power();
  ASSERT_TRUE(machine.open(gpu()).ok());
  EXPECT_EQ(get(machine.db(), "key24"), "there");
}

/// RocksDB's sequence number then falls below the intent.
TEST(PowerDatabase, WhatRocksDBForgetsDoesNotKeepMemtablesFromIt) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(machine.db().Put(unlogged(), "lost", "1").ok());
  ASSERT_TRUE(put_many(machine.db(), 50, "kept").ok());
  machine.fail_later(0, 6);  // between the intent and the end of the ingest
  EXPECT_FALSE(machine.db().Flush({}).ok());
  ASSERT_TRUE(machine.dead());
  machine.lose_power();
  ASSERT_EQ(machine.open(patient()).ToString(), "OK");
  EXPECT_EQ(machine.db().Flush({}).ToString(), "OK");
  EXPECT_EQ(get(machine.db(), "key7"), "kept");
}

/// The same of durability process, whose log is then as it was at that moment.
TEST(PowerDatabase, WhatAKillTakesFromRocksDBDoesNotKeepMemtablesFromIt) {
  GpuOptions process = patient();
  process.durability = rocks::Durability::process;
  Machine machine(1);
  std::string const log = machine.path() + ".gwal";
  ASSERT_TRUE(machine.open(process).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(machine.db().Put(unlogged(), "lost", "1").ok());
  ASSERT_TRUE(put_many(machine.db(), 50, "kept").ok());
  machine.fail_later(0, 6, [&] { std::filesystem::copy(log, log + ".then"); });
  EXPECT_FALSE(machine.db().Flush({}).ok());
  machine.lose_power();
  std::filesystem::remove_all(log);
  std::filesystem::rename(log + ".then", log);
  ASSERT_EQ(machine.open(process).ToString(), "OK");
  EXPECT_EQ(machine.db().Flush({}).ToString(), "OK");
  EXPECT_EQ(get(machine.db(), "key7"), "kept");
}

TEST(PowerDatabase, AFullLogMakesWritersWaitAndLosesNothing) {
  Machine machine(1);
  GpuOptions options = patient();
  options.memtable_bytes = 16 << 20;  // so that one memtable fills the log
  ASSERT_TRUE(machine.open(options).ok());
  rocksdb::WriteOptions no_slowdown;
  no_slowdown.no_slowdown = true;
  rocksdb::Status full;
  int written = 0;
  for (; written < 100 && full.ok(); ++written)
    full =
        put_many(machine.db(), 20, std::to_string(written) + std::string(4000, 'v'), no_slowdown);
  EXPECT_TRUE(full.IsIncomplete()) << full.ToString();
  EXPECT_EQ(number_of(machine.db(), "writer-waits"), 0u);
  for (int more = 0; more < 30; ++more, ++written)
    ASSERT_EQ(
        put_many(machine.db(), 20, std::to_string(written) + std::string(4000, 'v')).ToString(),
        "OK");
  EXPECT_GT(number_of(machine.db(), "writer-waits"), 0u);
  machine.lose_power();
  ASSERT_TRUE(machine.open(options).ok());
  EXPECT_EQ(get(machine.db(), "key3"), std::to_string(written - 1) + std::string(4000, 'v'));
}

TEST(PowerDatabase, ABatchThatTheLogCanNeverHoldIsRocksDBsWhenItReturns) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 30, "small").ok());
  ASSERT_EQ(put_many(machine.db(), 20, std::string(100'000, 'v')).ToString(), "OK");
  EXPECT_EQ(number_of(machine.db(), "memtables"), 0u);
  machine.lose_power();
  ASSERT_TRUE(machine.open(patient()).ok());
  EXPECT_EQ(get(machine.db(), "key19"), std::string(100'000, 'v'));
  EXPECT_EQ(get(machine.db(), "key29"), "small");
}

TEST(PowerDatabase, ADiskThatFailsFailsTheWriteAndReadsGoOn) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 30, "there").ok());
  machine.power_disk().plan(Mishap::error, 1);
  auto const failed = put_many(machine.db(), 30, "failed");
  EXPECT_TRUE(failed.IsIOError()) << failed.ToString();
  EXPECT_NE(failed.ToString().find("/power"), std::string::npos) << failed.ToString();
  EXPECT_FALSE(machine.db().Put({}, "one more", "1").ok());
  EXPECT_EQ(get(machine.db(), "key3"), "there");
  machine.close();
  machine.power_disk().restore();
  ASSERT_EQ(machine.open(patient()).ToString(), "OK");
  std::string const found = get(machine.db(), "key3");
  EXPECT_TRUE(found == "there" || found == "failed") << found;
  EXPECT_EQ(machine.db().Put({}, "one more", "1").ToString(), "OK");
}

TEST(PowerDatabase, ALogWhoseDatabaseWasNotClosedIsNotLeftBehind) {
  Machine machine(1);
  GpuOptions process = patient();
  process.durability = rocks::Durability::process;
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 30, "there").ok());
  machine.lose_power();
  auto const refused = machine.open(process);
  EXPECT_TRUE(refused.IsInvalidArgument());
  EXPECT_NE(refused.ToString().find("its power log /power may have writes that RocksDB lacks"),
            std::string::npos)
      << refused.ToString();
  ASSERT_TRUE(machine.open(patient()).ok());
  machine.close();  // all is RocksDB's now
  ASSERT_EQ(machine.open(process).ToString(), "OK");
  EXPECT_EQ(get(machine.db(), "key3"), "there");
  ASSERT_TRUE(put_many(machine.db(), 30, "after").ok());
  machine.lose_power();  // which the process's log outlives here, for it lies elsewhere
  auto const other_way = machine.open(patient());
  EXPECT_TRUE(other_way.IsInvalidArgument());
  EXPECT_NE(other_way.ToString().find("has writes of durability process"), std::string::npos)
      << other_way.ToString();
  ASSERT_TRUE(machine.open(process).ok());
  machine.close();
  ASSERT_EQ(machine.open(patient()).ToString(), "OK");
  EXPECT_EQ(get(machine.db(), "key3"), "after");
}

TEST(PowerDatabase, WhoOnlyReadsIsRefusedWhileTheLogHasWhatRocksDBLacks) {
  Machine machine(1);
  ASSERT_TRUE(machine.open(patient()).ok());
  ASSERT_TRUE(put_many(machine.db(), 30, "there").ok());
  rocksdb::Options options;
  options.allow_fallocate = false;
  auto const read = [&](rocksdb::DB** db) {
    GpuOptions any = patient();
    any.durability = rocks::Durability::process;
    return rocks::open_for_read_only(options, any, machine.path(), db);
  };
  rocksdb::DB* reader = nullptr;
  auto const refused = read(&reader);
  EXPECT_NE(refused.ToString().find("power log /power may have"), std::string::npos)
      << refused.ToString();
  machine.close();
  ASSERT_EQ(read(&reader).ToString(), "OK");
  EXPECT_EQ(get(*reader, "key3"), "there");
  delete reader;
}

TEST(PowerDatabase, MemoryIsNoPlaceForItsFiles) {
  TemporaryDirectory directory;
  rocksdb::Options options;
  options.create_if_missing = true;
  GpuOptions in_memory = gpu();
  in_memory.power_log_dir.clear();
  rocksdb::DB* db = nullptr;
  auto const s = rocks::open(options, in_memory, directory / "db", &db);
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("lies in memory"), std::string::npos) << s.ToString();
}

}  // namespace
}  // namespace perdure::test
