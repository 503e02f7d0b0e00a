#include <cuda_runtime.h>

#include <string>

#include "common.hpp"
#include "device_arrays.hpp"

namespace perdure::bench {
namespace {

void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw Failure(std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace

DeviceArray::DeviceArray(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "arrays in GPU memory");
  data_ = static_cast<std::byte*>(memory);
}

DeviceArray::~DeviceArray() { cudaFree(data_); }

void DeviceArray::upload(std::span<std::byte const> from) {
  check(cudaMemcpy(data_, from.data(), from.size(), cudaMemcpyHostToDevice), "upload to the GPU");
  check(cudaDeviceSynchronize(), "upload to the GPU");  // a small pageable copy may return early
}

void DeviceArray::download(std::span<std::byte> to) const {
  check(cudaMemcpy(to.data(), data_, to.size(), cudaMemcpyDeviceToHost), "download from the GPU");
}

void DeviceArray::zero(std::size_t bytes) {
  check(cudaMemset(data_, 0, bytes), "arrays in GPU memory");
  check(cudaDeviceSynchronize(), "arrays in GPU memory");  // it returns early
}

}  // namespace perdure::bench
