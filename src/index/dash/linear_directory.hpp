// The numbers of Dash-LH's segments, and the volatile directory that leads from them to places. A
// hash's segment is named by its first bits, read backwards, so that segments number themselves 0,
// 1, 2, ... as there come to be more, and still each has one range of hashes. Invariants: word
// `directory` of the root says how many segments there are, and changes before the volatile copy of
// it does; an entry is 0 until its segment has been entered.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/zero_words.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/layout.hpp"
#include "index/dash/shortcuts.hpp"
#include "index/dash/table_core.hpp"

namespace perdure::dash {

/// How many segments there are: first << rounds, and `next` more.
struct Extents {
  // rounds, those that the first segments stand for among them
  static constexpr std::uint32_t kMostRounds = Extent::kMostDepth;
  std::uint64_t word = 0;
  [[nodiscard]] std::uint32_t rounds() const { return static_cast<std::uint32_t>(word >> 32); }
  [[nodiscard]] std::uint64_t next() const { return word & 0xffffffffu; }
};

[[nodiscard]] PERDURE_HOT std::uint64_t backwards(std::uint64_t hash) {
  std::uint64_t x = __builtin_bswap64(hash);
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  return (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
}
/// Least hash of segment i, of however many.
[[nodiscard]] inline std::uint64_t start_of(std::uint64_t i) { return backwards(i); }

template <class Core>
class LinearDirectory {
 public:
  explicit LinearDirectory(Core& core) : core_(core) {}

  template <class Host>
  void begin(Host& host) {
    first_ = host.load(&core_.root->first);
    depth_ = static_cast<std::uint32_t>(std::countr_zero(first_));
    PERDURE_ASSERT(std::has_single_bit(first_) && depth_ > 0);
    host.store(&extents_, host.load(&core_.root->directory));
    std::uint64_t const most = std::max<std::uint64_t>(most_segments(), 2);
    entries_ = ZeroWords(most);
    PERDURE_ASSERT(segments(host) <= most);
    shortcuts_.begin(host, bits_for(segments(host)), bits_for(most));
  }

  /// What searches go by; where a shortcut leads to nothing, its hashes' segment is found by its
  /// number, and note() may store it.
  [[nodiscard]] Shortcuts const& shortcuts() const { return shortcuts_; }
  /// This hash's segment was found by its number to be the one at `address`: if it still is, the
  /// shortcut leads there. Nobody names more segments meanwhile: a shortcut stored after that would
  /// lead to a segment that is split by then.
  template <class Host>
  void note(Host& host, std::uint64_t hash, std::uint64_t address) {
    bool const late = mutated("dash_shortcut_noted_late");
    exec::SharedHold held(host, growing_);
    if (late || present(host, hash) == address) shortcuts_.store(host, hash, address);
  }

  template <class Host>
  [[nodiscard]] std::uint64_t index_of(Host& host, std::uint64_t hash) const {
    return index_in({host.load(&extents_)}, hash);
  }
  /// Address of the segment, or 0 where it has to be entered first.
  [[nodiscard]] std::uint64_t& entry_at(std::uint64_t i) const { return entries_[i]; }
  template <class Host>
  [[nodiscard]] std::uint64_t present(Host& host, std::uint64_t hash) const {
    return host.load(&entry_at(index_of(host, hash)));
  }

  template <class Host>
  [[nodiscard]] std::uint64_t segments(Host& host) const {
    Extents const now{host.load(&extents_)};
    return (first_ << now.rounds()) + now.next();
  }
  /// Of the segments that were split in no round that has not ended.
  template <class Host>
  [[nodiscard]] std::uint32_t depth(Host& host) const {
    return depth_ + Extents{host.load(&extents_)}.rounds();
  }
  /// Bits of its hashes that name segment i, once it is what it is to be.
  template <class Host>
  [[nodiscard]] std::uint32_t depth_of(Host& host, std::uint64_t i) const {
    Extents const now{host.load(&extents_)};
    return depth_ + now.rounds() + (i < now.next() || i >= first_ << now.rounds() ? 1 : 0);
  }
  /// As many as it began with, whenever it did.
  [[nodiscard]] std::uint32_t least_depth_of(std::uint64_t i) const {
    return was_there_first(i) ? depth_ : static_cast<std::uint32_t>(std::bit_width(i));
  }
  /// Whether it was split off from none.
  [[nodiscard]] bool was_there_first(std::uint64_t i) const { return i < first_; }

  /// One segment more, for which `arrays` makes room; its keys stay where they are until somebody
  /// wants them.
  template <class Host, class Arrays>
  Status expand(Host& host, Arrays& arrays) {
    exec::ExclusiveHold const held(host, growing_);
    Extents const now{host.load(&extents_)};
    std::uint64_t const all = first_ << now.rounds();
    std::uint64_t const i = all + now.next();
    if (Status s = arrays.back(host, i); !s.ok()) return s;
    if (now.rounds() + depth_ + 2 >= Extents::kMostRounds)
      return {Code::no_space, "the index has as many segments as it can"};
    PERDURE_ASSERT(now.next() < all);  // a round has as many as there were
    PERDURE_ASSERT(i < most_segments());
    bool const ends = now.next() + 1 == all;
    std::uint64_t const word = ends ? std::uint64_t{now.rounds() + 1} << 32 : now.word + 1;
    // What is stored for these bits leads astray from now on, and nobody stores it again before the
    // new segment is named.
    shortcuts_.use_bits(host, bits_for(i + 1));
    shortcuts_.store(host, start_of(i), 0);
    host.store(&core_.root->directory, word);
    host.persist(&core_.root->directory, sizeof word);
    host.store(&extents_, word);
    return {};
  }

 private:
  [[nodiscard]] PERDURE_HOT std::uint64_t index_in(Extents now, std::uint64_t hash) const {
    std::uint64_t const bits = backwards(hash);
    std::uint64_t const all = first_ << now.rounds();
    // As likely as not in the middle of a round: no branch could be foreseen.
    std::uint64_t const was_split = -std::uint64_t{(bits & (all - 1)) < now.next()};
    return bits & ((all - 1) | (all & was_split));
  }
  /// Bits of a hash that tell so many segments apart.
  [[nodiscard]] static std::uint32_t bits_for(std::uint64_t segments) {
    return static_cast<std::uint32_t>(std::bit_width(segments - 1));
  }
  /// As many as the pool's addresses have room for.
  [[nodiscard]] std::uint64_t most_segments() const {
    return core_.pool->addresses().size() / core_.ops.shape().bytes();
  }

  std::uint64_t first_ = 0;  // segments to begin with, 2^depth_
  std::uint32_t depth_ = 0;
  std::uint64_t extents_ = 0;  // what word `directory` says
  ZeroWords entries_;  // of all segments that there can ever be; see Shortcuts
  Shortcuts shortcuts_;
  exec::ReaderWriterLock growing_;
  Core& core_;
};

}  // namespace perdure::dash
