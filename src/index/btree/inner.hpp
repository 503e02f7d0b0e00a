// One inner node: which child has a key, and how separators come and go. Readers search without a
// lock and find out afterwards whether what they read holds (versions.hpp); whoever changes a node
// has its lock, and has said that it changes. Invariant: prefixes beyond the count are kNone, so a
// search compares the same number of them whatever the count is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"
#include "index/btree/keys.hpp"
#include "index/btree/layout.hpp"
#include "pm/stored.hpp"

namespace perdure::btree {

/// The key that a separator is.
template <class Tails>
[[nodiscard]] Key key_of(Tails const& tails, Separator const& separator) {
  if (separator.tail != 0) {
    KeyBytes* const bytes = tails.at(separator.tail);
    return {separator.prefix, bytes->bytes(), bytes->size};
  }
  std::uint64_t const prefix = separator.prefix;
  unsigned const zeros = prefix == 0 ? 8 : static_cast<unsigned>(__builtin_ctzll(prefix)) / 8;
  return {prefix, nullptr, 8 - zeros};
}

/// The shortest separator that is above `last` and not above `from`. False: there is no memory.
template <class Keys, class Host, class Tails>
[[nodiscard]] bool separate(Host& host, Tails& tails, Key const& last, Key const& from,
                            Separator& between) {
  between = {from.prefix, 0};
  if (!Keys::kTails || last.prefix != from.prefix) return true;
  std::size_t size = std::min<std::size_t>(8, last.size);
  while (size < last.size && last.bytes[size] == from.bytes[size]) ++size;
  size = std::min(size + 1, from.size);
  between.tail = tails.make(host, from.bytes, size);
  return between.tail != 0;
}

template <class Keys, class Tails>
class InnerOps {
 public:
  using Node = Inner<Keys::kTails>;

  template <class Host>
  [[nodiscard]] static Separator separator(Host& host, Node const& node, unsigned i) {
    Separator found{host.load(&node.prefixes[i]), 0};
    if constexpr (Keys::kTails) found.tail = host.load(&node.tails[i]);
    return found;
  }
  /// The child that has the key: how many separators are at or below it.
  template <class Host>
  [[nodiscard]] static unsigned child_of(Host& host, Tails const& tails, Node const& node,
                                         unsigned count, Key const& key) {
    unsigned const last = std::min(at_most(host, node, key.prefix), count);
    if constexpr (Keys::kTails)
      return search(host, tails, node, last, key, [](auto order) { return order <= 0; });
    return last;
  }
  /// The child that has the keys next below it: how many separators are below it.
  template <class Host>
  [[nodiscard]] static unsigned child_below(Host& host, Tails const& tails, Node const& node,
                                            unsigned count, Key const& key) {
    unsigned const last = std::min(at_most(host, node, key.prefix), count);
    return search(host, tails, node, last, key, [](auto order) { return order < 0; });
  }

  template <class Host>
  static void insert(Host& host, Node& node, unsigned i, Separator const& separator,
                     std::uint64_t child) {
    std::uint64_t const shape = host.load(&node.shape);
    unsigned const count = Node::count_in(shape);
    PERDURE_ASSERT(count < Node::kMost && i <= count);
    will_store(host, node, i, count + 1);
    for (unsigned at = count; at > i; --at) {
      move(host, node, at - 1, node, at);
      host.store(&node.children[at + 1], host.load(&node.children[at]));
    }
    put(host, node, i, separator);
    host.store(&node.children[i + 1], child);
    host.store(&node.shape, shape + 1);
  }
  /// Without separator i and the child behind it.
  template <class Host>
  static void erase(Host& host, Node& node, unsigned i) {
    std::uint64_t const shape = host.load(&node.shape);
    unsigned const count = Node::count_in(shape);
    PERDURE_ASSERT(i < count);
    will_store(host, node, i, count);
    host.store(&node.shape, shape - 1);
    for (unsigned at = i; at + 1 < count; ++at) {
      move(host, node, at + 1, node, at);
      host.store(&node.children[at + 1], host.load(&node.children[at + 2]));
    }
    host.store(&node.prefixes[count - 1], Node::kNone);
  }
  /// A node that nobody else sees yet, with one child.
  template <class Host>
  static void begin(Host& host, Node& node, unsigned level, std::uint64_t child) {
    host.store(&node.version, 0);
    host.store(&node.shape, std::uint64_t{level} << 32);
    host.store(&node.children[0], child);
    for (std::uint64_t& prefix : node.prefixes) host.store(&prefix, Node::kNone);
  }
  /// Moves what is behind separator i to `right`, which is new; the caller takes the separator.
  template <class Host>
  static void split(Host& host, Node& node, unsigned i, Node& right) {
    std::uint64_t const shape = host.load(&node.shape);
    unsigned const count = Node::count_in(shape);
    begin(host, right, Node::level_in(shape), host.load(&node.children[i + 1]));
    append(host, right, node, i + 1, count);
    pm::will_store(host, {{&node.prefixes[i], (count - i) * sizeof node.prefixes[i]},
                          {&node.shape, sizeof node.shape}});
    host.store(&node.shape, shape - (count - i));
    for (unsigned at = i; at < count; ++at) host.store(&node.prefixes[at], Node::kNone);
  }
  /// Moves all that `right` has to `node`, behind this separator.
  template <class Host>
  static void join(Host& host, Node& node, Separator const& between, Node& right) {
    unsigned const count = Node::count_in(host.load(&node.shape));
    unsigned const more = Node::count_in(host.load(&right.shape));
    PERDURE_ASSERT(count + 1 + more <= Node::kMost);
    insert(host, node, count, between, host.load(&right.children[0]));
    append(host, node, right, 0, more);
  }

 private:
  /// To separators i..end-1, the children behind them, and their number.
  template <class Host>
  static void will_store(Host& host, Node const& node, unsigned i, unsigned end) {
    std::size_t const bytes = (end - i) * sizeof node.prefixes[i];
    pm::will_store(host, {{&node.prefixes[i], bytes},
                          {&node.shape, sizeof node.shape},
                          {&node.children[i + 1], bytes},
                          {&node.tails[Keys::kTails ? i : 0], Keys::kTails ? bytes : 0}});
  }
  /// How many prefixes are at or below this one: of every eighth, then of the eight.
  template <class Host>
  [[nodiscard]] static unsigned at_most(Host& host, Node const& node, std::uint64_t prefix) {
    static_assert(Node::kMost == 62);
    unsigned eights = 0;
#pragma GCC unroll 7
    for (unsigned i = 0; i < 7; ++i) eights += host.load(&node.prefixes[8 * i + 7]) <= prefix;
    std::uint64_t const* const from = &node.prefixes[std::size_t{8} * eights];
    unsigned n = 8 * eights;
#pragma GCC unroll 6
    for (unsigned i = 0; i < 6; ++i) n += host.load(from + i) <= prefix;
    unsigned const seventh = eights < 7;  // the last eight are six
    return n + (seventh & (host.load(from + 5 + seventh) <= prefix));
  }
  /// Of the first `last` separators, which are all that do not have a greater prefix, those for
  /// which `counts(order of the separator to the key)`.
  template <class Host, class Counts>
  [[nodiscard]] static unsigned search(Host& host, Tails const& tails, Node const& node,
                                       unsigned last, Key const& key, Counts counts) {
    if (last == 0 || host.load(&node.prefixes[last - 1]) != key.prefix) return last;
    if constexpr (!Keys::kTails) return last - !counts(std::strong_ordering::equal);
    unsigned first = key.prefix == 0 ? 0 : std::min(at_most(host, node, key.prefix - 1), last);
    while (first < last) {
      unsigned const middle = (first + last) / 2;
      if (counts(order(tails, separator(host, node, middle), key)))
        first = middle + 1;
      else
        last = middle;
    }
    return first;
  }
  /// Of a separator that has the key's prefix.
  [[nodiscard]] static std::strong_ordering order(Tails const& tails, Separator const& separator,
                                                  Key const& key) {
    Key const of_separator = key_of(tails, separator);
    return separator.tail != 0 ? Keys::compare(of_separator, key) : of_separator.size <=> key.size;
  }
  template <class Host>
  static void put(Host& host, Node& node, unsigned i, Separator const& separator) {
    host.store(&node.prefixes[i], separator.prefix);
    if constexpr (Keys::kTails) host.store(&node.tails[i], separator.tail);
  }
  template <class Host>
  static void move(Host& host, Node const& from, unsigned i, Node& to, unsigned at) {
    put(host, to, at, separator(host, from, i));
  }
  /// Separators i..end-1 of `from`, and the children behind them.
  template <class Host>
  static void append(Host& host, Node& to, Node const& from, unsigned i, unsigned end) {
    std::uint64_t const shape = host.load(&to.shape);
    unsigned at = Node::count_in(shape);
    will_store(host, to, at, at + (end - i));
    for (; i < end; ++i, ++at) {
      move(host, from, i, to, at);
      host.store(&to.children[at + 1], host.load(&from.children[i + 1]));
    }
    host.store(&to.shape, shape - Node::count_in(shape) + at);
  }
};

}  // namespace perdure::btree
