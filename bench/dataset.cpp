#include "dataset.hpp"

#include <algorithm>
#include <cstring>

namespace perdure::bench {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

std::uint64_t value_word(std::uint64_t id, std::uint64_t word) {
  return mix(mix(id) + word * kGolden);
}

// Odd, so that versions differ in every word and in its lowest byte.
std::uint64_t increment_word(std::uint64_t word) { return mix(word) | 1; }

/// Fills `bytes` bytes with word(0), word(1), ...; the last one is cut off.
template <class Word>
void write_words(std::byte* to, std::uint32_t bytes, Word const& word) {
  for (std::uint32_t at = 0; at < bytes; at += 8) {
    std::uint64_t const w = word(at / 8);
    std::memcpy(to + at, &w, std::min(8u, bytes - at));
  }
}

}  // namespace

std::uint64_t mix(std::uint64_t x) {
  x += kGolden;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void Dataset::write_key(std::uint64_t id, std::byte* to) const {
  std::uint64_t const first = mix(id + mix(seed_));
  write_words(to, key_bytes_,
              [first](std::uint64_t word) { return word == 0 ? first : mix(first + word); });
}

void Dataset::write_value(std::uint64_t id, std::uint64_t version, std::byte* to) const {
  write_words(to, value_bytes_, [=](std::uint64_t word) {
    return value_word(id, word) + version * increment_word(word);
  });
}

void Dataset::write_increment(std::byte* to) const {
  write_words(to, value_bytes_, increment_word);
}

bool Dataset::holds(std::byte const* value, std::uint64_t id, std::uint64_t version) const {
  for (std::uint32_t at = 0; at < value_bytes_; at += 8) {
    std::uint64_t const w = value_word(id, at / 8) + version * increment_word(at / 8);
    if (std::memcmp(value + at, &w, std::min(8u, value_bytes_ - at)) != 0) return false;
  }
  return true;
}

}  // namespace perdure::bench
