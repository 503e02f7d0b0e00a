// Leaves in a pool, below inner nodes in DRAM (FPTree; Oukid et al., SIGMOD'16): `Nodes`, as
// nodes.hpp has it. Addresses of leaves are offsets in the pool, so that they mean the same in
// whatever mapping. Invariants: a leaf is taken and given back in volatile memory alone, so that
// what a crash leaves is what the chain of leaves says; one that is given back is handed out again
// only after whoever unlinked it has made that durable, and after readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/caught.hpp"
#include "base/mutex.hpp"
#include "index/btree/nodes.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"

namespace perdure::btree {

class PoolNodes {
 public:
  static constexpr bool kFreesTails = true;
  static constexpr bool kDurable = true;
  template <class Node>
  using Inners = DramInners<Node>;
  using Tails = DramTails;

  /// `leaves`: of sizeof(Leaf), for as long as the tree and its epochs.
  PoolNodes(pm::Pool const& pool, pm::Blocks& leaves) : base_(pool.base()), leaves_(leaves) {}

  [[nodiscard]] Leaf* take() noexcept {
    auto block = caught([this] { return leaves_.take(); });
    if (block) return at(block->bytes);
    MutexLock const lock(mutex_);
    refusal_ = block.status();
    return nullptr;
  }
  /// Where there is no memory to note it, the next opening finds it free.
  void give(Leaf* leaf) noexcept {
    static_cast<void>(caught([&]() -> Status {
      leaves_.give(Offset{address_of(leaf)});
      return {};
    }));
  }
  [[nodiscard]] Leaf* at(std::uint64_t address) const {
    return reinterpret_cast<Leaf*>(base_ + address);
  }
  [[nodiscard]] std::uint64_t address_of(Leaf const* leaf) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte const*>(leaf) - base_);
  }
  /// Of ordinary memory there are none.
  [[nodiscard]] static std::uint64_t bytes() { return 0; }
  [[nodiscard]] pm::Blocks::Mark mark(std::uint64_t address) {
    return leaves_.mark(Offset{address});
  }
  /// How many leaves there may be.
  [[nodiscard]] std::uint64_t most() const { return leaves_.blocks(); }
  /// Why take() had none the last time.
  [[nodiscard]] Status refusal() {
    MutexLock const lock(mutex_);
    return refusal_;
  }

  [[nodiscard]] std::uint64_t& root() { return root_; }
  [[nodiscard]] std::uint64_t const& root() const { return root_; }

 private:
  std::byte* base_;
  pm::Blocks& leaves_;
  std::uint64_t root_ = 0;
  Mutex mutex_;
  Status refusal_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::btree
