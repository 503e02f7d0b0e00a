// Keys of a B+-tree and their order: bytes as memcmp has them, a shorter key before those that
// continue it. A key's prefix is its first 8 bytes as a number, so most comparisons are of two
// words. Invariant: keys with different prefixes are ordered as their prefixes are.
//
// A policy `Keys` says how much of a key a leaf's entry has. WordKeys: all of it. ByteKeys: the
// prefix, and the entry's word leads to a record that has the rest.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "index/btree/layout.hpp"

namespace perdure::btree {

struct Key {
  std::uint64_t prefix = 0;
  std::byte const* bytes = nullptr;
  std::size_t size = 0;
};

[[nodiscard]] inline std::uint64_t prefix_of(std::byte const* bytes, std::size_t size) {
  std::uint64_t word = 0;
  if (size > 0) std::memcpy(&word, bytes, std::min(size, sizeof word));
  return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

/// A separator's bytes beyond what its prefix says, in DRAM; freed by epochs.
struct KeyBytes {
  std::size_t size;
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

/// Keys of one size, of at most 8 bytes.
class WordKeys {
 public:
  static constexpr bool kTails = false;

  [[nodiscard]] static Key key(std::byte const* bytes, std::size_t size) {
    PERDURE_ASSERT(size <= 8);
    return {prefix_of(bytes, size), bytes, size};
  }
  /// The key of an entry.
  [[nodiscard]] static Key key_of(std::uint64_t prefix, std::uint64_t) { return {prefix}; }
  [[nodiscard]] static bool readable(Key const&) { return true; }
  [[nodiscard]] static std::strong_ordering compare(Key const& a, Key const& b) {
    return a.prefix <=> b.prefix;
  }
};

/// Keys of any size. `Records` reads the key of a record: key_at(word) -> std::span<std::byte
/// const>, whose data() is null where the record is damaged. A record may be read as long as a
/// guard of the tree's epochs stands that was there before the record's entry went.
template <class Records>
class ByteKeys {
 public:
  static constexpr bool kTails = true;

  explicit ByteKeys(Records records) : records_(records) {}

  [[nodiscard]] static Key key(std::byte const* bytes, std::size_t size) {
    return {prefix_of(bytes, size), bytes, size};
  }
  [[nodiscard]] Key key_of(std::uint64_t prefix, std::uint64_t word) const {
    std::span<std::byte const> const bytes = records_.key_at(word);
    return {prefix, bytes.data(), bytes.size()};
  }
  [[nodiscard]] static bool readable(Key const& key) { return key.bytes != nullptr; }
  [[nodiscard]] static std::strong_ordering compare(Key const& a, Key const& b) {
    if (a.prefix != b.prefix) return a.prefix <=> b.prefix;
    std::size_t const both = std::min(a.size, b.size);
    int const rest = both > 8 ? std::memcmp(a.bytes + 8, b.bytes + 8, both - 8) : 0;
    return rest != 0 ? rest <=> 0 : a.size <=> b.size;
  }

 private:
  Records records_;
};

}  // namespace perdure::btree
