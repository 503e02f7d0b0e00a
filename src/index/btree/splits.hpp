// Room where a leaf is full: it is split in two, and so are full inner nodes on the way to it,
// before. Invariants:
//
//  * Whatever memory a split takes it has before it changes anything.
//  * The new leaf is written whole, with the upper half of the entries, and ordered before the old
//    one leads to it; only then the old one's permutation drops them. A crash in between leaves
//    entries in both (layout.hpp says what becomes of them).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hooks.hpp"
#include "index/btree/core.hpp"

namespace perdure::btree {

template <class Keys, class Nodes>
class Splits {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  explicit Splits(Tree& core) : core_(core) {}

  /// Answer::done: the leaf that has the key was not full at some moment since the call.
  template <class Host>
  Answer make_room(Host& host, Key const& key) {
    for (;;) {
      bool again = false;
      Answer const answer = try_once(host, key, again);
      if (!again) return answer;
    }
  }

 private:
  /// One split; `again`: it was not the leaf's, or something changed meanwhile.
  template <class Host>
  Answer try_once(Host& host, Key const& key, bool& again) {
    std::uint64_t version;
    Node* node = core_.top(host, version);
    std::uint64_t shape = host.load(&node->shape);
    if (Node::count_in(shape) == Node::kMost) return grow_root(host, *node, version, again);
    for (;;) {
      unsigned const i = Ops::child_of(host, core_.tails, *node, Node::count_in(shape), key);
      std::uint64_t const address = host.load(&node->children[i]);
      if (Node::level_in(shape) == 1) {
        Leaf* const leaf = core_.nodes.at(address);
        std::uint64_t const seen = stable_version(host, &leaf->version);
        return split_leaf(host, {node, version, 0, i, leaf, seen}, key, again);
      }
      Node* const child = core_.inners.at(address);
      std::uint64_t const seen = stable_version(host, &child->version);
      again = !unchanged(host, &node->version, version);
      if (again) return Answer::done;
      std::uint64_t const shape_of_child = host.load(&child->shape);
      if (Node::count_in(shape_of_child) == Node::kMost)
        return split_inner(host, {node, version}, i, {child, seen}, key, again);
      node = child;
      version = seen;
      shape = shape_of_child;
    }
  }

  struct Seen {
    Node* node;
    std::uint64_t version;
  };

  /// A level more, above the root, which is full.
  template <class Host>
  Answer grow_root(Host& host, Node& root, std::uint64_t version, bool& again) {
    Node* const above = core_.inners.take();
    if (above == nullptr) return Answer::full;
    again = true;
    NodeLock lock(host, &root.version, version);
    if (!lock.held() || host.load(&core_.nodes.root()) != core_.inners.address_of(&root)) {
      core_.inners.give(above);
      return Answer::done;
    }
    unsigned const level = Node::level_in(host.load(&root.shape)) + 1;
    Ops::begin(host, *above, level, core_.inners.address_of(&root));
    host.store(&core_.nodes.root(), core_.inners.address_of(above));
    core_.inner_count.fetch_add(1, std::memory_order_relaxed);
    lock.raises();
    return Answer::done;
  }

  /// Child i of the parent, which has room.
  template <class Host>
  Answer split_inner(Host& host, Seen parent, unsigned i, Seen child, Key const& key, bool& again) {
    Node* const right = core_.inners.take();
    if (right == nullptr) return Answer::full;
    again = true;
    NodeLock above(host, &parent.node->version, parent.version);
    if (!above.held()) return give_back(right);
    NodeLock here(host, &child.node->version, child.version);
    if (!here.held()) return give_back(right);
    // Where keys come in rising order the left one stays full.
    bool const rising =
        Ops::child_of(host, core_.tails, *child.node, Node::kMost, key) == Node::kMost;
    unsigned const middle = rising ? Node::kMost - 1 : Node::kMost / 2;
    Separator const between = Ops::separator(host, *child.node, middle);
    above.changes();
    here.changes();
    Ops::split(host, *child.node, middle, *right);
    Ops::insert(host, *parent.node, i, between, core_.inners.address_of(right));
    core_.inner_count.fetch_add(1, std::memory_order_relaxed);
    return Answer::done;
  }
  Answer give_back(Node* node) {
    core_.inners.give(node);
    return Answer::done;
  }

  template <class Host>
  Answer split_leaf(Host& host, Path<Node> const& at, Key const& key, bool& again) {
    NodeLock above(host, &at.parent->version, at.parent_version);
    again = !above.held();
    if (again) return Answer::done;
    NodeLock here(host, &at.leaf->version, at.leaf_version);
    again = !here.held();
    Permutation const order = core_.leaves.permutation(host, *at.leaf);
    if (again || !order.full()) return Answer::done;
    Halves halves;
    if (Answer const a = cut(host, *at.leaf, order, key, halves); a != Answer::done) return a;
    Leaf* const right = core_.nodes.take();
    if (right == nullptr) {
      core_.tails.give(halves.between.tail);
      return Answer::full;
    }
    write_upper(host, *at.leaf, order, halves, *right);
    above.changes();
    if (!mutated("btree_split_not_raised")) here.changes();
    std::uint64_t const address = core_.nodes.address_of(right);
    pm::will_store(host, {{&at.leaf->permutation, sizeof at.leaf->permutation},
                          {&at.leaf->next, sizeof at.leaf->next}});
    host.store(&at.leaf->next, address);
    host.persist(&at.leaf->next, sizeof at.leaf->next);
    core_.leaves.publish(host, *at.leaf, order.first(halves.lower));
    Ops::insert(host, *at.parent, at.index, halves.between, address);
    core_.leaf_count.fetch_add(1, std::memory_order_relaxed);
    return Answer::done;
  }

  struct Halves {
    unsigned lower = 0;  // entries that stay
    Separator between;
  };
  /// Where a full leaf is cut. One whose keys came in rising order, with a key at the end to come,
  /// stays as it is, and the next leaf begins with that key.
  template <class Host>
  Answer cut(Host& host, Leaf const& leaf, Permutation order, Key const& key,
             Halves& halves) const {
    auto const key_at = [&](unsigned rank) {
      Entry const entry = core_.leaves.entry(host, leaf, order.slot(rank));
      return core_.leaves.keys().key_of(entry.prefix, entry.word);
    };
    halves.lower = order.count() / 2;
    Key from = key_at(halves.lower);
    if (order.rising()) {
      auto const at = core_.leaves.rank_of(host, leaf, order, key);
      if (at.damaged) return Answer::damaged;
      if (at.rank == order.count()) {
        halves.lower = at.rank;
        from = key;
      }
    }
    Key const last = key_at(halves.lower - 1);
    if (!Keys::readable(last) || !Keys::readable(from)) return Answer::damaged;
    return separate<Keys>(host, core_.tails, last, from, halves.between) ? Answer::done
                                                                         : Answer::full;
  }
  template <class Host>
  void write_upper(Host& host, Leaf const& leaf, Permutation order, Halves const& halves,
                   Leaf& right) const {
    unsigned n = 0;
    for (unsigned rank = halves.lower; rank < order.count(); ++rank)
      core_.leaves.put(host, right.entries[n++], core_.leaves.entry(host, leaf, order.slot(rank)));
    host.store(&right.version, 0);
    host.store(&right.next, host.load(&leaf.next));
    host.store(&right.low, halves.between.prefix);
    host.store(&right.permutation, Permutation::of_first(n).word());
    if (!mutated("leaves_new_not_durable")) host.persist(&right, sizeof right);
  }

  Tree& core_;
};

}  // namespace perdure::btree
