// Stories of a database whose large batches go to memtables: what is read before, during and after
// their flush, and after a kill.
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/statistics.h>
#include <rocksdb/write_batch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "lsm/rocks/rocksdb_version.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace {

using perdure::rocks::GpuOptions;
using perdure::testing::TemporaryDirectory;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

constexpr int kMany = 2000;  // above the threshold of these tests

rocksdb::Options options() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;
  EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                       &options.merge_operator)
                  .ok());
  return options;
}

GpuOptions gpu() {
  GpuOptions gpu;
  gpu.device = perdure::rocks::Device::cpu;
  gpu.threads = 2;
  gpu.threshold = 1000;
  gpu.memtable_bytes = 4 << 20;
  gpu.idle_millis = 100'000;  // nobody who sleeps for a while loses memtables by that
  return gpu;
}

std::unique_ptr<rocksdb::DB> open(std::string const& path, GpuOptions const& gpu) {
  rocksdb::DB* db = nullptr;
  auto const s = perdure::rocks::open(options(), gpu, path, &db);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return std::unique_ptr<rocksdb::DB>(db);
}

std::unique_ptr<rocksdb::DB> open(std::string const& path) { return open(path, gpu()); }

/// As users have it, who say nothing of that.
std::unique_ptr<rocksdb::DB> open_with_usual_idleness(std::string const& path) {
  GpuOptions usual = gpu();
  usual.idle_millis = GpuOptions().idle_millis;
  return open(path, usual);
}

std::unique_ptr<rocksdb::DB> open_plain(std::string const& path) {
  rocksdb::DB* db = nullptr;
  auto const s = perdure::lsm::open_rocksdb(&db, options(), path);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return std::unique_ptr<rocksdb::DB>(db);
}

std::string key(int i) {
  std::string text = std::to_string(i);
  return "key" + std::string(8 - text.size(), '0') + text;
}

void put_many(rocksdb::DB& db, std::string const& value) {
  WriteBatch batch;
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(batch.Put(key(i), value + std::to_string(i)).ok());
  ASSERT_TRUE(db.Write(WriteOptions(), &batch).ok());
}

std::string get(rocksdb::DB& db, std::string const& key, ReadOptions const& how = {}) {
  std::string value;
  auto const s = db.Get(how, key, &value);
  return s.ok() ? value : s.ToString();
}

bool has_memtables(rocksdb::DB& db) {
  std::uint64_t memtables = 0;
  EXPECT_TRUE(db.GetIntProperty("perdure.memtables", &memtables));
  return memtables != 0;
}

TEST(RocksDatabase, AFewWritesAreRocksDBsOwn) {
  TemporaryDirectory directory;
  auto const db = open(directory / "db");
  ASSERT_TRUE(db->Put(WriteOptions(), "a", "1").ok());
  EXPECT_EQ(get(*db, "a"), "1");
  EXPECT_FALSE(has_memtables(*db));
}

TEST(RocksDatabase, ALargeBatchIsReadBeforeDuringAndAfterItsFlush) {
  TemporaryDirectory directory;
  auto const db = open(directory / "db");
  ASSERT_TRUE(db->Put(WriteOptions(), key(7), "old").ok());
  put_many(*db, "v");
  EXPECT_TRUE(has_memtables(*db));
  EXPECT_EQ(get(*db, key(7)), "v7");
  ASSERT_TRUE(db->Delete(WriteOptions(), key(8)).ok());  // goes to the memtables too
  ASSERT_TRUE(db->Merge(WriteOptions(), key(9), "more").ok());
  EXPECT_EQ(get(*db, key(8)), "NotFound: ");
  EXPECT_EQ(get(*db, key(9)), "v9,more");
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  EXPECT_FALSE(has_memtables(*db));
  EXPECT_EQ(get(*db, key(7)), "v7");
  EXPECT_EQ(get(*db, key(8)), "NotFound: ");
  EXPECT_EQ(get(*db, key(9)), "v9,more");
}

std::uint64_t hand_overs(rocksdb::DB& db) {
  std::uint64_t number = 0;
  EXPECT_TRUE(db.GetIntProperty("perdure.hand-overs", &number));
  return number;
}

/// Once memtables were given up because no batch came for a millisecond, those of most of the loads
/// that follow stay: there is a limit to how often that happens in a second.
TEST(RocksDatabase, ALoadThatComesAndGoesStaysWithTheMemtables) {
  TemporaryDirectory directory;
  GpuOptions often = gpu();
  often.idle_millis = 1;
  auto const began = std::chrono::steady_clock::now();
  auto const db = open(directory / "db", often);
  put_many(*db, "v");
  for (int i = 0; i < 1000 && hand_overs(*db) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_GE(hand_overs(*db), 1u);
  for (int i = 0; i < 20; ++i) {
    put_many(*db, "v");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::uint64_t const all = hand_overs(*db);
  auto const seconds = std::chrono::floor<std::chrono::seconds>(  // that are over
      std::chrono::steady_clock::now() - began);
  EXPECT_LE(all, 3 * (static_cast<std::uint64_t>(seconds.count()) + 1));
  EXPECT_EQ(get(*db, key(7)), "v7");
}

/// Holds up every ingest until it is told to go on.
class SlowIngests final : public rocksdb::EventListener {
 public:
  void OnExternalFileIngested(rocksdb::DB*, rocksdb::ExternalFileIngestionInfo const&) override {
    std::unique_lock lock(mutex_);
    is_ingesting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return goes_on_; });
  }
  bool wait_for_one() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return is_ingesting_; });
  }
  void go_on() {
    std::unique_lock const lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ingesting_ = false, goes_on_ = false;
};

TEST(RocksDatabase, WritesGoOnWhileMemtablesAreHandedOverAndRocksdbServesThemSoonAfter) {
  TemporaryDirectory directory;
  auto const slow = std::make_shared<SlowIngests>();
  rocksdb::Options how = options();
  how.listeners.push_back(slow);
  GpuOptions soon = gpu();
  soon.idle_millis = 5;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(perdure::rocks::open(how, soon, directory / "db", &opened).ok());
  std::unique_ptr<rocksdb::DB> const db(opened);
  WriteBatch batch;  // too many to be handed over at once
  for (int i = 0; i < 2 * kMany; ++i)
    ASSERT_TRUE(batch.Put(key(i % kMany), "v" + std::to_string(i % kMany)).ok());
  ASSERT_TRUE(db->Write(WriteOptions(), &batch).ok());
  EXPECT_TRUE(slow->wait_for_one()) << "of the hand-over";
  auto writes = std::async(std::launch::async, [&] {
    for (int i = 0; i < 300; ++i) {
      EXPECT_TRUE(db->Put(WriteOptions(), key(i), "later").ok());
      EXPECT_TRUE(db->Merge(WriteOptions(), key(kMany - 1), std::to_string(i)).ok());
    }
    EXPECT_TRUE(db->Delete(WriteOptions(), key(400)).ok());
  });
  EXPECT_EQ(writes.wait_for(std::chrono::seconds(10)), std::future_status::ready)
      << "a write waits for the flush";
  EXPECT_TRUE(has_memtables(*db));
  EXPECT_EQ(get(*db, key(7)), "later");
  slow->go_on();
  writes.get();
  std::string const merged = get(*db, key(kMany - 1));
  for (int i = 0; i < 500 && has_memtables(*db); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(has_memtables(*db)) << "the hand-over ends";
  std::uint64_t generations = 0;
  ASSERT_TRUE(db->GetIntProperty("perdure.flushed-generations", &generations));
  EXPECT_EQ(generations, 2u) << "what came meanwhile is handed over at once";
  EXPECT_EQ(get(*db, key(7)), "later");
  EXPECT_EQ(get(*db, key(301)), "v301");
  EXPECT_EQ(get(*db, key(400)), "NotFound: ");
  EXPECT_EQ(get(*db, key(kMany - 1)), merged);
  EXPECT_TRUE(merged.ends_with(",298,299")) << merged;
}

/// Calls once, when RocksDB's next write is done and has not returned yet.
class AtTheEndOfAWrite final : public rocksdb::Statistics {
 public:
  void call(std::function<void()> what) {
    std::unique_lock const lock(mutex_);
    call_ = std::move(what);
  }
  [[nodiscard]] bool called() const { return called_; }

  char const* Name() const override { return "AtTheEndOfAWrite"; }
  std::uint64_t getTickerCount(std::uint32_t) const override { return 0; }
  void histogramData(std::uint32_t, rocksdb::HistogramData* const) const override {}
  void recordTick(std::uint32_t, std::uint64_t) override {}
  void setTickerCount(std::uint32_t, std::uint64_t) override {}
  std::uint64_t getAndResetTickerCount(std::uint32_t) override { return 0; }
  void recordInHistogram(std::uint32_t type, std::uint64_t) override {
    if (type != rocksdb::DB_WRITE) return;
    std::unique_lock const lock(mutex_);
    if (!call_) return;
    std::exchange(call_, nullptr)();
    called_ = true;
  }

 private:
  std::mutex mutex_;
  std::function<void()> call_;
  std::atomic<bool> called_ = false;
};

TEST(RocksDatabase, AKillBetweenTheHandOversWriteAndTheEndOfTheLogCountsNothingTwice) {
  for (bool const merges : {true, false}) {
    SCOPED_TRACE(merges);
    TemporaryDirectory directory;
    auto const end = std::make_shared<AtTheEndOfAWrite>();
    rocksdb::Options how = options();
    how.statistics = end;
    GpuOptions soon = gpu();
    soon.idle_millis = 5;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(perdure::rocks::open(how, soon, directory / "db", &opened).ok());
    std::unique_ptr<rocksdb::DB> const db(opened);
    ASSERT_TRUE(db->Put(WriteOptions(), "grows", "a").ok());
    ASSERT_TRUE(db->Put(WriteOptions(), "goes", "soon").ok());
    end->call([&] {
      for (std::string const log : {"", ".gwal"})
        std::filesystem::copy(directory / ("db" + log), directory / ("copy" + log),
                              std::filesystem::copy_options::recursive);
    });
    WriteBatch batch;
    for (int i = 0; i < kMany - 100; ++i) ASSERT_TRUE(batch.Put(key(i), "v").ok());
    for (int i = 0; merges && i < 3; ++i) ASSERT_TRUE(batch.Merge("grows", "x").ok());
    ASSERT_TRUE(batch.Delete("goes").ok());
    ASSERT_TRUE(db->Write(WriteOptions(), &batch).ok());
    for (int i = 0; i < 1000 && !end->called(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(end->called());
    std::unique_ptr<rocksdb::DB> const left = open(directory / "copy");
    EXPECT_EQ(get(*left, "grows"), merges ? "a,x,x,x" : "a");
    EXPECT_EQ(get(*left, key(5)), "v");
    EXPECT_EQ(get(*left, "goes"), "NotFound: ");
  }
}

/// How long at most nothing happened of what goes on and on.
class LongestPause {
 public:
  using Clock = std::chrono::steady_clock;
  void note() {
    auto const now = Clock::now();
    longest_ = std::max(longest_, now - last_);
    last_ = now;
  }
  [[nodiscard]] bool is_below(Clock::duration most) const { return longest_ < most; }

 private:
  Clock::time_point last_ = Clock::now();
  Clock::duration longest_{};
};

/// Reads by MultiGet and then by an iterator, more than are many between two notes. Whether
/// memtables were there after either.
std::pair<bool, bool> stay_while_read(rocksdb::DB& db, LongestPause& pause) {
  std::vector<std::string> keys;
  for (int i = 0; i < 12'000; ++i) keys.push_back(key(i % kMany));
  std::vector<Slice> const slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(slices.size());
  std::vector<rocksdb::Status> statuses(slices.size());
  constexpr std::chrono::milliseconds kEach(600);
  for (auto const end = LongestPause::Clock::now() + kEach; LongestPause::Clock::now() < end;) {
    db.MultiGet({}, db.DefaultColumnFamily(), slices.size(), slices.data(), values.data(),
                statuses.data());
    pause.note();
  }
  bool const of_gets = has_memtables(db);
  EXPECT_EQ(values[7], "v7");
  std::unique_ptr<rocksdb::Iterator> const scan(db.NewIterator({}));
  for (auto const end = LongestPause::Clock::now() + kEach; LongestPause::Clock::now() < end;) {
    for (int times = 0; times < 6; ++times)
      for (scan->SeekToFirst(); scan->Valid();) scan->Next();
    pause.note();
  }
  return {of_gets, has_memtables(db)};
}

TEST(RocksDatabase, MemtablesThatAreReadALotStay) {
  constexpr std::chrono::milliseconds kIdle(250);
  for (int tries = 0; tries < 50; ++tries) {
    TemporaryDirectory directory;
    GpuOptions soon = gpu();
    soon.idle_millis = kIdle.count();
    auto const db = open(directory / "db", soon);
    LongestPause pause;
    put_many(*db, "v");
    auto const [of_gets, of_scans] = stay_while_read(*db, pause);
    if (!pause.is_below(kIdle / 4)) continue;  // this thread had no processor: that is not a lot
    EXPECT_TRUE(of_gets);
    EXPECT_TRUE(of_scans);
    for (int i = 0; i < 500 && has_memtables(*db); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(has_memtables(*db)) << "once nobody reads them";
    return;
  }
  FAIL() << "whenever they were read, there were pauses";
}

/// Larger values are pinned where their memtable has them, by one holder a call.
TEST(RocksDatabase, ValuesOfAMultiGetOutliveTheirMemtableAndOneAnother) {
  TemporaryDirectory const directory;
  GpuOptions no_flushed = gpu();
  no_flushed.flushed_memtable_bytes = 0;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(perdure::rocks::open(options(), no_flushed, directory / "db", &opened).ok());
  std::unique_ptr<rocksdb::DB> const db(opened);
  auto const value = [](int i) {
    return std::string(100 + i % 400, static_cast<char>('a' + i % 26));
  };
  std::vector<std::string> keys;
  WriteBatch batch;
  for (int i = 0; i < kMany; ++i) {
    keys.push_back(key(i));
    ASSERT_TRUE(batch.Put(keys.back(), value(i)).ok());
  }
  ASSERT_TRUE(db->Write({}, &batch).ok());
  std::vector<Slice> const slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(slices.size());
  std::vector<rocksdb::Status> statuses(slices.size());
  db->MultiGet({}, db->DefaultColumnFamily(), slices.size(), slices.data(), values.data(),
               statuses.data());
  ASSERT_TRUE(db->Flush({}).ok());
  for (std::size_t i = 0; i < values.size(); i += 2) values[i].Reset();
  std::atomic<int> wrong = 0;
  std::thread other([&] {
    for (std::size_t i = 1; i < values.size(); i += 4) {
      wrong += values[i] != Slice(value(static_cast<int>(i)));
      values[i].Reset();
    }
  });
  for (std::size_t i = 3; i < values.size(); i += 4) {
    wrong += values[i] != Slice(value(static_cast<int>(i)));
    values[i].Reset();
  }
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RocksDatabase, ASnapshotSeesWhatItSawThoughMemtablesAreFlushedBelowIt) {
  TemporaryDirectory directory;
  auto const db = open(directory / "db");
  put_many(*db, "first");
  rocksdb::Snapshot const* const snapshot = db->GetSnapshot();
  put_many(*db, "second");
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  put_many(*db, "third");
  ReadOptions at;
  at.snapshot = snapshot;
  EXPECT_EQ(get(*db, key(5), at), "first5");
  EXPECT_EQ(get(*db, key(5)), "third5");
  std::unique_ptr<rocksdb::Iterator> const iterator(db->NewIterator(at));
  int n = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next())
    EXPECT_EQ(iterator->value(), "first" + std::to_string(n++));
  EXPECT_EQ(n, kMany);
  db->ReleaseSnapshot(snapshot);
}

TEST(RocksDatabase, PlainRocksDBReadsTheDirectoryAfterAClose) {
  TemporaryDirectory directory;
  {
    auto const db = open(directory / "db");
    put_many(*db, "v");
    ASSERT_TRUE(db->Merge(WriteOptions(), key(1), "more").ok());
  }
  auto const plain = open_plain(directory / "db");
  EXPECT_EQ(get(*plain, key(1)), "v1,more");
  EXPECT_EQ(get(*plain, key(kMany - 1)), "v" + std::to_string(kMany - 1));
}

TEST(RocksDatabase, IdleMemtablesGiveWayToRocksDB) {
  TemporaryDirectory directory;
  auto const db = open_with_usual_idleness(directory / "db");
  put_many(*db, "v");
  for (int i = 0; i < 500 && has_memtables(*db); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(has_memtables(*db));
  EXPECT_EQ(get(*db, key(3)), "v3");
}

TEST(RocksDatabase, AStreamOfFewWritesGoesBackToRocksDB) {
  TemporaryDirectory directory;
  auto const db = open_with_usual_idleness(directory / "db");
  put_many(*db, "v");
  int written = 0;
  for (; written < 20'000 && has_memtables(*db); ++written) {
    ASSERT_TRUE(db->Put(WriteOptions(), "few" + std::to_string(written), "x").ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(has_memtables(*db));
  for (int i = 0; i < written; ++i) ASSERT_EQ(get(*db, "few" + std::to_string(i)), "x");
}

TEST(RocksDatabase, ALogInsideTheDatabaseIsRefusedByName) {
  TemporaryDirectory directory;
  GpuOptions inside = gpu();
  inside.log_dir = directory / "db/log";
  rocksdb::DB* db = nullptr;
  auto const s = perdure::rocks::open(options(), inside, directory / "db", &db);
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("db/log"), std::string::npos) << s.ToString();
  EXPECT_EQ(db, nullptr);
}

TEST(RocksDatabase, AKilledProcessLosesNothingAndMergesCountOnce) {
  TemporaryDirectory directory;
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto const db = open(directory / "db");
    put_many(*db, "v");
    WriteBatch batch;
    for (int i = 0; i < kMany; ++i) static_cast<void>(batch.Merge(key(i), "m"));
    if (!db->Write(WriteOptions(), &batch).ok()) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (int times = 0; times < 2; ++times) {
    auto const db = open(directory / "db");
    EXPECT_EQ(get(*db, key(0)), "v0,m");
    EXPECT_EQ(get(*db, key(kMany - 1)), "v" + std::to_string(kMany - 1) + ",m");
  }
}

}  // namespace
