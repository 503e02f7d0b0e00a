// What a slot holds, of the two kinds there are: a key of up to 8 bytes beside its value, or the
// address of a record beside the hash of its key, which spares splits and most comparisons a look
// at the record. Invariant: a record's bytes never change while a slot leads to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hash.hpp"
#include "index/dash/layout.hpp"

namespace perdure::dash {

class InlineKeys {
 public:
  struct Key {
    std::uint64_t hash = 0;
    std::uint64_t word = 0;
  };
  explicit InlineKeys(std::uint32_t key_bytes = 8) : key_bytes_(key_bytes) {
    PERDURE_ASSERT(key_bytes > 0 && key_bytes <= sizeof(Key::word));
  }

  [[nodiscard]] PERDURE_HOT Key key(std::byte const* bytes) const {
    std::uint64_t const word = hash_detail::load_tail(bytes, key_bytes_);
    return {hash_word(word, key_bytes_), word};
  }
  template <class Host>
  [[nodiscard]] PERDURE_HOT bool equal(Host&, Slot slot, Key const& key) const {
    return slot.first == key.word;
  }
  template <class Host>
  [[nodiscard]] bool same(Host&, Slot a, Slot b) const {
    return a.first == b.first;
  }
  [[nodiscard]] std::uint64_t hash_of(Slot slot) const {
    return hash_word(key_in(slot.first), key_bytes_);
  }
  /// What an update replaces, and what says which key a slot has.
  static constexpr std::uint64_t Slot::* changing = &Slot::second;
  static constexpr std::uint64_t Slot::* naming = &Slot::first;
  /// Names a key whose hash is in the other half.
  [[nodiscard]] PERDURE_HOT std::uint64_t elsewhere(std::uint64_t hash) const {
    static Elsewhere const words = words_elsewhere();  // once: every removal names one
    return words[key_bytes_][hash >> 63];
  }

 private:
  // For keys of so many bytes, and hashes of the lower and the upper half.
  using Elsewhere = std::array<std::array<std::uint64_t, 2>, sizeof(Key::word) + 1>;
  /// The least word of each that is a key of the other half.
  static Elsewhere words_elsewhere() {
    Elsewhere words{};
    for (std::size_t bytes = 1; bytes < words.size(); ++bytes) {
      for (std::uint64_t half = 0; half < 2; ++half) {
        while (hash_word(words[bytes][half], bytes) >> 63 == half) ++words[bytes][half];
      }
    }
    return words;
  }
  /// What a slot's word has of a key: all, unless it was damaged.
  [[nodiscard]] std::uint64_t key_in(std::uint64_t word) const {
    return word & ~std::uint64_t{0} >> (64 - 8 * key_bytes_);
  }

  std::uint32_t key_bytes_;
};

/// `Records` tells whether a place is the key's, of whose hash it is: equal(host, place, bytes, n,
/// hash), and whether two records have the same key: same(host, place, place).
template <class Records>
class RecordKeys {
 public:
  struct Key {
    std::uint64_t hash = 0;
    std::byte const* bytes = nullptr;
    std::size_t size = 0;
  };
  explicit RecordKeys(Records records) : records_(records) {}

  [[nodiscard]] static Key key(std::byte const* bytes, std::size_t size) {
    return {hash_bytes(bytes, size), bytes, size};
  }
  template <class Host>
  [[nodiscard]] bool equal(Host& host, Slot slot, Key const& key) const {
    return slot.second == key.hash &&
           records_.equal(host, slot.first, key.bytes, key.size, key.hash);
  }
  template <class Host>
  [[nodiscard]] bool same(Host& host, Slot a, Slot b) const {
    return a.second == b.second && (a.first == b.first || records_.same(host, a.first, b.first));
  }
  [[nodiscard]] static std::uint64_t hash_of(Slot slot) { return slot.second; }
  static constexpr std::uint64_t Slot::* changing = &Slot::first;
  static constexpr std::uint64_t Slot::* naming = &Slot::second;
  [[nodiscard]] static std::uint64_t elsewhere(std::uint64_t hash) { return ~hash; }

 private:
  Records records_;
};

}  // namespace perdure::dash
