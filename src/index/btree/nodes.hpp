// Where a tree's nodes come from: `Nodes`, a policy of the tree.
//
//   Leaf* take()              nullptr: there is no memory. What it holds is anything
//   void give(Leaf*)          nobody can be reading it
//   Leaf* at(address), address_of(leaf)   an address is never 0
//   bytes()                   taken from the system
//   Inners<Node>              has take, give and bytes for inner nodes, in DRAM
//
// Invariant: none of them throws.
#pragma once

#include <cstdint>

#include "index/btree/blocks.hpp"
#include "index/btree/layout.hpp"

namespace perdure::btree {

/// Nodes of one type in DRAM.
template <class Node>
class DramBlocks {
 public:
  [[nodiscard]] Node* take() noexcept { return static_cast<Node*>(blocks_.take()); }
  void give(Node* node) noexcept { blocks_.give(node); }
  [[nodiscard]] std::uint64_t bytes() const { return blocks_.bytes(); }

 private:
  Blocks blocks_{sizeof(Node)};
};

/// Leaves in DRAM, whose addresses are pointers.
class DramNodes : public DramBlocks<Leaf> {
 public:
  template <class Node>
  using Inners = DramBlocks<Node>;

  [[nodiscard]] static Leaf* at(std::uint64_t address) { return reinterpret_cast<Leaf*>(address); }
  [[nodiscard]] static std::uint64_t address_of(Leaf const* leaf) {
    return reinterpret_cast<std::uint64_t>(leaf);
  }
};

}  // namespace perdure::btree
