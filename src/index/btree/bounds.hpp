// What a way down to a leaf may lead to. Inner nodes that outlive an opening may be damaged, and
// nobody looks at all of them before they are used (Inners::kTrusted says of which kind they are).
// Invariant: levels count down from one that is possible, so a way down ends; who is led to a node
// or a leaf of other keys than its parent says does not use it.
#pragma once

#include <cstdint>

namespace perdure::btree {

struct Bounds {
  static constexpr unsigned kMostLevels = 16;  // of more keys than there are

  unsigned level = 0;  // that the next node has; 0: it is the root, at any
  std::uint64_t low = 0, high = ~std::uint64_t{0};  // of its separators' prefixes

  /// Whether a node can be there. It reads only lines that a search reads, too.
  template <class Host, class Node>
  [[nodiscard]] bool admit(Host& host, Node const& node, std::uint64_t shape) const {
    unsigned const count = Node::count_in(shape), here = Node::level_in(shape);
    bool const at_level = level == 0 ? here >= 1 && here <= kMostLevels : here == level;
    if (!at_level || count > Node::kMost) return false;
    return count == 0 ||
           (host.load(&node.prefixes[0]) >= low && host.load(&node.prefixes[count - 1]) <= high);
  }
  /// Down to child i of a node that was admitted.
  template <class Host, class Node>
  void narrow(Host& host, Node const& node, std::uint64_t shape, unsigned i) {
    level = Node::level_in(shape) - 1;
    if (i > 0) low = host.load(&node.prefixes[i - 1]);
    if (i < Node::count_in(shape)) high = host.load(&node.prefixes[i]);
  }
};

}  // namespace perdure::btree
