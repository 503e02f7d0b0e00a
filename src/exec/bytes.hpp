// Sixteen bytes compared at once, on the host.
#pragma once

#include <emmintrin.h>

#include <cstdint>

namespace perdure::exec {

/// A byte to look for.
class ByteFinder {
 public:
  explicit ByteFinder(std::uint8_t byte) : sixteen_(_mm_set1_epi8(static_cast<char>(byte))) {}

  /// Bit i: byte i of the two words (little-endian) is that byte.
  [[nodiscard]] std::uint32_t in(std::uint64_t low, std::uint64_t high) const {
    __m128i const both = _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(both, sixteen_)));
  }

 private:
  __m128i sixteen_;
};

}  // namespace perdure::exec
