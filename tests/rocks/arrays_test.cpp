// Batches as arrays: what they answer is what a plain map answers, for few and for many, whether
// memtables have the keys or RocksDB.
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lsm/rocks/rocksdb_version.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace {

using perdure::Column;
using perdure::KeyStatus;
using perdure::MixedBatch;
using perdure::OpKind;
using perdure::VariableValues;
using perdure::testing::TemporaryDirectory;

using Model = std::map<std::string, std::string>;

constexpr std::size_t kThreshold = 100;

/// Byte strings as a column of variable width.
struct Strings {
  std::vector<std::byte> data;
  std::vector<std::int64_t> offsets = {0};

  void add(std::string const& text) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(text.data());
    data.insert(data.end(), bytes, bytes + text.size());
    offsets.push_back(static_cast<std::int64_t>(data.size()));
  }
  [[nodiscard]] Column column() const {
    return {data.data(), offsets.data(), 0, offsets.size() - 1, perdure::MemorySpace::host};
  }
};

std::string at(VariableValues const& values, std::size_t i) {
  return {reinterpret_cast<char const*>(values.data.data()) + values.offsets[i],
          static_cast<std::size_t>(values.offsets[i + 1] - values.offsets[i])};
}

class RocksArrays : public ::testing::Test {
 protected:
  RocksArrays() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                         &options.merge_operator)
                    .ok());
    perdure::rocks::GpuOptions gpu;
    gpu.device = perdure::rocks::Device::cpu;
    gpu.threads = 2;
    gpu.threshold = kThreshold;
    gpu.memtable_bytes = 1 << 18;
    rocksdb::DB* db = nullptr;
    auto const s = perdure::rocks::open(options, gpu, directory_ / "db", &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
  }
  rocksdb::ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }

  TemporaryDirectory directory_;
  std::unique_ptr<rocksdb::DB> db_;
};

void write(Model& model, OpKind kind, std::string const& key, std::string const& value) {
  auto const found = model.find(key);
  if (kind == OpKind::erase)
    model.erase(key);
  else if (kind == OpKind::update && found != model.end())
    found->second += "," + value;
  else
    model[key] = value;
}

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
    auto const s = perdure::rocks::apply(*db_, family(), batch, found, statuses);
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
  ASSERT_TRUE(perdure::rocks::put(*db_, family(), Column::of(keys), Column::of(values)).ok());
  std::vector<std::uint64_t> asked = keys;
  asked.push_back(__builtin_bswap64(3));  // never put
  std::vector<KeyStatus> statuses(asked.size());
  ASSERT_TRUE(perdure::rocks::get(*db_, family(), Column::of(asked),
                                  perdure::MutableColumn::of(found), statuses)
                  .ok());
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(found[i], values[i]);
  EXPECT_EQ(statuses.back(), KeyStatus::not_found);

  std::vector<std::uint64_t> const begins = {__builtin_bswap64(10), __builtin_bswap64(9991)};
  perdure::rocks::Ranges ranges;
  ASSERT_TRUE(perdure::rocks::range(*db_, family(), Column::of(begins), {}, 100, ranges).ok());
  ASSERT_EQ(ranges.offsets, (std::vector<std::int64_t>{0, 100, 104}));
  for (std::uint64_t i = 0; i < 100; ++i) {
    std::uint64_t key = 0;
    std::memcpy(&key, ranges.keys.data.data() + ranges.keys.offsets[i], sizeof key);
    EXPECT_EQ(__builtin_bswap64(key), 10 + 2 * i);
  }
}

TEST_F(RocksArrays, WrongArgumentsAreNamed) {
  std::vector<std::uint64_t> const two = {1, 2}, three = {1, 2, 3};
  auto s = perdure::rocks::put(*db_, family(), Column::of(two), Column::of(three));
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("2 keys and 3 values"), std::string::npos) << s.ToString();
  rocksdb::DB* plain = nullptr;
  rocksdb::Options options;
  options.create_if_missing = true;
  ASSERT_TRUE(perdure::lsm::open_rocksdb(&plain, options, directory_ / "plain").ok());
  s = perdure::rocks::put(*plain, plain->DefaultColumnFamily(), Column::of(two), Column::of(two));
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.ToString().find("perdure::rocks::open"), std::string::npos) << s.ToString();
  delete plain;
}

}  // namespace
