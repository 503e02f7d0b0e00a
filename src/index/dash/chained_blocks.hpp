// Blocks for the buckets that Dash-LH chains to segments. Invariant: a block comes back only when
// nobody can be reading it any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "exec/epochs.hpp"
#include "perdure/status.h"
#include "pm/blocks.hpp"

namespace perdure::dash {

class ChainedBlocks {
 public:
  ChainedBlocks(pm::Blocks& blocks, exec::Epochs& epochs) : blocks_(blocks), epochs_(epochs) {}

  Result<Offset> take_one() {
    auto block = blocks_.take();
    if (block) starving_.store(false, std::memory_order_relaxed);
    return block;
  }
  /// So many, or none and why.
  Result<std::vector<Offset>> take(std::uint32_t n) {
    std::vector<Offset> blocks;
    while (blocks.size() < n) {
      auto block = blocks_.take();
      if (!block) {
        for (Offset const taken : blocks) blocks_.give(taken);
        return block.status();
      }
      blocks.push_back(*block);
    }
    return blocks;
  }
  void give(Offset block) { blocks_.give(block); }
  /// What readers may be in still.
  void give_later(std::vector<std::uint64_t> const& addresses) {
    for (std::uint64_t const address : addresses) {
      epochs_.retire([this, address] {
        blocks_.give(Offset{address});
        starving_.store(false, std::memory_order_relaxed);
      });
    }
  }

  /// The last split found no memory: segments that are due stay whole until there is.
  [[nodiscard]] bool starving() const { return starving_.load(std::memory_order_relaxed); }
  void starve() { starving_.store(true, std::memory_order_relaxed); }

 private:
  pm::Blocks& blocks_;
  exec::Epochs& epochs_;
  std::atomic<bool> starving_{false};
};

}  // namespace perdure::dash
