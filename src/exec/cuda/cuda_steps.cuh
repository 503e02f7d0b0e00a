// Steps of a small batch in one launch, by one cluster of blocks: what follows each other as
// launches on a stream follows each other here across the cluster's barrier. A launch costs some
// microseconds, which is more than all of a small batch's work; one block alone would carry a batch
// of thousands across the link too slowly. Where there are no clusters (before Hopper, or code that
// was compiled for GPUs before it) it is one block. Invariant: each step sees what the ones before
// it wrote, and nothing of a step is under way when the next begins; a step that says it did
// nothing says so on every thread.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/counts.hpp"
#include "exec/cuda/cuda_warp.cuh"
#include "fault/planted_faults.hpp"

namespace perdure::exec {

inline constexpr unsigned kStepThreads = 256;  // of a block
inline constexpr unsigned kMostStepBlocks = 16;
inline constexpr std::size_t kMostChained = std::size_t{kStepThreads} * kMostStepBlocks;

template <int kStage, class W, class M, class F, class State>
__device__ void run_item(W& warp, M& mem, F const& body, std::size_t i, State& state,
                         Counts& counts) {
  body.template stage<kStage>(warp, mem, i, state, counts);
  if constexpr (kStage + 1 < F::kStages) run_item<kStage + 1>(warp, mem, body, i, state, counts);
}

static __device__ unsigned long long sum_of_lanes(unsigned long long sum) {
#if __CUDA_ARCH__ >= 800
  if (!__any_sync(kAllLanes, sum >> 27 != 0))
    return __reduce_add_sync(kAllLanes, static_cast<unsigned>(sum));
#endif
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

/// Items me, me + all, ... of n, by one warp (or, for CudaSolo, thread) of them; the counts of each
/// are kept in registers and added up at the end.
template <class W, class M, class F>
__device__ void run_items(std::size_t n, F const& body, M& mem, Counts* total, std::size_t me,
                          std::size_t all) {
  constexpr bool kWarp = !std::is_same_v<W, CudaSolo>;
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
    // Threads by themselves sum up first: additions to one word wait for each other. Most counts
    // are 0.
    if (!kWarp && __any_sync(kAllLanes, sum != 0)) sum = sum_of_lanes(sum);
    if (sum != 0 && threadIdx.x % 32 == 0)
      atomicAdd(reinterpret_cast<unsigned long long*>(&total->value[k]), sum);
  }
}

/// The cluster's warps and threads. Neighbouring warps are in different blocks, so that few items
/// keep many multiprocessors busy.
struct StepThread {
  static __device__ unsigned warp() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }
  static __device__ unsigned warps() { return kStepThreads / 32 * gridDim.x; }
  static __device__ unsigned rank() { return warp() * 32 + threadIdx.x % 32; }
  static __device__ unsigned all() { return kStepThreads * gridDim.x; }
};

/// What each thread did before it, all see after it.
static __device__ void step_barrier() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#else
  __syncthreads();
#endif
}

/// As warps<W>(); of `n` items only so many as `listed` says, where it is given.
template <class W, class M, class F>
struct WarpsStep {
  std::size_t n;
  F body;
  M mem;
  Counts* total;
  std::uint64_t const* listed = nullptr;
  __device__ bool operator()() const {
    constexpr bool kWarp = !std::is_same_v<W, CudaSolo>;
    std::size_t const items = listed != nullptr && *listed < n ? *listed : n;
    if (items == 0) return false;
    M mine = mem;
    run_items<W>(items, body, mine, total, kWarp ? StepThread::warp() : StepThread::rank(),
                 kWarp ? StepThread::warps() : StepThread::all());
    return true;
  }
};

/// As threads().
template <class F>
struct ThreadsStep {
  std::size_t n;
  F body;
  __device__ bool operator()() const {
    for (std::size_t i = StepThread::rank(); i < n; i += StepThread::all()) body(i);
    return n != 0;
  }
};

/// Two steps of which neither needs what the other does.
template <class A, class B>
struct BothSteps {
  A a;
  B b;
  __device__ bool operator()() const {
    bool const did = a();
    return b() || did;
  }
};

/// Notes whether two hashes are equal: each block looks for that in a hash table of its share of
/// them, by their upper bits. So it may say of more than it has room for.
struct RepeatedHash {
  Sorted const* items;
  std::size_t n;
  std::uint64_t* noted;  // no longer 0

  __device__ void operator()() const {
    __shared__ unsigned long long slots[kSlots];
    for (std::uint32_t i = threadIdx.x; i < kSlots; i += kStepThreads) slots[i] = kNone;
    __syncthreads();
    for (std::size_t i = threadIdx.x; i < n; i += kAtOnce * kStepThreads) {
      std::uint64_t hash[kAtOnce];  // loads wait for each other across what is atomic
#pragma unroll
      for (std::uint32_t k = 0; k < kAtOnce; ++k)
        hash[k] = i + k * kStepThreads < n ? items[i + k * kStepThreads].hash : 0;
#pragma unroll
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        bool const mine = i + k * kStepThreads < n && share_of(hash[k]) == blockIdx.x;
        if (mine && !is_new(slots, hash[k])) *noted = 1;
      }
    }
  }

 private:
  static constexpr std::uint32_t kSlots = 4 * kStepThreads;  // of a block, for its share
  static constexpr std::uint32_t kMostProbes = 16, kAtOnce = 4;
  static constexpr unsigned long long kNone = ~0ull;  // a hash that is this counts as repeated

  static __device__ unsigned share_of(std::uint64_t hash) {
    return static_cast<unsigned>((hash >> 32) * gridDim.x >> 32);
  }

  static __device__ bool is_new(unsigned long long* slots, std::uint64_t hash) {
    if (hash == kNone) return false;
    auto at = static_cast<std::uint32_t>(hash) % kSlots;
#pragma unroll 1
    for (std::uint32_t probe = 0; probe < kMostProbes; ++probe, at = (at + 1) % kSlots) {
      unsigned long long const there = atomicCAS(slots + at, kNone, hash);
      if (there == kNone) return true;
      if (there == hash) return false;
    }
    return false;
  }
};

/// Equal hashes side by side, in array order, of a block's threads times the blocks at most. Where
/// none are equal, as in most batches, nothing is moved. Else the items are sorted: each block
/// sorts its own, bitonic. Then each item goes behind all that are less, of which it finds how many
/// there are among each block's: among equal hashes those of the blocks before, for items come in
/// array order. (Counting all that are less took 105 us of 4,096 items, this takes 23.)
struct GroupStep {
  Sorted* items;
  std::size_t n;
  std::uint64_t* repeated;  // 0, and stays so if no hash repeats
  __device__ bool operator()() const {
    if (n == 0) return false;
    RepeatedHash{items, n, repeated}();
    step_barrier();
    if (*static_cast<std::uint64_t volatile const*>(repeated) == 0) return false;
    std::uint32_t const first = blockIdx.x * kStepThreads, me = first + threadIdx.x;
    if (first < n) sort_block(first);
    if (n <= kStepThreads) return true;
    step_barrier();
    Sorted const mine = me < n ? items[me] : Sorted{};
    std::uint32_t const rank = rank_of(mine.hash);
    step_barrier();
    if (me < n) items[rank] = mine;
    return true;
  }

 private:
  __device__ void sort_block(std::uint32_t first) const {
    __shared__ Sorted kept[kStepThreads];
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
  __device__ std::uint32_t rank_of(std::uint64_t hash) const {
    __shared__ std::uint64_t hashes[kMostChained];
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

/// As order_launches(): every thread's stores before those of later steps.
struct OrderStep {
  __device__ bool operator()() const {
    if (StepThread::rank() == 0) fault::passes(fault::TrapPoint::host_ordering);
    __threadfence_system();
    return true;
  }
};

struct RunStep {
  template <class Step>
  __device__ void operator()(Step const& step) const {
    if (step()) step_barrier();
  }
};
template <class Steps>
__global__ void __launch_bounds__(kStepThreads) run_steps(__grid_constant__ Steps const steps) {
  steps.each(RunStep{});
}

/// A launch of one cluster.
struct StepLaunch {
  StepLaunch(unsigned blocks, cudaStream_t stream) {
    config.gridDim = blocks;
    config.blockDim = kStepThreads;
    config.stream = stream;
    if (blocks == 1) return;  // which needs no cluster
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {blocks, 1, 1};
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  StepLaunch(StepLaunch const&) = delete;
  cudaLaunchAttribute cluster{};
  cudaLaunchConfig_t config{};
};

inline constexpr unsigned kPortableCluster = 8;  // blocks that every GPU with clusters can have

template <class Steps>
cudaError_t allow_cluster(unsigned blocks, void (*kernel)(Steps)) {
  if (blocks <= kPortableCluster) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

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

/// The steps of a batch of n, with a thread for each operation.
template <class Steps>
cudaError_t launch_steps(std::size_t n, cudaStream_t stream, Steps const& steps) {
  auto* const kernel = run_steps<Steps>;
  auto const blocks = static_cast<unsigned>(n == 0 ? 1 : (n + kStepThreads - 1) / kStepThreads);
  cudaError_t error = allow_cluster(blocks, kernel);
  StepLaunch const launch(blocks, stream);
  if (error == cudaSuccess) error = cudaLaunchKernelEx(&launch.config, kernel, steps);
  static_cast<void>(cudaGetLastError());  // it is answered here, and later launches begin clean
  return error;
}

}  // namespace perdure::exec
