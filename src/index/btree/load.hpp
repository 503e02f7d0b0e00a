// Filling an empty tree from keys that rise: leaves are filled one after the other, and inner nodes
// along the right edge as they come (edge.hpp). Invariants: the first leaf is the empty tree's, so
// that whoever knows it finds all others; what is built is beside the tree until finish(), for that
// leaf neither names its entries nor leads on before, and goes where finish() is never called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/hooks.hpp"
#include "index/btree/core.hpp"
#include "index/btree/edge.hpp"
#include "perdure/status.h"

namespace perdure::btree {

struct LoadedEntry {
  Key key;
  std::uint64_t word = 0;
};

template <class Keys, class Nodes>
class Load {
  using Tree = Core<Keys, Nodes>;
  using Node = typename Tree::Node;

 public:
  explicit Load(Tree& core) : core_(core), edge_(core) {}
  Load(Load const&) = delete;
  Load& operator=(Load const&) = delete;
  ~Load() {
    for (std::uint64_t at = second_; at != 0;) {
      Leaf* const leaf = core_.nodes.at(at);
      at = leaf->next;
      core_.nodes.give(leaf);
    }
  }

  /// Answer::exists: the tree is not empty.
  template <class Host>
  Answer begin(Host& host) {
    std::uint64_t version;
    Node const* const top = core_.top(host, version);
    std::uint64_t const leaf = top->children[0];
    empty_ = Node::level_in(top->shape) == 1 && Node::count_in(top->shape) == 0 &&
             core_.leaves.permutation(host, *core_.nodes.at(leaf)).count() == 0;
    if (!empty_) return Answer::exists;
    if (!edge_.begin(host, leaf)) return Answer::full;
    first_ = leaf_ = core_.nodes.at(leaf);
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
    if (!mutated("leaves_loaded_not_durable")) host.fence();
    if (second_ != 0) {
      host.store(&first_->next, second_);
      host.persist(&first_->next, sizeof first_->next);
    }
    core_.leaves.publish(host, *first_, Permutation::of_first(in_first_));
    edge_.finish(host);
    second_ = 0;
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
  template <class Host>
  Leaf* take_leaf(Host& host, std::uint64_t low) {
    Leaf* const leaf = core_.nodes.take();
    if (leaf == nullptr) return nullptr;
    core_.leaves.begin(host, *leaf);
    host.store(&leaf->low, low);
    return leaf;
  }
  template <class Host>
  void close_leaf(Host& host, std::uint64_t next) {
    if (leaf_ == first_) {
      in_first_ = count_;
      second_ = next;
    } else {
      host.store(&leaf_->next, next);
      host.store(&leaf_->permutation, Permutation::of_first(count_).word());
    }
    host.flush(leaf_, sizeof *leaf_);
  }
  /// False: there is no memory.
  template <class Host>
  bool next_leaf(Host& host, Key const& last, Key const& key) {
    Separator between;
    if (!separate<Keys>(host, core_.tails, last, key, between)) return false;
    Leaf* const leaf = take_leaf(host, between.prefix);
    std::uint64_t const address = leaf != nullptr ? core_.nodes.address_of(leaf) : 0;
    if (leaf == nullptr || !edge_.add(host, between, address)) {
      core_.tails.give(between.tail);
      if (leaf != nullptr) core_.nodes.give(leaf);
      return false;
    }
    close_leaf(host, address);
    leaf_ = leaf;
    count_ = 0;
    return true;
  }

  Tree& core_;
  Edge<Keys, Nodes> edge_;
  bool empty_ = true;
  Leaf* first_ = nullptr;
  unsigned in_first_ = 0;  // its entries
  std::uint64_t second_ = 0;  // the leaf behind it
  Leaf* leaf_ = nullptr;  // the last, being filled
  unsigned count_ = 0;  // its entries
  Entry last_{};
};

}  // namespace perdure::btree
