// What perdure-bench-rocks checks and counts with: values that tell their version, and latencies.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "rocks/histogram.hpp"
#include "rocks/pairs.hpp"

namespace perdure::bench::rocks {
namespace {

TEST(RocksPairs, AValueTellsItsVersionAndOneThatIsNotWholeNone) {
  for (std::uint32_t const bytes : {8u, 100u, 1024u}) {
    Pairs const pairs(7, 16, bytes);
    std::array<char, 16> key{};
    std::array<char, 16> other{};
    pairs.key(1, key.data());
    pairs.key(2, other.data());
    std::string value(bytes, 0);
    for (std::uint64_t const version : {0u, 1u, 12345u}) {
      pairs.value(key.data(), version, value.data());
      EXPECT_EQ(pairs.version(key.data(), value), version);
      EXPECT_NE(pairs.version(other.data(), value), version);
    }
    if (bytes > 8) {
      value.back() = static_cast<char>(value.back() ^ 1);
      EXPECT_EQ(pairs.version(key.data(), value), std::nullopt);
    }
    value.pop_back();
    EXPECT_EQ(pairs.version(key.data(), value), std::nullopt);
  }
}

TEST(RocksHistogram, PercentilesAreAtMostAThirtySecondTooLarge) {
  Histogram histogram;
  for (std::uint64_t i = 1; i <= 100'000; ++i) histogram.add(i * 1000);
  EXPECT_EQ(histogram.count(), 100'000u);
  EXPECT_EQ(histogram.largest(), 100'000);
  for (double const share : {0.01, 0.5, 0.99}) {
    double const exact = share * 100'000;
    EXPECT_GE(histogram.percentile(share), exact);
    EXPECT_LE(histogram.percentile(share), exact * 33 / 32 + 1);
  }
}

TEST(RocksHistogram, TwoTogetherAreAsIfAllHadGoneToOne) {
  Histogram one;
  Histogram two;
  for (std::uint64_t i = 0; i < 100; ++i) one.add(1000);
  for (std::uint64_t i = 0; i < 300; ++i) two.add(9'000'000);
  one.add(two);
  EXPECT_EQ(one.count(), 400u);
  EXPECT_LT(one.percentile(0.2), 2);
  EXPECT_GT(one.percentile(0.3), 8999);
}

}  // namespace
}  // namespace perdure::bench::rocks
