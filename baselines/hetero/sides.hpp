// The two sides that share a table: what one host thread does with a part of a batch (HostThread),
// and a device that batches are handed to (Device, and a Queue for each thread that does so). Made
// by on_cpu.cpp, once an instruction set, and on_cuda.cu; without a GPU the device is a second
// group of CPU warps, with memory and locks of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/counts.hpp"
#include "exec/workers.hpp"
#include "layout.hpp"
#include "perdure/status.h"

namespace perdure::hetero {

/// Arrays of a batch, in host memory that both sides reach.
struct GetArrays {
  std::uint64_t const* keys;
  std::uint64_t* values;
  std::size_t n;
};
struct PutArrays {
  std::uint64_t const* keys;
  std::uint64_t const* values;
  std::size_t n;
};
/// Rows of the table with their contents (CopyBody).
struct Rows {
  std::uint32_t const* ids;
  std::uint64_t const* contents;
  std::size_t n;
  bool of_buckets;
};

class HostThread {
 public:
  virtual ~HostThread() = default;
  virtual void get(View const& table, GetArrays const& batch, std::uint32_t distance) const = 0;
  /// `first`: where the part begins in the batch, for the trail.
  virtual exec::Counts put(View const& table, PutArrays const& batch, std::size_t first) const = 0;
};

/// Launches in order; each returns before its end. One thread uses it, and waits for a launch
/// before it makes the next one.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual Status get(View const& table, GetArrays const& batch) = 0;
  virtual Status put(View const& table, PutArrays const& batch) = 0;
  virtual Status copy(View const& table, Rows const& rows) = 0;
  /// Whether what was launched has ended; does not wait.
  virtual Result<bool> done() = 0;
  virtual Status wait() = 0;
  /// Of the last put, after wait().
  [[nodiscard]] virtual exec::Counts counts() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual Result<std::unique_ptr<Queue>> queue() = 0;
  /// Zeros, in the device's own memory, until the device goes.
  virtual Result<std::byte*> memory(std::size_t bytes) = 0;
  virtual Status upload(std::byte* to, std::byte const* from, std::size_t bytes) = 0;
  virtual Status download(std::byte* to, std::byte const* from, std::size_t bytes) = 0;
  [[nodiscard]] virtual std::string describe() const = 0;
};

/// What a factory of on_cpu.cpp hands back.
struct CpuSides {
  std::unique_ptr<HostThread> thread;
  std::unique_ptr<Device> device;  // the second group; null unless workers were given
};

/// C names, as those of baselines/gpu/machines.hpp.
extern "C" void perdure_cpu_hetero_avx2(exec::Workers* second, CpuSides& made);
extern "C" void perdure_cpu_hetero_avx512(exec::Workers* second, CpuSides& made);

Result<std::unique_ptr<Device>> device_on_cuda(exec::Workers& workers);
/// The same device, whose launches return at once: a thread a queue waits for them.
std::unique_ptr<Device> launched_aside(std::unique_ptr<Device> device);

}  // namespace perdure::hetero
