// Host memory of the two sides: zeros, in huge pages where the kernel has them, registered with the
// GPU where the device is one.
#pragma once

#include <cstddef>
#include <utility>

#include "perdure/status.h"

namespace perdure::hetero {

class Region {
 public:
  Region() = default;
  static Result<Region> make(std::size_t bytes, bool for_gpu);
  ~Region();
  Region(Region&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        pinned_(std::exchange(other.pinned_, false)) {}
  Region& operator=(Region&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
    return *this;
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool pinned_ = false;
};

}  // namespace perdure::hetero
