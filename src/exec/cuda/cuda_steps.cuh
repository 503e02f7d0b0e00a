// Steps of a small batch in one launch, by one block of threads: what follows each other as
// launches on a stream follows each other here across the block's barrier. A launch costs some
// microseconds, which is more than all of a small batch's work. Invariant: each step sees what the
// ones before it wrote, and nothing of a step is under way when the next begins.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/counts.hpp"
#include "exec/cuda/cuda_warp.cuh"
#include "fault/planted_faults.hpp"

namespace perdure::exec {

inline constexpr unsigned kStepThreads = 256;
inline constexpr std::size_t kMostChained =
    256;  // items of a sort; 512 take longer than several launches

template <int kStage, class W, class M, class F, class State>
__device__ void run_item(W& warp, M& mem, F const& body, std::size_t i, State& state,
                         Counts& counts) {
  body.template stage<kStage>(warp, mem, i, state, counts);
  if constexpr (kStage + 1 < F::kStages) run_item<kStage + 1>(warp, mem, body, i, state, counts);
}

/// Items me, me + all, ... of n, by one warp (or, for CudaSolo, thread) of them; the counts of each
/// are kept in registers and added up at the end.
template <class W, class M, class F>
__device__ void run_items(std::size_t n, F const& body, M& mem, Counts* total, std::size_t me,
                          std::size_t all) {
  constexpr bool kWarp = std::is_same_v<W, CudaWarp>;
  W warp;
  Counts counts;
  for (std::size_t i = me; i < n; i += all) {
    typename F::template State<W> state;
    run_item<0>(warp, mem, body, i, state, counts);
  }
  if (total == nullptr) return;
  counts[Counts::reads] += mem.tally().reads;
  counts[Counts::writes] += mem.tally().writes;
  counts[Counts::orders] += mem.tally().orders;
  __syncwarp();
  for (std::uint32_t k = 0; k < Counts::kNames; ++k) {
    unsigned long long sum = counts.value[k];
    // Threads by themselves sum up first: additions to one word wait for each other.
    for (unsigned step = 16; !kWarp && step > 0; step /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (sum != 0 && threadIdx.x % 32 == 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(&total->value[k]), sum);
  }
}

/// As warps<W>().
template <class W, class M, class F>
struct WarpsStep {
  std::size_t n;
  F body;
  M mem;
  Counts* total;
  __device__ void operator()() const {
    constexpr bool kWarp = std::is_same_v<W, CudaWarp>;
    M mine = mem;
    run_items<W>(n, body, mine, total, kWarp ? threadIdx.x / 32 : threadIdx.x,
                 kWarp ? kStepThreads / 32 : kStepThreads);
  }
};

/// As threads().
template <class F>
struct ThreadsStep {
  std::size_t n;
  F body;
  __device__ void operator()() const {
    for (std::size_t i = threadIdx.x; i < n; i += kStepThreads) body(i);
  }
};

/// As sort(), of kMostChained items at most: bitonic, in the block's own memory. No two are equal,
/// for the index is compared as well.
struct SortStep {
  Sorted* items;
  std::size_t n;
  __device__ void operator()() const {
    if (n == 0) return;
    __shared__ Sorted kept[kMostChained];
    std::uint32_t room = 1;
    while (room < n) room *= 2;
    for (std::uint32_t i = threadIdx.x; i < room; i += kStepThreads)
      kept[i] = i < n ? items[i] : Sorted{~std::uint64_t{0}, ~std::uint64_t{0}};
    for (std::uint32_t size = 2; size <= room; size *= 2) {
      for (std::uint32_t apart = size / 2; apart > 0; apart /= 2) {
        __syncthreads();
        for (std::uint32_t pair = threadIdx.x; pair < room / 2; pair += kStepThreads) {
          std::uint32_t const low = 2 * pair - (pair & (apart - 1));
          exchange(kept[low], kept[low + apart], (low & size) == 0);
        }
      }
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < n; i += kStepThreads) items[i] = kept[i];
  }

 private:
  static __device__ void exchange(Sorted& a, Sorted& b, bool ascending) {
    bool const less = b.hash < a.hash || (b.hash == a.hash && b.index < a.index);
    if (less != ascending) return;
    Sorted const kept = a;
    a = b;
    b = kept;
  }
};

/// As order_launches(): every thread's stores before those of later steps.
struct OrderStep {
  __device__ void operator()() const {
    if (threadIdx.x == 0) fault::passes(fault::TrapPoint::host_ordering);
    __threadfence_system();
  }
};

template <class... Steps>
__global__ void __launch_bounds__(kStepThreads) run_steps(Steps... steps) {
  ((steps(), __threadfence(), __syncthreads()), ...);
}

}  // namespace perdure::exec
