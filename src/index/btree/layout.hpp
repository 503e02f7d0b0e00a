// What a B+-tree's nodes hold. Leaves are what counts: entries stay where they were written, and
// one word, the permutation, says which of them are in use and in which order. So whatever a crash
// leaves of an entry that no permutation names is nothing. Inner nodes lead to leaves; they live in
// DRAM alone, and recovery makes them anew from the chain of leaves.
//
// Invariants:
//
//  * The keys of a leaf rise in the order of its permutation, and all of them are below those of
//    the leaf that `next` leads to. Only a crash in the midst of a split or a merge leaves keys in
//    both: then the next leaf is whole, and what the former has at or above its least key is
//    dropped.
//  * The separators of an inner node rise. Child i has the keys from separator i - 1 on, up to
//    separator i.
//  * What an index below an inner node's count leads to is there: entries are stored before the
//    count that admits them, and what they led to is freed by epochs. So a reader may follow them
//    before it knows whether the node has changed meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace perdure::btree {

/// The order of a leaf's entries: bits 0..3 their number, then 4 bits a slot: first the slots in
/// use, in the order of their keys, then the free ones. Each slot stands there once.
class Permutation {
 public:
  static constexpr unsigned kSlots = 14;

  constexpr explicit Permutation(std::uint64_t word) : word_(word) {}
  /// Slots 0..n-1 in use, in this order.
  static constexpr Permutation of_first(unsigned n) {
    return Permutation(std::uint64_t{0xDCBA9876543210} << 4 | n);
  }

  /// These slots in use, in this order.
  static constexpr Permutation of_slots(unsigned const* slots, unsigned n) {
    Permutation order = of_first(0);
    for (unsigned rank = 0; rank < n; ++rank) {
      unsigned at = rank;
      while (order.slot(at) != slots[rank]) ++at;
      std::uint64_t const differ = std::uint64_t{order.slot(rank)} ^ slots[rank];
      order.word_ ^= differ << (4 * rank + 4) ^ differ << (4 * at + 4);
    }
    return Permutation(order.word_ | n);
  }

  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }
  [[nodiscard]] constexpr unsigned count() const { return static_cast<unsigned>(word_ & 15); }
  [[nodiscard]] constexpr bool full() const { return count() >= kSlots; }
  [[nodiscard]] constexpr unsigned slot(unsigned rank) const {
    return static_cast<unsigned>(word_ >> (4 * rank + 4) & 15);
  }
  /// Where the next entry is written.
  [[nodiscard]] constexpr unsigned free_slot() const { return slot(count()); }
  /// With the free slot in use at this rank.
  [[nodiscard]] constexpr Permutation inserted(unsigned rank) const {
    std::uint64_t const slots = word_ >> 4, in = slots >> (4 * count()) & 15;
    std::uint64_t const beyond = slots >> (4 * count() + 4) << 4 * count();
    std::uint64_t const rest = (slots & below(count())) | beyond;
    std::uint64_t const all = (rest & below(rank)) | in << 4 * rank | (rest & ~below(rank)) << 4;
    return Permutation(all << 4 | (count() + 1));
  }
  /// Without the entry at this rank: its slot is the next that is written.
  [[nodiscard]] constexpr Permutation erased(unsigned rank) const {
    std::uint64_t const slots = word_ >> 4, out = slots >> 4 * rank & 15;
    unsigned const last = count() - 1;
    std::uint64_t const moved = (slots & below(last + 1) & ~below(rank + 1)) >> 4;
    std::uint64_t const all =
        (slots & below(rank)) | moved | out << 4 * last | (slots & ~below(last + 1));
    return Permutation(all << 4 | last);
  }
  /// Only the first n of them.
  [[nodiscard]] constexpr Permutation first(unsigned n) const {
    return Permutation((word_ & ~std::uint64_t{15}) | n);
  }
  /// Whether a slot is in use: where it stands, all below differ from it, so the lowest zero among
  /// the differences is exact.
  [[nodiscard]] constexpr bool holds(unsigned slot) const {
    std::uint64_t const differing = (word_ >> 4) ^ kOnes * slot;
    return ((differing - kOnes) & ~differing & kOnes << 3 & below(count())) != 0;
  }
  /// Whether each slot stands there once, as in any word that a leaf was ever given.
  [[nodiscard]] constexpr bool valid() const {
    if (count() > kSlots || word_ >> (4 * kSlots + 4) != 0) return false;
    unsigned seen = 0;
    for (unsigned rank = 0; rank < kSlots; ++rank) seen |= 1u << slot(rank);
    return seen == (1u << kSlots) - 1;
  }
  /// Whether keys came in rising order: slots are taken in theirs.
  [[nodiscard]] constexpr bool rising() const {
    return ((word_ ^ of_first(0).word()) >> 4 & below(count())) == 0;
  }

 private:
  static constexpr std::uint64_t kOnes = 0x11111111111111;
  static constexpr std::uint64_t below(unsigned rank) { return (std::uint64_t{1} << 4 * rank) - 1; }
  std::uint64_t word_;
};

struct Entry {  // bytes
  std::uint64_t prefix;  // 0  the key's first 8 bytes, as a number; padded by zeros
  std::uint64_t word;  // 8
};

/// 256 bytes: four lines, and one of what persistent memory reads at once.
struct alignas(256) Leaf {  // bytes
  std::uint64_t version;  //   0  see versions.hpp; means nothing after a restart
  std::uint64_t permutation;  //   8  see Permutation
  std::uint64_t next;  //  16  address of the leaf with the keys that follow; 0 = the last
  std::uint64_t low;  //  24  no prefix is below it, and none of the leaf before above it
  Entry entries[Permutation::kSlots];  //  32
};
static_assert(sizeof(Entry) == 16 && sizeof(Leaf) == 256 && offsetof(Leaf, entries) == 32);
static_assert(std::has_unique_object_representations_v<Leaf>);
static_assert(64 % sizeof(Entry) == 0 && offsetof(Leaf, entries) % sizeof(Entry) == 0,
              "an entry lies in one cache line");

/// Says where the keys of one child end and those of the next begin.
struct Separator {
  std::uint64_t prefix = 0;
  std::uint64_t tail = 0;  // 0: the least key that has the prefix; else address of a KeyBytes
};

/// `kTails`: separators may be longer than their prefixes.
template <bool kTails>
struct alignas(64) Inner {
  static constexpr unsigned kMost = 62;  // separators: with the two words, whole lines
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // prefixes beyond the count

  std::uint64_t prefixes[kMost];
  std::uint64_t version;  // see versions.hpp
  std::uint64_t shape;  // bits 0..31 the count of separators, 32..63 the level, which stays
  std::uint64_t children[kMost + 1];  // addresses of leaves at level 1, else of inner nodes
  std::uint64_t tails[kTails ? kMost : 1];  // as Separator's

  [[nodiscard]] static unsigned count_in(std::uint64_t shape) {
    return static_cast<std::uint32_t>(shape);
  }
  [[nodiscard]] static unsigned level_in(std::uint64_t shape) {
    return static_cast<unsigned>(shape >> 32);
  }
};
static_assert(sizeof(Inner<false>) == 1024);

}  // namespace perdure::btree
