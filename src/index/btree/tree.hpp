// A B+-tree for threads of the host: keys in the order of their bytes, each with a word of 8 bytes.
// Readers take no locks; writers lock one leaf, and the nodes above it only where they split or
// merge (optimistic lock coupling). Invariants: layout.hpp has those of the nodes, leaf.hpp of what
// a crash leaves, core.hpp of locks.
//
// Whoever calls an operation holds an EpochGuard of epochs() meanwhile, and as long as it follows
// words that the tree gave to records that somebody may retire.
//
// `Keys` is WordKeys or ByteKeys (keys.hpp), `Nodes` where leaves lie (nodes.hpp), and `Host` how
// memory is touched (pm/host.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/epochs.hpp"
#include "index/btree/chain.hpp"
#include "index/btree/core.hpp"
#include "index/btree/group.hpp"
#include "index/btree/load.hpp"
#include "index/btree/merges.hpp"
#include "index/btree/nodes.hpp"
#include "index/btree/scan.hpp"
#include "index/btree/splits.hpp"

namespace perdure::btree {

/// What a tree takes.
struct Shape {
  std::uint64_t leaves = 0;
  std::uint64_t inner_nodes = 0;
  unsigned depth = 0;  // levels, leaves included
  std::uint64_t bytes = 0;  // from the system, for nodes
};

template <class Keys, class Nodes = DramNodes>
class Tree {
 public:
  static constexpr bool kDurable = Nodes::kDurable;

  /// `nodes`: what Nodes is made of.
  template <class... OfNodes>
  explicit Tree(Keys keys = Keys(), OfNodes&&... nodes)
      : core_(keys, std::forward<OfNodes>(nodes)...) {}
  Tree(Tree const&) = delete;
  Tree& operator=(Tree const&) = delete;
  ~Tree() { core_.free_tails(); }

  /// Once, before all others. Answer::full: there is no memory.
  template <class Host>
  Answer create(Host& host) {
    return core_.create(host);
  }

  /// Instead, where the nodes were there before this tree.
  void resume(std::uint64_t leaves, std::uint64_t inner_nodes) {
    core_.leaf_count = leaves;
    core_.inner_count = inner_nodes;
  }

  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

  template <class Host>
  Answer find(Host& host, Key const& key, std::uint64_t& word) {
    for (;;) {
      Path const at = core_.template descend<Side::at>(host, key);
      host.read(at.leaf, sizeof *at.leaf);
      Answer const answer = core_.leaves.find(host, *at.leaf, key, word);
      if (answer == Answer::not_found) core_.expect_absent(host, *at.leaf, at.leaf_version, key);
      if (unchanged(host, &at.leaf->version, at.leaf_version) || mutated("btree_leaf_not_checked"))
        return answer;
    }
  }

  /// `before`: the word that was replaced, or that is there where an insert answers exists.
  template <class Host>
  Answer write(Host& host, Key const& key, std::uint64_t word, Write how,
               std::optional<std::uint64_t>& before) {
    for (;;) {
      Answer answer = in_leaf(host, key, [&](Leaf& leaf, NodeLock<Host>&) {
        return core_.leaves.write(host, leaf, key, word, how, before);
      });
      if (answer != Answer::full) return answer;
      answer = splits_.make_room(host, key);
      if (answer != Answer::done) return answer;
    }
  }

  /// The word becomes change(word), which runs under the leaf's lock. Nothing is stored where it
  /// stays the same. `before`: what it was.
  template <class Host, class Change>
  Answer modify(Host& host, Key const& key, Change change, std::uint64_t& before) {
    return in_leaf(host, key, [&](Leaf& leaf, NodeLock<Host>&) {
      return core_.leaves.modify(host, leaf, key, change, before);
    });
  }

  /// last(word) runs under the leaf's lock just before the entry goes. `before`: its word.
  template <class Host, class Last>
  Answer erase(Host& host, Key const& key, Last last, std::uint64_t& before) {
    bool sparse = false;
    Answer const answer = in_leaf(host, key, [&](Leaf& leaf, NodeLock<Host>& lock) {
      Answer const erased = core_.leaves.erase(host, leaf, lock, key, last, before);
      sparse = erased == Answer::done &&
               core_.leaves.permutation(host, leaf).count() <= Merges<Keys, Nodes>::kSparse;
      return erased;
    });
    if (sparse) merges_.shrink(host, key);
    return answer;
  }

  /// visit(prefix, word) for keys from `from` on in rising order, until it answers false. Each leaf
  /// is seen in one moment. nullptr: from the least key. Answer::damaged: it ended early.
  template <class Host, class Visit>
  Answer ascend(Host& host, Key const* from, bool inclusive, Visit visit) {
    return Scan<Keys, Nodes>(core_).template run<true>(host, from, inclusive, visit);
  }
  /// The same in falling order; nullptr: from the greatest key.
  template <class Host, class Visit>
  Answer descend(Host& host, Key const* from, bool inclusive, Visit visit) {
    return Scan<Keys, Nodes>(core_).template run<false>(host, from, inclusive, visit);
  }

  /// Keys from `from` on that are below `to`; nullptr: no bound. Exact while nobody writes.
  template <class Host>
  Answer count(Host& host, Key const* from, Key const* to, std::uint64_t& keys) {
    keys = 0;
    return ascend(host, from, true, [&](std::uint64_t prefix, std::uint64_t word) {
      bool const within = to == nullptr || prefix < to->prefix ||
                          (prefix == to->prefix &&
                           Keys::compare(core_.leaves.keys().key_of(prefix, word), *to) < 0);
      keys += within;
      return within;
    });
  }

  /// find() of each key, for several side by side: while one waits for memory, others go on.
  template <class Host>
  void find_group(Host& host, std::span<Key const> keys, std::span<Answer> answers,
                  std::span<std::uint64_t> words) {
    PERDURE_ASSERT(answers.size() == keys.size() && words.size() == keys.size());
    Group<Keys, Nodes>(core_).find(host, keys, answers, words);
  }

  /// Fills an empty tree, which nobody else uses meanwhile, with entries (LoadedEntry) whose keys
  /// rise. Leaves are full, and laid down one after the other. Not ok: it is empty, as before.
  template <class Host, class Iterator, class End>
  Status bulk_load(Host& host, Iterator entries, End end) {
    Load<Keys, Nodes> load(core_);
    Answer answer = load.begin(host);
    std::uint64_t n = 0;
    for (; answer == Answer::done && entries != end; ++entries, ++n) {
      LoadedEntry const& entry = *entries;
      answer = load.add(host, entry.key, entry.word);
    }
    if (answer == Answer::done) load.finish(host);
    return load.why_not(answer, n - 1);
  }

  /// Of durable leaves, instead of create(): what an opening finds, and a tree above it.
  [[nodiscard]] Chain<Keys, Nodes> chain() { return Chain<Keys, Nodes>(core_); }
  /// The address of the leaf with the least keys, which stays the first for good.
  template <class Host>
  [[nodiscard]] std::uint64_t first_leaf(Host& host) const {
    return core_.nodes.address_of(core_.template descend<Side::first>(host, {}).leaf);
  }
  [[nodiscard]] Nodes& nodes() { return core_.nodes; }
  /// What Answer::full means.
  [[nodiscard]] Status why_full() {
    if constexpr (kDurable) {
      if (Status why = core_.nodes.refusal(); !why.ok())
        return {why.code(), "no room for a leaf of the tree: " + why.message()};
    }
    return {Code::no_space, "there is no memory for the tree"};
  }

  template <class Host>
  [[nodiscard]] Shape shape(Host& host) const {
    std::uint64_t version;
    auto const* const top = core_.top(host, version);
    unsigned const level = Core<Keys, Nodes>::Node::level_in(host.load(&top->shape));
    return {core_.leaf_count.load(), core_.inner_count.load(), level + 1,
            core_.nodes.bytes() + core_.inners.bytes()};
  }

 private:
  using Path = btree::Path<typename Core<Keys, Nodes>::Node>;

  /// operation(leaf, lock) under the lock of the leaf that has the key.
  template <class Host, class Operation>
  Answer in_leaf(Host& host, Key const& key, Operation operation) {
    for (;;) {
      Path const at = core_.template descend<Side::at>(host, key);
      NodeLock lock(host, &at.leaf->version, at.leaf_version);
      if (!lock.held()) continue;
      host.read(at.leaf, sizeof *at.leaf);
      return operation(*at.leaf, lock);
    }
  }

  Core<Keys, Nodes> core_;
  Splits<Keys, Nodes> splits_{core_};
  exec::Epochs epochs_;  // behind the core, whose nodes it frees
  Merges<Keys, Nodes> merges_{core_, epochs_};
};

}  // namespace perdure::btree
