// Hot entries of the block cache in the machine's memory: reads of many keys find there what was
// read often, they never find there what is over, and what is read most has the room.
#include "lsm/rocks/hot_entries.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lsm/cache/cache_scan.hpp"
#include "rocks/flushed_world.hpp"

namespace perdure::test {
namespace {

using lsm::HotAsked;
using lsm::HotGathered;
using lsm::HotRules;

/// What a test takes for hot: a key that was read twice from the cache.
constexpr HotAsked kAsked{.bytes = 0, .uses = 1, .entries = 1};

template <class World>
class WithHotEntries : public World {
 protected:
  static constexpr std::size_t kMissing = 20;  // of the keys, the last ones, which nobody wrote

  [[nodiscard]] lsm::DatabaseParts& parts() {
    return dynamic_cast<lsm::Database&>(*this->db_).parts();
  }
  lsm::HotEntries& hot() { return *parts().hot; }
  /// All pairs are RocksDB's, and no memtable has any.
  void open_written(std::string const& value, std::uint64_t flushed_bytes = 1 << 22) {
    this->open(flushed_bytes);
    this->put(value, this->kKeys - kMissing);
    this->db_ = nullptr;
    this->open(flushed_bytes);
  }
  /// The cache turns to the state; takes the keys; and is read.
  void warm() {
    for (int round = 0; round < 4; ++round)
      ASSERT_EQ(this->read(), this->expected(this->model_)) << "round " << round;
  }
  bool build() { return hot().publish(hot().gather(kAsked)); }
  /// Keys that a read of all finds in hot entries.
  [[nodiscard]] std::uint64_t hot_hits() {
    std::uint64_t const before = this->number("hot-hits");
    EXPECT_EQ(this->read(), this->expected(this->model_));
    return this->number("hot-hits") - before;
  }
};
using HotEntries = WithHotEntries<FlushedWorld>;

TEST_F(HotEntries, OfADatabaseThatWasOnlyReadAreFoundByTheMachine) {
  open_written("v");
  EXPECT_EQ(hot_hits(), 0u);
  warm();
  ASSERT_TRUE(build());
  EXPECT_EQ(number("hot-entries"), kKeys) << "keys that RocksDB does not have are known too";
  EXPECT_EQ(number("flushed-memtables"), 1u);
  EXPECT_GT(number("flushed-memtable-bytes"), kKeys * 10);
  std::uint64_t const before = number("block-cache-hits");
  EXPECT_EQ(hot_hits(), kKeys);
  EXPECT_EQ(number("block-cache-hits"), before) << "the machine is asked first";
  EXPECT_EQ(number("flushed-hits"), 0u);
  std::uint64_t const hits = number("hot-hits");
  expect_right();
  EXPECT_EQ(number("hot-hits"), hits + 2 * kKeys) << "an array's, and then a MultiGet's";
}

TEST_F(HotEntries, AreGatheredOnceReadsOfManyKeepFindingKeysInTheCache) {
  open_written("v");
  hot().start({.hits = 2 * kKeys, .asked = kAsked, .pause = 0});
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (int reads = 0; number("hot-builds") == 0; ++reads) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_EQ(read(), expected(model_));
    if (reads < 2) {
      EXPECT_EQ(number("hot-builds"), 0u) << "after " << reads << " reads";
    }
  }
  EXPECT_EQ(hot_hits(), kKeys);
  db_ = nullptr;  // the thread ends
}

TEST(HotPace, PausesLongerAsLongAsGatheringBringsLittle) {
  lsm::HotPace pace(10);
  EXPECT_EQ(pace.after(1000, 5000, 0), 10u);
  EXPECT_EQ(pace.after(1100, 5000, 100'000), 20u) << "a tenth more, and little that it lacked";
  EXPECT_EQ(pace.after(1100, 5000, 100'000), 40u);
  EXPECT_EQ(pace.after(1300, 5000, 100'000), 10u) << "more entries";
  EXPECT_EQ(pace.after(1300, 5000, 100'000), 20u);
  EXPECT_EQ(pace.after(1300, 50'000, 100'000), 10u) << "other keys are read";
  for (int i = 0; i < 20; ++i) EXPECT_LE(pace.after(1300, 0, 100'000), 640u);
}

TEST_F(HotEntries, AreNotGatheredForReadsOfFewKeys) {
  open_written("v");
  hot().start({.hits = 1, .asked = kAsked, .pause = 0});
  std::vector<rocksdb::Slice> const keys(names_.begin(), names_.begin() + 200);
  for (int i = 0; i < 50; ++i) {
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet({}, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                  statuses.data());
  }
  EXPECT_GT(number("block-cache-hits"), 5000u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(number("hot-builds"), 0u);
}

TEST_F(HotEntries, GiveWayToAWriteOfRocksDBs) {
  open_written("old");
  warm();
  ASSERT_TRUE(build());
  ASSERT_TRUE(db_->Put({}, names_[7], "new").ok());
  model_[names_[7]] = "new";
  EXPECT_EQ(hot_hits(), 0u);
  expect_right();
  warm();
  ASSERT_TRUE(build());
  EXPECT_EQ(hot_hits(), kKeys);
}

TEST_F(HotEntries, StandBehindMemtablesAndWhatWasFlushedLater) {
  open_written("old");
  warm();
  ASSERT_TRUE(build());
  put("new", 150);
  EXPECT_EQ(hot_hits(), kKeys - 150) << "with memtables";
  flush();
  EXPECT_EQ(hot_hits(), kKeys - 150);
  EXPECT_EQ(number("flushed-memtables"), 2u);
  Strings const some(std::vector<std::string>(names_.begin() + 150, names_.begin() + 300));
  ASSERT_TRUE(rocks::erase(*db_, db_->DefaultColumnFamily(), some.column()).ok());
  for (std::size_t i = 150; i < 300; ++i) model_.erase(names_[i]);
  EXPECT_EQ(hot_hits(), kKeys - 300);
  flush();
  EXPECT_EQ(hot_hits(), kKeys - 300);
  expect_right();
}

TEST_F(HotEntries, EndWithDeleteRangeAndWithAnIngestThatTakesNoSequenceNumber) {
  open_written("old");
  warm();
  ASSERT_TRUE(build());
  std::uint64_t const before = db_->GetLatestSequenceNumber();
  ingest(names_.back(), "ingested");
  EXPECT_EQ(db_->GetLatestSequenceNumber(), before) << "else this shows little";
  EXPECT_EQ(hot_hits(), 0u);
  expect_right();
  warm();
  ASSERT_TRUE(build());
  EXPECT_EQ(hot_hits(), kKeys);
  ASSERT_TRUE(db_->DeleteRange({}, db_->DefaultColumnFamily(), names_[10], names_[20]).ok());
  for (std::size_t i = 10; i < 20; ++i) model_.erase(names_[i]);
  EXPECT_EQ(hot_hits(), 0u);
  expect_right();
}

TEST_F(HotEntries, EndWithAFlushOfOperands) {
  open_written("old");
  warm();
  ASSERT_TRUE(build());
  Strings const some(std::vector<std::string>(names_.begin(), names_.begin() + 120));
  Strings const operands(std::vector<std::string>(120, "more"));
  ASSERT_TRUE(
      rocks::merge(*db_, db_->DefaultColumnFamily(), some.column(), operands.column()).ok());
  for (std::size_t i = 0; i < 120; ++i) model_[names_[i]] += ",more";
  EXPECT_EQ(hot_hits(), kKeys - 120);
  flush();
  EXPECT_EQ(hot_hits(), 0u);
  expect_right();
}

/// What was flushed before it has the old value, and the entries that are gathered do not have it.
TEST_F(HotEntries, DoNotBringBackWhatWasFlushedBeforeAWriteOfRocksDBs) {
  open();
  put("old");
  flush();
  ASSERT_TRUE(db_->Put({}, names_[7], "new").ok());
  model_[names_[7]] = "new";
  Strings const others(std::vector<std::string>(names_.begin() + 100, names_.end()));
  for (int round = 0; round < 4; ++round) {
    VariableValues values;
    std::vector<KeyStatus> statuses(kKeys - 100);
    ASSERT_TRUE(
        rocks::get(*db_, db_->DefaultColumnFamily(), others.column(), values, statuses).ok());
  }
  ASSERT_TRUE(build());
  EXPECT_EQ(number("flushed-memtables"), 1u);
  EXPECT_EQ(hot_hits(), kKeys - 100);
  expect_right();
}

/// Whatever comes between gathering and publishing.
class HotEntriesThatAreLate : public HotEntries {
 protected:
  HotGathered gathered() {
    HotGathered one = hot().gather(kAsked);
    EXPECT_EQ(one.entries, kKeys);
    return one;
  }
  void expect_none(HotGathered const& late) {
    EXPECT_FALSE(hot().publish(late));
    EXPECT_EQ(number("hot-entries"), 0u);
    expect_right();
  }
};

TEST_F(HotEntriesThatAreLate, ForAWriteOfRocksDBsAreNotPublished) {
  open_written("old");
  warm();
  HotGathered const late = gathered();
  ASSERT_TRUE(db_->Put({}, names_[7], "new").ok());
  model_[names_[7]] = "new";
  expect_none(late);
}

TEST_F(HotEntriesThatAreLate, ForAFlushAreNotPublished) {
  open_written("old");
  warm();
  HotGathered const late = gathered();
  put("new", 150);
  flush();
  expect_none(late);
  put("newer", 150);  // and with memtables
  expect_none(late);
}

TEST_F(HotEntriesThatAreLate, ForAnIngestThatTakesNoSequenceNumberAreNotPublished) {
  open_written("old");
  warm();
  HotGathered const late = gathered();
  ingest(names_.back(), "ingested");
  expect_none(late);
}

/// It takes no sequence number, and nobody knows yet that it comes.
TEST_F(HotEntriesThatAreLate, ForAnIngestThatIsAboutToBeginWaitForIt) {
  open_written("old");
  warm();
  HotGathered const late = gathered();
  auto* const rocksdb = dynamic_cast<rocksdb::StackableDB&>(*db_).GetBaseDB();
  std::string const path = write_file(names_.back(), "ingested");
  bool published = true;
  std::thread publisher;
  auto const s = parts().writer->alone([&] {
    publisher = std::thread([&] { published = hot().publish(late); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lsm::CacheSuspension const suspension(parts().cache.get());
    return rocksdb->IngestExternalFile({path}, {});
  });
  publisher.join();
  ASSERT_TRUE(s.ok()) << s.ToString();
  model_[names_.back()] = "ingested";
  EXPECT_FALSE(published);
  expect_right();
}

TEST_F(HotEntriesThatAreLate, ForMemtablesOnlyArePublishedBehindThem) {
  open_written("old");
  warm();
  HotGathered const late = gathered();
  put("new", 150);
  auto const* const snapshot = db_->GetSnapshot();
  auto const then = expected(model_);
  EXPECT_TRUE(hot().publish(late));
  EXPECT_EQ(hot_hits(), kKeys - 150);
  put("newer", 200);
  flush();
  expect_right();
  EXPECT_EQ(read(snapshot), then);
  db_->ReleaseSnapshot(snapshot);
}

TEST_F(HotEntries, DoNotShowASnapshotWhatCameLater) {
  open_written("old");
  warm();
  auto const* const before = db_->GetSnapshot();
  auto const old = expected(model_);
  ASSERT_TRUE(build());
  auto const* const with = db_->GetSnapshot();
  ASSERT_TRUE(db_->Put({}, names_[7], "new").ok());
  model_[names_[7]] = "new";
  warm();
  ASSERT_TRUE(build());
  EXPECT_EQ(read(before), old);
  EXPECT_EQ(read(with), old);
  expect_right();
  db_->ReleaseSnapshot(before);
  db_->ReleaseSnapshot(with);
}

TEST_F(HotEntries, TakeThePlaceOfThoseBeforeThem) {
  open_written("v");
  warm();
  ASSERT_TRUE(build());
  std::uint64_t const bytes = number("flushed-memtable-bytes");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(build());
  EXPECT_EQ(number("flushed-memtables"), 1u);
  EXPECT_EQ(number("flushed-memtable-bytes"), bytes);
  put("new", 150);
  flush();
  warm();
  ASSERT_TRUE(build()) << "what the flush left in the cache";
  EXPECT_EQ(number("flushed-memtables"), 2u);
  EXPECT_GT(hot_hits(), kKeys - 150 - 1);
  expect_right();
}

/// Half of the room has less than half of the keys.
TEST_F(HotEntries, ThatAreReadMostHaveTheRoom) {
  constexpr std::uint64_t kRoom = 1 << 14;
  constexpr std::size_t kMost = 40;
  open_written("value", kRoom);
  warm();
  Strings const most(std::vector<std::string>(names_.begin() + 100, names_.begin() + 100 + kMost));
  auto const read_most = [&] {
    VariableValues values;
    std::vector<KeyStatus> statuses(kMost);
    EXPECT_TRUE(rocks::get(*db_, db_->DefaultColumnFamily(), most.column(), values, statuses).ok());
  };
  for (int i = 0; i < 300; ++i) read_most();
  ASSERT_TRUE(build());
  EXPECT_LE(number("flushed-memtable-bytes"), kRoom * 3 / 4);
  EXPECT_GT(number("hot-entries"), kMost);
  EXPECT_LT(number("hot-entries"), kKeys / 2);
  std::uint64_t const before = number("hot-hits");
  read_most();
  EXPECT_EQ(number("hot-hits"), before + kMost);
  expect_right();
}

TEST_F(HotEntries, ThatAreFewStayInTheCache) {
  open_written("v");
  warm();
  EXPECT_FALSE(hot().publish(hot().gather({.uses = 1, .entries = kKeys + 1})));
  EXPECT_FALSE(hot().publish(hot().gather({.uses = 20, .entries = 1})));
  EXPECT_EQ(number("hot-entries"), 0u);
}

TEST_F(HotEntries, NeedACacheAndRoom) {
  open(0);
  EXPECT_EQ(parts().hot, nullptr);
  EXPECT_EQ(number("hot-entries"), 0u);
  put("v");
  flush();
  warm();
  expect_right();
}

TEST_F(HotEntries, OfSeveralFamiliesAndAnySizesAreToldApart) {
  open_written("v");
  rocksdb::ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily({}, "other", &other).ok());
  Model theirs;
  for (std::size_t i = 0; i < kKeys - kMissing; ++i) {
    std::string const value = i % 5 == 0 ? "" : std::string(i % 90, 'o');
    ASSERT_TRUE(db_->Put({}, other, names_[i], value).ok());
    theirs[names_[i]] = value;
  }
  auto const expect_theirs = [&] {
    VariableValues values;
    std::vector<KeyStatus> statuses(kKeys);
    ASSERT_TRUE(rocks::get(*db_, other, keys_.column(), values, statuses).ok());
    for (std::size_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(statuses[i] == KeyStatus::ok, theirs.contains(names_[i])) << names_[i];
      if (theirs.contains(names_[i])) {
        ASSERT_EQ(at(values, i), theirs[names_[i]]);
      }
    }
  };
  for (int round = 0; round < 4; ++round) {
    expect_theirs();
    ASSERT_EQ(read(), expected(model_));
  }
  ASSERT_TRUE(build());
  EXPECT_EQ(number("hot-entries"), 2 * kKeys);
  std::uint64_t const before = number("hot-hits");
  expect_theirs();
  EXPECT_EQ(number("hot-hits"), before + kKeys);
  EXPECT_EQ(hot_hits(), kKeys);
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(other).ok());
}

using HotEntriesGenerated = WithHotEntries<GeneratedWrites>;

/// Any writes, with entries gathered before some of them and published after.
TEST_F(HotEntriesGenerated, SayWhatAMapSays) {
  open(16 * kMemtable);
  std::optional<HotGathered> gathered;
  rocksdb::Snapshot const* snapshot = nullptr;
  std::vector<std::string> then;
  std::size_t published = 0;
  for (int i = 0; i < 500 && !HasFailure(); ++i) {
    random_() % 12 == 0 ? ingest(draw(1).front(), "ingested") : step();
    for (std::size_t reads = random_() % 4; reads < 5; ++reads)
      ASSERT_EQ(read(), expected(model_)) << "step " << i;
    if (gathered && random_() % 2 == 0) {
      published += hot().publish(*gathered);
      gathered.reset();
      ASSERT_EQ(read(), expected(model_)) << "step " << i;
    }
    if (!gathered) gathered = hot().gather(kAsked);
    if (random_() % 3 == 0) published += build();
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
  EXPECT_GT(published, 50u) << "else this shows little";
  EXPECT_GT(number("hot-hits"), 10'000u);
}

/// A key's values only grow: no read that begins after a write finds less. Between two writes there
/// are some reads, so that the block cache knows most states.
TEST_F(HotEntries, AreNeverOlderThanAWriteThatReturned) {
  open_written("0");
  hot().start({.hits = 1, .asked = kAsked, .pause = 0});
  std::atomic<std::uint64_t> written = 0, reads = 0;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    std::mt19937_64 random(5);
    for (std::uint64_t round = 1; !stop; ++round) {
      std::string const value = std::to_string(round);
      switch (random() % 4) {
        case 0: EXPECT_TRUE(db_->Put({}, names_[0], value).ok()); break;
        case 1: ingest(names_[0], value); break;
        default: put(value, 120);
      }
      written = round;
      if (random() % 2 == 0) flush();
      for (std::uint64_t const until = reads + random() % 8; reads < until && !stop;)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  auto const began = std::chrono::steady_clock::now();
  auto const since = [&] { return std::chrono::steady_clock::now() - began; };
  auto const is_enough = [&] { return number("hot-builds") > 20 && number("hot-hits") > 2000; };
  while (since() < std::chrono::seconds(1) ||
         (!is_enough() && since() < std::chrono::seconds(120))) {
    std::uint64_t const before = written;
    std::uint64_t const found = std::stoull(read().front());
    EXPECT_GE(found, before);
    ++reads;
    if (HasFailure()) break;
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(is_enough()) << number("hot-builds") << " times, else this shows little";
}

}  // namespace
}  // namespace perdure::test
