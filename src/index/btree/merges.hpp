// What an index that shrinks gives back: a leaf with few entries is joined with the one beside it,
// below the same parent, and so are inner nodes; a root with one child goes. Merging is never
// needed: where there is no memory to note what waits for readers, nothing is merged. Invariants:
//
//  * The left leaf has all entries of the right one before it stops leading to it; a crash in
//    between leaves them in both (layout.hpp).
//  * What is unlinked is freed by the epochs, and keeps what it held until then.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/hooks.hpp"
#include "exec/epochs.hpp"
#include "index/btree/core.hpp"
#include "pm/stored.hpp"

namespace perdure::btree {

template <class Keys, class Nodes>
class Merges {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  static constexpr unsigned kSparse = 3;  // entries: a leaf with no more is joined with another

  Merges(Tree& core, exec::Epochs& epochs) : core_(core), epochs_(epochs) {}

  /// The leaf that has this key, or would, is sparse.
  template <class Host>
  void shrink(Host& host, Key const& key) {
    for (unsigned level = 1; join_below(host, key, level);) ++level;
    while (drop_root(host)) {
    }
  }

 private:
  static constexpr unsigned kJoined = 10;  // entries of a leaf that was joined, at most
  static constexpr unsigned kSparseInner = Node::kMost / 4;
  static constexpr unsigned kJoinedInner = Node::kMost * 3 / 4;

  enum class Tried : std::uint8_t { joined, apart, again };

  /// Whether the child that has the key, of a node of this level, was joined with its neighbour.
  template <class Host>
  bool join_below(Host& host, Key const& key, unsigned level) {
    for (;;) {
      Tried const tried = try_below(host, key, level);
      if (tried != Tried::again) return tried == Tried::joined;
    }
  }
  template <class Host>
  Tried try_below(Host& host, Key const& key, unsigned level) {
    std::uint64_t version;
    Node* node = core_.top(host, version);
    for (;;) {
      std::uint64_t const shape = host.load(&node->shape);
      unsigned const count = Node::count_in(shape), here = Node::level_in(shape);
      unsigned const i = Ops::child_of(host, core_.tails, *node, count, key);
      std::uint64_t const address = host.load(&node->children[i]);
      if (here <= level) {
        if (!unchanged(host, &node->version, version)) return Tried::again;
        return here < level || count == 0 ? Tried::apart
                                          : join_beside(host, *node, version, count, i);
      }
      Node* const child = core_.inners.at(address);
      std::uint64_t const seen = stable_version(host, &child->version);
      if (!unchanged(host, &node->version, version)) return Tried::again;
      node = child;
      version = seen;
    }
  }
  /// Child i with the one before it, or else with the one behind it.
  template <class Host>
  Tried join_beside(Host& host, Node& parent, std::uint64_t version, unsigned count, unsigned i) {
    Tried tried = Tried::apart;
    if (i > 0) tried = join(host, parent, version, i - 1);
    if (i < count && tried == Tried::apart) tried = join(host, parent, version, i);
    return tried;
  }
  /// Children i and i + 1.
  template <class Host>
  Tried join(Host& host, Node& parent, std::uint64_t version, unsigned i) {
    exec::EpochReservation retired(epochs_, 2);  // the right one and its separator's bytes
    if (!retired.has_room()) return Tried::apart;
    NodeLock above(host, &parent.version, version);
    if (!above.held()) return Tried::again;
    std::uint64_t const left = host.load(&parent.children[i]);
    std::uint64_t const right = host.load(&parent.children[i + 1]);
    bool const joined = Node::level_in(host.load(&parent.shape)) > 1
                            ? join_inner(host, above, parent, i, *core_.inners.at(left),
                                         *core_.inners.at(right), retired)
                            : join_leaves(host, above, parent, i, *core_.nodes.at(left),
                                          *core_.nodes.at(right), retired);
    return joined ? Tried::joined : Tried::apart;
  }

  template <class Host>
  bool join_leaves(Host& host, NodeLock<Host>& above, Node& parent, unsigned i, Leaf& left,
                   Leaf& right, exec::EpochReservation& retired) {
    NodeLock l(host, &left.version), r(host, &right.version);
    Permutation const order = core_.leaves.permutation(host, left);
    Permutation const more = core_.leaves.permutation(host, right);
    if (!may_join(order.count(), more.count(), kSparse, kJoined, Permutation::kSlots)) return false;
    above.changes();
    l.changes();
    if (!mutated("btree_merge_not_raised")) r.changes();
    move_entries(host, left, order, right, more);
    host.store(&left.next, host.load(&right.next));
    if (!mutated("leaves_unlinking_not_durable")) host.persist(&left.next, sizeof left.next);
    Separator const between = Ops::separator(host, parent, i);
    Ops::erase(host, parent, i);
    core_.leaf_count.fetch_sub(1, std::memory_order_relaxed);
    if (mutated("btree_merged_freed_at_once"))
      core_.nodes.give(&right);
    else
      retired.retire([nodes = &core_.nodes, gone = &right] { nodes->give(gone); });
    if (between.tail != 0)
      retired.retire([tails = &core_.tails, tail = between.tail] { tails->give(tail); });
    return true;
  }
  template <class Host>
  void move_entries(Host& host, Leaf& left, Permutation order, Leaf const& right,
                    Permutation more) const {
    announce(host, left, order, more.count());
    for (unsigned rank = 0; rank < more.count(); ++rank) {
      Entry& to = left.entries[order.free_slot()];
      core_.leaves.put(host, to, core_.leaves.entry(host, right, more.slot(rank)));
      host.flush(&to, sizeof to);
      order = order.inserted(order.count());
    }
    host.fence();
    core_.leaves.publish(host, left, order);
  }

  /// So many entries are moved to a leaf, which then leads to another one.
  template <class Host>
  static void announce(Host& host, Leaf const& left, Permutation order, unsigned more) {
    std::array<pm::Stored, Permutation::kSlots + 1> parts;
    parts[0] = {&left.permutation, sizeof left.permutation + sizeof left.next};
    for (unsigned i = 0; i < more; ++i)
      parts[i + 1] = {&left.entries[order.slot(order.count() + i)], sizeof(Entry)};
    pm::will_store(host, std::span<pm::Stored const>(parts).first(more + 1));
  }

  template <class Host>
  bool join_inner(Host& host, NodeLock<Host>& above, Node& parent, unsigned i, Node& left,
                  Node& right, exec::EpochReservation& retired) {
    NodeLock l(host, &left.version), r(host, &right.version);
    unsigned const some = Node::count_in(host.load(&left.shape));
    unsigned const more = Node::count_in(host.load(&right.shape));
    if (!may_join(some, more, kSparseInner, kJoinedInner, Node::kMost - 1)) return false;
    above.changes();
    l.changes();
    r.changes();
    Ops::join(host, left, Ops::separator(host, parent, i), right);
    Ops::erase(host, parent, i);
    core_.inner_count.fetch_sub(1, std::memory_order_relaxed);
    retired.retire([inners = &core_.inners, gone = &right] { inners->give(gone); });
    return true;
  }
  /// One that is empty is joined with any, if there is room for `most`.
  static bool may_join(unsigned left, unsigned right, unsigned sparse, unsigned joined,
                       unsigned most) {
    if (left == 0 || right == 0) return left + right <= most;
    return (left <= sparse || right <= sparse) && left + right <= joined;
  }

  /// A level less, if the root has one child, which is no leaf.
  template <class Host>
  bool drop_root(Host& host) {
    std::uint64_t version;
    Node* const node = core_.top(host, version);
    if (std::uint64_t const shape = host.load(&node->shape);
        Node::count_in(shape) > 0 || Node::level_in(shape) == 1)
      return false;
    exec::EpochReservation retired(epochs_, 1);
    if (!retired.has_room()) return false;
    NodeLock lock(host, &node->version, version);
    if (!lock.held() || host.load(&core_.nodes.root()) != core_.inners.address_of(node))
      return true;
    host.store(&core_.nodes.root(), host.load(&node->children[0]));
    lock.raises();
    core_.inner_count.fetch_sub(1, std::memory_order_relaxed);
    retired.retire([inners = &core_.inners, gone = node] { inners->give(gone); });
    return true;
  }

  Tree& core_;
  exec::Epochs& epochs_;
};

}  // namespace perdure::btree
