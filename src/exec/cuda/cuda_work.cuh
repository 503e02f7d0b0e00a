// A stream on the GPU for tests and measurements of the machine itself: kernels whose end is asked
// for, work that is timed by the GPU's own clock, and memory of each kind.
// Invariants: calls follow each other on one stream; what is allocated here is freed with it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_info.hpp"
#include "exec/cuda/cuda_lanes.cuh"
#include "exec/cuda/cuda_status.cuh"
#include "perdure/status.h"

namespace perdure::exec {

/// In any direction; ends when the stream says so.
inline cudaError_t begin_copy(void* to, void const* from, std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

enum class GpuMemory : std::uint8_t { device, managed };

class CudaWork {
 public:
  CudaWork() = default;
  CudaWork(CudaWork const&) = delete;
  CudaWork& operator=(CudaWork const&) = delete;
  ~CudaWork() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    for (void* const one : held_) cudaFree(one);
    if (began_ != nullptr) cudaEventDestroy(began_);
    if (ended_ != nullptr) cudaEventDestroy(ended_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Status open() {
    if (Status s = claim_gpu(); !s.ok()) return s;
    if (GpuInfo const gpu = gpu_info(); !gpu.available) return {Code::unsupported, gpu.why_not};
    if (Status s = cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                               "making a stream");
        !s.ok())
      return s;
    if (Status s = cuda_status(cudaEventCreate(&began_), "making an event"); !s.ok()) return s;
    return cuda_status(cudaEventCreate(&ended_), "making an event");
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  Result<void*> allocate(GpuMemory kind, std::size_t bytes) {
    void* made = nullptr;
    cudaError_t const error =
        kind == GpuMemory::managed ? cudaMallocManaged(&made, bytes) : cudaMalloc(&made, bytes);
    if (Status s = cuda_allocated(error, bytes,
                                  kind == GpuMemory::managed ? "managed memory" : "device memory");
        !s.ok())
      return s;
    held_.push_back(made);
    return made;
  }
  void free(void* data) {
    std::erase(held_, data);
    cudaFree(data);
  }
  static std::size_t free_bytes() {
    std::size_t free = 0, all = 0;
    return cudaMemGetInfo(&free, &all) == cudaSuccess ? free : 0;
  }
  static bool has(cudaDeviceAttr attribute) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, attribute, 0) == cudaSuccess && value != 0;
  }

  /// Of all that was launched: whether it has ended.
  Result<bool> ended() {
    cudaError_t const error = cudaStreamQuery(stream_);
    if (error == cudaErrorNotReady) return false;
    if (error == cudaSuccess) return true;
    return cuda_status(error, "running a kernel");
  }
  Status wait() { return cuda_status(cudaStreamSynchronize(stream_), "running a kernel"); }

  /// Seconds that work(stream) took on the GPU; it answers a cudaError_t.
  template <class Work>
  Result<double> timed(Work work, char const* doing) {
    cudaError_t error = cudaEventRecord(began_, stream_);
    if (error == cudaSuccess) error = work(stream_);
    if (error == cudaSuccess) error = cudaEventRecord(ended_, stream_);
    if (error == cudaSuccess) error = cudaEventSynchronize(ended_);
    float milliseconds = 0;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, began_, ended_);
    if (error != cudaSuccess) return cuda_status(error, doing);
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t began_ = nullptr, ended_ = nullptr;
  std::vector<void*> held_;
};

}  // namespace perdure::exec
