// CRC-32C on the host, and the arithmetic that machines without an instruction for it use.
#include "base/crc32c.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "exec/crc_tables.hpp"

namespace perdure {
namespace {

std::uint32_t crc_of(std::string const& bytes) { return crc32c(0, bytes.data(), bytes.size()); }

// RFC 3720, appendix B.4, and the catalogue's check value.
TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc_of("123456789"), 0xe3069283u);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising, falling;
  for (char c = 0; c < 32; ++c) rising += c, falling += static_cast<char>(31 - c);
  EXPECT_EQ(crc_of(rising), 0x46dd794eu);
  EXPECT_EQ(crc_of(falling), 0x113fdb5cu);
}

TEST(Crc32c, NothingContinuesNothing) { EXPECT_EQ(crc32c(12345, "", 0), 12345u); }

RC_GTEST_PROP(Crc32c, PartsGiveWhatTheWholeGives,
              (std::vector<std::uint8_t> const& bytes, std::uint32_t start)) {
  std::size_t const cut = bytes.empty() ? 0 : *rc::gen::inRange<std::size_t>(0, bytes.size());
  std::uint32_t const first = crc32c(start, bytes.data(), cut);
  RC_ASSERT(crc32c(first, bytes.data() + cut, bytes.size() - cut) ==
            crc32c(start, bytes.data(), bytes.size()));
}

std::vector<std::byte> random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Every way in which the two ends of a copy lie to lines and steps, and nothing beside it.
TEST(CopyCrc32c, CopiesAndSumsWhereverBothEndsLie) {
  auto const from = random_bytes(2048, 1);
  for (std::size_t const bytes :
       {0u, 1u, 31u, 63u, 64u, 127u, 128u, 129u, 191u, 192u, 255u, 256u, 300u, 511u, 1000u}) {
    for (std::size_t to_at = 0; to_at < 70; to_at += 3) {
      for (std::size_t from_at = 0; from_at < 40; from_at += 7) {
        std::vector<std::byte> to(2048, std::byte{0xee});
        auto const expected = crc32c(77, from.data() + from_at, bytes);
        ASSERT_EQ(copy_crc32c(77, to.data() + to_at, from.data() + from_at, bytes), expected);
        ASSERT_EQ(std::memcmp(to.data() + to_at, from.data() + from_at, bytes), 0);
        for (std::size_t i = 0; i < to.size(); ++i) {
          if (i >= to_at && i < to_at + bytes) continue;
          ASSERT_EQ(to[i], std::byte{0xee}) << i;
        }
      }
    }
  }
}

TEST(CopyCrc32c, LongCopiesToo) {
  auto const from = random_bytes(300'000, 2);
  for (std::size_t const bytes : {32'768u, 65'535u, 262'144u, 299'999u}) {
    std::vector<std::byte> to(from.size());
    ASSERT_EQ(copy_crc32c(0, to.data() + 1, from.data(), bytes), crc32c(0, from.data(), bytes));
    ASSERT_EQ(std::memcmp(to.data() + 1, from.data(), bytes), 0);
  }
}

RC_GTEST_PROP(Crc32c, ByteByByteArithmeticAgrees,
              (std::vector<std::uint8_t> const& bytes, std::uint32_t start)) {
  std::uint32_t state = ~start;  // between calls the state is kept inverted
  for (std::uint8_t const byte : bytes) state = exec::crc_byte(state, byte);
  RC_ASSERT(~state == crc32c(start, bytes.data(), bytes.size()));
}

RC_GTEST_PROP(Crc32c, WhatHalvesOfBytesComeToMultipliesAsPowersDo, (std::uint32_t word)) {
  exec::CrcMoves const moves = exec::make_crc_moves();
  for (std::uint32_t const words : exec::CrcMoves::kWords) {
    std::uint32_t product = 0;
    for (std::uint32_t half = 0; half < exec::CrcMoves::kHalves; ++half)
      product ^= moves.of(exec::crc_move_by(words), half, word >> 4 * half & 15);
    std::vector<std::uint8_t> const zeros(words * 4, 0);
    RC_ASSERT(product == ~crc32c(~word, zeros.data(), zeros.size()));
  }
}

RC_GTEST_PROP(Crc32c, MultiplyingByAPowerAppendsZeroWords, (std::uint32_t state)) {
  auto const words = *rc::gen::inRange<std::uint32_t>(0, 33);
  std::vector<std::uint8_t> const zeros(words * 4, 0);
  RC_ASSERT(exec::crc_multiply(state, exec::make_crc_powers().of_x_to_32[words]) ==
            ~crc32c(~state, zeros.data(), zeros.size()));
}

}  // namespace
}  // namespace perdure
