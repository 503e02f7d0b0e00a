// Filling an empty tree from keys that rise: leaves are filled one after the other, and inner nodes
// along the right edge as they come. Invariant: what is built is beside the tree until finish(),
// and goes where that is never called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "index/btree/core.hpp"
#include "perdure/status.h"

namespace perdure::btree {

struct LoadedEntry {
  Key key;
  std::uint64_t word = 0;
};

template <class Keys, class Nodes>
class Load {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  explicit Load(Tree& core) : core_(core) {}
  Load(Load const&) = delete;
  Load& operator=(Load const&) = delete;
  ~Load() {
    if (levels_ > 0) core_.free_below(edge_[levels_ - 1]);
  }

  /// Answer::exists: the tree is not empty.
  template <class Host>
  Answer begin(Host& host) {
    std::uint64_t version;
    Node const* const top = core_.top(host, version);
    bool const empty =
        Node::level_in(top->shape) == 1 && Node::count_in(top->shape) == 0 &&
        core_.leaves.permutation(host, *core_.nodes.at(top->children[0])).count() == 0;
    empty_ = empty;
    if (!empty) return Answer::exists;
    Leaf* const leaf = take_leaf(host, 0);
    if (leaf == nullptr) return Answer::full;
    edge_[0] = take_inner(host, 1, core_.nodes.address_of(leaf));
    if (edge_[0] == nullptr) {
      core_.nodes.give(leaf);
      return Answer::full;
    }
    leaf_ = leaf;
    levels_ = 1;
    return Answer::done;
  }

  /// Answer::exists: the key is not above the one before it.
  template <class Host>
  Answer add(Host& host, Key const& key, std::uint64_t word) {
    if (count_ > 0) {
      Key const last = core_.leaves.keys().key_of(last_.prefix, last_.word);
      if (!Keys::readable(last)) return Answer::damaged;
      if (Keys::compare(last, key) >= 0) return Answer::exists;
      if (count_ == Permutation::kSlots && !next_leaf(host, last, key)) return Answer::full;
    }
    last_ = {key.prefix, word};
    core_.leaves.put(host, leaf_->entries[count_++], last_);
    return Answer::done;
  }

  /// The tree has what was added from now on.
  template <class Host>
  void finish(Host& host) {
    close_leaf(host, 0);
    host.fence();
    Node* const before = core_.inners.at(host.load(&core_.nodes.root()));
    host.store(&core_.nodes.root(), core_.inners.address_of(edge_[levels_ - 1]));
    core_.leaf_count = leaves_;
    core_.inner_count = inners_;
    core_.free_below(before);
    levels_ = 0;
  }

  /// What an answer that is not done means, at this entry.
  [[nodiscard]] Status why_not(Answer answer, std::uint64_t entry) const {
    if (answer == Answer::done) return {};
    std::string const at = "entry " + std::to_string(entry) + " of a bulk load: ";
    if (answer == Answer::full)
      return {Code::no_space, at + "there is no memory for the tree's nodes; load less"};
    if (!empty_)
      return {Code::invalid_argument, "a bulk load fills an empty tree, and this one has keys"};
    if (answer == Answer::damaged)
      return {Code::corrupt, at + "the record before it cannot be read"};
    return {Code::invalid_argument,
            at + "its key is not above the one before it; give each key once, in rising order"};
  }

 private:
  static constexpr std::size_t kMostLevels = 16;  // of more keys than there are

  template <class Host>
  Leaf* take_leaf(Host& host, std::uint64_t low) {
    Leaf* const leaf = core_.nodes.take();
    if (leaf == nullptr) return nullptr;
    core_.leaves.begin(host, *leaf);
    host.store(&leaf->low, low);
    ++leaves_;
    return leaf;
  }
  template <class Host>
  Node* take_inner(Host& host, unsigned level, std::uint64_t child) {
    Node* const node = core_.inners.take();
    if (node == nullptr) return nullptr;
    Ops::begin(host, *node, level, child);
    ++inners_;
    return node;
  }
  template <class Host>
  void close_leaf(Host& host, std::uint64_t next) {
    host.store(&leaf_->next, next);
    host.store(&leaf_->permutation, Permutation::of_first(count_).word());
    host.flush(leaf_, sizeof *leaf_);
  }
  /// False: there is no memory.
  template <class Host>
  bool next_leaf(Host& host, Key const& last, Key const& key) {
    Separator between;
    if (!separate<Keys>(host, core_.tails, last, key, between)) return false;
    Leaf* const leaf = take_leaf(host, between.prefix);
    if (leaf == nullptr || !add_child(host, between, core_.nodes.address_of(leaf))) {
      core_.tails.give(between.tail);
      if (leaf != nullptr) core_.nodes.give(leaf);
      return false;
    }
    close_leaf(host, core_.nodes.address_of(leaf));
    leaf_ = leaf;
    count_ = 0;
    return true;
  }
  /// The first level whose last node has room gets the separator, and those below it a new last
  /// node each, which leads to the child alone.
  template <class Host>
  bool add_child(Host& host, Separator const& between, std::uint64_t child) {
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
    if (full == levels_) {
      Ops::begin(host, *fresh[full], static_cast<unsigned>(full) + 1,
                 core_.inners.address_of(edge_[full - 1]));
      edge_[levels_++] = fresh[full];
    }
    for (std::size_t i = 0; i < full; ++i) {
      Ops::begin(host, *fresh[i], static_cast<unsigned>(i) + 1, child);
      child = core_.inners.address_of(fresh[i]);
      edge_[i] = fresh[i];
    }
    Node& above = *edge_[full];
    Ops::insert(host, above, Node::count_in(above.shape), between, child);
    return true;
  }

  Tree& core_;
  bool empty_ = true;
  std::array<Node*, kMostLevels> edge_{};  // the last node of each level, from level 1 on
  std::size_t levels_ = 0;
  Leaf* leaf_ = nullptr;  // the last, being filled
  unsigned count_ = 0;  // its entries
  Entry last_{};
  std::uint64_t leaves_ = 0, inners_ = 0;
};

}  // namespace perdure::btree
