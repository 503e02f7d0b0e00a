// A value that may change while it is copied. Invariant: the sum is of the very bytes that the
// caller gets, and of those behind them as they were once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/crc32c.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

/// Copies as many bytes as there is room for, and continues the sum over all of the value.
inline std::uint32_t copied_value(std::uint32_t sum, std::span<std::byte const> value,
                                  std::span<std::byte> to) {
  std::size_t const bytes = std::min(to.size(), value.size());
  if (bytes >= pm::kLongValue) {
    sum = copy_crc32c(sum, to.data(), value.data(), bytes);
  } else if (bytes != 0) {
    std::memcpy(to.data(), value.data(), bytes);
    sum = crc32c(sum, to.data(), bytes);  // of what the caller gets
  }
  auto const rest = value.subspan(bytes);
  return rest.empty() ? sum : crc32c(sum, rest.data(), rest.size());
}

}  // namespace perdure::gphash
