// Keys are distinct, values say whose and which version they are, and adding goes one version on.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "dataset.hpp"

namespace perdure::bench {
namespace {

std::string key_of(Dataset const& dataset, std::uint64_t id) {
  std::vector<std::byte> key(dataset.key_bytes());
  dataset.write_key(id, key.data());
  return {reinterpret_cast<char const*>(key.data()), key.size()};
}

TEST(Dataset, KeysAreDistinctAndOfTheirWidth) {
  for (std::uint32_t const width : {8u, 13u, 32u, 128u}) {
    Dataset const dataset(1, width, 8);
    std::set<std::string> keys;
    for (std::uint64_t id = 0; id < 20'000; ++id) keys.insert(key_of(dataset, id));
    EXPECT_EQ(keys.size(), 20'000u) << width;
  }
}

TEST(Dataset, WideKeysVaryInEveryByte) {
  Dataset const dataset(1, 61, 8);
  std::string const base = key_of(dataset, 0);
  std::vector<bool> varies(base.size(), false);
  for (std::uint64_t id = 1; id < 100; ++id) {
    std::string const key = key_of(dataset, id);
    for (std::size_t i = 0; i < key.size(); ++i) varies[i] = varies[i] || key[i] != base[i];
  }
  for (std::size_t i = 0; i < varies.size(); ++i) EXPECT_TRUE(varies[i]) << "byte " << i;
}

TEST(Dataset, SeedsChooseOtherKeys) {
  EXPECT_NE(key_of(Dataset(1, 8, 8), 5), key_of(Dataset(2, 8, 8), 5));
}

TEST(Dataset, ValuesTellRecordAndVersion) {
  for (std::uint32_t const width : {1u, 7u, 8u, 128u, 131u}) {
    Dataset const dataset(1, 8, width);
    std::vector<std::byte> value(width);
    dataset.write_value(17, 3, value.data());
    EXPECT_TRUE(dataset.holds(value.data(), 17, 3));
    EXPECT_FALSE(dataset.holds(value.data(), 17, 4));
    if (width < 7) continue;  // so short a value may be another's by chance
    EXPECT_FALSE(dataset.holds(value.data(), 18, 3));
    for (std::uint32_t i = 0; i < width; ++i) {
      std::vector<std::byte> damaged = value;
      damaged[i] ^= std::byte{1};
      EXPECT_FALSE(dataset.holds(damaged.data(), 17, 3)) << "byte " << i << " of " << width;
    }
  }
}

TEST(Dataset, AddingTheIncrementGivesTheNextVersion) {
  Dataset const dataset(1, 8, 128);
  std::vector<std::uint64_t> value(16);
  std::vector<std::uint64_t> increment(16);
  dataset.write_value(5, 7, reinterpret_cast<std::byte*>(value.data()));
  dataset.write_increment(reinterpret_cast<std::byte*>(increment.data()));
  for (std::size_t i = 0; i < value.size(); ++i) value[i] += increment[i];
  EXPECT_TRUE(dataset.holds(reinterpret_cast<std::byte const*>(value.data()), 5, 8));
}

}  // namespace
}  // namespace perdure::bench
