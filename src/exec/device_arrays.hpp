// Arrays in a GPU's memory, for calls that work on the host: what they read comes to pinned memory
// of the host, and what they answer goes back from there. Builds without CUDA have none.
//
// Invariants: copies follow each other, after what the caller's stream had under way. The host
// touches pinned memory only after wait(). One call's at a time.
#pragma once

#include <cstddef>
#include <memory>

#include "perdure/status.h"

struct CUstream_st;  // a cudaStream_t points to one

namespace perdure::exec {

class DeviceArrays {
 public:
  static constexpr std::size_t kRooms = 4;

  virtual ~DeviceArrays() = default;
  /// Copies from here on come after what `stream` has under way; null is the legacy default stream.
  virtual Status begin(CUstream_st* stream) = 0;
  /// Pinned memory, one of kRooms, of so many bytes. It may hold anything.
  virtual Result<std::byte*> room(std::size_t which, std::size_t bytes) = 0;
  /// Begin to copy, to the host and to the device.
  virtual Status bring(std::byte* to, std::byte const* from, std::size_t bytes) = 0;
  virtual Status send(std::byte* to, std::byte const* from, std::size_t bytes) = 0;
  /// Whether kernels on the device that machines run on (cuda_machine.cuh) reach this memory.
  [[nodiscard]] virtual bool is_near(std::byte const* data) const = 0;
  /// Until all that was begun is done.
  virtual Status wait() = 0;
  /// Of pinned memory.
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// Code::unsupported: there is no GPU, or this build has no CUDA; the message says which.
Result<std::unique_ptr<DeviceArrays>> make_device_arrays();

}  // namespace perdure::exec
