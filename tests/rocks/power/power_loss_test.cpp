// A whole database of durability `power` that loses it: RocksDB's files are as they were synced
// last, and the power log's disk forgets and tears. Whatever was acknowledged is there, once, merge
// operands too, whichever side took it; of the write under way all or nothing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rocks/power/machine.hpp"

namespace perdure::test {
namespace {

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
      else if (dice < 7)
        merge_arrays();
      else
        write();
      if (machine_.dead()) lose_power();
    }
    lose_power();
  }

 private:
  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::string key() { return "key" + std::to_string(10 + pick(60)); }  // of one width

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
      if (auto const s = machine_.open(gpu()); s.ok())
        machine_.db().Flush({}).PermitUncheckedError();
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
    written(machine_.db().Write({}, &batch));
  }
  /// To the memtables, however few.
  void merge_arrays() {
    std::vector<std::array<char, 5>> keys(1 + pick(2 * kThreshold));
    std::vector<std::array<char, 8>> operands(keys.size());
    fresh_ = now_;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::string const k = key(), value = std::to_string(10'000'000 + next_++);
      std::copy(k.begin(), k.end(), keys[i].begin());
      std::copy(value.begin(), value.end(), operands[i].begin());
      fresh_[k] = fresh_.contains(k) ? fresh_[k] + "," + value : value;
    }
    rocksdb::DB& db = machine_.db();
    written(rocks::merge(db, db.DefaultColumnFamily(), Column::of(keys), Column::of(operands)));
  }
  void written(rocksdb::Status const& s) {
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
  Life(seed).run(20);
}

}  // namespace
}  // namespace perdure::test
