// CUDA errors as Status.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "perdure/status.h"

namespace perdure::exec {

inline Status cuda_status(cudaError_t error, char const* doing) {
  if (error == cudaSuccess) return {};
  Code const code = error == cudaErrorMemoryAllocation ? Code::no_space : Code::device_error;
  return {code, std::string("GPU: ") + doing + ": " + cudaGetErrorString(error)};
}

}  // namespace perdure::exec
