// The buckets of level hashing, and the slots in them. Whoever calls holds the stripes of the
// buckets. Invariant: bit i of a bucket's token says that slot i counts; a slot is durable before
// its bit, and its bit is cleared durably before it is used again.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "keys.hpp"
#include "pm/flush.hpp"

namespace perdure::cpu_baselines {

struct LevelBucket {  // bytes
  static constexpr std::uint32_t kSlots = 7;

  std::uint64_t tokens;  //   0
  std::uint64_t reserved;  //   8
  Slot slots[kSlots];  //  16
};
static_assert(sizeof(LevelBucket) == 128);

struct LevelSlot {
  LevelBucket* bucket = nullptr;
  std::uint32_t slot = 0;
  [[nodiscard]] Slot& record() const { return bucket->slots[slot]; }
};
using LevelCandidates = std::array<LevelBucket*, 4>;  // top by each hash, bottom by each hash

template <class Keys>
class LevelSlots {
 public:
  explicit LevelSlots(BaselinePool& pool) : keys(pool) {}

  template <class Host>
  bool look_up(Host& host, LevelCandidates const& buckets, typename Keys::Target const& key,
               LevelSlot& found) {
    announce(host, buckets);
    for (LevelBucket* const b : buckets) {
      bool here = false;
      for_each_match(host, b, key, [&](LevelSlot ref) {
        found = ref;
        here = true;
        return false;
      });
      if (here) return true;
    }
    return false;
  }
  template <class Host>
  bool clear_matches(Host& host, LevelCandidates const& buckets, typename Keys::Target const& key,
                     LevelSlot const* but) {
    bool any = false;
    announce(host, buckets);
    for (LevelBucket* const b : buckets) {
      for_each_match(host, b, key, [&](LevelSlot ref) {
        if (but == nullptr || ref.bucket != but->bucket || ref.slot != but->slot)
          clear_token(host, ref);
        return any = true;
      });
    }
    return any;
  }
  /// In the less loaded bucket of the top level, else of the bottom level.
  template <class Host>
  bool find_room(Host& host, LevelCandidates const& buckets, LevelSlot& room) {
    for (std::size_t const level : {0, 2}) {
      LevelBucket *a = buckets[level], *b = buckets[level + 1];
      if (std::popcount(host.load(&b->tokens)) < std::popcount(host.load(&a->tokens))) a = b;
      if (free_slot(host, a, room)) return true;
    }
    return false;
  }
  template <class Host>
  static bool free_slot(Host& host, LevelBucket* b, LevelSlot& room) {
    auto const i = static_cast<std::uint32_t>(std::countr_one(host.load(&b->tokens)));
    if (i >= LevelBucket::kSlots) return false;
    room = {b, i};
    return true;
  }
  template <class Host>
  static void fill(Host& host, LevelSlot ref, Slot value) {
    host.store(&ref.record().key, value.key);
    host.store(&ref.record().value, value.value);
    host.persist(&ref.record(), sizeof(Slot));
    host.store(&ref.bucket->tokens, host.load(&ref.bucket->tokens) | std::uint64_t{1} << ref.slot);
    host.persist(&ref.bucket->tokens, sizeof ref.bucket->tokens);
  }
  template <class Host>
  static void clear_token(Host& host, LevelSlot ref) {
    host.store(&ref.bucket->tokens,
               host.load(&ref.bucket->tokens) & ~(std::uint64_t{1} << ref.slot));
    host.persist(&ref.bucket->tokens, sizeof ref.bucket->tokens);
  }

  Keys keys;

 private:
  /// Where all four are follows from the hashes alone, so processors that run ahead of comparisons
  /// that fail ask for all of their lines at once.
  template <class Host>
  static void announce(Host& host, LevelCandidates const& buckets) {
    for (LevelBucket* const b : buckets) {
      host.prefetch(b);
      host.prefetch(reinterpret_cast<std::byte*>(b) + pm::kCacheLine);
    }
  }
  /// Bit i: slot i has this key in it, whether it counts or not. Processors guess well that words
  /// differ, and cannot guess which slots count, so that is asked afterwards.
  template <class Host>
  std::uint64_t holding(Host& host, LevelBucket* b, typename Keys::Target const& key) {
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < LevelBucket::kSlots; ++i)
      found |= std::uint64_t{keys.equal(host, host.load(&b->slots[i].key), key)} << i;
    return found;
  }
  template <class Host, class F>
  void for_each_match(Host& host, LevelBucket* b, typename Keys::Target const& key, F f) {
    host.read(b, sizeof *b);
    std::uint64_t left = host.load(&b->tokens);
    if constexpr (Keys::kInline) left &= holding(host, b, key);
    for (; left != 0; left &= left - 1) {
      auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
      if (keys.equal(host, host.load(&b->slots[i].key), key) && !f(LevelSlot{b, i})) return;
    }
  }
};

}  // namespace perdure::cpu_baselines
