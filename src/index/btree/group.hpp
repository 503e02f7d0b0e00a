// Looking up many keys: the ways down of several go on in turn, a level at a time, so that the
// nodes of all are fetched side by side. Invariant: a lookup answers as Tree::find would have at
// some moment of the call.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/btree/core.hpp"

namespace perdure::btree {

template <class Keys, class Nodes>
class Group {
  using Tree = Core<Keys, Nodes>;
  using Ops = typename Tree::Ops;
  using Node = typename Tree::Node;

 public:
  static constexpr std::size_t kSide = 16;  // lookups side by side

  explicit Group(Tree const& core) : core_(core) {}

  template <class Host>
  void find(Host& host, std::span<Key const> keys, std::span<Answer> answers,
            std::span<std::uint64_t> words) {
    for (std::size_t at = 0; at < keys.size(); at += kSide) {
      std::size_t const n = std::min(kSide, keys.size() - at);
      find_some(host, keys.subspan(at, n), answers.subspan(at, n), words.subspan(at, n));
    }
  }

 private:
  /// A node and the child that the key leads to, which is on its way into the cache.
  struct Lookup {
    Node* node;
    std::uint64_t version;
    unsigned level;
    std::uint64_t child;
    Bounds bounds;  // of the child
  };

  template <class Host>
  void find_some(Host& host, std::span<Key const> keys, std::span<Answer> answers,
                 std::span<std::uint64_t> words) {
    auto left = static_cast<std::uint32_t>((std::uint64_t{1} << keys.size()) - 1);
    for (std::size_t i = 0; i < keys.size(); ++i) begin(host, lookups_[i], keys[i]);
    while (left != 0) {
      for (std::uint32_t turn = left; turn != 0; turn &= turn - 1) {
        auto const i = static_cast<unsigned>(std::countr_zero(turn));
        Lookup& lookup = lookups_[i];
        if (lookup.level > 1) {
          if (!go_down(host, lookup, keys[i])) begin(host, lookup, keys[i]);
        } else if (in_leaf(host, lookup, keys[i], answers[i], words[i])) {
          left &= ~(1u << i);
        } else {
          begin(host, lookup, keys[i]);
        }
      }
    }
  }
  template <class Host>
  void begin(Host& host, Lookup& lookup, Key const& key) {
    do {
      lookup.node = core_.top(host, lookup.version);
      lookup.bounds = {};
    } while (!choose(host, lookup, key));
  }
  /// False: something changed.
  template <class Host>
  bool choose(Host& host, Lookup& lookup, Key const& key) {
    std::uint64_t const shape = host.load(&lookup.node->shape);
    if (!core_.admits(host, *lookup.node, lookup.version, shape, lookup.bounds)) return false;
    unsigned const i = Ops::child_of(host, core_.tails, *lookup.node, Node::count_in(shape), key);
    lookup.level = Node::level_in(shape);
    lookup.child = host.load(&lookup.node->children[i]);
    core_.narrow(host, *lookup.node, shape, i, lookup.bounds);
    if (lookup.level > 1)
      core_.prefetch(core_.inners.at(lookup.child));
    else
      core_.prefetch_leaf(host, core_.nodes.at(lookup.child));
    return true;
  }
  /// False: something changed.
  template <class Host>
  bool go_down(Host& host, Lookup& lookup, Key const& key) {
    Node* const child = core_.inners.at(lookup.child);
    std::uint64_t const version = stable_version(host, &child->version);
    if (!unchanged(host, &lookup.node->version, lookup.version)) return false;
    lookup.node = child;
    lookup.version = version;
    return choose(host, lookup, key);
  }
  template <class Host>
  bool in_leaf(Host& host, Lookup const& lookup, Key const& key, Answer& answer,
               std::uint64_t& word) const {
    Leaf const* const leaf = core_.nodes.at(lookup.child);
    host.read(leaf, sizeof *leaf);
    std::uint64_t const version = stable_version(host, &leaf->version);
    if (!unchanged(host, &lookup.node->version, lookup.version)) return false;
    core_.expect_low(host, *leaf, lookup.bounds.low);
    answer = core_.leaves.find(host, *leaf, key, word);
    if (answer == Answer::not_found) core_.expect_absent(host, *leaf, version, key);
    return unchanged(host, &leaf->version, version);
  }

  Tree const& core_;
  std::array<Lookup, kSide> lookups_;
};

}  // namespace perdure::btree
