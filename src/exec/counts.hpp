// What a launch reports back: sums over its warps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"

namespace perdure::exec {

struct Counts {
  enum Name : std::uint32_t { reads, writes, orders, kOfMachine };  // what every machine counts
  /// Behind those, what the bodies count: whoever writes these names them.
  static constexpr std::uint32_t kNames = 15;
  std::uint64_t value[kNames] = {};

  PERDURE_FN std::uint64_t& operator[](std::uint32_t name) { return value[name]; }
  PERDURE_FN std::uint64_t operator[](std::uint32_t name) const { return value[name]; }
  PERDURE_FN Counts& operator+=(Counts const& other) {
    for (std::uint32_t k = 0; k < kNames; ++k)
      value[k] += other.value[k];  // wraps: retries count down
    return *this;
  }
};

/// A hash and the operation it belongs to. Sorted by hash, then by array order: as one 128-bit
/// number with the hash above.
struct alignas(16) Sorted {
  std::uint64_t index;
  std::uint64_t hash;
};
static_assert(sizeof(Sorted) == 16);

/// Elements a kernel body sees of a column of the caller's; see perdure/batch.h.
struct ByteColumn {
  std::byte const* data = nullptr;
  std::int64_t const* offsets = nullptr;
  std::uint32_t width = 0;

  PERDURE_FN std::byte const* at(std::uint64_t i) const {
    return data + (offsets != nullptr ? static_cast<std::uint64_t>(offsets[i]) : i * width);
  }
  PERDURE_FN std::uint32_t size(std::uint64_t i) const {
    return offsets != nullptr ? static_cast<std::uint32_t>(offsets[i + 1] - offsets[i]) : width;
  }
};

}  // namespace perdure::exec
