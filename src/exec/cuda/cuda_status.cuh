// CUDA errors as Status.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "perdure/status.h"

namespace perdure::exec {

inline Status cuda_status(cudaError_t error, char const* doing) {
  if (error == cudaSuccess) return {};
  Code const code = error == cudaErrorMemoryAllocation ? Code::no_space : Code::device_error;
  return {code, std::string("GPU: ") + doing + ": " + cudaGetErrorString(error)};
}

/// Of an allocation. The runtime must not tell the next launch of it, too.
inline Status cuda_allocated(cudaError_t error, std::size_t bytes, char const* where) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return cuda_status(error, ("allocating " + std::to_string(bytes) + " bytes of " + where).c_str());
}

/// For programs that stop at their first error.
inline void cuda_or_exit(cudaError_t error, char const* file, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: CUDA: %s\n", file, line, cudaGetErrorString(error));
  std::exit(static_cast<int>(error));
}
/// All that was launched on the GPU has ended.
inline cudaError_t cuda_wait() { return cudaDeviceSynchronize(); }

}  // namespace perdure::exec
