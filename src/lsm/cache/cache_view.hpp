// The block cache as readers see it, on whatever machine (H-Rocks, section 5): sets of eight ways,
// and the body that looks keys up in them. Readers take no lock.
//
// Invariants: a set's version is odd while somebody writes the set, and another one afterwards, so
// what a reader copied while it stayed the same even number was there at one moment. A set that is
// being written has nothing, to a reader. What a set holds, it holds for its epoch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/hash.hpp"
#include "exec/bits.hpp"

namespace perdure::lsm {

inline constexpr std::uint32_t kCacheWays = 8;

/// A line: all that is looked at of keys that are not there.
struct alignas(64) CacheSet {
  std::uint32_t version;  // odd: locked
  std::uint32_t arrivals;  // of entries that found all ways full, since the ways last aged
  std::uint64_t epoch;
  std::uint32_t tags[kCacheWays];  // of the keys' hashes; 0: the way is empty
  std::uint8_t uses[kCacheWays];  // about the logarithm of how often the way was read
};
static_assert(sizeof(CacheSet) == 64);

/// The first word of a slot. The key follows it, then, on a word of its own, the value.
struct CacheSlotHead {
  static constexpr std::uint32_t kAbsent = 0xffff;  // as a value's size: RocksDB has no such key

  std::uint32_t family = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;

  CacheSlotHead() = default;
  PERDURE_FN CacheSlotHead(std::uint32_t of, std::uint32_t key, std::uint32_t value)
      : family(of), key_bytes(key), value_bytes(value) {}
  PERDURE_FN explicit CacheSlotHead(std::uint64_t word)
      : family(static_cast<std::uint32_t>(word)),
        key_bytes(static_cast<std::uint32_t>(word >> 32 & 0xffff)),
        value_bytes(static_cast<std::uint32_t>(word >> 48)) {}
  [[nodiscard]] PERDURE_FN std::uint64_t word() const {
    return std::uint64_t{value_bytes} << 48 | std::uint64_t{key_bytes} << 32 | family;
  }
  [[nodiscard]] PERDURE_FN bool is_absent() const { return value_bytes == kAbsent; }
  [[nodiscard]] PERDURE_FN std::uint32_t key_words() const { return (key_bytes + 7) / 8; }
  [[nodiscard]] PERDURE_FN std::uint32_t value_words() const {
    return is_absent() ? 0 : (value_bytes + 7) / 8;
  }
  [[nodiscard]] PERDURE_FN std::uint32_t words() const { return 1 + key_words() + value_words(); }
};

struct CacheView {
  CacheSet* sets = nullptr;
  std::uint64_t* slots = nullptr;
  std::uint64_t count = 0;  // of sets; below 2^32
  std::uint32_t slot_words = 0;

  [[nodiscard]] PERDURE_FN CacheSet* set_of(std::uint64_t hash) const {
    return sets + ((hash >> 32) * count >> 32);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t* slot(CacheSet const* set, std::uint32_t way) const {
    return slots + (static_cast<std::uint64_t>(set - sets) * kCacheWays + way) * slot_words;
  }
};

PERDURE_FN std::uint64_t cache_hash(std::uint32_t family, std::byte const* key, std::size_t size) {
  return hash_bytes(key, size) + family * 0x9e3779b97f4a7c15u;
}
PERDURE_FN std::uint32_t cache_tag(std::uint64_t hash) {
  auto const tag = static_cast<std::uint32_t>(hash);
  return tag == 0 ? 1 : tag;
}

/// Bit w: way w has this tag.
template <class W>
PERDURE_FN std::uint32_t ways_with(CacheSet const* set, std::uint32_t tag) {
  std::uint32_t ways = 0;
  for (std::uint32_t w = 0; w < kCacheWays; ++w)
    ways |= static_cast<std::uint32_t>(W::load(set->tags + w) == tag) << w;
  return ways;
}

/// Whether the words at `slot` begin with this key. A word's bytes beyond the key are 0.
template <class W>
PERDURE_FN bool is_key(std::uint64_t const* slot, std::byte const* key, std::uint32_t size) {
  for (std::uint32_t at = 0; at < size; at += 8)
    if (W::load(slot + at / 8) != hash_detail::load_tail(key + at, size - at)) return false;
  return true;
}

enum class Cached : std::uint8_t {
  unknown = 0,
  value = 1,
  absent = 2,  // it is known that RocksDB has no such key
  locked = 3,  // unknown, for the set is being written
};

PERDURE_FN bool is_known(Cached found) { return found == Cached::value || found == Cached::absent; }

struct CacheAnswer {
  std::uint32_t size = 0;  // of a value
  Cached found = Cached::unknown;
};

/// Looks keys up, a group side by side: what a step of one key prefetched has come when the others
/// have had theirs. Values go to `values`, one every `view.slot_words` words.
template <class W, std::uint32_t kGroup, class Keys>
struct CacheLookupBody {
  CacheView view;
  Keys keys;
  std::size_t n = 0;
  std::uint32_t family = 0;
  std::uint64_t epoch = 0;
  std::uint64_t salt = 0;  // of each call another: uses are counted by chance
  CacheAnswer* answers = nullptr;
  std::uint64_t* values = nullptr;

  PERDURE_FN void operator()(std::size_t number) const {
    std::size_t const first = number * kGroup;
    std::uint32_t const count = n - first < kGroup ? static_cast<std::uint32_t>(n - first) : kGroup;
    W const warp;
    Candidate all[kGroup];
    for (std::uint32_t j = 0; j < count; ++j) {
      all[j].hash = cache_hash(family, keys.at(first + j), keys.size(first + j));
      all[j].set = view.set_of(all[j].hash);
      warp.prefetch(reinterpret_cast<std::byte const*>(all[j].set), sizeof(CacheSet));
    }
    for (std::uint32_t j = 0; j < count; ++j) {
      answers[first + j] = choose(all[j]);
      for (std::uint32_t ways = all[j].ways; ways != 0; ways &= ways - 1)
        warp.prefetch(
            reinterpret_cast<std::byte const*>(view.slot(all[j].set, exec::lowest_bit(ways))),
            view.slot_words * sizeof(std::uint64_t) < kNear ? view.slot_words * 8 : kNear);
    }
    order(warp);  // versions before slots
    for (std::uint32_t j = 0; j < count; ++j)
      if (all[j].ways != 0) answers[first + j] = read(all[j], first + j);
    order(warp);  // slots before versions
    for (std::uint32_t j = 0; j < count; ++j)
      if (all[j].ways != 0) finish(all[j], answers[first + j]);
  }

 private:
  static constexpr std::size_t kNear = 256;  // bytes; more than that the hardware fetches itself

  struct Candidate {
    std::uint64_t hash;
    CacheSet* set;
    std::uint32_t version;
    std::uint32_t ways;  // that have its tag
    std::uint32_t way;  // that has it
  };

  /// Where loads do not acquire by themselves.
  PERDURE_FN static void order(W const& warp) {
    if constexpr (!requires { requires W::kLoadsAcquire; }) warp.fence();
  }

  PERDURE_FN CacheAnswer choose(Candidate& one) const {
    one.ways = 0;
    one.version = W::load(&one.set->version);
    if ((one.version & 1) != 0) return {0, Cached::locked};
    if (W::load(&one.set->epoch) == epoch) one.ways = ways_with<W>(one.set, cache_tag(one.hash));
    return {};
  }

  PERDURE_FN CacheAnswer read(Candidate& one, std::size_t i) const {
    CacheAnswer answer;
    for (std::uint32_t ways = one.ways; ways != 0 && answer.found == Cached::unknown;
         ways &= ways - 1) {
      one.way = exec::lowest_bit(ways);
      answer = copy(view.slot(one.set, one.way), i);
    }
    return answer;
  }

  PERDURE_FN void finish(Candidate const& one, CacheAnswer& answer) const {
    if (W::load(&one.set->version) != one.version)
      answer = {0, Cached::locked};
    else if (answer.found != Cached::unknown)
      count_use(one);
  }

  PERDURE_FN CacheAnswer copy(std::uint64_t const* slot, std::size_t i) const {
    CacheSlotHead const head(W::load(slot));
    if (head.family != family || head.key_bytes != keys.size(i)) return {};
    if (head.words() > view.slot_words) return {};  // torn, and the version says so
    if (!is_key<W>(slot + 1, keys.at(i), head.key_bytes)) return {};
    if (head.is_absent()) return {0, Cached::absent};
    std::uint64_t const* const from = slot + 1 + head.key_words();
    std::uint64_t* const to = values + i * view.slot_words;
    for (std::uint32_t w = 0; w < head.value_words(); ++w) to[w] = W::load(from + w);
    return {head.value_bytes, Cached::value};
  }

  /// From u to u + 1 one use in 2^u, as good as: what is read a thousand times writes ten times.
  PERDURE_FN void count_use(Candidate const& one) const {
    std::uint8_t* const uses = one.set->uses + one.way;
    std::uint32_t const now = W::load(uses);
    if (now >= 31) return;
    std::uint64_t const drawn = hash_detail::fold(one.hash ^ salt, hash_detail::k1);
    if ((drawn & ((std::uint64_t{1} << now) - 1)) == 0)
      W::store(uses, static_cast<std::uint8_t>(now + 1));
  }
};

}  // namespace perdure::lsm
