// Keys of the peers: 8 bytes in the slot, or the place of a record in it. A record is {length, value, bytes}, of whole
// words; the peers have values in their slots and leave the record's alone, as their ports in Dash's evaluation do, so
// a comparison has to look at the record, whatever the keys. Invariant: a record's bytes never change while a slot
// leads to it, and its place is not used again before the pool is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/hash.hpp"
#include "peer_pool.hpp"

namespace perdure::cpu_peers {

struct Slot {           // bytes
  std::uint64_t key;    //   0  the key, or its record's place; 0 = empty
  std::uint64_t value;  //   8
};
static_assert(sizeof(Slot) == 16);

inline std::uint64_t word_at(Key key, std::size_t from) {
  std::uint64_t word = 0;
  std::memcpy(&word, key.data() + from, key.size() - from < 8 ? key.size() - from : 8);
  return word;
}

/// Where a session writes records: blocks of its own.
class KeyLog {
 public:
  explicit KeyLog(PeerPool& pool) : pool_(&pool) {}

  /// Durable when it returns.
  template <class Host>
  Result<std::uint64_t> write(Host& host, Key key, std::uint64_t value) {
    std::uint64_t const bytes = 16 + (key.size() + 7) / 8 * 8;
    if (at_ + bytes > end_) {
      auto block = pool_->keys.take();
      if (!block) return block.status();
      at_ = block->bytes;
      end_ = at_ + PeerPool::kKeyBlock;
    }
    std::uint64_t* const words = pool_->words(at_);
    host.store(words, key.size());
    host.store(words + 1, value);
    for (std::size_t i = 0; i < key.size(); i += 8) host.store(words + 2 + i / 8, word_at(key, i));
    host.persist(words, bytes);
    std::uint64_t const place = at_;
    at_ += bytes;
    return place;
  }

 private:
  PeerPool* pool_;
  std::uint64_t at_ = 0, end_ = 0;
};

/// Reads such records.
class KeyRecords {
 public:
  explicit KeyRecords(PeerPool& pool) : pool_(&pool) {}

  template <class Host>
  bool equal(Host& host, std::uint64_t place, std::byte const* bytes, std::size_t size, std::uint64_t = 0) const {
    std::uint64_t const* const words = pool_->words(place);
    host.read(words, 16 + size);
    if (host.load(words) != size) return false;
    for (std::size_t i = 0; i < size; i += 8) {
      if (host.load(words + 2 + i / 8) != word_at({bytes, size}, i)) return false;
    }
    return true;
  }
  template <class Host>
  bool same(Host& host, std::uint64_t a, std::uint64_t b) const {
    std::uint64_t const* const words = pool_->words(b);
    std::uint64_t const size = host.load(words);
    host.read(words, 16 + size);
    return equal(host, a, reinterpret_cast<std::byte const*>(words + 2), size);
  }
  template <class Host>
  std::uint64_t hash(Host& host, std::uint64_t place) const {
    std::uint64_t const* const words = pool_->words(place);
    std::uint64_t const size = host.load(words);
    host.read(words, 16 + size);
    return hash_bytes(reinterpret_cast<std::byte const*>(words + 2), size);
  }
  template <class Host>
  std::uint64_t value(Host& host, std::uint64_t place) const {
    return host.load(pool_->words(place) + 1);
  }

 private:
  PeerPool* pool_;
};

class InlineKeys {
 public:
  explicit InlineKeys(PeerPool&) {}
  struct Wanted {
    std::uint64_t hash = 0;
    std::uint64_t word = 0;
  };
  [[nodiscard]] static Wanted wanted(Key key) { return {hash_bytes(key.data(), 8), word_at(key, 0)}; }
  template <class Host>
  bool equal(Host&, std::uint64_t word, Wanted const& key) const {
    return word == key.word;
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
  explicit RecordKeys(PeerPool& pool) : records_(pool) {}
  struct Wanted {
    std::uint64_t hash = 0;
    Key bytes;
  };
  [[nodiscard]] static Wanted wanted(Key key) { return {hash_bytes(key.data(), key.size()), key}; }
  template <class Host>
  bool equal(Host& host, std::uint64_t place, Wanted const& key) const {
    return records_.equal(host, place, key.bytes.data(), key.bytes.size());
  }
  template <class Host>
  std::uint64_t hash_of(Host& host, std::uint64_t place) const {
    return records_.hash(host, place);
  }
  template <class Host>
  Result<std::uint64_t> make(Host& host, KeyLog& log, Key key) const {
    return log.write(host, key, 0);
  }

 private:
  KeyRecords records_;
};

}  // namespace perdure::cpu_peers
