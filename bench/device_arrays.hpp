// Arrays in GPU memory, for timing the store with its input and output already there. A build
// without CUDA has the same class, whose constructor says so.
#pragma once

#include <cstddef>
#include <span>

namespace perdure::bench {

class DeviceArray {
 public:
  /// Throws Failure where there is no CUDA, no GPU, or not enough memory.
  explicit DeviceArray(std::size_t bytes);
  ~DeviceArray();
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  [[nodiscard]] std::byte* data() { return data_; }
  /// All return when they are complete.
  void upload(std::span<std::byte const> from);
  void download(std::span<std::byte> to) const;
  /// The first bytes.
  void zero(std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
};

}  // namespace perdure::bench
