// All that the block cache holds, set by set, while readers and who fills it go on.
//
// Invariant: an entry is told as it was at one moment, in its epoch: sets that somebody writes are
// passed over. As with lookups, it is to be believed if BlockCache::holds() says so afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lsm/cache/block_cache.hpp"

namespace perdure::lsm {

struct CacheEntry {
  std::uint32_t family = 0;
  std::uint32_t uses = 0;  // as CacheSet has them
  bool is_absent = false;
  std::span<std::byte const> key, value;
};

/// Copies entries of a set; one thread's.
class CacheSetCopy {
 public:
  explicit CacheSetCopy(CacheView const& view)
      : view_(view), words_(std::size_t{kCacheWays} * view.slot_words) {}

  /// f(entry) of each entry of the epoch that was used so often.
  template <class F>
  void for_entries(CacheSet const* set, std::uint64_t epoch, std::uint32_t least_uses, F const& f) {
    std::uint32_t const version = W::load(&set->version);
    if ((version & 1) != 0 || W::load(&set->epoch) != epoch) return;
    std::uint32_t ways = 0;
    for (std::uint32_t w = 0; w < kCacheWays; ++w) {
      uses_[w] = W::load(set->uses + w);
      if (uses_[w] < least_uses || W::load(set->tags + w) == 0) continue;
      if (copy(set, w)) ways |= 1u << w;
    }
    if (W::load(&set->version) != version) return;
    for (; ways != 0; ways &= ways - 1) f(entry(exec::lowest_bit(ways)));
  }

 private:
  using W = CacheThread;

  [[nodiscard]] std::uint64_t* words(std::uint32_t way) {
    return words_.data() + std::size_t{way} * view_.slot_words;
  }
  bool copy(CacheSet const* set, std::uint32_t way) {
    std::uint64_t const* const slot = view_.slot(set, way);
    std::uint64_t* const to = words(way);
    to[0] = W::load(slot);
    std::uint32_t const all = CacheSlotHead(to[0]).words();
    if (all > view_.slot_words) return false;  // torn, and the version says so
    for (std::uint32_t i = 1; i < all; ++i) to[i] = W::load(slot + i);
    return true;
  }
  [[nodiscard]] CacheEntry entry(std::uint32_t way) {
    std::uint64_t const* const slot = words(way);
    CacheSlotHead const head(slot[0]);
    CacheEntry entry{head.family, uses_[way], head.is_absent(), {}, {}};
    entry.key = {reinterpret_cast<std::byte const*>(slot + 1), head.key_bytes};
    auto const* const value = reinterpret_cast<std::byte const*>(slot + 1 + head.key_words());
    if (!entry.is_absent) entry.value = {value, head.value_bytes};
    return entry;
  }

  CacheView const view_;
  std::vector<std::uint64_t> words_;  // of each way, its slot's
  std::uint32_t uses_[kCacheWays] = {};
};

}  // namespace perdure::lsm
