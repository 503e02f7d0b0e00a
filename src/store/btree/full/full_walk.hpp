// A look at all that a durable tree leads to: inner nodes from the root down, leaves in their chain
// (index/btree/chain.hpp), and whether what is in use of the heap is that and nothing else.
// Invariants: nobody writes meanwhile; nothing that a damaged word names is read before the heap
// has said that such a thing is in use there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "index/btree/bounds.hpp"
#include "index/btree/chain.hpp"
#include "store/btree/full/pool_nodes.hpp"
#include "store/threads/engine.hpp"

namespace perdure::full {

/// `fault_of(word)`: what is wrong with a record that is in use; null: nothing.
template <class Tree, class Keys, class FaultOf>
class Walk {
  using Inner = btree::Inner<Keys::kTails>;

 public:
  Walk(Tree& tree, FaultOf fault_of)
      : tree_(tree),
        room_(tree.nodes().room()),
        heap_(room_.space.heap_alone()),
        fault_of_(fault_of) {}

  template <class Host>
  void run(Host& host, threads::Faults& faults) {
    State const& state = room_.state();
    if (!reach(state.root, sizeof(Inner))) return faults.add("the root leads to no node");
    btree::Bounds bounds;
    bounds.level = Inner::level_in(node(state.root).shape);
    go_down(host, state.root, bounds, faults);
    if (faults.count == 0) check_leaves(host, faults);
    if (faults.count == 0) check_use(state, faults);
  }
  /// Records that it leads to, whole, and free by the heap's maps.
  [[nodiscard]] std::vector<std::uint64_t> const& forgotten() const { return forgotten_; }

 private:
  [[nodiscard]] Inner const& node(std::uint64_t at) const {
    auto const* const node = reinterpret_cast<Inner const*>(room_.base + at);
    pm::will_read(node, sizeof *node);
    return *node;
  }
  /// Whether something of that size is in use there, and is come to for the first time.
  bool reach(std::uint64_t at, std::uint64_t bytes) {
    return heap_.in_use(Offset{at}) && heap_.room(Offset{at}) >= bytes &&
           reached_.insert(at).second;
  }
  static std::string name(std::uint64_t at) {
    return "the inner node at byte " + std::to_string(at);
  }

  template <class Host>
  void go_down(Host& host, std::uint64_t at, btree::Bounds const& bounds, threads::Faults& faults) {
    Inner const& here = node(at);
    unsigned const count = Inner::count_in(here.shape), level = bounds.level;
    if (level == 0 || !bounds.admit(host, here, here.shape))
      return faults.add(name(at) + " says an impossible size or level, or has keys of another");
    ++inners_;
    if (!rises(here, count)) faults.add(name(at) + " has separators that do not rise");
    for (unsigned i = 0; i < count; ++i) check_tail(at, here, i, faults);
    for (unsigned i = 0; i <= count; ++i) {
      std::uint64_t const child = here.children[i];
      btree::Bounds below = bounds;
      below.narrow(host, here, here.shape, i);
      if (!reach(child, level > 1 ? sizeof(Inner) : sizeof(btree::Leaf)))
        faults.add(name(at) + " leads to byte " + std::to_string(child) +
                   ", where no node of its own is");
      else if (level > 1)
        go_down(host, child, below, faults);
      else
        note_leaf(child, below.low, faults);
    }
  }
  void note_leaf(std::uint64_t at, std::uint64_t low, threads::Faults& faults) {
    leaves_.push_back(at);
    if (reinterpret_cast<btree::Leaf const*>(room_.base + at)->low != low)
      faults.add("the leaf at byte " + std::to_string(at) +
                 " begins elsewhere than its parent says");
  }
  static bool rises(Inner const& node, unsigned count) {
    for (unsigned i = 1; i < count; ++i) {
      bool const longer = Keys::kTails && node.prefixes[i - 1] == node.prefixes[i];
      if (node.prefixes[i - 1] >= node.prefixes[i] && !longer) return false;
    }
    return std::all_of(node.prefixes + count, node.prefixes + Inner::kMost,
                       [](std::uint64_t prefix) { return prefix == Inner::kNone; });
  }
  void check_tail(std::uint64_t at, Inner const& node, unsigned i, threads::Faults& faults) {
    if constexpr (Keys::kTails) {
      std::uint64_t const tail = node.tails[i];
      if (tail == 0) return;
      ++tails_;
      bool const there = reach(tail, sizeof(btree::KeyBytes));
      auto const* const bytes = reinterpret_cast<btree::KeyBytes const*>(room_.base + tail);
      if (!there || sizeof *bytes + bytes->size > heap_.room(Offset{tail}))
        faults.add(name(at) + " has a separator that leads nowhere");
    }
  }

  /// What the chain asks of records.
  struct Records {
    Walk& walk;
    btree::RecordMark use(std::uint64_t word) {
      bool const whole = walk.heap_.is_record(Offset{word}) && walk.fault_of_(word) == nullptr;
      bool const in_use = walk.heap_.in_use(Offset{word});
      if (whole && !in_use) walk.forgotten_.push_back(word);
      walk.records_.push_back(word);
      return whole && in_use ? btree::RecordMark::first : btree::RecordMark::invalid;
    }
    bool intact(std::uint64_t word) {
      return walk.heap_.in_use(Offset{word}) && walk.fault_of_(word) == nullptr;
    }
  };

  template <class Host>
  void check_leaves(Host& host, threads::Faults& faults) {
    enum class Come { first, again, invalid };
    std::size_t next = 0;
    btree::ChainFound found;
    auto const mark = [&](std::uint64_t at) {
      return next < leaves_.size() && leaves_[next++] == at ? Come::first : Come::invalid;
    };
    auto const chain = tree_.chain().walk(host, leaves_.front(), mark, found);
    if (found.faults == 0 && chain.size() != leaves_.size())
      faults.add("the chain of leaves ends before the last one");
    Records records{*this};
    if (found.faults == 0) tree_.chain().check(host, chain, 0, chain.size(), records, found);
    for (std::string const& each : found.wrong) faults.add(each);
    for (auto const& each : found.leftovers)
      faults.add("the leaf at byte " + std::to_string(each.leaf) + " has keys of the next one");
  }
  void check_use(State const& state, threads::Faults& faults) {
    std::sort(records_.begin(), records_.end());
    if (std::adjacent_find(records_.begin(), records_.end()) != records_.end())
      faults.add("two keys lead to one record");
    std::uint64_t const led_to = records_.size() + leaves_.size() + inners_ + tails_;
    if (std::uint64_t const used = heap_.records_in_use(); used != led_to)
      faults.add(std::to_string(used) + " pieces of the heap are in use, and the tree leads to " +
                 std::to_string(led_to));
    if (state.records != records_.size() || state.leaves != leaves_.size() ||
        state.inner_nodes != inners_)
      faults.add("the tree has other numbers of records and nodes than it says");
  }

  Tree& tree_;
  NodeRoom room_;
  pm::RecordHeap const& heap_;
  FaultOf fault_of_;
  std::unordered_set<std::uint64_t> reached_;  // nodes and tails
  std::vector<std::uint64_t> leaves_;  // in the order of the nodes above them
  std::vector<std::uint64_t> records_, forgotten_;
  std::uint64_t inners_ = 0, tails_ = 0;
};

}  // namespace perdure::full
