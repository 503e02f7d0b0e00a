// Openings that only read: they see what RocksDB and the G-WAL hold together, change no file, and
// see one state of a database that another process is writing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/utilities/options_util.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "lsm/rocks/database.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

extern char** environ;

namespace perdure::test {
namespace {

using rocksdb::ReadOptions;
using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

constexpr int kMany = 2000;  // above the threshold of these tests
constexpr char kRefusal[] = "Not implemented: Not supported operation in read only mode.";

rocksdb::Options options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;
  EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                       &options.merge_operator)
                  .ok());
  return options;
}

rocks::GpuOptions gpu() {
  rocks::GpuOptions gpu;
  gpu.device = rocks::Device::cpu;
  gpu.threads = 2;
  gpu.threshold = 1000;
  gpu.memtable_bytes = 1 << 18;
  gpu.block_cache_bytes = 0;
  gpu.idle_millis = 1u << 30;
  return gpu;
}

using Database = std::unique_ptr<rocksdb::DB>;

Database open_to_write(std::string const& path, rocks::GpuOptions const& how = gpu()) {
  rocksdb::DB* db = nullptr;
  auto const s = rocks::open(options(), how, path, &db);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return Database(db);
}

Status open_to_read(std::string const& path, Database& db, bool error_if_wal = false) {
  rocksdb::Options how = options();
  how.create_if_missing = false;
  rocksdb::DB* opened = nullptr;
  auto const s = rocks::open_for_read_only(how, gpu(), path, &opened, error_if_wal);
  db.reset(opened);
  return s;
}

std::string key(int i) {
  std::string const text = std::to_string(i);
  return "key" + std::string(5 - text.size(), '0') + text;
}

void put_many(rocksdb::DB& db, std::string const& value) {
  WriteBatch batch;
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(batch.Put(key(i), value).ok());
  ASSERT_TRUE(db.Write(WriteOptions(), &batch).ok());
}

std::string get(rocksdb::DB& db, std::string const& at, ReadOptions const& how = {}) {
  std::string value;
  auto const s = db.Get(how, at, &value);
  return s.ok() ? value : s.ToString();
}

std::map<std::string, std::string> all_of(rocksdb::DB& db, bool backwards = false) {
  std::map<std::string, std::string> all;
  std::unique_ptr<rocksdb::Iterator> const at(db.NewIterator(ReadOptions()));
  for (backwards ? at->SeekToLast() : at->SeekToFirst(); at->Valid();
       backwards ? at->Prev() : at->Next())
    all[at->key().ToString()] = at->value().ToString();
  EXPECT_TRUE(at->status().ok()) << at->status().ToString();
  return all;
}

/// Names, sizes, times and bytes of all that is below.
std::map<std::string, std::string> files_below(std::string const& directory) {
  std::map<std::string, std::string> files;
  for (auto const& one : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat st{};
    EXPECT_EQ(stat(one.path().c_str(), &st), 0);
    std::string& seen = files[one.path()];
    seen = std::to_string(st.st_ino) + " " + std::to_string(st.st_mtim.tv_sec) + " " +
           std::to_string(st.st_mtim.tv_nsec) + " ";
    if (!one.is_regular_file()) continue;
    std::ifstream file(one.path(), std::ios::binary);
    seen.append(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

/// A database as a killed process leaves it.
class ReadOnly : public ::testing::Test {
 protected:
  /// What `write` does, and the process is gone.
  template <class Write>
  void killed_after(Write write, rocks::GpuOptions const& how = gpu()) {
    Database const db = open_to_write(directory_ / "live", how);
    write(*db);
    // What is full is flushed meanwhile; a copy is to be of one moment.
    for (std::uint64_t sealed = 1; sealed != 0;)
      ASSERT_TRUE(db->GetIntProperty("perdure.sealed-generations", &sealed));
    for (std::string const end : {"", ".gwal"}) copy(directory_ / ("live" + end), path_ + end);
  }
  /// Files that are made beforehand come and go meanwhile: then once more.
  static void copy(std::string const& from, std::string const& to) {
    for (std::error_code error = std::make_error_code(std::errc::interrupted); error;) {
      std::filesystem::remove_all(to);
      std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
    }
  }

  testing::TemporaryDirectory directory_;
  std::string const path_ = directory_ / "db";
};

TEST_F(ReadOnly, WhatMemtablesHeldIsReadByEveryWayOfReading) {
  std::map<std::string, std::string> expected;
  killed_after([&](rocksdb::DB& db) {
    ASSERT_TRUE(db.Put(WriteOptions(), "below", "rocksdb's").ok());
    ASSERT_TRUE(db.Put(WriteOptions(), "grows", "a").ok());
    put_many(db, "first");
    ASSERT_TRUE(db.Merge(WriteOptions(), "grows", "b").ok());
    ASSERT_TRUE(db.Delete(WriteOptions(), key(7)).ok());
    put_many(db, std::string(200, 'v'));  // of several segments
    ASSERT_TRUE(db.Delete(WriteOptions(), key(8)).ok());
    expected = all_of(db);
  });
  auto const before = files_below(directory_ / "");
  {
    Database db;
    auto const s = open_to_read(path_, db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(all_of(*db), expected);
    EXPECT_EQ(all_of(*db, true), expected);
    EXPECT_EQ(get(*db, "below"), "rocksdb's");
    EXPECT_EQ(get(*db, "grows"), "a,b");
    EXPECT_EQ(get(*db, key(8)), "NotFound: ");
    std::vector<rocksdb::Slice> const asked = {"grows", "below", "nowhere"};
    std::vector<std::string> values;
    auto const statuses = db->MultiGet(ReadOptions(), asked, &values);
    EXPECT_EQ(values, (std::vector<std::string>{"a,b", "rocksdb's", ""}));
    EXPECT_TRUE(statuses[2].IsNotFound());
    ReadOptions at_snapshot;
    at_snapshot.snapshot = db->GetSnapshot();
    EXPECT_EQ(get(*db, key(9), at_snapshot), std::string(200, 'v'));
    db->ReleaseSnapshot(at_snapshot.snapshot);
    std::uint64_t estimate = 0;
    EXPECT_TRUE(db->GetIntProperty("rocksdb.estimate-num-keys", &estimate));
    EXPECT_GE(estimate, expected.size());
    EXPECT_TRUE(db->VerifyChecksum().ok());
    std::array<char, 8> const one = {'k', 'e', 'y', '0', '0', '0', '0', '3'};
    VariableValues found;
    std::vector<KeyStatus> told(1);
    ASSERT_TRUE(
        rocks::get(*db, db->DefaultColumnFamily(), Column::of(std::span(&one, 1)), found, told)
            .ok());
    EXPECT_EQ(found.data.size(), 200u);
  }
  EXPECT_EQ(files_below(directory_ / ""), before);
  EXPECT_EQ(all_of(*open_to_write(path_)), expected) << "and what follows has all of it";
}

TEST_F(ReadOnly, WritesAreRefusedAsRocksdbDoes) {
  for (bool const memtables : {true, false}) {
    SCOPED_TRACE(memtables);
    std::filesystem::remove_all(directory_ / "live");
    std::filesystem::remove_all(directory_ / "live.gwal");
    std::filesystem::remove_all(path_);
    std::filesystem::remove_all(path_ + ".gwal");
    killed_after([&](rocksdb::DB& db) {
      put_many(db, "kept");
      ASSERT_TRUE(memtables || db.Flush(rocksdb::FlushOptions()).ok());
    });
    auto const before = files_below(path_);
    {
      Database db;
      ASSERT_TRUE(open_to_read(path_, db).ok());
      auto* const family = db->DefaultColumnFamily();
      std::vector<std::uint64_t> const numbers(kMany, 1);
      Column const column = Column::of(numbers);
      WriteBatch batch;
      for (int i = 0; i < kMany; ++i) ASSERT_TRUE(batch.Put(key(i), "new").ok());
      MixedBatch mixed;
      std::vector<OpKind> const kinds(kMany, OpKind::put);
      std::vector<KeyStatus> statuses(kMany);
      mixed.keys = mixed.values = column;
      mixed.kinds = kinds;
      VariableValues found;
      rocksdb::ColumnFamilyHandle* none = nullptr;
      for (Status const& s :
           {db->Put(WriteOptions(), "a", "b"), db->Delete(WriteOptions(), key(1)),
            db->Merge(WriteOptions(), "a", "b"), db->Write(WriteOptions(), &batch),
            db->SingleDelete(WriteOptions(), key(1)),
            db->DeleteRange(WriteOptions(), family, "a", "z"), db->Flush(rocksdb::FlushOptions()),
            db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr),
            db->IngestExternalFile({"nowhere"}, {}), db->SyncWAL(),
            db->CreateColumnFamily(options(), "new", &none), db->DropColumnFamily(family),
            rocks::put(*db, family, column, column), rocks::erase(*db, family, column),
            rocks::apply(*db, family, mixed, found, statuses)})
        EXPECT_EQ(s.ToString(), kRefusal);
      EXPECT_EQ(get(*db, key(1)), "kept");
      EXPECT_EQ(get(*db, "a"), "NotFound: ");
    }
    EXPECT_EQ(files_below(path_), before);
  }
}

TEST_F(ReadOnly, FamiliesHaveTheirOwnMemtables) {
  killed_after([&](rocksdb::DB& db) {
    rocksdb::ColumnFamilyHandle* other = nullptr;
    ASSERT_TRUE(db.CreateColumnFamily(options(), "other", &other).ok());
    WriteBatch batch;
    for (int i = 0; i < kMany; ++i) ASSERT_TRUE(batch.Put(other, key(i), "of other").ok());
    ASSERT_TRUE(db.Write(WriteOptions(), &batch).ok());
    ASSERT_TRUE(db.DestroyColumnFamilyHandle(other).ok());
  });
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ASSERT_TRUE(rocks::open_for_read_only(options(), gpu(), path_,
                                        {{"default", options()}, {"other", options()}}, &handles,
                                        &db)
                  .ok());
  std::string value;
  EXPECT_TRUE(db->Get(ReadOptions(), handles[0], key(1), &value).IsNotFound());
  EXPECT_TRUE(db->Get(ReadOptions(), handles[1], key(1), &value).ok());
  EXPECT_EQ(value, "of other");
  for (auto* const handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  delete db;
  Database alone;  // of the families that are there, as RocksDB has it
  ASSERT_TRUE(open_to_read(path_, alone).ok());
  EXPECT_EQ(get(*alone, key(1)), "NotFound: ");
}

TEST_F(ReadOnly, ALogThatHoldsWritesIsAWalFileToo) {
  killed_after([](rocksdb::DB& db) {
    ASSERT_TRUE(db.Flush(rocksdb::FlushOptions()).ok());
    put_many(db, "logged");
  });
  std::filesystem::remove_all(directory_ / "live");
  for (auto const& file : std::filesystem::directory_iterator(path_))
    if (file.path().extension() == ".log") std::filesystem::remove(file);
  Database db;
  auto const s = open_to_read(path_, db, true);
  EXPECT_TRUE(s.IsCorruption() && s.ToString().find("G-WAL") != std::string::npos) << s.ToString();
  EXPECT_EQ(db, nullptr);
  EXPECT_TRUE(open_to_read(path_, db, false).ok());
}

TEST_F(ReadOnly, ADatabaseThatIsNotThereIsNotMade) {
  Database db;
  EXPECT_FALSE(open_to_read(path_, db).ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".gwal"));
}

TEST_F(ReadOnly, DamageOfTheLogIsToldAndLeftAsItIs) {
  killed_after([](rocksdb::DB& db) {
    put_many(db, "first");
    put_many(db, "second");
  });
  std::string const segment = path_ + ".gwal/000000000001.gwal";
  std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 500);
  file.put('!');
  file.close();
  auto const before = files_below(path_ + ".gwal");
  Database db;
  auto const s = open_to_read(path_, db);
  EXPECT_TRUE(s.IsCorruption() &&
              s.ToString().find("is damaged at offset 4096") != std::string::npos)
      << s.ToString();
  EXPECT_EQ(files_below(path_ + ".gwal"), before);
}

// ------------------------------------------------------------------------------------------------
// Beside another process

/// What that process has done, in memory of both.
struct Page {
  std::atomic<std::uint64_t> begun, written;
};

Page& map_page(std::string const& path) {
  int const file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_EQ(ftruncate(file, sizeof(Page)), 0);
  void* const at = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT_NE(at, MAP_FAILED);
  close(file);
  return *static_cast<Page*>(at);
}

constexpr char kVariable[] = "PERDURE_TEST_WRITES_TO";

/// Until it is killed: write number n puts n, and appends to `each`; a large one puts n under many
/// keys, too. Some go to RocksDB alone.
TEST(ReadOnlyWriter, DISABLED_WritesUntilItIsKilled) {
  char const* const path = std::getenv(kVariable);
  if (path == nullptr) return;
  Page& page = map_page(std::string(path) + ".page");
  rocks::GpuOptions how = gpu();
  how.idle_millis = 3;
  how.hand_overs_a_second = 1000;
  Database const db = open_to_write(path, how);
  std::mt19937 random(1);
  for (std::uint64_t n = 1;; ++n) {
    WriteBatch batch;
    std::string const number = std::to_string(n);
    ASSERT_TRUE(batch.Put("newest", number).ok() && batch.Merge("each", "x").ok());
    bool const large = random() % 4 == 0;
    for (int i = 0; large && i < kMany; ++i) ASSERT_TRUE(batch.Put(key(i), number).ok());
    page.begun = n;
    ASSERT_TRUE(db->Write(WriteOptions(), &batch).ok());
    page.written = n;
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(6));
    ASSERT_TRUE(random() % 64 != 0 || db->Flush(rocksdb::FlushOptions()).ok());
  }
}

class OtherProcess {
 public:
  explicit OtherProcess(std::string const& path) {
    setenv(kVariable, path.c_str(), 1);
    std::string words[] = {"/proc/self/exe", "--gtest_filter=ReadOnlyWriter.*",
                           "--gtest_also_run_disabled_tests"};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    EXPECT_EQ(posix_spawn(&id_, arguments[0], nullptr, nullptr, arguments, environ), 0);
    unsetenv(kVariable);
  }
  OtherProcess(OtherProcess const&) = delete;
  OtherProcess& operator=(OtherProcess const&) = delete;
  ~OtherProcess() { kill_it(); }
  void kill_it() {
    if (id_ == 0) return;
    kill(id_, SIGKILL);
    waitpid(std::exchange(id_, 0), nullptr, 0);
  }

 private:
  pid_t id_ = 0;
};

class BesideAWriter : public ReadOnly {
 protected:
  /// What was read is the state after one of the writes from `least` to `most`.
  static std::uint64_t check(rocksdb::DB& db, std::uint64_t least, std::uint64_t most) {
    auto const all = all_of(db);
    auto const newest = all.find("newest");
    if (newest == all.end()) {
      EXPECT_EQ(least, 0u);
      return 0;
    }
    std::uint64_t const n = std::stoull(newest->second);
    EXPECT_GE(n, least);
    EXPECT_LE(n, most);
    EXPECT_EQ(all.at("each").size(), 2 * n - 1) << "each write counts once";
    auto const many = std::count_if(all.begin(), all.end(), [&](auto const& one) {
      return one.first.starts_with("key") && one.second == all.at(key(0));
    });
    EXPECT_TRUE(many == kMany || !all.contains(key(0))) << many;
    return n;
  }
};

TEST_F(BesideAWriter, EachOpeningSeesOneStateOfItsTime) {
  Page& page = map_page(path_ + ".page");
  OtherProcess writer(path_);
  while (page.written == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  int opened = 0, with_memtables = 0;
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  auto const both_met = [&] { return with_memtables > 0 && with_memtables < opened; };
  for (; !both_met() || std::chrono::steady_clock::now() < end; ++opened) {
    ASSERT_LT(opened, 10'000) << "always, or never, with memtables: " << with_memtables;
    std::uint64_t const least = page.written;
    Database db;
    auto const s = open_to_read(path_, db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    std::uint64_t const most = page.begun;
    std::uint64_t memtables = 0;
    EXPECT_TRUE(db->GetIntProperty("perdure.memtables", &memtables));
    with_memtables += memtables > 0 ? 1 : 0;
    std::uint64_t const seen = check(*db, least, most);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(check(*db, seen, seen), seen) << "and goes on seeing it";
    if (HasFailure()) break;
  }
  std::uint64_t const written = page.written;
  writer.kill_it();
  Database db;
  ASSERT_TRUE(open_to_read(path_, db).ok());
  check(*db, written, page.begun);
  munmap(&page, sizeof page);
}

}  // namespace
}  // namespace perdure::test
