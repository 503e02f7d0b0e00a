// The hash of keys: 64 bits, the same on host and device, part of the pool format (kHashId). Each
// 16-byte block is folded through a 64x64 -> 128-bit product, as the wyhash family does; tests
// check avalanche and collisions, and pin known values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"

namespace perdure {

inline constexpr std::uint32_t kHashId = 1;

namespace hash_detail {
// The first 256 bits of pi's fraction.
inline constexpr std::uint64_t k0 = 0x243f6a8885a308d3u;
inline constexpr std::uint64_t k1 = 0x13198a2e03707344u;
inline constexpr std::uint64_t k2 = 0xa4093822299f31d0u;
inline constexpr std::uint64_t k3 = 0x082efa98ec4e6c89u;

PERDURE_FN std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide const product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Up to 8 bytes, little-endian, zero-extended.
PERDURE_FN std::uint64_t load_tail(std::byte const* data, std::size_t bytes) {
  std::uint64_t word = 0;
  if (bytes >= 8) {
    memcpy(&word, data, 8);
    return word;
  }
  for (std::size_t i = 0; i < bytes; ++i) word |= static_cast<std::uint64_t>(data[i]) << (8 * i);
  return word;
}
}  // namespace hash_detail

PERDURE_FN std::uint64_t hash_bytes(std::byte const* data, std::size_t bytes) {
  using namespace hash_detail;
  std::uint64_t state = k0 ^ (bytes * k3);
  std::size_t at = 0;
  do {
    std::size_t const left = bytes - at;
    std::uint64_t const low = load_tail(data + at, left);
    std::uint64_t const high = left > 8 ? load_tail(data + at + 8, left - 8) : 0;
    state = fold(low ^ k1, high ^ state);
    at += 16;
  } while (at < bytes);
  return fold(state ^ k2, k3 ^ bytes);
}

/// hash_bytes() of the first bytes of a little-endian word, 8 at most, whose others are zero.
PERDURE_FN std::uint64_t hash_word(std::uint64_t word, std::size_t bytes) {
  using namespace hash_detail;
  return fold(fold(word ^ k1, k0 ^ (bytes * k3)) ^ k2, k3 ^ bytes);
}

/// The n-th bucket hash of a key (n = 0 is the hash itself).
PERDURE_FN std::uint64_t nth_hash(std::uint64_t hash, std::uint32_t n) {
  return n == 0 ? hash : hash_detail::fold(hash ^ (hash_detail::k2 * n), hash_detail::k1 + 2 * n);
}

}  // namespace perdure
