// How long requests took, in powers of two of a microsecond. One thread counts, any reads.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <vector>

namespace perdure::serve {

class Latencies {
 public:
  void add(std::chrono::nanoseconds took, std::uint64_t requests) {
    auto const us = static_cast<std::uint64_t>(took.count()) / 1000;
    auto const bucket = static_cast<std::size_t>(std::bit_width(us));
    counts_[bucket < kBuckets ? bucket : kBuckets - 1].fetch_add(requests,
                                                                 std::memory_order_relaxed);
  }
  [[nodiscard]] std::vector<std::uint64_t> all() const { return {counts_.begin(), counts_.end()}; }

 private:
  static constexpr std::size_t kBuckets = 32;
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
};

}  // namespace perdure::serve
