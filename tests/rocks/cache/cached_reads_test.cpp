// Stories of a database whose reads go through the block cache: what may change what RocksDB says
// of a key, and what readers then find.
#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fault/planted_faults.hpp"
#include "lsm/rocks/cached_reads.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace {

using perdure::rocks::GpuOptions;
using perdure::testing::TemporaryDirectory;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::WriteBatch;

constexpr int kKeys = 2000;

std::string key(int i) {
  std::string text = std::to_string(i);
  return "key" + std::string(8 - text.size(), '0') + text;
}

class CachedReads : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.allow_fallocate = false;
    gpu_.device = perdure::rocks::Device::cpu;
    gpu_.threads = 2;
    gpu_.threshold = 1000;
    gpu_.memtable_bytes = 4 << 20;
    gpu_.idle_millis = 100'000;  // they stay until a test flushes them
    gpu_.block_cache_bytes = 4 << 20;
    gpu_.flushed_memtable_bytes = 0;  // a MultiGet of many keys asks those first
  }
  rocksdb::Status open() {
    rocksdb::DB* db = nullptr;
    auto const s = perdure::rocks::open(options_, gpu_, directory_ / "db", &db);
    db_.reset(db);
    return s;
  }
  /// All keys, in RocksDB's files.
  void fill(std::string const& value) {
    write(0, kKeys, value);
    ASSERT_TRUE(db_->Flush({}).ok());
  }
  /// To the memtables.
  void write(int first, int last, std::string const& value) {
    WriteBatch batch;
    for (int i = first; i < last; ++i)
      ASSERT_TRUE(batch.Put(key(i), value + std::to_string(i)).ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
  }
  std::string get(int i, ReadOptions const& how = {}) {
    std::string value;
    auto const s = db_->Get(how, key(i), &value);
    return s.ok() ? value : s.ToString();
  }
  /// Twice, so that the cache has them, if it takes them.
  void warm(ReadOptions const& how = {}) {
    for (int round = 0; round < 2; ++round) {
      std::vector<std::string> texts;
      for (int i = 0; i < kKeys + 10; ++i) texts.push_back(key(i));
      std::vector<Slice> const keys(texts.begin(), texts.end());
      std::vector<rocksdb::PinnableSlice> values(keys.size());
      std::vector<rocksdb::Status> statuses(keys.size());
      db_->MultiGet(how, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                    statuses.data(), true);
    }
  }
  std::uint64_t number(std::string const& of) {
    std::uint64_t value = 0;
    EXPECT_TRUE(db_->GetIntProperty("perdure.block-cache-" + of, &value)) << of;
    return value;
  }
  /// Whether the cache answers a MultiGet of the key, which always asks it, and what the answer is.
  std::string hit(int i, ReadOptions const& how = {}) {
    std::uint64_t const before = number("hits");
    std::string const text = key(i);
    Slice const slice(text);
    rocksdb::PinnableSlice value;
    rocksdb::Status status;
    db_->MultiGet(how, db_->DefaultColumnFamily(), 1, &slice, &value, &status);
    return (number("hits") > before ? "hit " : "miss ") +
           (status.ok() ? value.ToString() : status.ToString());
  }

  TemporaryDirectory directory_;
  rocksdb::Options options_;
  GpuOptions gpu_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(CachedReads, WhatWasReadOnceIsNotReadFromRocksDBAgain) {
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  EXPECT_GT(number("inserted"), 1500u);
  EXPECT_EQ(number("bytes") / 1088, (4u << 20) / 1088);
  EXPECT_EQ(hit(7), "hit v7");
  EXPECT_EQ(hit(kKeys + 3), "hit NotFound: ");
  std::uint64_t const before = number("hits");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get(i), "v" + std::to_string(i));
  EXPECT_GT(number("hits"), before + 80) << "single Gets ask it once it answers";
}

TEST_F(CachedReads, AWriteOfRocksDBsOwnIsSeenAtOnce) {
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  ASSERT_TRUE(db_->Put({}, key(7), "new").ok());
  EXPECT_EQ(hit(7), "miss new");
  EXPECT_EQ(get(8), "v8");
  warm();
  EXPECT_EQ(hit(7), "hit new");
  ASSERT_TRUE(db_->DeleteRange({}, db_->DefaultColumnFamily(), key(5), key(9)).ok());
  EXPECT_EQ(get(7), "NotFound: ");
  EXPECT_EQ(get(9), "v9");
}

/// Of two keys that are written together one is kept, and the other one's value is too large.
TEST_F(CachedReads, AMultiGetSeesABatchOfRocksDBsOwnWhole) {
  ASSERT_TRUE(open().ok());
  auto const put = [&](std::uint64_t round) {
    WriteBatch batch;
    ASSERT_TRUE(batch.Put("small", std::to_string(round)).ok());
    ASSERT_TRUE(batch.Put("large", std::to_string(round) + std::string(1000, 'v')).ok());
    ASSERT_TRUE(db_->Write({}, &batch).ok());
  };
  put(0);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t round = 1; !stop; ++round) {
      put(round);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  std::uint64_t torn = 0;
  std::vector<Slice> const keys{"small", "large", "a", "b", "c", "d", "e", "f"};
  auto const is_enough = [&](int reads) { return reads >= 100'000 && number("hits") > 100; };
  for (int i = 0; i < 10'000'000 && torn == 0 && !is_enough(i); ++i) {
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet({}, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                  statuses.data());
    torn += values[0].ToString() != values[1].ToString().substr(0, values[0].size()) ||
            values[1].size() != values[0].size() + 1000;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GT(number("hits"), 100u);
}

TEST_F(CachedReads, AFlushOfMemtablesRefreshesItsKeysAndLeavesTheOthers) {
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  std::uint64_t const epochs = number("epochs");
  write(0, 1500, "newer");  // while memtables have them, RocksDB is as it was
  write(0, 1500, "new");
  WriteBatch erased;
  for (int i = 200; i < 400; ++i) ASSERT_TRUE(erased.Delete(key(i)).ok());
  ASSERT_TRUE(db_->Write({}, &erased).ok());
  EXPECT_EQ(get(7), "new7");
  EXPECT_EQ(hit(1700), "hit v1700");
  ASSERT_TRUE(db_->Flush({}).ok());
  EXPECT_GT(number("invalidated"), 1000u);
  EXPECT_EQ(number("epochs"), epochs);
  EXPECT_EQ(hit(1700), "hit v1700");
  EXPECT_EQ(hit(7), "hit new7") << "what the cache had, it has with its new value";
  EXPECT_EQ(hit(1499), "hit new1499");
  EXPECT_EQ(hit(300), "hit NotFound: ");
}

TEST_F(CachedReads, ASnapshotSeesWhatItSawThoughTheCacheKnowsMore) {
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  rocksdb::Snapshot const* const snapshot = db_->GetSnapshot();
  write(0, 1500, "new");
  ASSERT_TRUE(db_->Flush({}).ok());
  warm();
  ReadOptions at;
  at.snapshot = snapshot;
  EXPECT_EQ(hit(7, at), "miss v7");
  EXPECT_EQ(hit(7), "hit new7");
  warm(at);
  EXPECT_EQ(hit(7), "hit new7") << "an old snapshot does not turn it back";
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(CachedReads, AnIngestWithoutASequenceNumberIsSeen) {
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  ASSERT_EQ(hit(kKeys + 3), "hit NotFound: ");
  std::string const path = directory_ / "one.sst";
  rocksdb::SstFileWriter writer({}, options_);
  ASSERT_TRUE(writer.Open(path).ok());
  ASSERT_TRUE(writer.Put(key(kKeys + 3), "ingested").ok());
  ASSERT_TRUE(writer.Finish().ok());
  std::uint64_t const before = db_->GetLatestSequenceNumber();
  ASSERT_TRUE(db_->IngestExternalFile({path}, {}).ok());
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before) << "else this shows little";
  EXPECT_EQ(get(kKeys + 3), "ingested");
  warm();
  EXPECT_EQ(hit(kKeys + 3), "hit ingested");
}

TEST_F(CachedReads, ReadsThatAreNotToFillItDoNot) {
  ASSERT_TRUE(open().ok());
  fill("v");
  ReadOptions how;
  how.fill_cache = false;
  warm(how);
  EXPECT_EQ(number("inserted"), 0u);
  how.fill_cache = true;
  how.read_tier = rocksdb::kBlockCacheTier;
  warm(how);
  EXPECT_EQ(number("inserted"), 0u);
}

class DropsAll final : public rocksdb::CompactionFilter {
 public:
  bool Filter(int, Slice const&, Slice const&, std::string*, bool*) const override { return true; }
  char const* Name() const override { return "DropsAll"; }
};

TEST_F(CachedReads, FamiliesWhoseValuesVanishByThemselvesAreNotKept) {
  DropsAll const filter;
  options_.compaction_filter = &filter;
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  EXPECT_EQ(number("inserted"), 0u);
  EXPECT_EQ(get(7), "v7");
  rocksdb::CompactRangeOptions force;
  force.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(db_->CompactRange(force, nullptr, nullptr).ok());
  EXPECT_EQ(get(7), "NotFound: ");
  db_ = nullptr;  // before the filter
}

TEST_F(CachedReads, AnUpdateStandsOnWhatTheCacheKnows) {
  options_.merge_operator = nullptr;
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options_.merge_operator).ok());
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  WriteBatch batch;
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(batch.Merge(key(i), "more").ok());
  ASSERT_TRUE(db_->Write({}, &batch).ok());
  EXPECT_EQ(hit(7), "hit v7,more");
}

TEST_F(CachedReads, WithoutACacheOrMemoryForItRocksDBAnswersAll) {
  gpu_.block_cache_bytes = 0;
  ASSERT_TRUE(open().ok());
  fill("v");
  warm();
  EXPECT_EQ(number("bytes"), 0u);
  EXPECT_EQ(hit(7), "miss v7");
  gpu_.block_cache_bytes = 4 << 20;
  for (auto const unsuitable :
       {&rocksdb::Options::unordered_write, &rocksdb::Options::two_write_queues}) {
    db_ = nullptr;
    options_.unordered_write = options_.two_write_queues = false;
    options_.*unsuitable = true;
    ASSERT_TRUE(open().ok());
    EXPECT_EQ(number("bytes"), 0u);
  }
}

TEST(SingleGets, OneOfEightTriesTheCacheAndTheOthersFollowWhereItAnswers) {
  perdure::lsm::SingleGets gets;
  /// Of so many Gets; of those that ask, one of `hit_of` is answered, or none.
  auto const asked = [&](int of, int hit_of) {
    int count = 0;
    for (int i = 0; i < of; ++i)
      if (gets.ask()) gets.answered(++count % std::max(hit_of, 1) == 0 && hit_of != 0);
    return count;
  };
  EXPECT_EQ(asked(800, 0), 100) << "it answers none";
  EXPECT_GT(asked(800, 2), 700) << "it answers every second";
  EXPECT_LT(asked(800, 5), 400) << "it answers too few to be asked each time";
}

TEST_F(CachedReads, SizesThatCannotBeAreRefused) {
  gpu_.block_cache_bytes = 100;
  EXPECT_EQ(open().ToString(),
            "Invalid argument: block_cache_bytes is 100; give at least 65536, or 0 for no block "
            "cache");
  gpu_.block_cache_bytes = 1 << 20;
  gpu_.block_cache_entry_bytes = 0;
  EXPECT_EQ(open().ToString(),
            "Invalid argument: block_cache_entry_bytes is 0; give a multiple of 64 from 64 to "
            "32768");
}

}  // namespace
