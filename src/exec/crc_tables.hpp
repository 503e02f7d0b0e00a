// CRC-32C's arithmetic for machines without an instruction for it: polynomials over GF(2),
// reflected (bit 31 is the constant term), modulo the Castagnoli polynomial.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"

namespace perdure::exec {

inline constexpr std::uint32_t kCastagnoli = 0x82f63b78u;

PERDURE_FN constexpr std::uint32_t crc_times_x(std::uint32_t a) {
  return (a >> 1) ^ ((a & 1) != 0 ? kCastagnoli : 0);
}

/// a * b modulo the polynomial.
PERDURE_FN constexpr std::uint32_t crc_multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= (b >> bit & 1) != 0 ? a : 0;
    a = crc_times_x(a);
  }
  return product;
}

struct CrcPowers {
  std::uint32_t of_x_to_32[33];  // x^(32 n)
};
constexpr CrcPowers make_crc_powers() {
  CrcPowers p{};
  std::uint32_t power = 0x80000000u;  // 1
  for (auto& entry : p.of_x_to_32) {
    entry = power;
    for (int i = 0; i < 32; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? kCastagnoli : 0);
  }
  return p;
}

/// What each half of a byte of a word comes to, moved on by so many words: the word times x^(32 n)
/// is the sum of eight of these, one a half. Two tables of 16 sums are one value a lane of a warp,
/// and lanes look up what they like by a shuffle.
struct alignas(128) CrcMoves {
  static constexpr std::uint32_t kHalves = 8;
  static constexpr std::uint32_t kWords[] = {4, 3, 2, 1, 8, 16, 32, 32};
  static constexpr std::uint32_t kPairs = sizeof kWords / sizeof kWords[0] / 2;
  std::uint32_t sum[kHalves][kPairs][32];

  [[nodiscard]] constexpr std::uint32_t of(std::uint32_t move, std::uint32_t half,
                                           std::uint32_t bits) const {
    return sum[half][move / 2][move % 2 * 16 + bits];
  }
};
constexpr CrcMoves make_crc_moves() {
  CrcPowers const powers = make_crc_powers();
  CrcMoves m{};
  for (std::uint32_t move = 0; move < 2 * CrcMoves::kPairs; ++move) {
    std::uint32_t of_bit = powers.of_x_to_32[CrcMoves::kWords[move]];
    for (std::uint32_t bit = 32; bit-- > 0; of_bit = crc_times_x(of_bit)) {
      for (std::uint32_t bits = 0; bits < 16; ++bits) {
        if ((bits >> bit % 4 & 1) != 0) m.sum[bit / 4][move / 2][move % 2 * 16 + bits] ^= of_bit;
      }
    }
  }
  return m;
}
constexpr std::uint32_t crc_move_by(std::uint32_t words) {
  std::uint32_t move = 0;
  while (CrcMoves::kWords[move] != words) ++move;
  return move;
}

#if defined(__CUDACC__)
static __device__ CrcMoves const kCrcMoves = make_crc_moves();
static __constant__ CrcPowers const kCrcPowers = make_crc_powers();
static __device__ std::uint32_t crc_power(std::uint32_t words) {
  return kCrcPowers.of_x_to_32[words];
}
#endif

PERDURE_FN constexpr std::uint32_t crc_byte(std::uint32_t crc, std::uint8_t byte) {
  crc ^= byte;
  for (int i = 0; i < 8; ++i) crc = crc_times_x(crc);
  return crc;
}

/// CRC-32C of more bytes after those that gave `crc`, by one lane, byte by byte: for a few of them.
PERDURE_FN constexpr std::uint32_t crc_serial(std::uint32_t crc, std::byte const* data,
                                              std::size_t bytes) {
  crc = ~crc;
  for (std::size_t i = 0; i < bytes; ++i) crc = crc_byte(crc, static_cast<std::uint8_t>(data[i]));
  return ~crc;
}

}  // namespace perdure::exec
