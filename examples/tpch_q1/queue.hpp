// The queue of blocks from which every device takes until there are none. Invariant: each block
// goes to one taker.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace perdure::q1 {

class BlockQueue {
 public:
  explicit BlockQueue(std::size_t blocks) : blocks_(blocks) {}

  struct Blocks {
    std::size_t first = 0, count = 0;
  };

  /// A quarter of what is left, but from least to most, so that no device has much when the others
  /// find nothing more. None: count is 0.
  Blocks take(std::size_t least, std::size_t most) {
    std::size_t first = next_.load(std::memory_order_relaxed);
    while (first < blocks_) {
      std::size_t const left = blocks_ - first;
      std::size_t const count = std::min(left, std::clamp(left / 4, least, most));
      if (next_.compare_exchange_weak(first, first + count, std::memory_order_relaxed))
        return {first, count};
    }
    return {};
  }

 private:
  std::size_t const blocks_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace perdure::q1
