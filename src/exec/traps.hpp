// Trap points: places in a kernel, or between two, where a test build of the CUDA engine (PERDURE_TRAPS:
// tests/soak/gpu_hooks.cu, nothing else) can be made to abort. Invariant: in every other build a pass is
// nothing at all, so no kernel that users run knows of traps.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/annotate.hpp"

namespace perdure::exec {

enum class TrapPoint : std::uint32_t {
  record,         // a record (or a key in its slot) is about to be written
  word,           // a durable word has been stored, or compared and swapped
  ordering,       // an ordering point inside a kernel
  host_ordering,  // one between two kernels
};
inline constexpr std::uint32_t kTrapPoints = 4;

#if defined(PERDURE_TRAPS) && defined(__CUDACC__)
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
#else
inline constexpr bool kTraps = false;
PERDURE_FN void passes(TrapPoint) {}
PERDURE_FN void warp_passes(TrapPoint) {}
PERDURE_FN void kernel_launched() {}
PERDURE_FN void kernels_ended() {}
#endif

}  // namespace perdure::exec
