// The CPU warp's verbs against loops over 32 lanes.
#include "exec/cpu/cpu_warp.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

namespace perdure::exec::HWY_NAMESPACE {
namespace {

class CpuWarpTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("x86-64-v3")) GTEST_SKIP() << "this processor lacks AVX2";
  }
  CpuWarp warp_;
  std::mt19937_64 random_{4};
};

TEST_F(CpuWarpTest, RowsFillLanesInOrderAndTheRestWithZero) {
  std::vector<std::uint64_t> memory(64);
  for (auto& word : memory) word = random_();
  for (auto const& [groups, slots] :
       {std::pair{4u, 8u}, {1u, 32u}, {8u, 4u}, {3u, 8u}, {1u, 1u}, {32u, 1u}}) {
    auto const lanes =
        warp_.rows(groups, slots, [&](std::uint32_t g) { return memory.data() + g; });
    for (std::uint32_t i = 0; i < 32; ++i) {
      std::uint64_t const want = i < groups * slots ? memory[i / slots + i % slots] : 0;
      EXPECT_EQ(warp_.broadcast(lanes, i), want);
    }
  }
}

TEST_F(CpuWarpTest, RowIsTheWordsWhereItBegins) {
  std::array<std::uint64_t, 16> memory;
  for (auto& word : memory) word = random_();
  for (std::size_t first : {0u, 2u, 8u}) {
    auto const row = warp_.row<8>(memory.data() + first);
    for (std::size_t s = 0; s < 8; ++s) EXPECT_EQ(row.word[s], memory[first + s]);
  }
}

TEST_F(CpuWarpTest, MatchSetsABitWhereTheMaskedWordIsEqual) {
  for (int trial = 0; trial < 200; ++trial) {
    CpuWarp::Lanes lanes;
    std::uint64_t const mask = trial % 2 == 0 ? ~std::uint64_t{0} : random_();
    std::uint64_t const want = random_() & mask;
    std::uint32_t expected = 0;
    for (std::uint32_t i = 0; i < 32; ++i) {
      bool const hit = random_() % 3 == 0;
      lanes.word[i] = hit ? want | (random_() & ~mask) : random_();
      if ((lanes.word[i] & mask) == want) expected |= 1u << i;
    }
    EXPECT_EQ(warp_.match(lanes, mask, want), expected);
  }
}

TEST_F(CpuWarpTest, BitsGathersOneRowOfBitsAGroup) {
  std::vector<std::uint32_t> map(8);
  for (auto& word : map) word = static_cast<std::uint32_t>(random_());
  for (auto const& [groups, slots] :
       {std::pair{4u, 8u}, {2u, 16u}, {1u, 32u}, {8u, 4u}, {5u, 2u}}) {
    std::vector<std::uint64_t> first(groups);
    for (auto& f : first) f = random_() % (256 / slots) * slots;
    std::uint32_t expected = 0;
    for (std::uint32_t g = 0; g < groups; ++g) {
      for (std::uint32_t s = 0; s < slots; ++s) {
        std::uint64_t const at = first[g] + s;
        expected |= (map[at / 32] >> (at % 32) & 1) << (g * slots + s);
      }
    }
    EXPECT_EQ(warp_.bits(groups, slots, map.data(), [&](std::uint32_t g) { return first[g]; }),
              expected);
  }
}

TEST_F(CpuWarpTest, EqualAndCopyWorkOnAnyLength) {
  for (std::size_t bytes = 0; bytes < 300; ++bytes) {
    std::vector<std::byte> a(bytes + 1), b(bytes + 1);
    for (auto& x : a) x = static_cast<std::byte>(random_());
    b = a;
    b[bytes] = ~a[bytes];  // beyond the end: of no account
    EXPECT_TRUE(warp_.equal(a.data(), b.data(), bytes));
    if (bytes > 0) {
      b[random_() % bytes] ^= std::byte{1};
      EXPECT_FALSE(warp_.equal(a.data(), b.data(), bytes));
    }
    std::byte const last = b[bytes];
    warp_.copy(b.data(), a.data(), bytes);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), bytes), 0);
    EXPECT_EQ(b[bytes], last);
  }
}

TEST_F(CpuWarpTest, StreamCopiesWholeSixteens) {
  alignas(16) std::array<std::byte, 320> from{}, to{};
  for (auto& x : from) x = static_cast<std::byte>(random_());
  for (std::size_t bytes = 0; bytes <= 304; bytes += 16) {
    to.fill(std::byte{0});
    warp_.stream(to.data(), from.data(), bytes);
    warp_.fence();
    EXPECT_EQ(std::memcmp(to.data(), from.data(), bytes), 0);
    EXPECT_EQ(to[bytes], std::byte{0});
  }
}

TEST_F(CpuWarpTest, ChecksumsAreTheLibrarysAtEveryLength) {
  std::vector<std::byte> bytes(600);
  for (auto& x : bytes) x = static_cast<std::byte>(random_());
  for (std::size_t n = 0; n <= bytes.size() - 7; ++n) {
    auto const start = static_cast<std::uint32_t>(random_());
    EXPECT_EQ(warp_.crc32c(start, bytes.data() + n % 7, n), crc32c(start, bytes.data() + n % 7, n))
        << n << " bytes";
  }
}

TEST_F(CpuWarpTest, StridedCoversEachIndexOnce) {
  std::vector<int> seen(77, 0);
  warp_.strided(seen.size(), [&](std::size_t i) { ++seen[i]; });
  EXPECT_EQ(seen, std::vector<int>(77, 1));
}

TEST_F(CpuWarpTest, AtomicsReturnWhatTheyFound) {
  std::uint64_t word = 5;
  EXPECT_EQ(CpuWarp::cas(&word, 4, 9), 5u);
  EXPECT_EQ(word, 5u);
  EXPECT_EQ(CpuWarp::cas(&word, 5, 9), 5u);
  EXPECT_EQ(word, 9u);
  std::uint32_t bits = 6;
  EXPECT_EQ(CpuWarp::fetch_or(&bits, 1), 6u);
  EXPECT_EQ(CpuWarp::fetch_and(&bits, ~2u), 7u);
  EXPECT_EQ(bits, 5u);
  EXPECT_EQ(CpuWarp::fetch_add(&word, 1u << 20), 9u);
  EXPECT_EQ(word, 9u + (1u << 20));
}

}  // namespace
}  // namespace perdure::exec::HWY_NAMESPACE
