// Traps: what makes a kernel abort at one of the points of base/hooks.hpp, which includes this file
// in builds with PERDURE_TRAPS (the soak's CUDA engine, and perdure-gpmbench-traps) and in no
// other. Each translation unit has traps of its own.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "base/hooks.hpp"

namespace perdure::fault {

inline constexpr std::uint32_t kTrapPoints = 4;

inline constexpr bool kTraps = true;

static __device__ unsigned long long trap_due[kTrapPoints];  // 0 = never
static __device__ unsigned long long trap_passed[kTrapPoints];

/// One thread passes `point`.
PERDURE_FN void passes([[maybe_unused]] TrapPoint point) {
#if defined(__CUDA_ARCH__)
  auto const which = static_cast<std::uint32_t>(point);
  if (trap_due[which] != 0 && atomicAdd(&trap_passed[which], 1ull) + 1 == trap_due[which]) __trap();
#endif
}

/// A whole warp passes `point`: it counts once.
PERDURE_FN void warp_passes([[maybe_unused]] TrapPoint point) {
#if defined(__CUDA_ARCH__)
  if (threadIdx.x % 32 == 0) passes(point);
#endif
}

inline std::atomic<std::uint32_t>* kernels_shown = nullptr;
inline void kernel_launched() {
  if (kernels_shown != nullptr) kernels_shown->store(1, std::memory_order_relaxed);
}
inline void kernels_ended() {
  if (kernels_shown != nullptr) kernels_shown->store(0, std::memory_order_relaxed);
}

/// The nth thread or warp that passes `point` from now on aborts its kernel.
inline cudaError_t arm_trap(TrapPoint point, std::uint64_t nth) {
  unsigned long long due[kTrapPoints] = {};
  unsigned long long const passed[kTrapPoints] = {};
  due[static_cast<std::uint32_t>(point)] = nth;
  if (cudaError_t const e = cudaMemcpyToSymbol(trap_passed, passed, sizeof passed);
      e != cudaSuccess)
    return e;
  return cudaMemcpyToSymbol(trap_due, due, sizeof due);
}

/// Whether a kernel of this process has aborted: from then on its CUDA context answers errors
/// alone.
inline bool context_is_dead() { return cudaDeviceSynchronize() != cudaSuccess; }

}  // namespace perdure::fault
