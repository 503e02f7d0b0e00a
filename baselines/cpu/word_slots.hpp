// Slots of 8 bytes that lead to records: 16 bits of a key's hash, 48 of its record's address; eight
// of them are a bucket of one line. What Clevel and the level segments have. Invariant: a record is
// durable before a word leads to it; its value is the record's, so an update is another record and
// one store.
#pragma once

#include <cstdint>
#include <optional>

#include "exec/epochs.hpp"
#include "keys.hpp"

namespace perdure::cpu_baselines {

inline constexpr std::uint32_t kWordSlots = 8;

struct WordBucket {
  std::uint64_t slots[kWordSlots];  // 0 = empty
};
static_assert(sizeof(WordBucket) == 64);

/// A slot, and the word that was found there.
struct WordRef {
  std::uint64_t* slot = nullptr;
  std::uint64_t word = 0;
};

class WordSlots {
 public:
  explicit WordSlots(BaselinePool& pool) : pool_(&pool), records_(pool) {}

  static std::uint64_t place_of(std::uint64_t word) { return word & kPlace; }
  /// Of bits that choose no bucket.
  static std::uint64_t tag_of(std::uint64_t hash) { return hash >> 16 << 48; }

  template <class Host>
  static void announce(Host& host, WordBucket const* bucket) {
    host.read(bucket, sizeof *bucket);
  }
  /// f(ref) for each slot of a bucket that has the key, until it answers false; answers whether it
  /// did not.
  template <class Host, class F>
  bool for_each_match(Host& host, WordBucket* bucket, Key key, std::uint64_t hash, F f) const {
    for (std::uint64_t& slot : bucket->slots) {
      std::uint64_t const word = host.load(&slot);
      if (word == 0 || (word & ~kPlace) != tag_of(hash)) continue;
      if (records_.equal(host, place_of(word), key.data(), key.size()) && !f(WordRef{&slot, word}))
        return false;
    }
    return true;
  }
  template <class Host>
  std::optional<WordRef> find(Host& host, WordBucket* bucket, Key key, std::uint64_t hash) const {
    std::optional<WordRef> found;
    for_each_match(host, bucket, key, hash, [&](WordRef ref) {
      found = ref;
      return false;
    });
    return found;
  }
  /// f(word) for each that is not empty.
  template <class Host, class F>
  static void for_each(Host& host, WordBucket const* bucket, F f) {
    for (std::uint64_t const& slot : bucket->slots) {
      if (std::uint64_t const word = host.load(&slot); word != 0) f(word);
    }
  }
  template <class Host>
  static std::uint32_t count(Host& host, WordBucket const* bucket) {
    std::uint32_t n = 0;
    for (std::uint64_t const& slot : bucket->slots) n += host.load(&slot) != 0;
    return n;
  }
  /// Durable when it returns; false where the bucket is full.
  template <class Host>
  static bool put(Host& host, WordBucket* bucket, std::uint64_t word) {
    for (std::uint64_t& slot : bucket->slots) {
      if (host.load(&slot) != 0 || !host.cas(&slot, 0, word)) continue;
      host.persist(&slot, sizeof slot);
      return true;
    }
    return false;
  }
  template <class Host>
  static void store(Host& host, std::uint64_t* slot, std::uint64_t word) {
    host.store(slot, word);
    host.persist(slot, sizeof word);
  }

  template <class Host>
  void value(Host& host, std::uint64_t word, std::span<std::byte> value) const {
    records_.value(host, place_of(word), value);
  }
  template <class Host>
  std::uint64_t hash(Host& host, std::uint64_t word) const {
    return records_.hash(host, place_of(word));
  }
  template <class Host>
  Result<std::uint64_t> make(Host& host, KeyLog& log, Key key, Value value,
                             std::uint64_t hash) const {
    auto place = log.write(host, key, value);
    if (!place) return place.status();
    return tag_of(hash) | *place;
  }
  /// The record of a word that no slot has any more, or ever had.
  void retire(exec::Epochs& epochs, std::uint64_t word) const {
    if (word != 0 && pool_->reuses_records())
      epochs.retire([pool = pool_, word] { pool->keys.give(Offset{place_of(word)}); });
  }
  /// At an opening: `f(mark)` calls mark(word) for each word there is.
  template <class F>
  void sweep(F f) const {
    if (!pool_->reuses_records()) return;
    pool_->keys.begin_sweep();
    f([&](std::uint64_t word) { pool_->keys.mark(Offset{place_of(word)}); });
    pool_->keys.finish_sweep();
  }

 private:
  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 48) - 1;
  BaselinePool* pool_;
  KeyRecords records_;
};

}  // namespace perdure::cpu_baselines
