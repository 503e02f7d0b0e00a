// The step of a small batch that brings equal hashes together, by one cluster of blocks. Invariant:
// equal hashes end up side by side in array order, and where none are equal, as in most batches,
// nothing is moved.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "exec/bits.hpp"
#include "exec/cuda/cuda_steps.cuh"

namespace perdure::exec {

/// What a block knows of its share of the hashes, in its own memory.
struct HashShare {
  static constexpr std::uint32_t kSlots = 4 * kStepThreads;
  static constexpr std::uint32_t kMostItems = 2 * kStepThreads;  // of twice an even share
  static constexpr unsigned long long kNone = ~0ull;
  struct Item {
    std::uint16_t index, slot;
    std::uint16_t arrival;  // among those of its hash
  };
  unsigned long long hash[kSlots];  // kNone: free
  std::uint32_t members[kSlots];
  std::uint32_t first[kSlots];  // where the members of the hash begin, within the share
  Item items[kMostItems];
  std::uint16_t member[kMostItems];  // their indices, hash by hash
  std::uint32_t found, placed, before;
  unsigned long long noted;
};

/// Of a block's threads times the blocks at most. Each block puts its share of the hashes, by their
/// upper bits, into a hash table. Where a hash repeats, each item goes to its hash's part of its
/// block's part. Where a share has no room for what comes, as where one key is most of the batch,
/// the items are sorted.
struct GroupStep {
  Sorted* items;
  std::size_t n;
  std::uint64_t* repeated;  // 0, and stays so if no hash repeats

  __device__ bool operator()() const {
    if (n == 0) return false;
    __shared__ Room room;
    std::uint32_t const before = collect(room.share);
    step_barrier();  // nothing is moved before everybody has read everything
    std::uint64_t const noted = *static_cast<std::uint64_t volatile const*>(repeated);
    if (noted == kNothing) return false;
    if (noted == kCrowded)
      sort(room);
    else
      arrange(room.share, before);
    return true;
  }

 private:
  enum : std::uint64_t { kNothing, kRepeated, kCrowded };
  union Room {
    HashShare share;
    Sorted kept[kStepThreads];
    std::uint64_t hashes[kMostChained];
  };

  static __device__ unsigned share_of(std::uint64_t hash) {
    return static_cast<unsigned>((hash >> 32) * gridDim.x >> 32);
  }

  /// The block's own items into the table. How many of this thread's are of blocks before.
  __device__ std::uint32_t collect(HashShare& share) const {
    for (std::uint32_t i = threadIdx.x; i < HashShare::kSlots; i += kStepThreads) {
      share.hash[i] = HashShare::kNone;
      share.members[i] = 0;
    }
    if (threadIdx.x == 0) share.found = share.placed = share.before = share.noted = 0;
    __syncthreads();
    std::uint32_t before = 0;
    // First which they are: a warp whose threads came to theirs one after the other, as they look
    // at them, would wait for each of them.
    for (std::uint32_t mine = find_own(before); mine != 0; mine &= mine - 1) {
      std::uint32_t const index = threadIdx.x + lowest_bit(mine) * kStepThreads;
      add(share, index, items[index].hash);
    }
    __syncthreads();
    if (threadIdx.x == 0 && share.noted != kNothing)
      atomicMax(reinterpret_cast<unsigned long long*>(repeated), share.noted);
    return before;
  }

  /// A bit for each of this thread's items that is of the block's share.
  __device__ std::uint32_t find_own(std::uint32_t& before) const {
    constexpr std::uint32_t kAtOnce = 8;  // loads that are on their way
    std::uint32_t own = 0;
#pragma unroll 1
    for (std::uint32_t first = 0; first * kStepThreads < n; first += kAtOnce) {
#pragma unroll
      for (std::uint32_t k = first; k < first + kAtOnce; ++k) {
        std::uint32_t const index = threadIdx.x + k * kStepThreads;
        unsigned const owner = index < n ? share_of(items[index].hash) : gridDim.x;
        own |= std::uint32_t{owner == blockIdx.x} << k;
        before += owner < blockIdx.x;
      }
    }
    return own;
  }

  static __device__ void add(HashShare& share, std::uint32_t index, std::uint64_t hash) {
    std::uint32_t const slot = slot_of(share, hash);
    std::uint32_t const at = slot == HashShare::kSlots ? slot : atomicAdd(&share.found, 1u);
    if (at >= HashShare::kMostItems) {
      atomicMax(&share.noted, kCrowded);
      return;
    }
    std::uint32_t const arrival = atomicAdd(share.members + slot, 1u);
    if (arrival != 0) atomicMax(&share.noted, kRepeated);
    share.items[at] = {static_cast<std::uint16_t>(index), static_cast<std::uint16_t>(slot),
                       static_cast<std::uint16_t>(arrival)};
  }

  /// kSlots: there is none nearby.
  static __device__ std::uint32_t slot_of(HashShare& share, std::uint64_t hash) {
    constexpr std::uint32_t kMostProbes = 16;
    if (hash == HashShare::kNone) return HashShare::kSlots;
    auto at = static_cast<std::uint32_t>(hash) % HashShare::kSlots;
#pragma unroll 1
    for (std::uint32_t probe = 0; probe < kMostProbes; ++probe, at = (at + 1) % HashShare::kSlots) {
      unsigned long long const there = atomicCAS(share.hash + at, HashShare::kNone, hash);
      if (there == HashShare::kNone || there == hash) return at;
    }
    return HashShare::kSlots;
  }

  __device__ void arrange(HashShare& share, std::uint32_t before) const {
    auto const of_warp = static_cast<std::uint32_t>(sum_of_lanes(before));
    if (threadIdx.x % 32 == 0) atomicAdd(&share.before, of_warp);
    for_items(share, [&](HashShare::Item const& item) {
      if (item.arrival == 0)
        share.first[item.slot] = atomicAdd(&share.placed, share.members[item.slot]);
    });
    for_items(share, [&](HashShare::Item const& item) {
      share.member[share.first[item.slot] + item.arrival] = item.index;
    });
    for_items(share, [&](HashShare::Item const& item) { place(share, item); });
  }

  /// f(item) for those of the block; all of them before any thread goes on.
  template <class F>
  static __device__ void for_items(HashShare const& share, F f) {
    for (std::uint32_t k = threadIdx.x; k < share.found; k += kStepThreads) f(share.items[k]);
    __syncthreads();
  }

  /// Behind those of its hash that come before it in the array.
  __device__ void place(HashShare const& share, HashShare::Item const& item) const {
    std::uint32_t const first = share.first[item.slot], last = first + share.members[item.slot];
    std::uint32_t to = share.before + first;
    for (std::uint32_t k = first; k < last; ++k) to += share.member[k] < item.index;
    items[to] = {item.index, share.hash[item.slot]};
  }

  /// Each block sorts its own, bitonic. Then each item goes behind all that are less, of which it
  /// finds how many there are among each block's: among equal hashes those of the blocks before,
  /// for items come in array order. (Counting all that are less took 105 us of 4,096 items, this
  /// takes 23.)
  __device__ void sort(Room& room) const {
    std::uint32_t const first = blockIdx.x * kStepThreads, me = first + threadIdx.x;
    if (first < n) sort_block(room.kept, first);
    if (n <= kStepThreads) return;
    step_barrier();
    Sorted const mine = me < n ? items[me] : Sorted{};
    std::uint32_t const rank = rank_of(room.hashes, mine.hash);
    step_barrier();
    if (me < n) items[rank] = mine;
  }

  __device__ void sort_block(Sorted* kept, std::uint32_t first) const {
    auto const left = static_cast<std::uint32_t>(n - first);
    std::uint32_t const i = threadIdx.x, here = left < kStepThreads ? left : kStepThreads;
    std::uint32_t room = 1;
    while (room < here) room *= 2;
    kept[i] = i < here ? items[first + i] : Sorted{~std::uint64_t{0}, ~std::uint64_t{0}};
    for (std::uint32_t size = 2; size <= room; size *= 2) {
      for (std::uint32_t apart = size / 2; apart > 0; apart /= 2) {
        __syncthreads();
        std::uint32_t const low = 2 * i - (i & (apart - 1));
        if (i < room / 2) exchange(kept[low], kept[low + apart], (low & size) == 0);
      }
    }
    __syncthreads();
    if (i < here) items[first + i] = kept[i];
  }

  /// Of this thread's item. The searches among all blocks' items go on side by side, in the block's
  /// own memory: each of their steps waits for it.
  __device__ std::uint32_t rank_of(std::uint64_t* hashes, std::uint64_t hash) const {
    for (std::uint32_t i = threadIdx.x; i < n; i += kStepThreads) hashes[i] = items[i].hash;
    __syncthreads();
    std::uint32_t below[kMostStepBlocks] = {};
    for (std::uint32_t step = kStepThreads; step > 0; step /= 2) {
#pragma unroll
      for (std::uint32_t block = 0; block < kMostStepBlocks; ++block) {
        std::uint32_t const last = below[block] + step - 1, at = block * kStepThreads + last;
        if (last >= kStepThreads || at >= n) continue;
        if (block < blockIdx.x ? hashes[at] <= hash : hashes[at] < hash) below[block] += step;
      }
    }
    std::uint32_t rank = threadIdx.x;
#pragma unroll
    for (std::uint32_t block = 0; block < kMostStepBlocks; ++block)
      if (block != blockIdx.x) rank += below[block];
    return rank;
  }

  /// No two are equal, for the index is compared as well.
  static __device__ void exchange(Sorted& a, Sorted& b, bool ascending) {
    bool const less = b.hash < a.hash || (b.hash == a.hash && b.index < a.index);
    if (less != ascending) return;
    Sorted const kept = a;
    a = b;
    b = kept;
  }
};

struct GroupAlone {
  GroupStep step;
  template <class Run>
  __device__ void each(Run run) const {
    run(step);
  }
};

/// Of a cluster on the current GPU. It needs one that has clusters, as many multiprocessors side by
/// side, and code that was compiled for it. What cannot be had is no failure: no error is left.
inline unsigned most_step_blocks() {
  auto* const kernel =
      run_steps<GroupAlone>;  // which has the memory of a block that all chains have
  cudaFuncAttributes code{};
  bool const knows = cudaFuncGetAttributes(&code, kernel) == cudaSuccess && code.ptxVersion >= 90;
  for (unsigned blocks = knows ? kMostStepBlocks : 1; blocks > 1; blocks /= 2) {
    StepLaunch const launch(blocks, nullptr);
    int clusters = 0;
    if (allow_cluster(blocks, kernel) == cudaSuccess &&
        cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config) == cudaSuccess &&
        clusters > 0)
      return blocks;
    static_cast<void>(cudaGetLastError());
  }
  static_cast<void>(cudaGetLastError());
  return 1;
}

}  // namespace perdure::exec
