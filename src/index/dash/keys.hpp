// What a slot holds, of the two kinds there are: a key of up to 8 bytes beside its value, or the
// address of a record beside the hash of its key, which spares splits and most comparisons a look
// at the record. Invariant: a record's bytes never change while a slot leads to it.
#pragma once

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
    Key key;
    std::memcpy(&key.word, bytes, key_bytes_);
    key.hash = hash_of_word(key.word);
    return key;
  }
  template <class Host>
  [[nodiscard]] PERDURE_HOT bool equal(Host&, Slot slot, Key const& key) const {
    return slot.first == key.word;
  }
  template <class Host>
  [[nodiscard]] bool same(Host&, Slot a, Slot b) const {
    return a.first == b.first;
  }
  [[nodiscard]] std::uint64_t hash_of(Slot slot) const { return hash_of_word(slot.first); }
  /// What an update replaces, and what says which key a slot has.
  static constexpr std::uint64_t Slot::* changing = &Slot::second;
  static constexpr std::uint64_t Slot::* naming = &Slot::first;
  /// Names a key whose hash is in the other half.
  [[nodiscard]] std::uint64_t elsewhere(std::uint64_t hash) const {
    std::uint64_t word = 0;
    while (hash_of_word(word) >> 63 == hash >> 63) ++word;
    return word;
  }

 private:
  [[nodiscard]] PERDURE_HOT std::uint64_t hash_of_word(std::uint64_t word) const {
    std::byte bytes[8];
    std::memcpy(bytes, &word, sizeof bytes);
    if (key_bytes_ > sizeof bytes) __builtin_unreachable();
    return key_bytes_ == 8 ? hash_bytes(bytes, 8) : hash_bytes(bytes, key_bytes_);
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
