// What the parts of a B+-tree share: its root, its nodes, and the way down to a leaf. Invariants:
//
//  * The root is an inner node, at level 1 above one leaf at least. There is one leaf always.
//  * Locks are taken downwards, and of one level from left to right. Who changes the children of a
//    node has its lock. So who saw a node's version stay what it was knows its children.
//  * Each child's version is read before its parent's is looked at again: until then the child was
//    the parent's.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/prefetch.hpp"
#include "exec/epochs.hpp"
#include "index/btree/bounds.hpp"
#include "index/btree/inner.hpp"
#include "index/btree/keys.hpp"
#include "index/btree/layout.hpp"
#include "index/btree/leaf.hpp"
#include "index/btree/versions.hpp"

namespace perdure::btree {

/// Which way down.
enum class Side : std::uint8_t {
  first,  // to the least keys
  at,     // to the leaf that has a key, or would
  below,  // to the leaf that has the keys next below one
  last,   // to the greatest keys
};

/// A leaf, and how it was reached. What it says held at one moment.
template <class Node>
struct Path {
  Node* parent = nullptr;  // at level 1
  std::uint64_t parent_version = 0;
  unsigned count = 0;  // the parent's separators
  unsigned index = 0;  // of the leaf among the parent's children
  Leaf* leaf = nullptr;
  std::uint64_t leaf_version = 0;
};

/// Where the keys of a level-1 node begin and end.
struct Fences {
  bool has_low = false, has_high = false;
  Separator low, high;
};

template <class Keys, class Nodes>
struct Core {
  using Tails = typename Nodes::Tails;
  using Ops = InnerOps<Keys, Tails>;
  using Node = typename Ops::Node;
  using Inners = typename Nodes::template Inners<Node>;

  template <class... OfNodes>
  explicit Core(Keys keys, OfNodes&&... of_nodes)
      : leaves(keys), nodes(std::forward<OfNodes>(of_nodes)...) {}

  /// An empty tree.
  template <class Host>
  Answer create(Host& host) {
    PERDURE_ASSERT(nodes.root() == 0);
    Node* const node = inners.take();
    Leaf* const leaf = node != nullptr ? nodes.take() : nullptr;
    if (leaf == nullptr) {
      if (node != nullptr) inners.give(node);
      return Answer::full;
    }
    LeafOps<Keys>::begin(host, *leaf);
    Ops::begin(host, *node, 1, nodes.address_of(leaf));
    host.store(&nodes.root(), inners.address_of(node));
    leaf_count = inner_count = 1;
    return Answer::done;
  }
  /// At the end: what the nodes' memory does not take along.
  void free_tails() {
    if constexpr (Keys::kTails && Nodes::kFreesTails)
      if (nodes.root() != 0) free_tails(*inners.at(nodes.root()));
  }
  /// All inner nodes from here down, and no leaf; nobody uses them.
  void free_inners(Node* node) {
    unsigned const count = Node::count_in(node->shape);
    for (unsigned i = 0; i <= count; ++i) {
      if constexpr (Keys::kTails)
        if (i < count) tails.give(node->tails[i]);
      if (Node::level_in(node->shape) > 1) free_inners(inners.at(node->children[i]));
    }
    inners.give(node);
  }

  /// An inner node and its version, which may be the root's.
  template <class Host>
  Node* top(Host& host, std::uint64_t& version) const {
    for (;;) {
      std::uint64_t const address = host.load(&nodes.root());
      version = stable_version(host, &inners.at(address)->version);
      if (host.load(&nodes.root()) == address || mutated("btree_root_not_checked"))
        return inners.at(address);
    }
  }

  /// `fences`: where to note the parent's, or nullptr.
  template <Side kSide, class Host>
  Path<Node> descend(Host& host, Key const& key, Fences* fences = nullptr) const {
    for (;;) {
      Path<Node> path;
      if (fences != nullptr) *fences = {};
      path.parent = top(host, path.parent_version);
      if (go_down<kSide>(host, key, path, fences)) return path;
    }
  }

  template <Side kSide, class Host>
  unsigned child_towards(Host& host, Node const& node, unsigned count, Key const& key) const {
    if constexpr (kSide == Side::first) return 0;
    if constexpr (kSide == Side::last) return count;
    if constexpr (kSide == Side::below) return Ops::child_below(host, tails, node, count, key);
    return Ops::child_of(host, tails, node, count, key);
  }

  /// Whether a node, as it was at that version, may be used. False: it has changed since; throws
  /// where damage leads to it.
  template <class Host>
  [[nodiscard]] bool admits(Host& host, Node const& node, std::uint64_t version,
                            std::uint64_t shape, Bounds const& bounds) const {
    if constexpr (!Inners::kTrusted)
      if (!bounds.admit(host, node, shape)) [[unlikely]] {
        if (unchanged(host, &node.version, version)) inners.refuse(inners.address_of(&node));
        return false;
      }
    return true;
  }
  template <class Host>
  static void narrow(Host& host, Node const& node, std::uint64_t shape, unsigned i,
                     Bounds& bounds) {
    if constexpr (!Inners::kTrusted) bounds.narrow(host, node, shape, i);
  }
  /// The same of a leaf, below a parent that is still what it was: `low` stays as long as a leaf is
  /// one of the tree.
  template <class Host>
  void expect_low(Host& host, Leaf const& leaf, std::uint64_t low) const {
    if constexpr (!Inners::kTrusted)
      if (host.load(&leaf.low) != low) [[unlikely]]
        nodes.refuse(nodes.address_of(&leaf));
  }
  /// And a key that a leaf does not have is below those of the next one.
  template <class Host>
  void expect_absent(Host& host, Leaf const& leaf, std::uint64_t version, Key const& key) const {
    if constexpr (!Inners::kTrusted) {
      std::uint64_t const next = host.load(&leaf.next);
      if (next != 0 && begins_by(host, *nodes.at(next), key) &&
          unchanged(host, &leaf.version, version))
        nodes.refuse(nodes.address_of(&leaf));
    }
  }

  LeafOps<Keys> leaves;
  Nodes nodes;
  Inners inners{nodes};
  Tails tails{nodes};
  std::atomic<std::uint64_t> leaf_count{0}, inner_count{0};

 private:
  /// Whether a leaf's keys begin at a key or below it. Its first key is looked at only where its
  /// prefix does not say.
  template <class Host>
  bool begins_by(Host& host, Leaf const& leaf, Key const& key) const {
    std::uint64_t const low = host.load(&leaf.low);
    if (low != key.prefix || !Keys::kTails) return low <= key.prefix;
    std::uint64_t const version = stable_version(host, &leaf.version);
    Permutation const order = leaves.permutation(host, leaf);
    if (order.count() == 0) return false;
    Entry const entry = leaves.entry(host, leaf, order.slot(0));
    Key const first = leaves.keys().key_of(entry.prefix, entry.word);
    return Keys::readable(first) && Keys::compare(first, key) <= 0 &&
           unchanged(host, &leaf.version, version);
  }
  void free_tails(Node const& node) {
    unsigned const count = Node::count_in(node.shape);
    for (unsigned i = 0; i < count; ++i) tails.give(node.tails[i]);
    if (Node::level_in(node.shape) > 1)
      for (unsigned i = 0; i <= count; ++i) free_tails(*inners.at(node.children[i]));
  }
  /// From path.parent; false: something changed on the way.
  template <Side kSide, class Host>
  bool go_down(Host& host, Key const& key, Path<Node>& path, Fences* fences) const {
    Bounds bounds;
    for (;;) {
      Node* const node = path.parent;
      std::uint64_t const shape = host.load(&node->shape);
      if (!admits(host, *node, path.parent_version, shape, bounds)) return false;
      path.count = Node::count_in(shape);
      path.index = child_towards<kSide>(host, *node, path.count, key);
      std::uint64_t const child = host.load(&node->children[path.index]);
      narrow(host, *node, shape, path.index, bounds);
      if (Node::level_in(shape) == 1) return reach(host, child, bounds, path);
      Node* const below = inners.at(child);
      prefetch(below);
      if (fences != nullptr) note(host, *node, path, *fences);
      std::uint64_t const version = stable_version(host, &below->version);
      if (!unchanged(host, &node->version, path.parent_version)) return false;
      path.parent = below;
      path.parent_version = version;
    }
  }
  template <class Host>
  bool reach(Host& host, std::uint64_t child, Bounds const& bounds, Path<Node>& path) const {
    path.leaf = nodes.at(child);
    prefetch_leaf(host, path.leaf);
    path.leaf_version = stable_version(host, &path.leaf->version);
    bool const holds = unchanged(host, &path.parent->version, path.parent_version);
    if (holds) expect_low(host, *path.leaf, bounds.low);
    return holds || mutated("btree_parent_not_checked");
  }
  template <class Host>
  static void note(Host& host, Node const& node, Path<Node> const& path, Fences& fences) {
    if (path.index > 0) {
      fences.has_low = true;
      fences.low = Ops::separator(host, node, path.index - 1);
    }
    if (path.index < path.count) {
      fences.has_high = true;
      fences.high = Ops::separator(host, node, path.index);
    }
  }

 public:
  static void prefetch(Node const* node) {
    for (unsigned i = 0; i < Node::kMost; i += 8) prefetch_line(&node->prefixes[i]);
  }
  /// On memory that is not near a search pays for the lines that it reads alone.
  template <class Host>
  static void prefetch_leaf(Host& host, Leaf const* leaf) {
    if constexpr (Host::kNear)
      for (unsigned i = 0; i < sizeof(Leaf); i += 64)
        host.prefetch(reinterpret_cast<std::byte const*>(leaf) + i);
  }
};

}  // namespace perdure::btree
