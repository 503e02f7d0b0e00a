// The hash of keys is part of the pool format: its values are pinned here. And it must spread keys
// as well as chance does, for buckets are its top bits and fingerprints its low ones.
#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace perdure {
namespace {

std::uint64_t hash_of(std::string const& key) {
  return hash_bytes(reinterpret_cast<std::byte const*>(key.data()), key.size());
}

std::string key_of(std::uint64_t n, std::size_t bytes) {
  std::string key(bytes, '\0');
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 8); ++i)
    key[i] = static_cast<char>(n >> (8 * i) & 0xff);
  return key;
}

TEST(Hash, KnownValuesForever) {
  EXPECT_EQ(kHashId, 1u) << "a hash of other values needs an id of its own";
  std::string all;
  for (int i = 0; i < 128; ++i) all += static_cast<char>(i);
  EXPECT_EQ(hash_of(""), 0x4540359c0d1adc75u);
  EXPECT_EQ(hash_of(std::string(1, '\0')), 0xb8d66149f1bc6cc1u);
  EXPECT_EQ(hash_of("a"), 0x706155316c820949u);
  EXPECT_EQ(hash_of("perdure"), 0x539282ebfab652b9u);
  EXPECT_EQ(hash_of(std::string(8, '\0')), 0x0a09a390c444eaa7u);
  EXPECT_EQ(hash_of("12345678"), 0xefd8bc20d9bc3ae2u);
  EXPECT_EQ(hash_of("123456789"), 0x192ef4155edf1f2bu);
  EXPECT_EQ(hash_of(std::string(16, '\xff')), 0x25646cd49e6f8526u);
  EXPECT_EQ(hash_of(all.substr(0, 17)), 0xc5188987951f4117u);
  EXPECT_EQ(hash_of(all.substr(0, 32)), 0xe65c2f5525db8f3du);
  EXPECT_EQ(hash_of(all), 0x07d4983fd29710c0u);
  EXPECT_EQ(nth_hash(hash_of("perdure"), 0), hash_of("perdure"));
  EXPECT_EQ(nth_hash(hash_of("perdure"), 1), 0x92f25097a188fde2u);
  EXPECT_EQ(nth_hash(hash_of("perdure"), 31), 0x0ad17941868fbcabu);
}

TEST(Hash, ReadsNoByteBeyondTheKey) {
  for (std::size_t bytes = 0; bytes <= 70; ++bytes) {
    std::string buffer(bytes, 'k');
    buffer.shrink_to_fit();
    auto const before = hash_of(buffer);
    EXPECT_EQ(hash_bytes(reinterpret_cast<std::byte const*>((buffer + "more").data()), bytes),
              before);
  }
}

TEST(Hash, AWordHashesAsItsBytesDo) {
  std::mt19937_64 random(1);
  for (std::size_t bytes = 0; bytes <= 8; ++bytes) {
    std::uint64_t const word = bytes == 0 ? 0 : random() >> (64 - 8 * bytes);
    EXPECT_EQ(hash_word(word, bytes), hash_of(key_of(word, bytes))) << bytes;
  }
}

TEST(Hash, LengthCounts) {
  for (std::size_t bytes = 0; bytes < 200; ++bytes) {
    EXPECT_NE(hash_of(std::string(bytes, '\0')), hash_of(std::string(bytes + 1, '\0')))
        << bytes << " zero bytes";
  }
}

/// Flipping any input bit flips each output bit about half of the time, in every hash of the
/// family.
TEST(Hash, EveryInputBitReachesEveryOutputBit) {
  constexpr int kTrials = 4000;
  std::mt19937_64 random(1);
  for (std::size_t const bytes : {1u, 5u, 8u, 16u, 24u, 33u}) {
    for (std::uint32_t const n : {0u, 1u, 5u}) {
      for (std::size_t bit = 0; bit < bytes * 8; bit += bytes > 8 ? 5 : 1) {
        std::vector<int> flips(64, 0);
        for (int t = 0; t < kTrials; ++t) {
          std::string key(bytes, '\0');
          for (char& c : key) c = static_cast<char>(random());
          std::string other = key;
          other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
          std::uint64_t const changed = nth_hash(hash_of(key), n) ^ nth_hash(hash_of(other), n);
          for (std::size_t o = 0; o < 64; ++o) flips[o] += static_cast<int>(changed >> o & 1);
        }
        auto const [low, high] = std::minmax_element(flips.begin(), flips.end());
        // One byte has 256 keys, so its flips come in steps; elsewhere 6 standard deviations.
        double const slack = bytes == 1 ? 0.2 : 6 * 0.5 / std::sqrt(kTrials);
        EXPECT_GT(*low, (0.5 - slack) * kTrials)
            << bytes << " bytes, hash " << n << ", input bit " << bit;
        EXPECT_LT(*high, (0.5 + slack) * kTrials)
            << bytes << " bytes, hash " << n << ", input bit " << bit;
      }
    }
  }
}

TEST(Hash, NoCollisionsAmongSequentialAndRandomKeys) {
  constexpr std::size_t kKeys = 300'000;
  std::mt19937_64 random(2);
  for (bool const sequential : {true, false}) {
    for (std::size_t const bytes : {5u, 8u, 16u, 32u}) {
      std::vector<std::uint64_t> hashes;
      for (std::size_t i = 0; i < kKeys; ++i) {
        std::uint64_t const n =
            sequential ? i : random() & (bytes == 5 ? 0xffffffffffu : ~std::uint64_t{0});
        hashes.push_back(hash_of(key_of(n, bytes)));
      }
      std::sort(hashes.begin(), hashes.end());
      auto const equal = std::adjacent_find(hashes.begin(), hashes.end());
      // Random 5-byte keys repeat among themselves; 300,000 of 2^40 do so with chance 1 in 25.
      if (!sequential && bytes == 5) continue;
      EXPECT_EQ(equal, hashes.end()) << bytes << " bytes, sequential " << sequential;
    }
  }
}

/// Buckets by the top bits, fingerprints by the low 24, of keys that differ in few bits: as even as
/// chance.
TEST(Hash, TopAndLowBitsSpreadEvenly) {
  constexpr std::size_t kKeys = 1 << 18, kBins = 1 << 10;
  for (std::uint64_t const step : {1ull, 256ull, 4096ull, 1ull << 32}) {
    for (int const part : {0, 1, 2}) {
      std::vector<double> bins(kBins, 0);
      for (std::size_t i = 0; i < kKeys; ++i) {
        std::uint64_t const h = hash_of(key_of(i * step, 8));
        ++bins[part == 0 ? h >> 54 : part == 1 ? h & (kBins - 1) : nth_hash(h, 1) >> 54];
      }
      double chi2 = 0;
      for (double const b : bins)
        chi2 += (b - kKeys / kBins) * (b - kKeys / kBins) / (kKeys / kBins);
      // Mean 1023, standard deviation 45: 6 of them either way.
      EXPECT_NEAR(chi2, kBins - 1, 6 * std::sqrt(2.0 * kBins))
          << "step " << step << ", part " << part;
    }
  }
}

/// The second bucket hash owes nothing to the first one's top bits, or balanced insert would not
/// balance.
TEST(Hash, HashesOfTheFamilyAreIndependent) {
  constexpr std::size_t kKeys = 1 << 18;
  std::vector<double> joint(32 * 32, 0);
  for (std::size_t i = 0; i < kKeys; ++i) {
    std::uint64_t const h = hash_of(key_of(i, 8));
    ++joint[(h >> 59) * 32 + (nth_hash(h, 1) >> 59)];
  }
  double chi2 = 0;
  for (double const b : joint)
    chi2 += (b - kKeys / 1024.0) * (b - kKeys / 1024.0) / (kKeys / 1024.0);
  EXPECT_NEAR(chi2, 1023, 6 * std::sqrt(2.0 * 1024));
}

}  // namespace
}  // namespace perdure
