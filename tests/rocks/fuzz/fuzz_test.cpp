// Whether perdure::rocks answers as plain RocksDB does, and whether the comparison would notice:
// each fault that is planted has to part the two.
#include <gtest/gtest.h>

#include "rocks/fuzz/duel.hpp"
#include "rocks/fuzz/faults.hpp"

namespace perdure::test {
namespace {

std::string told(std::uint64_t seed, std::optional<Disagreement> const& found) {
  if (!found) return {};
  return "seed " + std::to_string(seed) + ", operation " + std::to_string(found->operation) + ", " +
         found->what;
}

TEST(RocksFuzz, PlainRocksdbAnswersAsItself) {
  EXPECT_EQ(told(1, run(1, operations_without(1, 3000, {}), plain_rocksdb(), plain_rocksdb())), "");
}

class RocksFuzzOfSeed : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RocksFuzzOfSeed, PerdureAnswersAsPlainRocksdb) {
  auto const seed = GetParam();
  auto const operations = operations_without(seed, 13'000, {});
  EXPECT_EQ(told(seed, run(seed, operations, opener_named("perdure", seed), plain_rocksdb())), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, RocksFuzzOfSeed, ::testing::Values(1, 2, 3, 4));

TEST_P(RocksFuzzOfSeed, MemtablesTakeTheirPart) {
  Duel duel(GetParam(), opener_named("perdure", GetParam()), plain_rocksdb());
  ASSERT_EQ(told(GetParam(), duel.begin()), "");
  std::uint64_t batches = 0;
  for (std::uint64_t n = 0; n < 400 && batches == 0; ++n) {
    ASSERT_EQ(told(GetParam(), duel.take(n)), "");
    ASSERT_TRUE(duel.left().db()->GetIntProperty("perdure.table-batches", &batches));
  }
  EXPECT_GT(batches, 0u) << "nothing is compared if RocksDB takes all of it";
}

/// Of a property that begins anew with each opening.
struct OverOpenings {
  char const* property;
  std::uint64_t now = 0;
  std::uint64_t before = 0;  // in openings that are over

  std::uint64_t read(rocksdb::DB& db) {
    std::uint64_t value = 0;
    EXPECT_TRUE(db.GetIntProperty(property, &value));
    if (value < now) before += now;
    now = value;
    return before + now;
  }
};

TEST_P(RocksFuzzOfSeed, TheBlockCacheTakesItsPart) {
  Duel duel(GetParam(), opener_named("perdure", GetParam()), plain_rocksdb());
  ASSERT_EQ(told(GetParam(), duel.begin()), "");
  OverOpenings of_hits{"perdure.block-cache-hits"};
  OverOpenings of_invalidated{"perdure.block-cache-invalidated"};
  std::uint64_t hits = 0, invalidated = 0;
  for (std::uint64_t n = 0; n < 20'000 && (hits < 10 || invalidated == 0); ++n) {
    ASSERT_EQ(told(GetParam(), duel.take(n)), "");
    hits = of_hits.read(*duel.left().db());
    invalidated = of_invalidated.read(*duel.left().db());
  }
  EXPECT_GE(hits, 10u) << "nothing is compared if RocksDB answers all of it";
  EXPECT_GT(invalidated, 0u);
}

class RocksFaults : public ::testing::TestWithParam<NamedFault> {};

TEST_P(RocksFaults, AreFound) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    if (run(seed, operations_without(seed, 8000, {}), faulty(GetParam()), plain_rocksdb())) return;
  FAIL() << "three seeds of operations, and no two answers part";
}

INSTANTIATE_TEST_SUITE_P(Planted, RocksFaults, ::testing::ValuesIn(faults()),
                         [](auto const& one) { return one.param.name; });

}  // namespace
}  // namespace perdure::test
