// Kernels of one thread an item, without a machine: for measurements of the GPU itself.
#pragma once

#include <algorithm>
#include <cstddef>

#include "exec/cuda/cuda_machine.cuh"

namespace perdure::exec {

/// body(i) for i of [0, n), by at most so many blocks of 256 threads.
template <class F>
cudaError_t launch_threads(std::size_t n, F const& body, std::size_t most_blocks,
                           cudaStream_t stream) {
  std::size_t const blocks = std::clamp<std::size_t>((n + 255) / 256, 1, most_blocks);
  run_threads<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(n, body);
  return cudaGetLastError();
}

}  // namespace perdure::exec
