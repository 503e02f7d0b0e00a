// Copies of exec/device_arrays.hpp by a stream of their own.
#include "exec/device_arrays.hpp"

#include <cuda_runtime.h>

#include <array>
#include <utility>

#include "base/caught.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "exec/cuda/cuda_status.cuh"
#include "fault/planted_faults.hpp"

namespace perdure::exec {
namespace {

class CudaArrays final : public DeviceArrays {
 public:
  CudaArrays() = default;
  CudaArrays(CudaArrays const&) = delete;
  CudaArrays& operator=(CudaArrays const&) = delete;
  ~CudaArrays() override {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (ready_ != nullptr) cudaEventDestroy(ready_);
    for (Room const& room : rooms_) cudaFreeHost(room.data);
  }

  Status begin(CUstream_st* stream) override {
    if (Status s = cuda_status(cudaSetDevice(kDevice), "choosing the device"); !s.ok()) return s;
    if (Status s = make(); !s.ok()) return s;
    if (Status s = cuda_status(cudaEventRecord(ready_, stream), "waiting for the caller's stream");
        !s.ok())
      return s;
    return cuda_status(cudaStreamWaitEvent(stream_, ready_), "waiting for the caller's stream");
  }

  Result<std::byte*> room(std::size_t which, std::size_t bytes) override {
    Room& room = rooms_[which];
    if (bytes <= room.bytes) return room.data;
    std::size_t const more = bytes + bytes / 8;  // the next call's may be a little more
    cudaFreeHost(std::exchange(room.data, nullptr));  // two at a time would be more than it takes
    room.bytes = 0;
    cudaError_t const error = fault::failing_allocation.strikes()
                                  ? cudaErrorMemoryAllocation
                                  : cudaMallocHost(&room.data, more);
    if (Status s = cuda_allocated(error, more, "pinned memory for a batch"); !s.ok()) return s;
    room.bytes = more;
    return room.data;
  }

  Status bring(std::byte* to, std::byte const* from, std::size_t bytes) override {
    return cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
                       "copying a batch to the host");
  }
  Status send(std::byte* to, std::byte const* from, std::size_t bytes) override {
    return cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
                       "copying answers to the GPU");
  }
  /// Of another GPU's memory, or of what the device sees of the host's, copies alone are made.
  [[nodiscard]] bool is_near(std::byte const* data) const override {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    return attributes.type == cudaMemoryTypeDevice && attributes.device == kDevice;
  }
  Status wait() override {
    return cuda_status(cudaStreamSynchronize(stream_), "copying between host and GPU");
  }
  [[nodiscard]] std::size_t bytes() const override {
    std::size_t all = 0;
    for (Room const& room : rooms_) all += room.bytes;
    return all;
  }

 private:
  static constexpr int kDevice = 0;  // the machines'
  struct Room {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };

  Status make() {
    if (ready_ != nullptr) return {};
    if (stream_ == nullptr) {
      Status const made = cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                      "making a stream");
      if (!made.ok()) return made;
    }
    return cuda_status(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming),
                       "making an event");
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::array<Room, kRooms> rooms_;
};

}  // namespace

Result<std::unique_ptr<DeviceArrays>> make_device_arrays() {
  return caught([]() -> Result<std::unique_ptr<DeviceArrays>> {
    if (Status s = claim_gpu(); !s.ok()) return s;
    if (GpuInfo const gpu = gpu_info(); !gpu.available)
      return Status{Code::unsupported, gpu.why_not};
    return std::unique_ptr<DeviceArrays>(std::make_unique<CudaArrays>());
  });
}

}  // namespace perdure::exec
