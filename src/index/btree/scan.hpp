// Keys in their order, upwards and downwards. Each leaf is copied in one moment, and its entries
// are visited from the copy; the next leaf is the next child of the same parent as long as that
// did not change, and else is found anew from where the scan has come to. Invariant: a key that is
// there from beginning to end is visited once.
#pragma once

#include <cstdint>

#include "base/hooks.hpp"
#include "index/btree/core.hpp"

namespace perdure::btree {

template <class Keys, class Nodes>
class Scan {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  explicit Scan(Tree const& core) : core_(core) {}

  /// From `from` on, nullptr: from the end; visit(prefix, word) answers false to stop.
  template <bool kUp, class Host, class Visit>
  Answer run(Host& host, Key const* from, bool inclusive, Visit visit) {
    fenced_ = false;
    bounded_ = from != nullptr;
    if (bounded_) bound_ = *from;
    inclusive_ = inclusive;
    for (;;) {
      Path<Node> path = find<kUp>(host);
      while (path.leaf != nullptr) {
        if (!copy<kUp>(host, path)) break;  // the leaf changed
        if (damaged_) return Answer::damaged;
        if (!visit_copy<kUp>(visit)) return Answer::done;
        if (damaged_) return Answer::damaged;  // nobody knows where to go on
        if (!go_on<kUp>(host, path)) return Answer::done;
      }
    }
  }

 private:
  static constexpr unsigned kAhead = 3;  // leaves that are brought near before they are read

  template <bool kUp, class Host>
  Path<Node> find(Host& host) {
    whole_ = !bounded_;
    if (!bounded_)
      return core_.template descend<kUp ? Side::first : Side::last>(host, bound_, &fences_);
    bool const at = kUp || inclusive_;
    return at ? core_.template descend<Side::at>(host, bound_, &fences_)
              : core_.template descend<Side::below>(host, bound_, &fences_);
  }

  /// What of the leaf is within the bound. False: it changed meanwhile.
  template <bool kUp, class Host>
  bool copy(Host& host, Path<Node> const& path) {
    host.read(path.leaf, sizeof *path.leaf);
    Permutation const order = core_.leaves.permutation(host, *path.leaf);
    unsigned first = 0, end = order.count();
    damaged_ = false;
    if (!whole_) {
      auto const at = core_.leaves.rank_of(host, *path.leaf, order, bound_);
      damaged_ = at.damaged;
      if constexpr (kUp)
        first = at.rank + (at.found && !inclusive_);
      else
        end = at.rank + (at.found && inclusive_);
    }
    count_ = 0;
    for (unsigned rank = first; rank < end; ++rank)
      copied_[count_++] = core_.leaves.entry(host, *path.leaf, order.slot(rank));
    return unchanged(host, &path.leaf->version, path.leaf_version) ||
           mutated("btree_scan_not_checked");
  }

  /// False: the visitor has enough.
  template <bool kUp, class Visit>
  bool visit_copy(Visit& visit) {
    for (unsigned i = 0; i < count_; ++i) {
      Entry const& each = copied_[kUp ? i : count_ - 1 - i];
      if (!visit(each.prefix, each.word)) return false;
    }
    if (count_ == 0) return true;
    Entry const& last = copied_[kUp ? count_ - 1 : 0];
    Key const key = core_.leaves.keys().key_of(last.prefix, last.word);
    damaged_ = !Keys::readable(key);
    bound_ = key;
    bounded_ = true;
    inclusive_ = false;
    return true;
  }

  /// To the next leaf; path.leaf is nullptr where it has to be found anew. False: there is none.
  template <bool kUp, class Host>
  bool go_on(Host& host, Path<Node>& path) {
    Node* const parent = path.parent;
    if (kUp ? path.index < path.count : path.index > 0) {
      path.index = kUp ? path.index + 1 : path.index - 1;
      path.leaf = core_.nodes.at(host.load(&parent->children[path.index]));
      look_ahead<kUp>(host, path);
      path.leaf_version = stable_version(host, &path.leaf->version);
      whole_ = true;
      if (!unchanged(host, &parent->version, path.parent_version) && !mutated("btree_scan_goes_on"))
        path.leaf = nullptr;
      else if (path.index > 0)
        core_.expect_low(host, *path.leaf, host.load(&parent->prefixes[path.index - 1]));
      return true;
    }
    if (kUp ? !fences_.has_high : !fences_.has_low) {
      expect_end<kUp>(host, path);
      return false;
    }
    path.leaf = nullptr;
    bound_ = key_of(core_.tails, kUp ? fences_.high : fences_.low);
    if constexpr (!Tree::Inners::kTrusted) {
      bool const on =
          !fenced_ || (kUp ? Keys::compare(bound_, fence_) > 0 : Keys::compare(bound_, fence_) < 0);
      if (!on) core_.inners.refuse(core_.inners.address_of(parent));  // there would be no end
      fence_ = bound_;
      fenced_ = true;
    }
    bounded_ = true;
    inclusive_ = kUp;
    return true;
  }
  /// Nothing is behind the last leaf, and nothing before the first.
  template <bool kUp, class Host>
  void expect_end(Host& host, Path<Node> const& path) const {
    if constexpr (!Tree::Inners::kTrusted) {
      if constexpr (!kUp) return core_.expect_low(host, *path.leaf, 0);
      if (host.load(&path.leaf->next) != 0 &&
          unchanged(host, &path.leaf->version, path.leaf_version))
        core_.nodes.refuse(core_.nodes.address_of(path.leaf));
    }
  }
  template <bool kUp, class Host>
  void look_ahead(Host& host, Path<Node> const& path) const {
    unsigned const left = kUp ? path.count - path.index : path.index;
    if (left < kAhead) return;
    unsigned const at = kUp ? path.index + kAhead : path.index - kAhead;
    core_.prefetch_leaf(host, core_.nodes.at(host.load(&path.parent->children[at])));
  }

  Tree const& core_;
  Key bound_, fence_;  // the fence: where the parent before ended
  bool fenced_ = false;
  bool bounded_ = false, inclusive_ = false;
  bool whole_ = false;  // all keys of the next leaf are within the bound
  bool damaged_ = false;  // a record that had to be read cannot be
  Fences fences_;
  Entry copied_[Permutation::kSlots];
  unsigned count_ = 0;
};

}  // namespace perdure::btree
