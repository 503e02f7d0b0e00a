// What the host asks of CUDA outside a batch: pinning pool memory, naming the GPU.
#include <cuda_runtime.h>

#include <algorithm>

#include "exec/cuda/cuda_info.hpp"
#include "exec/cuda/cuda_status.cuh"
#include "exec/pinning.hpp"

namespace perdure::exec {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 30;  // single calls of 512 GiB and more fail

}  // namespace

Status pin(void* data, std::size_t bytes, bool read_only) {
  unsigned const flags = cudaHostRegisterMapped | cudaHostRegisterPortable |
                         (read_only ? cudaHostRegisterReadOnly : 0);
  auto* const begin = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes; done += kChunk) {
    std::size_t const now = std::min(kChunk, bytes - done);
    cudaError_t const error = cudaHostRegister(begin + done, now, flags);
    if (error == cudaSuccess) continue;
    static_cast<void>(cudaGetLastError());  // the error is reported here; later calls start clean
    unpin(data, done);
    if (error == cudaErrorMemoryAllocation) {
      return {Code::locked_memory,
              std::string("the GPU driver cannot pin it (") + cudaGetErrorString(error) + ")"};
    }
    return {Code::device_error, std::string("the GPU driver refuses to register this mapping (") +
                                    cudaGetErrorString(error) + ")"};
  }
  return {};
}

void unpin(void* data, std::size_t bytes) {
  auto* const begin = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes; done += kChunk) cudaHostUnregister(begin + done);
}

void* allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  if (cudaMallocHost(&data, bytes) == cudaSuccess) return data;
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

void free_pinned(void* data) { cudaFreeHost(data); }

GpuInfo gpu_info() {
  int count = 0;
  if (cudaError_t const error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());
    return {false, "", error == cudaSuccess ? "no GPU" : cudaGetErrorString(error)};
  }
  cudaDeviceProp properties{};
  if (cudaError_t const error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess)
    return {false, "", cudaGetErrorString(error)};
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return {true,
          std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem >> 30) +
              " GiB, " + std::to_string(properties.multiProcessorCount) +
              " multiprocessors, driver for CUDA " + std::to_string(driver / 1000) + "." +
              std::to_string(driver % 1000 / 10),
          ""};
}

}  // namespace perdure::exec
