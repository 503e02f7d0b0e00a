// The chain of leaves that an earlier tree left in durable memory (the thesis's section 2.4, index
// persistence): whether it is whole, what a crash left half done in it, and inner nodes above it.
// Entries' records are asked about as `Records`:
//
//   use(word)       notes that the record is in use: a RecordMark
//   intact(word)    whether the record may be read; asked only where leaves are told apart by more
//                   than prefixes
//
// Invariants: walk(), check() and build() change nothing that is durable; settle() changes nothing
// that another crash could not come in the midst of. What check() finds wrong no crash explains.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/btree/core.hpp"
#include "index/btree/edge.hpp"

namespace perdure::btree {

enum class RecordMark : std::uint8_t { first, again, invalid };

struct ChainFound {
  static constexpr std::size_t kMost = 100;  // faults that are named

  std::uint64_t records = 0;  // entries that count
  std::uint64_t sum = 0;  // of all that the leaves say, in any order
  std::uint64_t faults = 0;
  std::vector<std::string> wrong;
  /// A leaf that has entries of the next one still, behind those that stay.
  struct Leftover {
    std::uint64_t leaf;
    unsigned kept;
  };
  std::vector<Leftover> leftovers;
  std::vector<std::uint64_t> locked;  // leaves
  std::uint64_t broken = 0;  // the leaf from which the chain leads nowhere; 0: none

  void add_fault(std::uint64_t leaf, std::string const& what) {
    ++faults;
    if (wrong.size() < kMost)
      wrong.push_back("the leaf at byte " + std::to_string(leaf) + ": " + what);
  }
  void add(ChainFound const& other) {
    records += other.records;
    sum += other.sum;
    faults += other.faults;
    std::size_t const room = std::min(kMost - wrong.size(), other.wrong.size());
    wrong.insert(wrong.end(), other.wrong.begin(),
                 other.wrong.begin() + static_cast<std::ptrdiff_t>(room));
    leftovers.insert(leftovers.end(), other.leftovers.begin(), other.leftovers.end());
    locked.insert(locked.end(), other.locked.begin(), other.locked.end());
  }
  /// How many of a leaf's entries count.
  [[nodiscard]] unsigned kept(std::uint64_t leaf, unsigned count) const {
    for (Leftover const& each : leftovers)
      if (each.leaf == leaf) return each.kept;
    return count;
  }
};

/// Empty leaves that the tree was built without.
struct Unlinked {
  std::uint64_t before = 0;  // the leaf that is to lead past them
  std::uint64_t next = 0;  // to there
  std::vector<std::uint64_t> leaves;
};

template <class Keys, class Nodes>
class Chain {
  using Tree = Core<Keys, Nodes>;

 public:
  explicit Chain(Tree& core) : core_(core) {}

  /// The leaves in their order, from the one that the pool names. mark(address) as Nodes has it.
  /// Not whole: what is wrong is in `found`, and leaves are those before that.
  template <class Host, class Mark>
  std::vector<std::uint64_t> walk(Host& host, std::uint64_t first, Mark mark, ChainFound& found) {
    using Come = decltype(mark(first));
    std::vector<std::uint64_t> leaves;
    for (std::uint64_t at = first, from = 0; at != 0; at = host.load(&leaf_at(at).next)) {
      Come const come = mark(at);
      if (come != Come::first && from == 0) {
        ++found.faults;
        found.wrong.push_back("the root leads to byte " + std::to_string(at) +
                              ", where no leaf of its tree lies");
        break;
      }
      if (come != Come::first) {
        found.broken = from;
        found.add_fault(from, come == Come::again
                                  ? "it leads back to the leaf at byte " + std::to_string(at)
                                  : "it leads to byte " + std::to_string(at) + ", which is none");
        break;
      }
      leaves.push_back(at);
      from = at;
    }
    return leaves;
  }

  /// Leaves from..end-1 of all; any number of threads, of leaves of their own.
  template <class Host, class Records>
  void check(Host& host, std::span<std::uint64_t const> leaves, std::size_t from, std::size_t end,
             Records& records, ChainFound& found) const {
    for (std::size_t i = from; i < end; ++i) {
      if (i + kAhead < leaves.size()) core_.prefetch_leaf(host, &leaf_at(leaves[i + kAhead]));
      check_leaf(host, leaves, i, records, found);
    }
  }

  /// Inner nodes above what check() found whole. The tree has these keys from now on, and leaves
  /// out empty leaves, but for the first. False: there is no memory, and no tree.
  template <class Host>
  [[nodiscard]] bool build(Host& host, std::span<std::uint64_t const> leaves,
                           ChainFound const& found, std::vector<Unlinked>& unlinked) {
    PERDURE_ASSERT(!leaves.empty() && found.faults == 0);
    Edge<Keys, Nodes> edge(core_);
    if (!edge.begin(host, leaves[0])) return false;
    std::uint64_t last = leaves[0];
    for (std::size_t i = 1; i < leaves.size(); ++i) {
      if (i + kAhead < leaves.size()) core_.prefetch_leaf(host, &leaf_at(leaves[i + kAhead]));
      if (kept(host, leaves[i], found) == 0) {
        leave_out(host, last, leaves[i], unlinked);
        continue;
      }
      Separator between;
      if (!separator(host, last, leaves[i], found, between)) return false;
      if (!edge.add(host, between, leaves[i])) {
        core_.tails.give(between.tail);
        return false;
      }
      last = leaves[i];
    }
    edge.finish(host);
    return true;
  }

  /// Durably: what a crash left half done. The caller may give back what was unlinked then.
  template <class Host>
  void settle(Host& host, ChainFound const& found, std::vector<Unlinked> const& unlinked) {
    for (ChainFound::Leftover const& each : found.leftovers) {
      if (mutated("leaves_leftovers_kept")) break;
      Leaf& leaf = leaf_at(each.leaf);
      Permutation const order = core_.leaves.permutation(host, leaf);
      core_.leaves.publish(host, leaf, order.first(each.kept));
    }
    for (Unlinked const& each : unlinked) {
      Leaf& leaf = leaf_at(each.before);
      host.store(&leaf.next, each.next);
      host.persist(&leaf.next, sizeof leaf.next);
    }
    for (std::uint64_t const each : found.locked)
      if (!mutated("leaves_locks_kept")) host.store(&leaf_at(each).version, 0);
  }

  /// Of all that a leaf says: whatever changes of it changes the sum.
  template <class Host>
  [[nodiscard]] static std::uint64_t sum_of(Host& host, std::uint64_t at, Leaf const& leaf) {
    std::uint64_t sum = at;
    auto const add = [&](std::uint64_t word) {
      constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
      sum = (sum ^ word) * kOdd;
      sum ^= sum >> 32;
    };
    Permutation const order = LeafOps<Keys>::permutation(host, leaf);
    add(order.word());
    add(host.load(&leaf.next));
    add(host.load(&leaf.low));
    for (unsigned rank = 0; rank < std::min(order.count(), Permutation::kSlots); ++rank) {
      Entry const each = LeafOps<Keys>::entry(host, leaf, order.slot(rank) % Permutation::kSlots);
      add(each.prefix);
      add(each.word);
    }
    return sum;
  }

 private:
  static constexpr std::size_t kAhead = 4;  // leaves that are brought near before they are read

  [[nodiscard]] Leaf& leaf_at(std::uint64_t address) const { return *core_.nodes.at(address); }
  template <class Host>
  [[nodiscard]] unsigned kept(Host& host, std::uint64_t leaf, ChainFound const& found) const {
    return found.kept(leaf, core_.leaves.permutation(host, leaf_at(leaf)).count());
  }
  template <class Host>
  [[nodiscard]] Entry entry(Host& host, std::uint64_t leaf, unsigned rank) const {
    Leaf const& from = leaf_at(leaf);
    return core_.leaves.entry(host, from, core_.leaves.permutation(host, from).slot(rank));
  }

  template <class Host, class Records>
  void check_leaf(Host& host, std::span<std::uint64_t const> leaves, std::size_t i,
                  Records& records, ChainFound& found) const {
    std::uint64_t const at = leaves[i];
    Leaf const& leaf = leaf_at(at);
    host.read(&leaf, sizeof leaf);
    Permutation const order = core_.leaves.permutation(host, leaf);
    found.sum += sum_of(host, at, leaf);
    if ((host.load(&leaf.version) & (kLocked | kChanging)) != 0) found.locked.push_back(at);
    if (!order.valid()) return found.add_fault(at, "the order of its entries is none");
    if (order.count() == 0) return;
    std::size_t next = i + 1;
    while (next < leaves.size() && count_of(host, leaves[next]) == 0) ++next;
    unsigned count = order.count();
    if (next < leaves.size()) count = check_ends(host, at, count, leaves[next], records, found);
    std::uint64_t least = host.load(&leaf.low);
    for (unsigned rank = 0; rank < count; ++rank) {
      Entry const each = core_.leaves.entry(host, leaf, order.slot(rank));
      bool const rises = rank == 0 || Keys::kTails ? each.prefix >= least : each.prefix > least;
      if (!rises) found.add_fault(at, "its keys do not rise");
      least = each.prefix;
      check_record(at, each.word, records, found);
    }
    found.records += count;
  }
  /// 0 where the order is none: the leaf's own check says so.
  template <class Host>
  [[nodiscard]] unsigned count_of(Host& host, std::uint64_t leaf) const {
    Permutation const order = core_.leaves.permutation(host, leaf_at(leaf));
    return order.valid() ? order.count() : 0;
  }
  template <class Records>
  static void check_record(std::uint64_t leaf, std::uint64_t word, Records& records,
                           ChainFound& found) {
    RecordMark const mark = records.use(word);
    if (mark == RecordMark::first) return;
    std::string const where = std::to_string(word);
    found.add_fault(leaf, mark == RecordMark::again
                              ? "another entry leads to the record at byte " + where + ", too"
                              : "an entry leads to byte " + where + ", where no record lies");
  }

  /// How many entries of a leaf stay before those of the next that has some.
  template <class Host, class Records>
  unsigned check_ends(Host& host, std::uint64_t at, unsigned count, std::uint64_t next,
                      Records& records, ChainFound& found) const {
    if (unsigned const stay = without_leftovers(host, at, count, next); stay != count) {
      found.leftovers.push_back({at, stay});
      if (stay == 0) return 0;
      count = stay;
    }
    Entry const last = entry(host, at, count - 1), first = entry(host, next, 0);
    std::uint64_t const low = host.load(&leaf_at(next).low);
    bool apart = Keys::kTails ? last.prefix <= low : last.prefix < low;
    if (Keys::kTails && apart && last.prefix == first.prefix) {
      if (!records.intact(last.word) || !records.intact(first.word)) {
        found.add_fault(at, "the record at byte " + std::to_string(last.word) + " or the one at " +
                                std::to_string(first.word) + ", by whose keys it ends, is damaged");
        return count;
      }
      apart = Keys::compare(key_of(last), key_of(first)) < 0;
    }
    if (!apart)
      found.add_fault(
          at, "its keys do not end before those of the leaf at byte " + std::to_string(next));
    return count;
  }
  /// A split or a merge leaves all entries of the next leaf at the end of this one (layout.hpp).
  template <class Host>
  unsigned without_leftovers(Host& host, std::uint64_t at, unsigned count,
                             std::uint64_t next) const {
    unsigned const more = count_of(host, next);
    if (more > count) return count;
    for (unsigned i = 1; i <= more; ++i) {
      Entry const here = entry(host, at, count - i), there = entry(host, next, more - i);
      if (here.prefix != there.prefix || here.word != there.word) return count;
    }
    return count - more;
  }
  [[nodiscard]] Key key_of(Entry const& entry) const {
    return core_.leaves.keys().key_of(entry.prefix, entry.word);
  }

  /// Between two leaves that the tree has, of which the second has entries. Where `low` tells them
  /// apart it does so from now on, as before. False: there is no memory.
  template <class Host>
  bool separator(Host& host, std::uint64_t left, std::uint64_t right, ChainFound const& found,
                 Separator& between) {
    between = {host.load(&leaf_at(right).low), 0};
    unsigned const count = kept(host, left, found);
    if (!Keys::kTails || count == 0) return true;
    Entry const last = entry(host, left, count - 1), first = entry(host, right, 0);
    if (last.prefix < between.prefix) return true;
    if (last.prefix < first.prefix) {
      ++between.prefix;
      return true;
    }
    return separate<Keys>(host, core_.tails, key_of(last), key_of(first), between);
  }
  template <class Host>
  void leave_out(Host& host, std::uint64_t before, std::uint64_t leaf,
                 std::vector<Unlinked>& unlinked) const {
    if (unlinked.empty() || unlinked.back().before != before) unlinked.push_back({before, 0, {}});
    unlinked.back().leaves.push_back(leaf);
    unlinked.back().next = host.load(&leaf_at(leaf).next);
  }

  Tree& core_;
};

}  // namespace perdure::btree
