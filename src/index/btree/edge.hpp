// Inner nodes above leaves that come from left to right: they are made along the right edge.
// Invariant: what is built is beside the tree until finish(), and goes where that is never called;
// the leaves stay whoever's they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "index/btree/core.hpp"

namespace perdure::btree {

template <class Keys, class Nodes>
class Edge {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  explicit Edge(Tree& core) : core_(core) {}
  Edge(Edge const&) = delete;
  Edge& operator=(Edge const&) = delete;
  ~Edge() {
    if (levels_ > 0) core_.free_inners(edge_[levels_ - 1]);
  }

  /// The first leaf. False, as below: there is no memory.
  template <class Host>
  [[nodiscard]] bool begin(Host& host, std::uint64_t leaf) {
    PERDURE_ASSERT(levels_ == 0);
    edge_[0] = core_.inners.take();
    if (edge_[0] == nullptr) return false;
    Ops::begin(host, *edge_[0], 1, leaf);
    levels_ = 1;
    inners_ = leaves_ = 1;
    return true;
  }

  /// The next leaf, and what separates it from the one before. The first level whose last node has
  /// room gets the separator, and those below it a new last node each, which leads to the leaf
  /// alone.
  template <class Host>
  [[nodiscard]] bool add(Host& host, Separator const& between, std::uint64_t leaf) {
    std::size_t full = 0;
    while (full < levels_ && Node::count_in(edge_[full]->shape) == Node::kMost) ++full;
    PERDURE_ASSERT(full + 1 < kMostLevels);
    std::array<Node*, kMostLevels> fresh{};
    std::size_t const needed = full + (full == levels_);
    for (std::size_t i = 0; i < needed; ++i) {
      fresh[i] = core_.inners.take();
      if (fresh[i] != nullptr) continue;
      while (i > 0) core_.inners.give(fresh[--i]);
      return false;
    }
    inners_ += needed;
    ++leaves_;
    if (full == levels_) {
      Ops::begin(host, *fresh[full], static_cast<unsigned>(full) + 1,
                 core_.inners.address_of(edge_[full - 1]));
      edge_[levels_++] = fresh[full];
    }
    std::uint64_t child = leaf;
    for (std::size_t i = 0; i < full; ++i) {
      Ops::begin(host, *fresh[i], static_cast<unsigned>(i) + 1, child);
      child = core_.inners.address_of(fresh[i]);
      edge_[i] = fresh[i];
    }
    Node& above = *edge_[full];
    Ops::insert(host, above, Node::count_in(above.shape), between, child);
    return true;
  }

  /// The tree is what was built from now on.
  template <class Host>
  void finish(Host& host) {
    PERDURE_ASSERT(levels_ > 0);
    std::uint64_t const before = host.load(&core_.nodes.root());
    host.store(&core_.nodes.root(), core_.inners.address_of(edge_[levels_ - 1]));
    core_.leaf_count = leaves_;
    core_.inner_count = inners_;
    if (before != 0) core_.free_inners(core_.inners.at(before));
    levels_ = 0;
  }

 private:
  static constexpr std::size_t kMostLevels = 16;  // of more keys than there are

  Tree& core_;
  std::array<Node*, kMostLevels> edge_{};  // the last node of each level, from level 1 on
  std::size_t levels_ = 0;
  std::uint64_t leaves_ = 0, inners_ = 0;
};

}  // namespace perdure::btree
