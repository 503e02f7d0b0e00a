// The numbers of Dash-LH's segments, and the volatile directory that leads from them to places. A
// hash's segment is named by its first bits, read backwards, so that segments number themselves 0,
// 1, 2, ... as there come to be more, and still each has one range of hashes. Invariants: word
// `directory` of the root says how many segments there are, and changes before the volatile copy of
// it does; an entry is 0 until its segment has been entered.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/zero_words.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/layout.hpp"
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

[[nodiscard]] inline std::uint64_t backwards(std::uint64_t hash) {
  std::uint64_t x = __builtin_bswap64(hash);
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  return (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
}
/// Least hash of segment i, of however many.
[[nodiscard]] inline std::uint64_t start_of(std::uint64_t i) { return backwards(i); }

/// A chunk for what the opening's round brings it to, one for each round after it.
template <class Core>
class LinearDirectory {
 public:
  explicit LinearDirectory(Core& core) : core_(core) {}

  template <class Host>
  void begin(Host& host) {
    first_ = host.load(&core_.root->first);
    depth_ = static_cast<std::uint32_t>(std::countr_zero(first_));
    PERDURE_ASSERT(std::has_single_bit(first_) && depth_ > 0);
    std::uint64_t const word = host.load(&core_.root->directory);
    chunk_depth_ = depth_ + Extents{word}.rounds() + 1;
    chunks_[0] = ZeroWords(std::size_t{1} << chunk_depth_);
    host.store(&extents_, word);
  }

  template <class Host>
  [[nodiscard]] std::uint64_t index_of(Host& host, std::uint64_t hash) const {
    Extents const now{host.load(&extents_)};
    std::uint64_t const bits = backwards(hash);
    std::uint64_t const all = first_ << now.rounds();
    std::uint64_t const i = bits & (all - 1);
    return i >= now.next() ? i : bits & (2 * all - 1);
  }
  /// Address of the segment, or 0 where it has to be entered first.
  [[nodiscard]] std::uint64_t& entry_at(std::uint64_t i) const {
    std::uint64_t const above = i >> chunk_depth_;
    if (above == 0) return chunks_[0][i];
    return chunks_[static_cast<std::size_t>(std::bit_width(above))][i - std::bit_floor(i)];
  }
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
    bool const ends = now.next() + 1 == all;
    std::uint64_t const word = ends ? std::uint64_t{now.rounds() + 1} << 32 : now.word + 1;
    if (ends) make_chunk(depth_ + now.rounds() + 1);
    host.store(&core_.root->directory, word);
    host.persist(&core_.root->directory, sizeof word);
    host.store(&extents_, word);
    return {};
  }

 private:
  /// For the segments 2^depth, ..., 2^(depth + 1) - 1.
  void make_chunk(std::uint32_t depth) {
    ZeroWords& chunk = chunks_[depth - chunk_depth_ + 1];
    if (!chunk) chunk = ZeroWords(std::size_t{1} << depth);
  }

  std::uint64_t first_ = 0;  // segments to begin with, 2^depth_
  std::uint32_t depth_ = 0;
  std::uint64_t extents_ = 0;  // what word `directory` says
  std::uint32_t chunk_depth_ = 0;  // of chunk 0
  std::array<ZeroWords, Extents::kMostRounds + 2> chunks_;
  exec::ReaderWriterLock growing_;
  Core& core_;
};

}  // namespace perdure::dash
