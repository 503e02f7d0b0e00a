// CUDA errors as Status.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
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

}  // namespace perdure::exec
