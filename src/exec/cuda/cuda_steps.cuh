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

#include "base/hooks.hpp"
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
