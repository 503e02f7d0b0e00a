// A whole database of durability `power` that loses it: RocksDB's files are as they were synced
// last, and the power log's disk forgets and tears. Whatever was acknowledged is there, once, merge
// operands too, whichever side took it; of the write under way all or nothing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/write_batch.h>

#include <map>
#include <random>

#include "log/forgetful_disk.hpp"
#include "perdure/rocks.h"
#include "rocks/power/lossy_files.hpp"
#include "rocks/temporary_directory.hpp"

namespace perdure::test {
namespace {

using rocks::GpuOptions;
using testing::TemporaryDirectory;
using wal::test::ForgetfulDisk;
using wal::test::Mishap;

constexpr std::uint64_t kThreshold = 20;

using Contents = std::map<std::string, std::string>;

/// The machine: two disks that lose power together, at some request of either.
class Machine {
 public:
  explicit Machine(std::uint64_t seed) : power_disk_(seed) {
    std::string const path = this->path();
    for (auto at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
      EXPECT_TRUE(power_disk_.make_directory(path.substr(0, at), 0700).ok());
    EXPECT_TRUE(power_disk_.make_directory(path, 0700).ok());
    for (auto at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
      EXPECT_TRUE(power_disk_.sync_directory_of(path.substr(0, at)).ok());
    EXPECT_TRUE(power_disk_.sync_directory_of(path).ok());
    files_ = std::make_shared<LossyFiles>(path, directory_ / "store", [this] { return asked(); });
    env_ = rocksdb::NewCompositeEnv(files_);
  }
  ~Machine() { close(); }
  Machine(Machine const&) = delete;
  Machine& operator=(Machine const&) = delete;

  [[nodiscard]] std::string path() const { return directory_ / "db"; }
  [[nodiscard]] ForgetfulDisk& power_disk() { return power_disk_; }
  [[nodiscard]] rocksdb::DB& db() { return *db_; }

  rocksdb::Status open(GpuOptions const& gpu) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    options.env = env_.get();
    options.max_background_jobs = 1;
    options.max_bgerror_resume_count = 0;
    options.disable_auto_compactions = true;  // one that fails keeps RocksDB from closing for a second
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                         &options.merge_operator)
                    .ok());
    rocksdb::DB* db = nullptr;
    auto s = rocks::open(options, gpu, path(), &db);
    db_.reset(db);
    return s;
  }
  void close() { db_.reset(); }

  /// At a request of the log's disk, or after so many of RocksDB's changes.
  void fail_later(std::uint64_t log_request, std::uint64_t changes) {
    if (log_request != 0) power_disk_.plan(Mishap::power, log_request);
    changes_left_ = changes;
  }
  [[nodiscard]] bool dead() const { return power_disk_.dead(); }
  void lose_power() {
    power_disk_.cut_power();
    close();
    files_->keep_what_lasts();
    power_disk_.restore();
    changes_left_ = 0;
  }

 private:
  bool asked() {
    std::uint64_t const left = changes_left_;
    if (left != 0 && --changes_left_ == 0) power_disk_.cut_power();
    return !power_disk_.dead();
  }

  TemporaryDirectory directory_;
  ForgetfulDisk power_disk_;
  std::atomic<std::uint64_t> changes_left_ = 0;
  std::shared_ptr<LossyFiles> files_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
};

GpuOptions gpu() {
  GpuOptions gpu;
  gpu.device = rocks::Device::cpu;
  gpu.threads = 1;
  gpu.threshold = kThreshold;
  gpu.memtable_bytes = 64 << 10;
  gpu.idle_millis = 2;
  gpu.hand_overs_a_second = 1000;
  gpu.block_cache_bytes = 0;
  gpu.durability = rocks::Durability::power;
  gpu.power_log_dir = "/power";
  gpu.power_log_bytes = 1 << 20;
  return gpu;
}

Contents read_all(rocksdb::DB& db) {
  Contents all;
  std::unique_ptr<rocksdb::Iterator> const it(db.NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next())
    all[it->key().ToString()] = it->value().ToString();
  return all;
}

/// A database, and what it should hold.
class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed), machine_(seed) { open(); }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (!armed_ && pick(8) == 0) {
        armed_ = true;
        bool const by_log = pick(2) == 0;
        machine_.fail_later(by_log ? 1 + pick(30) : 0, by_log ? 0 : 1 + pick(60));
      }
      std::size_t const dice = pick(20);
      if (dice == 0)
        lose_power();
      else if (dice == 1)
        (void)machine_.db().Flush({});
      else if (dice == 2)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // and RocksDB takes over
      else
        write();
      if (machine_.dead()) lose_power();
    }
    lose_power();
  }

 private:
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::string key() { return "key" + std::to_string(pick(60)); }

  void open() {
    auto const s = machine_.open(gpu());
    RC_ASSERT(s.ToString() == "OK");
    Contents const found = read_all(machine_.db());
    if (found != now_) RC_ASSERT(found == fresh_);
    now_ = fresh_ = found;
    armed_ = false;
  }
  void lose_power() {
    machine_.lose_power();
    if (pick(4) == 0) {  // and once more, while it is opened
      machine_.fail_later(1 + pick(30), 0);
      if (auto const s = machine_.open(gpu()); s.ok()) machine_.db().Flush({}).PermitUncheckedError();
      machine_.lose_power();
    }
    open();
  }
  void write() {
    rocksdb::WriteBatch batch;
    fresh_ = now_;
    std::size_t const n = pick(2) == 0 ? 1 + pick(3) : kThreshold + pick(100);
    if (pick(24) == 0) {
      auto const [begin, end] = std::minmax({key(), key()});
      RC_ASSERT(batch.DeleteRange(begin, end).ok());
      fresh_.erase(fresh_.lower_bound(begin), fresh_.lower_bound(end));
    }
    for (std::size_t i = 0; i < n; ++i) {
      std::string const k = key(), value = std::to_string(next_++);
      std::size_t const dice = pick(10);
      if (dice == 0) {
        RC_ASSERT(batch.Delete(k).ok());
        fresh_.erase(k);
      } else if (dice < 4) {
        std::string const long_value = value + std::string(pick(2000), 'v');
        RC_ASSERT(batch.Put(k, long_value).ok());
        fresh_[k] = long_value;
      } else {
        RC_ASSERT(batch.Merge(k, value).ok());
        fresh_[k] = fresh_.contains(k) ? fresh_[k] + "," + value : value;
      }
    }
    auto const s = machine_.db().Write({}, &batch);
    if (s.ok()) now_ = fresh_;
    if (!machine_.dead()) RC_ASSERT(s.ToString() == "OK");
  }

  std::mt19937_64 random_;
  Machine machine_;
  Contents now_, fresh_;
  std::uint64_t next_ = 0;
  bool armed_ = false;
};

RC_GTEST_PROP(PowerLoss, WhatWasAcknowledgedIsThereOnceWhicheverSideTookIt, (std::uint64_t seed)) {
  Life(seed).run(60);
}

}  // namespace
}  // namespace perdure::test
