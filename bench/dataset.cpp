#include "dataset.hpp"

#include <cstring>

namespace perdure::bench {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// Of version 0, of the record whose number is mixed.
std::uint64_t value_word(std::uint64_t mixed_id, std::uint64_t word) {
  return mix(mixed_id + word * kGolden);
}

// Odd, so that versions differ in every word and in its lowest byte.
std::uint64_t increment_word(std::uint64_t word) { return mix(word) | 1; }

/// Fills `bytes` bytes with word(0), word(1), ...; the last one is cut off.
template <class Word>
void write_words(std::byte* to, std::uint32_t bytes, Word const& word) {
  std::uint32_t const words = bytes / 8;
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint64_t const w = word(i);
    std::memcpy(to + std::size_t{8} * i, &w, 8);
  }
  if (bytes % 8 == 0) return;
  std::uint64_t const w = word(words);
  std::memcpy(to + std::size_t{8} * words, &w, bytes % 8);
}

}  // namespace

Dataset::Dataset(std::uint64_t seed, std::uint32_t key_bytes, std::uint32_t value_bytes)
    : seed_(seed), key_bytes_(key_bytes), value_bytes_(value_bytes) {
  for (std::uint64_t word = 0; word < (value_bytes + std::uint64_t{7}) / 8; ++word)
    increments_.push_back(increment_word(word));
}

void Dataset::write_key(std::uint64_t id, std::byte* to) const {
  std::uint64_t const first = mix(id + mix(seed_));
  write_words(to, key_bytes_,
              [first](std::uint64_t word) { return word == 0 ? first : mix(first + word); });
}

void Dataset::write_value(std::uint64_t id, std::uint64_t version, std::byte* to) const {
  std::uint64_t const mixed = mix(id);
  write_words(to, value_bytes_, [&](std::uint64_t word) {
    return value_word(mixed, word) + version * increments_[word];
  });
}

void Dataset::write_increment(std::byte* to) const {
  write_words(to, value_bytes_, [this](std::uint64_t word) { return increments_[word]; });
}

bool Dataset::holds(std::byte const* value, std::uint64_t id, std::uint64_t version) const {
  std::uint64_t const mixed = mix(id);
  auto const expected = [&](std::uint32_t word) {
    return value_word(mixed, word) + version * increments_[word];
  };
  std::uint32_t const words = value_bytes_ / 8;
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint64_t found = 0;
    std::memcpy(&found, value + std::size_t{8} * i, 8);
    if (found != expected(i)) return false;
  }
  if (value_bytes_ % 8 == 0) return true;
  std::uint64_t const w = expected(words);
  return std::memcmp(value + std::size_t{8} * words, &w, value_bytes_ % 8) == 0;
}

}  // namespace perdure::bench
