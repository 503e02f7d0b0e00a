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

  /// At most `most`, and at most a quarter of what is left, so that no device has much when the
  /// others find nothing more. None: count is 0.
  Blocks take(std::size_t most) {
    std::size_t first = next_.load(std::memory_order_relaxed);
    while (first < blocks_) {
      std::size_t const count = std::min(most, std::max<std::size_t>(1, (blocks_ - first) / 4));
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
