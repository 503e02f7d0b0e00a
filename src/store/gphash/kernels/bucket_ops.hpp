// Bodies that load the bucket cache of layout `in_place` (GPHash section 3.3), once for every
// machine: choosing, while gets go on; letting go of what was evicted, while none runs; copying,
// while gets go on again.
#pragma once

#include <cstdint>

#include "base/assert.hpp"
#include "store/gphash/kernels/cache_ops.hpp"

namespace perdure {

/// The level of a bucket, by its number.
PERDURE_FN gphash::Level const& level_of_bucket(gphash::TableView const& table,
                                                std::uint64_t bucket) {
  std::uint32_t l = 0;
  while (l + 1 < table.levels && bucket * table.slots >= table.level[l + 1].first_slot) ++l;
  return table.level[l];
}

/// Of the bucket cache: the buckets of all live levels.
struct BucketMembers {
  gphash::TableView table;
  PERDURE_FN std::uint32_t* uses() const { return table.buckets.uses; }
  /// Numbers between two levels may be nobody's.
  PERDURE_FN bool worth(std::uint64_t bucket) const {
    gphash::Level const& level = level_of_bucket(table, bucket);
    return bucket - level.first_slot / table.slots < std::uint64_t{1} << level.log2_buckets;
  }
};

/// Of the chosen: those that are cached keep their entries; the others are to come in.
struct KeepBucketsBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  std::uint64_t const* chosen = nullptr;
  std::uint64_t n = 0;
  std::uint8_t* kept = nullptr;  // by entry
  std::uint64_t* incoming = nullptr;
  std::uint64_t* count = nullptr;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    auto const bucket = [&](std::uint32_t lane) {
      return Deferred::operation(chosen[item * kKeysPerItem + lane]);
    };
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      if (item * kKeysPerItem + lane >= n) return false;
      PERDURE_ASSERT(!kCostlyAssertions || table.buckets.entry_of != nullptr);
      std::uint32_t const entry = W::load(table.buckets.entry_of + bucket(lane));
      PERDURE_ASSERT(!kCostlyAssertions || entry == gphash::BucketCache::kNone ||
                     entry < table.buckets.capacity);
      if (entry != gphash::BucketCache::kNone) W::store(kept + entry, std::uint8_t{1});
      return entry == gphash::BucketCache::kNone;
    });
    append_each(warp, mask, incoming, count, bucket);
  }
};

/// The entries that nobody keeps.
struct VacantEntriesBody {
  static constexpr int kStages = 1;
  std::uint8_t const* kept = nullptr;
  std::uint64_t entries = 0;
  std::uint64_t* vacant = nullptr;
  std::uint64_t* count = nullptr;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t item, State<W>&, Counts&) const {
    auto const entry = [&](std::uint32_t lane) { return item * kKeysPerItem + lane; };
    std::uint32_t const mask = warp.ballot([&](std::uint32_t lane) {
      return entry(lane) < entries && W::load(kept + entry(lane)) == 0;
    });
    append_each(warp, mask, vacant, count, entry);
  }
};

/// The first step of Figure 4: the old mapping goes. No get runs.
struct InvalidateBucketsBody {
  gphash::BucketCache cache;
  std::uint64_t const* vacant;

  PERDURE_FN void operator()(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || vacant[i] < cache.capacity);
    std::uint32_t& bucket = cache.bucket_of[vacant[i]];
    if (bucket == gphash::BucketCache::kNone) return;
    if (!mutated("evicted_bucket_not_invalidated"))
      cache.entry_of[bucket] = gphash::BucketCache::kNone;
    bucket = gphash::BucketCache::kNone;
  }
};

/// Its last two: a bucket an item is copied into an entry that nobody reads, and then the mapping
/// says so.
struct FetchBucketsBody {
  static constexpr int kStages = 1;
  gphash::TableView table;
  std::uint64_t const* incoming = nullptr;
  std::uint64_t const* vacant = nullptr;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>&, Counts&) const {
    gphash::BucketCache const& cache = table.buckets;
    std::uint64_t const bucket = incoming[i];
    auto const entry = static_cast<std::uint32_t>(vacant[i]);
    gphash::Level const& level = level_of_bucket(table, bucket);
    PERDURE_ASSERT(!kCostlyAssertions || bucket * table.slots >= level.first_slot);
    std::uint64_t const first = bucket * table.slots - level.first_slot;
    std::uint32_t const words = table.slots * 8;
    warp.copy(cache.at(entry), mem.read(level.base + first * 8), words);
    if (cache.key_stride != 0) {
      warp.copy(cache.key(entry, 0), mem.read(gphash::in_place::key(table, level, first)),
                table.slots * cache.key_stride);
    }
    auto* const addresses = reinterpret_cast<std::byte*>(cache.address(entry, 0));
    warp.copy(addresses, mem.read(gphash::in_place::address(table, level, first)), words);
    warp.fence();  // the copy before the word that leads there
    warp.elect([&] {
      PERDURE_ASSERT(!kCostlyAssertions ||
                     W::load(cache.bucket_of + entry) == gphash::BucketCache::kNone);
      W::store(cache.bucket_of + entry, static_cast<std::uint32_t>(bucket));
      W::store(cache.entry_of + bucket, entry);
      return std::uint64_t{0};
    });
  }
};

/// Counts the records in the cached buckets, an entry an item.
struct CountCachedBody {
  static constexpr int kStages = 1;
  gphash::BucketCache cache;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t entry, State<W>&, Counts& counts) const {
    counts[BatchCounts::cached] += warp.elect([&] {
      std::uint64_t records = 0;
      auto const e = static_cast<std::uint32_t>(entry);
      if (W::load(cache.bucket_of + e) == gphash::BucketCache::kNone) return records;
      for (std::uint32_t s = 0; s < cache.slots; ++s)
        records += W::load(cache.states(e) + s) > gphash::in_place::kInsert;
      return records;
    });
  }
};

}  // namespace perdure
