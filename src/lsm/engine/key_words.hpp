// Keys as words that compare as their bytes do. Invariant: of two keys whose words from a place on
// are all equal, what lies behind an end counting as zeros, the shorter one comes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"

namespace perdure::lsm {

/// Bytes in memory's order to a number that compares as they do, and back.
PERDURE_FN std::uint64_t swapped(std::uint64_t word) {
  word = (word & 0x00ff00ff00ff00ffu) << 8 | (word >> 8 & 0x00ff00ff00ff00ffu);
  word = (word & 0x0000ffff0000ffffu) << 16 | (word >> 16 & 0x0000ffff0000ffffu);
  return word << 32 | word >> 32;
}

/// Of up to eight bytes, as they lie in memory; zeros behind them.
PERDURE_FN std::uint64_t bytes_as_word(std::byte const* from, std::uint32_t size) {
  std::uint64_t word = 0;
  if (size == sizeof word)
    memcpy(&word, from, sizeof word);
  else
    memcpy(&word, from, size);
  return word;
}

/// The eight bytes from `from` on; zeros behind the end.
PERDURE_FN std::uint64_t key_word(std::byte const* key, std::uint64_t size, std::uint64_t from) {
  std::uint64_t word = 0;
  if (from + 8 <= size) {
    memcpy(&word, key + from, 8);
    return swapped(word);
  }
  for (std::uint64_t i = from; i < size; ++i)
    word |= static_cast<std::uint64_t>(key[i]) << (56 - 8 * (i - from));
  return word;
}

/// Of a word, with `left` bytes up to the key's end: seven of its bytes and how many there are, 8
/// standing for more than 7. Where keys are equal before, and these words too, the keys are, unless
/// they go on.
inline constexpr std::uint64_t kCounted = 0xff;
inline constexpr std::uint64_t kGoesOn = 8;
PERDURE_FN std::uint64_t counted_word(std::uint64_t word, std::uint64_t left) {
  return (word & ~kCounted) | (left < kGoesOn ? left : kGoesOn);
}

/// Below 0, 0, above 0. What lies before `from` is equal.
PERDURE_FN int compare_from(std::uint64_t from, std::byte const* a, std::uint64_t a_size,
                            std::byte const* b, std::uint64_t b_size) {
  std::uint64_t const both = a_size < b_size ? a_size : b_size;
  for (; from < both; from += 8) {
    std::uint64_t const x = key_word(a, a_size, from);
    std::uint64_t const y = key_word(b, b_size, from);
    if (x != y) return x < y ? -1 : 1;
  }
  return a_size == b_size ? 0 : a_size < b_size ? -1 : 1;
}

}  // namespace perdure::lsm
