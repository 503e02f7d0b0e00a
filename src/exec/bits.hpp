// Bit counts on host and device. (std::popcount and std::countr_zero compile for a device, and
// compute nothing there.)
#pragma once

#include <bit>
#include <cstdint>

#include "base/annotate.hpp"

namespace perdure::exec {

PERDURE_FN std::uint32_t popcount(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__popc(word));
#else
  return static_cast<std::uint32_t>(std::popcount(word));
#endif
}

/// Number of the lowest set bit; `word` is not 0.
PERDURE_FN std::uint32_t lowest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(word))) - 1;
#else
  return static_cast<std::uint32_t>(std::countr_zero(word));
#endif
}

/// Number of the highest set bit; `word` is not 0.
PERDURE_FN std::uint32_t highest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return 31 - static_cast<std::uint32_t>(__clz(static_cast<int>(word)));
#else
  return 31 - static_cast<std::uint32_t>(std::countl_zero(word));
#endif
}

}  // namespace perdure::exec
