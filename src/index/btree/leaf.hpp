// One leaf: found in without a lock, changed under it (versions.hpp). Invariants:
//
//  * An entry is written and ordered before the permutation that shows it is stored. An update is
//    one store of the entry's word, an erasure one store of the permutation. So a crash leaves each
//    of them done or not done.
//  * What an operation did is ordered before it lets the lock go.
//  * A slot that was in use is written again only after the version was raised: who read the old
//    permutation finds out.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/btree/keys.hpp"
#include "index/btree/layout.hpp"
#include "index/btree/versions.hpp"
#include "pm/stored.hpp"

namespace perdure::btree {

enum class Answer : std::uint8_t {
  done,
  not_found,
  exists,  // an insert found the key there
  full,  // there is no memory; nothing was changed
  damaged,  // a record that had to be compared cannot be read; nothing was changed
};
enum class Write : std::uint8_t {
  put,  // whether the key is there or not
  insert,  // only where it is not
  update,  // only where it is
};

template <class Keys>
class LeafOps {
 public:
  explicit LeafOps(Keys keys) : keys_(keys) {}

  /// Where a key is in a leaf's order, or would be.
  struct Rank {
    unsigned rank = 0;  // keys below it
    bool found = false;
    bool damaged = false;
  };

  /// An empty leaf, which nobody else sees yet.
  template <class Host>
  static void begin(Host& host, Leaf& leaf) {
    host.store(&leaf.version, 0);
    host.store(&leaf.permutation, Permutation::of_first(0).word());
    host.store(&leaf.next, 0);
    host.store(&leaf.low, 0);
    host.persist(&leaf, sizeof leaf);
  }
  template <class Host>
  static Permutation permutation(Host& host, Leaf const& leaf) {
    return Permutation(host.load(&leaf.permutation));
  }
  template <class Host>
  static Entry entry(Host& host, Leaf const& leaf, unsigned slot) {
    return {host.load(&leaf.entries[slot].prefix), host.load(&leaf.entries[slot].word)};
  }

  template <class Host>
  [[nodiscard]] Rank rank_of(Host& host, Leaf const& leaf, Permutation order,
                             Key const& key) const {
    if constexpr (Keys::kTails) return rank_of_bytes(host, leaf, order, key);
    Rank at;
#pragma GCC unroll 14
    for (unsigned i = 0; i < Permutation::kSlots; ++i) {
      std::uint64_t const prefix = host.load(&leaf.entries[order.slot(i)].prefix);
      at.rank += static_cast<unsigned>(i < order.count()) & (prefix < key.prefix);
    }
    at.found = at.rank < order.count() &&
               host.load(&leaf.entries[order.slot(at.rank)].prefix) == key.prefix;
    return at;
  }

  /// Holds if the leaf's version stays what it was.
  template <class Host>
  Answer find(Host& host, Leaf const& leaf, Key const& key, std::uint64_t& word) const {
    Permutation const order = permutation(host, leaf);
    if constexpr (Keys::kTails) {
      Rank const at = rank_of_bytes(host, leaf, order, key);
      if (at.found) word = host.load(&leaf.entries[order.slot(at.rank)].word);
      return at.damaged ? Answer::damaged : at.found ? Answer::done : Answer::not_found;
    }
    unsigned alike = 0;
#pragma GCC unroll 14
    for (unsigned i = 0; i < Permutation::kSlots; ++i)
      alike |= static_cast<unsigned>(host.load(&leaf.entries[i].prefix) == key.prefix) << i;
    for (; alike != 0; alike &= alike - 1) {  // free slots keep what they held
      auto const slot = static_cast<unsigned>(std::countr_zero(alike));
      if (!order.holds(slot)) continue;
      word = host.load(&leaf.entries[slot].word);
      return Answer::done;
    }
    return Answer::not_found;
  }

  // --- Under the leaf's lock
  // -----------------------------------------------------------------------------------------------

  /// Answer::full: the leaf is.
  template <class Host>
  Answer write(Host& host, Leaf& leaf, Key const& key, std::uint64_t word, Write how,
               std::optional<std::uint64_t>& before) const {
    Permutation const order = permutation(host, leaf);
    Rank const at = rank_of(host, leaf, order, key);
    if (at.damaged) return Answer::damaged;
    if (at.found) {
      std::uint64_t& there = leaf.entries[order.slot(at.rank)].word;
      before = host.load(&there);
      if (how == Write::insert) return Answer::exists;
      replace(host, there, word);
      return Answer::done;
    }
    if (how == Write::update) return Answer::not_found;
    if (order.full()) return Answer::full;
    Entry& free = leaf.entries[order.free_slot()];
    pm::will_store(host, {{&free, sizeof free}, {&leaf.permutation, sizeof leaf.permutation}});
    if (mutated("btree_permutation_before_entry")) publish(host, leaf, order.inserted(at.rank));
    put(host, free, {key.prefix, word});
    host.persist(&free, sizeof free);
    publish(host, leaf, order.inserted(at.rank));
    return Answer::done;
  }

  template <class Host, class Change>
  Answer modify(Host& host, Leaf& leaf, Key const& key, Change change,
                std::uint64_t& before) const {
    Permutation const order = permutation(host, leaf);
    Rank const at = rank_of(host, leaf, order, key);
    if (!at.found) return at.damaged ? Answer::damaged : Answer::not_found;
    std::uint64_t& there = leaf.entries[order.slot(at.rank)].word;
    before = host.load(&there);
    if (std::uint64_t const word = change(before); word != before) replace(host, there, word);
    return Answer::done;
  }

  template <class Host, class Last>
  Answer erase(Host& host, Leaf& leaf, NodeLock<Host>& lock, Key const& key, Last last,
               std::uint64_t& before) const {
    Permutation const order = permutation(host, leaf);
    Rank const at = rank_of(host, leaf, order, key);
    if (!at.found) return at.damaged ? Answer::damaged : Answer::not_found;
    before = host.load(&leaf.entries[order.slot(at.rank)].word);
    last(before);
    if (!mutated("btree_erase_not_raised")) lock.raises();  // the slot is free
    publish(host, leaf, order.erased(at.rank));
    return Answer::done;
  }

  template <class Host>
  static void put(Host& host, Entry& at, Entry const& entry) {
    host.store(&at.prefix, entry.prefix);
    host.store(&at.word, entry.word);
  }
  template <class Host>
  static void publish(Host& host, Leaf& leaf, Permutation order) {
    host.store(&leaf.permutation, order.word());
    host.persist(&leaf.permutation, sizeof leaf.permutation);
  }

  [[nodiscard]] Keys const& keys() const { return keys_; }

 private:
  template <class Host>
  static void replace(Host& host, std::uint64_t& at, std::uint64_t word) {
    host.store(&at, word);
    if (!mutated("leaves_word_not_durable")) host.persist(&at, sizeof at);
  }
  /// Records are looked at only where prefixes are equal.
  template <class Host>
  [[nodiscard]] Rank rank_of_bytes(Host& host, Leaf const& leaf, Permutation order,
                                   Key const& key) const {
    unsigned first = 0, last = order.count();
    while (first < last) {
      unsigned const middle = (first + last) / 2;
      Entry const there = entry(host, leaf, order.slot(middle));
      std::strong_ordering way = there.prefix <=> key.prefix;
      if (way == 0) {
        Key const known = keys_.key_of(there.prefix, there.word);
        if (!Keys::readable(known)) return {middle, false, true};
        way = Keys::compare(known, key);
      }
      if (way == 0) return {middle, true, false};
      if (way < 0)
        first = middle + 1;
      else
        last = middle;
    }
    return {first, false, false};
  }

  Keys keys_;
};

}  // namespace perdure::btree
