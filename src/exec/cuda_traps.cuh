// Arms the trap points of this translation unit's kernels (exec/traps.hpp), and tells when one has struck.
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda_status.cuh"
#include "exec/traps.hpp"

namespace perdure::exec {

inline Status arm_trap(TrapPoint point, std::uint64_t nth) {
  static_assert(kTraps, "compile with PERDURE_TRAPS");
  unsigned long long due[kTrapPoints] = {};
  unsigned long long const passed[kTrapPoints] = {};
  due[static_cast<std::uint32_t>(point)] = nth;
  if (Status s = cuda_status(cudaMemcpyToSymbol(trap_passed, passed, sizeof passed), "resetting traps"); !s.ok())
    return s;
  return cuda_status(cudaMemcpyToSymbol(trap_due, due, sizeof due), "arming a trap");
}

/// Whether a kernel of this process has aborted: from then on its CUDA context answers errors alone.
inline bool context_is_dead() { return cudaDeviceSynchronize() != cudaSuccess; }

}  // namespace perdure::exec
