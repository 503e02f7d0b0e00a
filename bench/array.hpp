// An array that a benchmark makes on the host and uses where it wants it: there, or in GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device_arrays.hpp"
#include "perdure/batch.h"

namespace perdure::bench {

/// Bytes of elements, made on the host, used where the benchmark wants them.
class Array {
 public:
  Array(std::size_t count, std::uint32_t width, MemorySpace space)
      : width_(width), space_(space), host_(count * width) {
    if (space == MemorySpace::device) device_ = std::make_unique<DeviceArray>(host_.size());
  }
  [[nodiscard]] std::byte* host(std::size_t i) { return host_.data() + i * width_; }
  void send(std::size_t count) {
    if (device_) device_->upload({host_.data(), count * width_});
  }
  void fetch(std::size_t count) {
    if (device_) device_->download({host_.data(), count * width_});
  }
  [[nodiscard]] Column column(std::size_t first, std::size_t count) {
    return {at(first), nullptr, width_, count, space_};
  }
  [[nodiscard]] MutableColumn output(std::size_t count) { return {at(0), width_, count, space_}; }

 private:
  [[nodiscard]] std::byte* at(std::size_t i) {
    return (device_ ? device_->data() : host_.data()) + i * width_;
  }

  std::uint32_t width_;
  MemorySpace space_;
  std::vector<std::byte> host_;
  std::unique_ptr<DeviceArray> device_;
};

}  // namespace perdure::bench
