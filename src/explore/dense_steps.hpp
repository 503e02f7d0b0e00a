// The dense buffers of explored steps. Invariant: what a step's buffers hold follows from its
// number, and no byte of them is that of another step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perdure/store.h"

namespace perdure::explore {

class DenseArrays {
 public:
  [[nodiscard]] std::vector<DenseBuffer> buffers() {
    std::vector<DenseBuffer> all;
    for (std::size_t b = 0; b < kSizes.size(); ++b)
      all.push_back({"buffer " + std::to_string(b), data_[b].data(), kSizes[b], MemorySpace::host});
    return all;
  }
  void fill(std::uint64_t step) {
    for (std::size_t b = 0; b < kSizes.size(); ++b)
      for (std::size_t i = 0; i < kSizes[b]; ++i) data_[b][i] = byte(step, b, i);
  }
  [[nodiscard]] bool hold(std::uint64_t step) const {
    bool all = true;
    for (std::size_t b = 0; b < kSizes.size(); ++b)
      for (std::size_t i = 0; i < kSizes[b]; ++i) all &= data_[b][i] == byte(step, b, i);
    return all;
  }

 private:
  static constexpr std::array<std::size_t, 3> kSizes{24, 1, 13};
  static std::byte byte(std::uint64_t step, std::size_t buffer, std::size_t i) {
    return static_cast<std::byte>(step * 37 + buffer * 101 + i);
  }
  std::array<std::array<std::byte, 24>, kSizes.size()> data_{};
};

}  // namespace perdure::explore
