// A machine whose two disks lose power together: the power log's, which forgets and tears, and the
// one with RocksDB's files, which are then as they were synced last. And a database on it.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "log/forgetful_disk.hpp"
#include "perdure/rocks.h"
#include "rocks/power/lossy_files.hpp"
#include "rocks/temporary_directory.hpp"

namespace perdure::test {

using rocks::GpuOptions;
using testing::TemporaryDirectory;
using wal::test::ForgetfulDisk;
using wal::test::Mishap;

inline constexpr std::uint64_t kThreshold = 20;

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
    options.disable_auto_compactions =
        true;  // one that fails keeps RocksDB from closing for a second
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                         &options.merge_operator)
                    .ok());
    rocksdb::DB* db = nullptr;
    auto s = rocks::open(options, gpu, path(), &db);
    db_.reset(db);
    return s;
  }
  void close() { db_.reset(); }

  /// At a request of the log's disk, or after so many of RocksDB's changes, when `then` is called.
  void fail_later(
      std::uint64_t log_request, std::uint64_t changes, std::function<void()> then = [] {}) {
    then_ = std::move(then);
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
    if (left != 0 && --changes_left_ == 0) {
      then_();
      power_disk_.cut_power();
    }
    return !power_disk_.dead();
  }

  TemporaryDirectory directory_;
  ForgetfulDisk power_disk_;
  std::atomic<std::uint64_t> changes_left_ = 0;
  std::function<void()> then_;
  std::shared_ptr<LossyFiles> files_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
};

inline GpuOptions gpu() {
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

inline Contents read_all(rocksdb::DB& db) {
  Contents all;
  std::unique_ptr<rocksdb::Iterator> const it(db.NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next())
    all[it->key().ToString()] = it->value().ToString();
  return all;
}

}  // namespace perdure::test
