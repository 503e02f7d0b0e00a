// Batches as arrays: what they answer is what a plain map answers, for few and for many, whether
// memtables have the keys or RocksDB.
#include <rocksdb/comparator.h>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/arrays_world.hpp"

namespace perdure::test {
namespace {

TEST_F(RocksArrays, MixedBatchesAnswerAsIfOneOperationCameAfterTheOther) {
  std::mt19937 random(7);
  Model model;
  for (std::size_t n : {5u, 99u, 100u, 700u, 3u, 2000u, 400u, 1u, 3000u}) {
    Strings keys, values;
    std::vector<OpKind> kinds;
    std::vector<std::string> expected;
    std::vector<KeyStatus> expected_status;
    for (std::size_t i = 0; i < n; ++i) {
      std::string const key = "k" + std::to_string(random() % 300);
      std::string const value = "v" + std::to_string(random() % 1000);
      kinds.push_back(static_cast<OpKind>(random() % 4));
      keys.add(key);
      values.add(value);
      bool const is_get = kinds.back() == OpKind::get;
      bool const is_there = model.contains(key);
      expected.push_back(is_get && is_there ? model[key] : "");
      expected_status.push_back(is_get && !is_there ? KeyStatus::not_found : KeyStatus::ok);
      if (!is_get) write(model, kinds.back(), key, value);
    }
    MixedBatch batch;
    batch.keys = keys.column();
    batch.kinds = kinds;
    batch.values = values.column();
    VariableValues found;
    std::vector<KeyStatus> statuses(n);
    auto const s = rocks::apply(*db_, family(), batch, found, statuses);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(statuses, expected_status);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(at(found, i), expected[i]) << i << " of " << n;
  }
  std::unique_ptr<rocksdb::Iterator> const all(db_->NewIterator(rocksdb::ReadOptions()));
  auto next = model.begin();
  for (all->SeekToFirst(); all->Valid(); all->Next(), ++next) {
    ASSERT_NE(next, model.end());
    EXPECT_EQ(all->key(), next->first);
    EXPECT_EQ(all->value(), next->second);
  }
  EXPECT_EQ(next, model.end());
}

TEST_F(RocksArrays, FixedWidthsGoInAndComeOutAndRangesAreInOrder) {
  constexpr std::uint64_t kCount = 5000;
  std::vector<std::uint64_t> keys(kCount), values(kCount), found(kCount + 1);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    keys[i] = __builtin_bswap64(i * 2);
    values[i] = i * i;
  }
  ASSERT_TRUE(rocks::put(*db_, family(), Column::of(keys), Column::of(values)).ok());
  std::vector<std::uint64_t> asked = keys;
  asked.push_back(__builtin_bswap64(3));  // never put
  std::vector<KeyStatus> statuses(asked.size());
  ASSERT_TRUE(
      rocks::get(*db_, family(), Column::of(asked), MutableColumn::of(found), statuses).ok());
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(found[i], values[i]);
  EXPECT_EQ(statuses.back(), KeyStatus::not_found);

  std::vector<std::uint64_t> const begins = {__builtin_bswap64(10), __builtin_bswap64(9991)};
  rocks::Ranges ranges;
  ASSERT_TRUE(rocks::range(*db_, family(), Column::of(begins), {}, 100, ranges).ok());
  ASSERT_EQ(ranges.offsets, (std::vector<std::int64_t>{0, 100, 104}));
  for (std::uint64_t i = 0; i < 100; ++i) {
    std::uint64_t key = 0;
    std::memcpy(&key, ranges.keys.data.data() + ranges.keys.offsets[i], sizeof key);
    EXPECT_EQ(__builtin_bswap64(key), 10 + 2 * i);
  }
}

TEST_F(RocksArrays, WrongArgumentsAreNamed) {
  std::vector<std::uint64_t> const two = {1, 2}, three = {1, 2, 3};
  auto s = rocks::put(*db_, family(), Column::of(two), Column::of(three));
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("2 keys and 3 values"), std::string::npos) << s.ToString();
  rocksdb::DB* plain = nullptr;
  rocksdb::Options options;
  options.create_if_missing = true;
  ASSERT_TRUE(lsm::open_rocksdb(&plain, options, directory_ / "plain").ok());
  s = rocks::put(*plain, plain->DefaultColumnFamily(), Column::of(two), Column::of(two));
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("perdure::rocks::open"), std::string::npos) << s.ToString();
  delete plain;
}

TEST_F(RocksArrays, KeysOfTheLsmTreeAreAskedForOnceEach) {
  std::vector<std::string> all, asked;
  for (int i = 0; i < 2000; ++i) all.push_back("a rather long prefix " + std::to_string(i));
  ASSERT_TRUE(rocks::put(*db_, family(), Strings(all).column(), Strings(all).column()).ok());
  ASSERT_TRUE(db_->Flush({}).ok());
  std::mt19937 random(3);
  for (int i = 0; i < 10'000; ++i) asked.push_back(all[random() % 500]);
  asked.push_back("never put");
  statistics_->Reset().PermitUncheckedError();
  VariableValues values;
  std::vector<KeyStatus> statuses(asked.size());
  ASSERT_TRUE(rocks::get(*db_, family(), Strings(asked).column(), values, statuses).ok());
  EXPECT_EQ(statistics_->getTickerCount(rocksdb::NUMBER_MULTIGET_KEYS_READ), 501u);
  EXPECT_EQ(statuses.back(), KeyStatus::not_found);
  for (std::size_t i = 0; i + 1 < asked.size(); ++i) ASSERT_EQ(at(values, i), asked[i]);
}

TEST_F(RocksArrays, AFewOperationsAmongMemtablesAreOneBatch) {
  std::vector<std::uint64_t> many(kThreshold);
  for (std::uint64_t i = 0; i < many.size(); ++i) many[i] = i;
  ASSERT_TRUE(rocks::put(*db_, family(), Column::of(many), Column::of(many)).ok());
  std::vector<std::uint64_t> const keys = {7, 7, 7}, values = {70, 71, 72};
  std::vector<OpKind> const kinds = {OpKind::get, OpKind::put, OpKind::get};
  std::vector<std::uint64_t> out(3, 99);
  MixedBatch batch{Column::of(keys), kinds, Column::of(values)};
  batch.out = MutableColumn::of(out);
  VariableValues found;
  std::vector<KeyStatus> statuses(3);
  std::uint64_t const before = parts().counters->table_batches;
  ASSERT_TRUE(rocks::apply(*db_, family(), batch, found, statuses).ok());
  EXPECT_EQ(out, (std::vector<std::uint64_t>{7, 99, 71}));
  EXPECT_EQ(parts().counters->table_batches, before + 1);
}

TEST_F(RocksArrays, OperandsOverRocksdbsValuesComeToTheCallersStrings) {
  std::vector<std::string> all;
  for (int i = 0; i < 200; ++i) all.push_back(std::to_string(i));
  ASSERT_TRUE(rocks::put(*db_, family(), Strings(all).column(), Strings(all).column()).ok());
  ASSERT_TRUE(db_->Flush({}).ok());
  ASSERT_TRUE(rocks::merge(*db_, family(), Strings(all).column(), Strings(all).column()).ok());
  for (std::string const& one : all) {
    std::string value = "of before";
    ASSERT_TRUE(db_->Get({}, one, &value).ok());
    EXPECT_EQ(value, one + "," + one);
  }
  std::vector<rocksdb::Slice> const keys(all.begin(), all.end());
  std::vector<std::string> values;
  for (auto const& s : db_->MultiGet({}, keys, &values)) ASSERT_TRUE(s.ok());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(values[i], all[i] + "," + all[i]);
}

TEST_F(RocksArrays, AReadOfManyPartsSeesOneState) {
  constexpr std::size_t kKeys = 600;
  split_reads_into(16);
  std::vector<std::uint64_t> keys(kKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) keys[i] = i;
  auto const put_all = [&](std::uint64_t version) {
    std::vector<std::uint64_t> const values(kKeys, version);
    return rocks::put(*db_, family(), Column::of(keys), Column::of(values)).ok();
  };
  ASSERT_TRUE(put_all(0));
  std::atomic<bool> over = false;
  auto const read = [&] {
    std::vector<std::uint64_t> found(kKeys);
    std::vector<KeyStatus> statuses(kKeys);
    while (!over) {
      EXPECT_TRUE(
          rocks::get(*db_, family(), Column::of(keys), MutableColumn::of(found), statuses).ok());
      if (std::count(found.begin(), found.end(), found[0]) == kKeys) continue;
      ADD_FAILURE() << "values of two batches in one read";
      break;
    }
  };
  std::thread one(read), other(read);
  for (std::uint64_t version = 1; version <= 200; ++version) EXPECT_TRUE(put_all(version));
  over = true;
  one.join();
  other.join();
}

/// While one write waits until RocksDB is let go of, the others come to wait.
TEST_F(RocksArrays, ArraysThatWaitTogetherAreWrittenTogetherAndEachReadsItsOwn) {
  constexpr std::size_t kThreads = 4, kRounds = 20, kKeys = 150;
  std::vector<std::uint64_t> large(200'000);
  std::iota(large.begin(), large.end(), 1'000'000);
  std::uint64_t const before = parts().counters->table_batches;
  auto const increments = [&](std::uint64_t me) {
    std::vector<std::uint64_t> keys(2 * kKeys), values(2 * kKeys), out(2 * kKeys);
    std::vector<OpKind> kinds;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = i / 2;  // the same of all threads: each then reads what it wrote itself
      values[i] = me << 32;
      kinds.push_back(i % 2 == 0 ? OpKind::put : OpKind::get);
    }
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (std::uint64_t& value : values) ++value;
      MixedBatch batch{Column::of(keys), kinds, Column::of(values)};
      batch.out = MutableColumn::of(out);
      VariableValues found;
      std::vector<KeyStatus> statuses(keys.size());
      EXPECT_TRUE(rocks::apply(*db_, family(), batch, found, statuses).ok());
      for (std::size_t i = 1; i < out.size(); i += 2) EXPECT_EQ(out[i], values[i]) << me;
    }
  };
  {
    std::vector<std::jthread> threads;
    auto const held = parts().writer->hold_rocksdb();
    threads.emplace_back([&] {
      EXPECT_TRUE(rocks::put(*db_, family(), Column::of(large), Column::of(large)).ok());
    });
    for (std::uint64_t me = 1; me <= kThreads; ++me) threads.emplace_back(increments, me);
    while (parts().writer->waiting() < kThreads) std::this_thread::yield();
  }
  EXPECT_LT(parts().counters->table_batches - before, kThreads * kRounds + 1);
  EXPECT_EQ(parts().counters->table_operations, large.size() + kThreads * kRounds * 2 * kKeys);
}

TEST_F(RocksArrays, FamiliesThatRocksdbServesAloneAnswerToo) {
  rocksdb::ColumnFamilyOptions options;
  options.comparator = rocksdb::ReverseBytewiseComparator();
  rocksdb::ColumnFamilyHandle* reverse = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(options, "reverse", &reverse).ok());
  std::vector<std::string> all;
  for (int i = 0; i < 1000; ++i) all.push_back(std::to_string(i));
  ASSERT_TRUE(rocks::put(*db_, reverse, Strings(all).column(), Strings(all).column()).ok());
  VariableValues values;
  std::vector<KeyStatus> statuses(all.size());
  ASSERT_TRUE(rocks::get(*db_, reverse, Strings(all).column(), values, statuses).ok());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(at(values, i), all[i]);
  rocks::Ranges ranges;
  ASSERT_TRUE(rocks::range(*db_, reverse, Strings({"5", "10"}).column(), {}, 2, ranges).ok());
  EXPECT_EQ(at(ranges.keys, 1), "499");
  EXPECT_EQ(at(ranges.keys, 2), "10");
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(reverse).ok());
}

}  // namespace
}  // namespace perdure::test
