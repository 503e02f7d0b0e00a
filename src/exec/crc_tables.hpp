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

/// Products of each bit, from the highest on, with what four words that follow each other, and a
/// sum of what is 32 words before, count for: x^128, x^96, x^64, x^32 and x^1024.
inline constexpr std::uint32_t kCrcProducts = 5;
inline constexpr std::uint32_t kCrcWords[kCrcProducts] = {4, 3, 2, 1, 32};
struct CrcColumns {
  std::uint32_t of_bit[32][kCrcProducts];
};
constexpr CrcColumns make_crc_columns() {
  CrcPowers const powers = make_crc_powers();
  CrcColumns c{};
  for (int bit = 0; bit < 32; ++bit) {
    for (std::uint32_t w = 0; w < kCrcProducts; ++w)
      c.of_bit[bit][w] = crc_multiply(0x80000000u >> bit, powers.of_x_to_32[kCrcWords[w]]);
  }
  return c;
}

#if defined(__CUDACC__)
static __constant__ CrcColumns const kCrcColumns = make_crc_columns();
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
