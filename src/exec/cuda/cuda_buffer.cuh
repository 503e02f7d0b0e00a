// A machine's memory on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "exec/cuda/cuda_status.cuh"
#include "fault/planted_faults.hpp"
#include "perdure/status.h"

namespace perdure::exec {

/// Device memory with a pinned twin on the host, made when first fetched.
template <class T>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer const&) = delete;
  CudaBuffer& operator=(CudaBuffer const&) = delete;
  ~CudaBuffer() {
    cudaFree(data_);
    cudaFreeHost(twin_);
  }
  /// On failure it is as it was: who goes back to what was before needs no memory for it.
  Status resize(std::size_t n) {
    if (n <= capacity_ && data_ != nullptr) return {};
    std::size_t const room = std::max(n, kLeastBytes / sizeof(T));
    std::size_t const bytes = room * sizeof(T);
    T* fresh = nullptr;
    cudaError_t const error =
        fault::failing_allocation.strikes() ? cudaErrorMemoryAllocation : cudaMalloc(&fresh, bytes);
    if (Status s = cuda_allocated(error, bytes, "device memory"); !s.ok()) return s;
    cudaFree(std::exchange(data_, fresh));
    capacity_ = room;
    return {};
  }
  Status need_twin(std::size_t n) {
    if (n <= twin_capacity_ && twin_ != nullptr) return {};
    std::size_t const bytes = n * sizeof(T);
    T* fresh = nullptr;
    cudaError_t const error = fault::failing_allocation.strikes() ? cudaErrorMemoryAllocation
                                                                  : cudaMallocHost(&fresh, bytes);
    if (Status s = cuda_allocated(error, bytes, "pinned memory"); !s.ok()) return s;
    cudaFreeHost(std::exchange(twin_, fresh));
    twin_capacity_ = n;
    return {};
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] T* twin() const { return twin_; }

 private:
  // Growing takes the driver's lock, and waits for all that the device does: not for few bytes.
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

  T* data_ = nullptr;
  T* twin_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t twin_capacity_ = 0;
};

}  // namespace perdure::exec
