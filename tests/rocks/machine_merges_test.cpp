// Operators that the machine has itself: what arrays read is what RocksDB's operator makes, on what
// memtables have and on what RocksDB has, and another's of the same name is its own business.
#include "lsm/rocks/machine_merges.hpp"

#include <gtest/gtest.h>
#include <rocksdb/convenience.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lsm/rocks/merging.hpp"
#include "perdure/rocks.h"
#include "rocks/temporary_directory.hpp"

namespace perdure::test {
namespace {

using lsm::Operation;

std::shared_ptr<rocksdb::MergeOperator> operator_named(std::string const& name) {
  if (name == "min") return rocks::min_operator();
  std::shared_ptr<rocksdb::MergeOperator> made;
  EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString({}, name, &made).ok());
  return made;
}

class MachineMerges : public ::testing::TestWithParam<char const*> {
 protected:
  static constexpr std::size_t kKeys = 300;

  MachineMerges() : merge_(operator_named(GetParam())), expected_(kKeys) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;
    options.merge_operator = merge_;
    rocks::GpuOptions gpu;
    gpu.device = rocks::Device::cpu;
    gpu.threads = 2;
    gpu.threshold = 10;
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(rocks::open(options, gpu, directory_ / "db", &db).ok());
    db_.reset(db);
    for (std::uint64_t i = 0; i < kKeys; ++i) keys_.push_back(i);
  }

  static std::string text(std::uint64_t word) {
    return {reinterpret_cast<char const*>(&word), sizeof word};
  }
  std::vector<std::uint64_t> draw() {
    std::vector<std::uint64_t> words(kKeys);
    for (auto& word : words) word = random_();
    return words;
  }
  void merge_all() {
    std::vector<std::uint64_t> const operands = draw();
    auto* const family = db_->DefaultColumnFamily();
    ASSERT_TRUE(rocks::merge(*db_, family, Column::of(keys_), Column::of(operands)).ok());
    for (std::size_t i = 0; i < kKeys; ++i) {
      lsm::Merged merged;
      std::string const operand = text(operands[i]);
      rocksdb::Slice const base = expected_[i];
      ASSERT_TRUE(
          merged.fold(merge_.get(), nullptr, "k", expected_[i].empty() ? nullptr : &base, {operand})
              .ok());
      expected_[i] = merged.value().ToString();
    }
  }
  void check() {
    std::vector<std::uint64_t> found(kKeys);
    std::vector<KeyStatus> statuses(kKeys);
    auto* const family = db_->DefaultColumnFamily();
    ASSERT_TRUE(
        rocks::get(*db_, family, Column::of(keys_), MutableColumn::of(found), statuses).ok());
    for (std::size_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(statuses[i], KeyStatus::ok) << i;
      ASSERT_EQ(text(found[i]), expected_[i]) << i;
    }
  }

  testing::TemporaryDirectory directory_;
  std::mt19937_64 random_{5};
  std::shared_ptr<rocksdb::MergeOperator> merge_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::uint64_t> keys_;
  std::vector<std::string> expected_;  // by key; empty: nothing was written
};

TEST_P(MachineMerges, AreWhatRocksdbsOperatorMakes) {
  EXPECT_NE(lsm::operation_of(merge_.get()), Operation::none);
  for (int round = 0; round < 3; ++round) ASSERT_NO_FATAL_FAILURE(merge_all());
  ASSERT_NO_FATAL_FAILURE(check());  // on nothing
  ASSERT_TRUE(db_->Flush({}).ok());
  for (int round = 0; round < 2; ++round) ASSERT_NO_FATAL_FAILURE(merge_all());
  ASSERT_NO_FATAL_FAILURE(check());  // on what RocksDB has
  std::vector<std::uint64_t> const fresh = draw();
  ASSERT_TRUE(
      rocks::put(*db_, db_->DefaultColumnFamily(), Column::of(keys_), Column::of(fresh)).ok());
  for (std::size_t i = 0; i < kKeys; ++i) expected_[i] = text(fresh[i]);
  for (int round = 0; round < 2; ++round) ASSERT_NO_FATAL_FAILURE(merge_all());
  ASSERT_NO_FATAL_FAILURE(check());  // on what memtables have
}

INSTANTIATE_TEST_SUITE_P(Operators, MachineMerges, ::testing::Values("uint64add", "max", "min"),
                         [](auto const& name) { return std::string(name.param); });

/// Somebody else's, of RocksDB's name.
class Last final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(rocksdb::Slice const&, rocksdb::Slice const*, rocksdb::Slice const& value,
             std::string* merged, rocksdb::Logger*) const override {
    *merged = value.ToString();
    return true;
  }
  char const* Name() const override { return "MaxOperator"; }
};

TEST(MachineMergesOfANameAlone, AreNotTheMachines) {
  EXPECT_EQ(lsm::operation_of(std::make_unique<Last>().get()), Operation::none);
  EXPECT_EQ(lsm::operation_of(operator_named("stringappend").get()), Operation::none);
  EXPECT_EQ(lsm::operation_of(nullptr), Operation::none);
}

}  // namespace
}  // namespace perdure::test
