// Lanes (exec/lanes.hpp) on a warp of a GPU, by CUDA's scoped atomics; and kernels of such warps,
// one a block, so that no two share a multiprocessor's cache as long as there are enough.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cuda/atomic>

#include "exec/lanes.hpp"

namespace perdure::exec {

template <Scope kScope>
class CudaLanes {
  static constexpr cuda::thread_scope kCudaScope =
      kScope == Scope::system ? cuda::thread_scope_system : cuda::thread_scope_device;
  using Word = cuda::atomic_ref<std::uint32_t, kCudaScope>;

 public:
  /// The same lanes, where they meet others: a load for the device alone need never see what the
  /// host stores.
  using Meeting = CudaLanes<Scope::system>;

  template <Order kOrder>
  static __device__ std::uint32_t load(std::uint32_t* at) {
    return Word(*at).load(order<kOrder>(cuda::memory_order_acquire));
  }
  template <Order kOrder>
  static __device__ void store(std::uint32_t* at, std::uint32_t value) {
    Word(*at).store(value, order<kOrder>(cuda::memory_order_release));
  }
  template <Order kOrder>
  static __device__ void add(std::uint32_t* at, std::uint32_t more) {
    Word(*at).fetch_add(more, order<kOrder>(cuda::memory_order_acq_rel));
  }
  template <Order kOrder>
  static __device__ std::uint32_t swap(std::uint32_t* at, std::uint32_t value) {
    return Word(*at).exchange(value, order<kOrder>(cuda::memory_order_acq_rel));
  }
  template <Order kOrder>
  static __device__ bool cas(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) {
    return Word(*at).compare_exchange_strong(
        expected, value, order<kOrder>(cuda::memory_order_acq_rel), cuda::memory_order_relaxed);
  }
  static __device__ void fence() {
    if constexpr (kScope == Scope::system)
      __threadfence_system();
    else
      __threadfence();
  }

  template <class F>
  __device__ void each(std::uint32_t, F f) const {
    f(threadIdx.x % kLanes);
    __syncwarp();
  }
  template <class F>
  __device__ bool once(F f) const {
    int answer = 0;
    if (threadIdx.x % kLanes == 0) answer = f() ? 1 : 0;
    return __shfl_sync(0xffffffffu, answer, 0) != 0;
  }
  static __device__ void delay(std::uint32_t steps) {
    long long const until = clock64() + 4ll * steps;
    while (clock64() < until) {
    }
  }

  /// The host ends a wait that lasts too long.
  class Wait {
   public:
    __device__ bool goes_on() const { return true; }
  };

 private:
  template <Order kOrder>
  static __device__ constexpr cuda::memory_order order(cuda::memory_order release_or_acquire) {
    if constexpr (kOrder == Order::release_acquire) return release_or_acquire;
    if constexpr (kOrder == Order::sequential) return cuda::memory_order_seq_cst;
    return cuda::memory_order_relaxed;
  }
};

template <Scope kScope, class F>
__global__ void __launch_bounds__(kLanes) run_lanes(F body) {
  body(CudaLanes<kScope>{}, blockIdx.x);
}
/// body(lanes, i) for i of [0, blocks), all at the same time.
template <Scope kScope, class F>
cudaError_t launch_lanes(std::uint32_t blocks, F const& body, cudaStream_t stream) {
  run_lanes<kScope><<<blocks, kLanes, 0, stream>>>(body);
  return cudaGetLastError();
}

}  // namespace perdure::exec
