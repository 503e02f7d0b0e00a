// Memtables that RocksDB has by now are still asked by reads of many keys: what they say is what
// RocksDB says, whatever changes that, and they keep to their room.
#include "lsm/rocks/flushed_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lsm/rocks/sorted_files.hpp"
#include "rocks/flushed_world.hpp"

namespace perdure::test {
namespace {

using FlushedMemtables = FlushedWorld;

TEST_F(FlushedMemtables, AreAskedByReadsOfManyKeysWithAndWithoutMemtables) {
  open();
  put("old");
  flush();
  EXPECT_EQ(number("memtables"), 0u);
  EXPECT_EQ(hits(), kKeys);
  put("new", 150);
  EXPECT_EQ(number("memtables"), 1u);
  EXPECT_EQ(hits(), kKeys - 150) << "what is newer comes first";
  flush();
  EXPECT_EQ(number("flushed-memtables"), 2u);
  EXPECT_EQ(hits(), kKeys);
  expect_right();
}

TEST_F(FlushedMemtables, SayThatAKeyWasErased) {
  open();
  put("old");
  flush();
  Strings const some(std::vector<std::string>(names_.begin(), names_.begin() + 120));
  ASSERT_TRUE(rocks::erase(*db_, db_->DefaultColumnFamily(), some.column()).ok());
  for (std::size_t i = 0; i < 120; ++i) model_.erase(names_[i]);
  flush();
  EXPECT_EQ(hits(), kKeys);
  expect_right();
}

TEST_F(FlushedMemtables, EndWithAWriteThatRocksDBServes) {
  open();
  put("old");
  flush();
  ASSERT_TRUE(db_->Put({}, names_[7], "few").ok());
  model_[names_[7]] = "few";
  EXPECT_EQ(hits(), 0u);
  put("new", 150);
  EXPECT_EQ(hits(), 0u);
  expect_right();
}

TEST_F(FlushedMemtables, EndWithOperands) {
  open();
  put("old");
  flush();
  Strings const some(std::vector<std::string>(names_.begin(), names_.begin() + 120));
  Strings const operands(std::vector<std::string>(120, "more"));
  ASSERT_TRUE(
      rocks::merge(*db_, db_->DefaultColumnFamily(), some.column(), operands.column()).ok());
  for (std::size_t i = 0; i < 120; ++i) model_[names_[i]] += ",more";
  expect_right();
  flush();
  EXPECT_EQ(hits(), 0u);
  expect_right();
}

TEST_F(FlushedMemtables, EndWithAnIngestThatTakesNoSequenceNumber) {
  open();
  put("old", kKeys - 1);
  flush();
  ingest(names_.back(), "ingested");
  EXPECT_EQ(hits(), 0u);
  expect_right();
}

TEST_F(FlushedMemtables, DoNotShowASnapshotWhatCameLater) {
  open();
  put("first");
  rocksdb::Snapshot const* const with_memtables = db_->GetSnapshot();
  flush();
  rocksdb::Snapshot const* const flushed = db_->GetSnapshot();
  auto const first = expected(model_);
  put("second", 150);
  flush();
  EXPECT_EQ(read(with_memtables), first);
  EXPECT_EQ(read(flushed), first);
  expect_right();
  db_->ReleaseSnapshot(with_memtables);
  db_->ReleaseSnapshot(flushed);
}

TEST_F(FlushedMemtables, KeepToTheirRoomAndTheOldestGoFirst) {
  constexpr std::uint64_t kRoom = 3 * kMemtable;
  open(kRoom);
  std::string const value(500, 'v');  // a memtable of 200 KB, which is a segment
  for (int i = 0; i < 6; ++i) {
    put(value + std::to_string(i));
    flush();
    EXPECT_LE(number("flushed-memtable-bytes"), kRoom);
  }
  EXPECT_GE(number("flushed-memtables"), 1u);
  EXPECT_LE(number("flushed-memtables"), 3u);
  EXPECT_EQ(hits(), kKeys);
}

TEST_F(FlushedMemtables, AreNotKeptWithoutRoom) {
  open(0);
  put("old");
  flush();
  EXPECT_EQ(number("flushed-memtables"), 0u);
  EXPECT_EQ(hits(), 0u);
}

TEST_F(FlushedMemtables, ThatFillLittleOfASegmentLeaveIt) {
  open();
  put("v");
  flush();
  EXPECT_LT(number("flushed-memtable-bytes"), kMemtable / 2);
  EXPECT_EQ(hits(), kKeys);
}

/// Several threads write the files of one memtable, each a part of its keys.
TEST_F(FlushedMemtables, OfMillionsOfPairsAreSeveralFilesAndNoKeyIsLost) {
  constexpr std::uint64_t kPairs = 2'200'000;
  options_.disable_auto_compactions = true;
  cache_bytes_ = rocks::GpuOptions().block_cache_bytes;
  open(0, std::uint64_t{1} << 26);
  rocksdb::DB* const db = db_.get();
  std::vector<std::uint64_t> keys(kPairs), values(kPairs), found(kPairs);
  for (std::uint64_t i = 0; i < kPairs; ++i) keys[i] = values[i] = i * 0x9e3779b97f4a7c15u;
  auto* const family = db->DefaultColumnFamily();
  ASSERT_TRUE(rocks::put(*db, family, Column::of(keys), Column::of(values)).ok());
  ASSERT_TRUE(db->Flush({}).ok());
  std::string files;
  ASSERT_TRUE(db->GetProperty("rocksdb.num-files-at-level6", &files));
  EXPECT_EQ(files, "2");
  std::vector<KeyStatus> statuses(kPairs);
  MutableColumn const out{reinterpret_cast<std::byte*>(found.data()), sizeof found[0], kPairs};
  ASSERT_TRUE(rocks::get(*db, family, Column::of(keys), out, statuses).ok());
  EXPECT_EQ(found, values);

  // What the block cache has of both files' keys by now, the next flush gives new values.
  constexpr std::size_t kSome = 20'000;
  auto const hits = [&] {
    std::uint64_t count = 0;
    EXPECT_TRUE(db->GetIntProperty("perdure.block-cache-hits", &count));
    return count;
  };
  for (std::uint64_t& value : values) ++value;
  ASSERT_TRUE(rocks::put(*db, family, Column::of(keys), Column::of(values)).ok());
  ASSERT_TRUE(db->Flush({}).ok());
  Column const some{Column::of(keys).data, nullptr, 8, kSome, MemorySpace::host};
  MutableColumn const out_some{out.data, 8, kSome};
  std::uint64_t const before = hits();
  ASSERT_TRUE(rocks::get(*db, family, some, out_some, std::span(statuses).first(kSome)).ok());
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + kSome, found.begin()));
  EXPECT_GT(hits() - before, kSome * 3 / 4);
}

TEST(PartsOfARun, HaveEachKeyOnceAndAllVersionsOfIt) {
  exec::Workers workers(2);
  auto engine = lsm::make_cpu_engine(workers);
  ASSERT_TRUE(engine.ok());
  std::mt19937_64 random(3);
  for (int round = 0; round < 30; ++round) {
    std::size_t const n = 1 + random() % 500, different = 1 + random() % n;
    std::vector<std::uint64_t> words(n);
    for (auto& word : words) word = random() % different;
    lsm::Entries entries;
    entries.keys = Column::of(words);
    auto run = (*engine)->build(entries);
    ASSERT_TRUE(run.ok());
    auto const borders = lsm::SortedFiles::parts_of(**engine, **run, 10, 7);
    ASSERT_TRUE(borders.ok());
    ASSERT_EQ(borders.value().front(), 0u);
    ASSERT_EQ(borders.value().back(), n);
    ASSERT_LE(borders.value().size(), 8u);
    lsm::EntryBlock all;
    ASSERT_TRUE((*engine)->fetch(**run, 0, static_cast<std::uint32_t>(n), all).ok());
    for (std::size_t i = 1; i + 1 < borders.value().size(); ++i) {
      std::uint32_t const at = borders.value()[i];
      ASSERT_LT(borders.value()[i - 1], at);
      EXPECT_FALSE(std::ranges::equal(all.key(at - 1), all.key(at))) << "a key in two parts";
    }
  }
}

using FlushedMemtablesGenerated = GeneratedWrites;

TEST_F(FlushedMemtablesGenerated, SayWhatAMapSays) {
  open(4 * kMemtable);
  rocksdb::Snapshot const* snapshot = nullptr;
  std::vector<std::string> then;
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    step();
    ASSERT_EQ(read(), expected(model_)) << "step " << i;
    if (snapshot != nullptr) {
      ASSERT_EQ(read(snapshot), then) << "step " << i;
    }
    if (random_() % 10 != 0) continue;
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
    snapshot = db_->GetSnapshot();
    then = read();
  }
  if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
  EXPECT_GT(number("flushed-hits"), 10'000u) << "else this shows little";
}

}  // namespace
}  // namespace perdure::test
