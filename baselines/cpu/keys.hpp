// Keys of the baselines: 8 bytes in the slot, or the address of a record in it. A record is
// {length, value, key}, of whole words; most baselines have values in their slots and leave the
// record's alone, as their ports in Dash's evaluation do, so a comparison has to look at the
// record, whatever the keys. Invariant: a record's bytes never change while a slot leads to it; its
// place is used again only where the pool reuses records, and once nobody can be reading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/hash.hpp"
#include "baseline_pool.hpp"

namespace perdure::cpu_baselines {

struct Slot {  // bytes
  std::uint64_t key;  //   0  the key, or its record's address; 0 = empty
  std::uint64_t value;  //   8
};
static_assert(sizeof(Slot) == 16);

inline std::uint64_t word_at(Key key, std::size_t from) {
  std::uint64_t word = 0;
  std::memcpy(&word, key.data() + from, key.size() - from < 8 ? key.size() - from : 8);
  return word;
}

/// Where a session writes records: in blocks that it fills, or each a block.
class KeyLog {
 public:
  explicit KeyLog(BaselinePool& pool) : pool_(&pool) {}

  /// Durable when it returns. A value that is shorter than the pool's leaves the rest alone.
  template <class Host>
  Result<std::uint64_t> write(Host& host, Key key, Value value) {
    std::uint64_t const bytes = 8 + 8 * pool_->value_words() + (key.size() + 7) / 8 * 8;
    auto place = room(bytes);
    if (!place) return place.status();
    std::uint64_t* const words = pool_->words(*place);
    std::uint64_t* const after = words + 1 + pool_->value_words();
    host.store(words, key.size());
    for (std::size_t i = 0; i < value.size(); i += 8)
      host.store(words + 1 + i / 8, word_at(value, i));
    for (std::size_t i = 0; i < key.size(); i += 8) host.store(after + i / 8, word_at(key, i));
    host.persist(words, bytes);
    return place;
  }

 private:
  Result<std::uint64_t> room(std::uint64_t bytes) {
    if (pool_->reuses_records() || at_ + bytes > end_) {
      auto block = pool_->keys.take();
      if (!block) return block.status();
      if (pool_->reuses_records()) return block->bytes;
      at_ = block->bytes;
      end_ = at_ + BaselinePool::kKeyBlock;
    }
    return std::exchange(at_, at_ + bytes);
  }

  BaselinePool* pool_;
  std::uint64_t at_ = 0, end_ = 0;
};

/// Reads such records.
class KeyRecords {
 public:
  explicit KeyRecords(BaselinePool& pool) : pool_(&pool), value_words_(pool.value_words()) {}

  template <class Host>
  bool equal(Host& host, std::uint64_t place, std::byte const* bytes, std::size_t size,
             std::uint64_t = 0) const {
    std::uint64_t const* const words = pool_->words(place);
    std::uint64_t const* const key = words + 1 + value_words_;
    host.read(words, 8);
    host.read(key, size);
    if (host.load(words) != size) return false;
    for (std::size_t i = 0; i < size; i += 8) {
      if (host.load(key + i / 8) != word_at({bytes, size}, i)) return false;
    }
    return true;
  }
  template <class Host>
  bool same(Host& host, std::uint64_t a, std::uint64_t b) const {
    Key const key = key_at(host, b);
    return equal(host, a, key.data(), key.size());
  }
  template <class Host>
  std::uint64_t hash(Host& host, std::uint64_t place) const {
    Key const key = key_at(host, place);
    return hash_bytes(key.data(), key.size());
  }
  template <class Host>
  void value(Host& host, std::uint64_t place, std::span<std::byte> value) const {
    std::uint64_t const* const words = pool_->words(place) + 1;
    host.read(words, value.size());
    for (std::size_t i = 0; i < value.size(); i += 8) {
      std::uint64_t const word = host.load(words + i / 8);
      std::memcpy(value.data() + i, &word, 8);
    }
  }

 private:
  template <class Host>
  Key key_at(Host& host, std::uint64_t place) const {
    std::uint64_t const* const words = pool_->words(place);
    std::uint64_t const* const key = words + 1 + value_words_;
    std::uint64_t const size = host.load(words);
    host.read(key, size);
    return {reinterpret_cast<std::byte const*>(key), size};
  }

  BaselinePool* pool_;
  std::uint32_t value_words_;
};

class InlineKeys {
 public:
  static constexpr bool kInline = true;
  explicit InlineKeys(BaselinePool&) {}
  struct Target {
    std::uint64_t hash = 0;
    std::uint64_t word = 0;
  };
  [[nodiscard]] static Target target(Key key) {
    return {hash_bytes(key.data(), 8), word_at(key, 0)};
  }
  template <class Host>
  bool equal(Host&, std::uint64_t word, Target const& key) const {
    return word == key.word;
  }
  /// The same of a word that may be 0, which no key is: so there is nothing to ask before, and
  /// processors, which cannot guess which slots are empty, run ahead.
  template <class Host>
  bool holds(Host& host, std::uint64_t word, Target const& key) const {
    return equal(host, word, key);
  }
  template <class Host>
  std::uint64_t hash_of(Host&, std::uint64_t word) const {
    return hash_bytes(reinterpret_cast<std::byte const*>(&word), 8);
  }
  /// What a slot of a new record has as its key.
  template <class Host>
  Result<std::uint64_t> make(Host&, KeyLog&, Key key) const {
    return word_at(key, 0);
  }
};

class RecordKeys {
 public:
  static constexpr bool kInline = false;
  explicit RecordKeys(BaselinePool& pool) : records_(pool) {}
  struct Target {
    std::uint64_t hash = 0;
    Key bytes;
  };
  [[nodiscard]] static Target target(Key key) { return {hash_bytes(key.data(), key.size()), key}; }
  template <class Host>
  bool equal(Host& host, std::uint64_t place, Target const& key) const {
    return records_.equal(host, place, key.bytes.data(), key.bytes.size());
  }
  /// The same of a word that may be 0, and then leads to no record.
  template <class Host>
  bool holds(Host& host, std::uint64_t word, Target const& key) const {
    return word != 0 && equal(host, word, key);
  }
  template <class Host>
  std::uint64_t hash_of(Host& host, std::uint64_t place) const {
    return records_.hash(host, place);
  }
  template <class Host>
  Result<std::uint64_t> make(Host& host, KeyLog& log, Key key) const {
    return log.write(host, key, {});
  }

 private:
  KeyRecords records_;
};

}  // namespace perdure::cpu_baselines
