// Reads at random places of a span, each of some words side by side: the same by threads of the
// host and by a GPU's, where neighbouring threads share an access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "measure/litmus_pass.hpp"

namespace perdure::measure {

struct RandomReads {
  /// Between the seeds of two runs, so that they have no access in common but by chance.
  static constexpr std::uint64_t kApart = std::uint64_t{1} << 40;

  std::uint64_t const* words = nullptr;
  std::uint64_t accesses = 0;  // that the span has room for
  std::uint32_t words_per_access = 1;
  std::uint32_t threads_per_access = 1;
  std::uint64_t seed = 0;
  std::uint64_t* sink = nullptr;  // takes a sum that never comes, so that reads are not left out

  /// The part of one thread in access i / threads_per_access.
  PERDURE_FN void operator()(std::size_t i) const {
    std::uint64_t const access = mixed(seed + i / threads_per_access) % accesses;
    std::uint64_t const* const at = words + access * words_per_access;
    std::uint64_t sum = 0;
    for (std::uint64_t w = i % threads_per_access; w < words_per_access; w += threads_per_access)
      sum += at[w];
    if (sum == ~std::uint64_t{0}) *sink = sum;
  }
};

}  // namespace perdure::measure
