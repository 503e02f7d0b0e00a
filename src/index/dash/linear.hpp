// Dash-LH: segments that split in a fixed order, full or not, each time some segment has to chain a
// bucket (Lu et al., VLDB'20, section 5). A hash's segment is named by its first bits, read
// backwards, so that segments number themselves 0, 1, 2, ... as there come to be more, and still
// each has one range of hashes. Invariants:
//
//  * Word `directory` of the root says how many segments there are: rounds and next. Storing it is
//    all an expansion does (as LHlf's); the segment that is new then has nothing, and what it is to
//    have is in the one it splits off from. Whoever first wants it makes that split.
//  * A split is committed by storing the old segment's `extent`, one bit deeper. Before that store
//    the new segment is nobody's; after it, what the old one holds of the new one's keys is left
//    over, and recovery drops it.
//  * Where there is no memory for a split, operations go to the segment that still has what is due
//    to be split off.
//  * The volatile directory leads to a segment only when that one is split off and has been made
//    sound since the pool was opened, so opening takes no time.
//
// Segments lie in arrays (arrays.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/mutex.hpp"
#include "base/zero_words.hpp"
#include "exec/epochs.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/arrays.hpp"
#include "index/dash/segmented.hpp"
#include "index/dash/whole_segment.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class Linear : public WithArrays<Linear<Keys, K>, Keys, K> {
  using Base = WithArrays<Linear, Keys, K>;

 public:
  using typename Base::Key;
  using typename Base::Ops;
  static constexpr Kind kKind = Kind::linear;

  /// `memory` guards pool and blocks.
  Linear(pm::Pool& pool, Mutex& memory, Keys keys, SegmentShape shape)
      : Base(pool, memory, Ops(keys, shape, pool.base()), sizeof(Bucket)) {}

  /// Superblock `index` is the index's; there are 2^depth segments to begin with, two at
  /// least, so that free slots can name keys of the other half. The caller makes it the pool's
  /// root.
  template <class Host>
  Status create(Host& host, Offset index, std::uint32_t depth) {
    set_root(index);
    version_ = 1;
    depth = std::max(depth, 1u);
    PERDURE_ASSERT(depth < kChunks);
    std::uint64_t const segments = std::uint64_t{1} << depth;
    for (std::uint32_t a = 0; a < kArrays; ++a) host.store(arrays() + a, 0);
    host.flush(arrays(), kArrays * 8);
    for (std::uint64_t i = 0; i < segments; ++i) {
      if (Status s = back(host, i); !s.ok()) return s;
      Segment const s = segment(host, i);
      store_header(host, s.header, start_of(i), depth, version_);
      ops_.clear(host, s);
      touch(s);
    }
    store_root(host, segments, 0);
    begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  Answer erase(Host& host, Key const& key, Slot& before) {
    bool sparse = false;
    return until_settled(host, key.hash, [&](Segment s, auto right) {
      touch(s);
      return ops_.erase(host, s, key, right, before, sparse);
    });
  }

  /// Brings near what an operation on this hash will read first: its directory entry.
  template <class Host>
  void prefetch_entry(Host& host, std::uint64_t hash) {
    host.prefetch(&entry_at(index_of(host, hash)));
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// Where to go on after damage at `position`: a segment may begin there.
  template <class Host>
  std::uint64_t beyond(Host& host, std::uint64_t position) {
    std::uint32_t const depth = depth_of(host, index_of(host, position));
    return ((position >> (64 - depth)) + 1) << (64 - depth);
  }

  template <class Host>
  std::uint32_t depth(Host& host) {
    return depth_ + Extents{host.load(&extents_)}.rounds();
  }
  template <class Host>
  std::uint64_t segments(Host& host) {
    Extents const now{host.load(&extents_)};
    return (first_ << now.rounds()) + now.next();
  }

  /// How many buckets it has taken from the pool: those of every segment that its arrays have room
  /// for, named by now or not, and those that were chained to segments wanted since the pool was
  /// opened. Nobody changes them.
  template <class Host>
  std::uint64_t buckets(Host& host) {
    SegmentShape const shape = ops_.shape();
    std::uint64_t n = 0;
    for (std::uint32_t a = 0; a < kArrays; ++a)
      if (host.load(arrays() + a) != 0) n += segments_of(a) * (shape.buckets + shape.stash);
    for (std::uint64_t i = 0, all = segments(host); i < all; ++i) {
      std::uint64_t const place = host.load(&entry_at(i));
      if (place != 0 && place != kDamaged) n += ops_.chain_of(host, segment_at(place)).size();
    }
    return n;
  }

  /// f(what) for each chained bucket that two segments have. Nobody changes them.
  template <class Host, class F>
  void look_over(Host& host, F f) {
    std::unordered_map<std::uint64_t, std::uint64_t> owners;
    for (std::uint64_t i = 0, all = segments(host); i < all; ++i) {
      std::uint64_t const place = entry_of(host, i);
      if (place == 0 || place == kDamaged) continue;
      for (std::uint64_t const at : ops_.chain_of(host, segment_at(place))) {
        if (auto const [owner, first] = owners.emplace(at, place); !first)
          f(told("bucket at byte ", at, " is chained to two segments, at bytes ", owner->second,
                 " and ", place));
      }
    }
  }

 private:
  friend Segmented<Linear, Keys, K>;
  using Base::arrays;
  using Base::back;
  using Base::base_;
  using Base::blocks_;
  using Base::claim;
  using Base::covers;
  using Base::damage_;
  using Base::kArrays;
  using Base::kChunks;
  using Base::make_sound;
  using Base::memory_;
  using Base::ops_;
  using Base::place_of;
  using Base::pool_;
  using Base::root_;
  using Base::segment;
  using Base::segment_at;
  using Base::segments_of;
  using Base::set_root;
  using Base::splits_;
  using Base::store_root;
  using Base::touch;
  using Base::version_;
  using typename Base::Extents;

  template <class Host>
  using Changing = typename Base::template Changing<Host>;

  static constexpr std::uint32_t kExpansions = 2;  // for each bucket that is chained
  // --- Numbers and places
  // -------------------------------------------------------------------------------------------

  [[nodiscard]] static std::uint64_t backwards(std::uint64_t hash) {
    std::uint64_t x = __builtin_bswap64(hash);
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    return (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  }
  /// Least hash of segment i, of however many.
  [[nodiscard]] static std::uint64_t start_of(std::uint64_t i) { return backwards(i); }
  template <class Host>
  std::uint64_t index_of(Host& host, std::uint64_t hash) {
    Extents const now{host.load(&extents_)};
    std::uint64_t const bits = backwards(hash);
    std::uint64_t const all = first_ << now.rounds();
    std::uint64_t const i = bits & (all - 1);
    return i >= now.next() ? i : bits & (2 * all - 1);
  }

  /// Segments follow each other by number, so the other bits check depth and start: with one bit
  /// less, what was split off would be split off again, and its newer records lost.
  [[nodiscard]] static Extent extent_of(std::uint64_t start, std::uint32_t depth) {
    return Extent::of(depth, nth_hash(start, depth) >> 8);
  }
  // --- The volatile directory: a chunk for what the opening's round brings it to, one for each
  // round after it --------

  template <class Host>
  void begin(Host& host) {
    first_ = host.load(&root_->first);
    depth_ = static_cast<std::uint32_t>(std::countr_zero(first_));
    PERDURE_ASSERT(std::has_single_bit(first_) && depth_ > 0);
    std::uint64_t const word = host.load(&root_->directory);
    chunk_depth_ = depth_ + Extents{word}.rounds() + 1;
    chunks_[0] = ZeroWords(std::size_t{1} << chunk_depth_);
    host.store(&extents_, word);
  }
  /// For the segments 2^depth, ..., 2^(depth + 1) - 1.
  void make_chunk(std::uint32_t depth) {
    ZeroWords& chunk = chunks_[depth - chunk_depth_ + 1];
    if (!chunk) chunk = ZeroWords(std::size_t{1} << depth);
  }
  std::uint64_t& entry_at(std::uint64_t i) {
    std::uint64_t const above = i >> chunk_depth_;
    if (above == 0) return chunks_[0][i];
    return chunks_[static_cast<std::size_t>(std::bit_width(above))][i - std::bit_floor(i)];
  }
  /// Place of the segment, or 0 where it has to be entered first.
  template <class Host>
  std::uint64_t present(Host& host, std::uint64_t hash) {
    return host.load(&entry_at(index_of(host, hash)));
  }

  /// Place of the segment that has this hash, made what it is to be; or, where there is no memory
  /// for that, and in read-only pools, of the one that still has what it is to have.
  template <class Host>
  std::uint64_t holder(Host& host, std::uint64_t hash) {
    for (std::uint64_t i = index_of(host, hash);; i &= ~std::bit_floor(i)) {
      if (std::uint64_t const place = entry_of(host, i); place != 0) return place;
    }
  }
  template <class Host>
  bool holds(Host& host, std::uint64_t place, std::uint64_t hash) {
    std::uint64_t const now = present(host, hash);
    if (now != 0) return now == place;
    SegmentHeader* const header = segment_at(place).header;
    Extent const extent{host.load(&header->extent)};
    return covers(extent, host.load(&header->start), hash);
  }

  template <class Host, class F>
  Answer until_settled(Host& host, std::uint64_t hash, F operation) {
    for (;; host.pause()) {
      std::uint64_t place = present(host, hash);
      if (place == 0) [[unlikely]]
        place = holder(host, hash);
      if (place == kDamaged) return Answer::damaged;
      auto const right = [&] {
        return mutated("dash_segment_not_checked") || holds(host, place, hash);
      };
      Answer const answer = operation(segment_at(place), right);
      if (answer != Answer::retry) return answer;
    }
  }

  template <class Host>
  void mark(Host& host, std::uint64_t place) {
    for (std::uint64_t const at : ops_.chain_of(host, segment_at(place))) blocks_.mark(Offset{at});
  }

  /// Bits of its hashes that name segment i, once it is what it is to be.
  template <class Host>
  std::uint32_t depth_of(Host& host, std::uint64_t i) {
    Extents const now{host.load(&extents_)};
    return depth_ + now.rounds() + (i < now.next() || i >= first_ << now.rounds() ? 1 : 0);
  }
  /// What no header says that crashes leave, of a segment that was split off. Empty: nothing.
  template <class Host>
  std::string fault_of(Host& host, std::uint64_t i, Segment s) {
    Extent const extent{host.load(&s.header->extent)};
    std::uint32_t const least = i < first_ ? depth_ : static_cast<std::uint32_t>(std::bit_width(i));
    if (std::uint32_t const most = depth_of(host, i);
        extent.depth() < least || extent.depth() > most ||
        extent.word != extent_of(start_of(i), extent.depth()).word)
      return told("word ", extent.word, " is no extent of ", least, " to ", most, " bits");
    if (std::uint64_t const start = host.load(&s.header->start); start != start_of(i))
      return told("its hashes begin with ", start, ", where those of segment ", i, " do with ",
                  start_of(i));
    return {};
  }
  /// The same of a chain that nobody changes: each link leads to a bucket, and the last to none.
  template <class Host>
  std::string fault_of_chain(Host& host, Segment s) {
    std::uint64_t const* link = &s.header->chain;
    std::uint64_t seen = 0;  // by Brent: the link that many steps ago, a power of two
    for (std::uint64_t at, n = 1; (at = host.load(link)) != 0; ++n) {
      if (!blocks_.is_block(Offset{at})) return told("no chained bucket begins at byte ", at);
      if (at == seen) return told("its chain comes back to the bucket at byte ", at);
      if (std::has_single_bit(n)) seen = at;
      link = &reinterpret_cast<Bucket const*>(base_ + at)->hints;
    }
    return {};
  }

  /// Makes segment i what it is to be: split off, and sound. Answers its place, or 0 where there is
  /// no memory for that.
  template <class Host>
  std::uint64_t enter(Host& host, std::uint64_t i) {
    Segment const s = segment(host, i);
    if (i >= first_) {
      auto const depth = static_cast<std::uint32_t>(std::bit_width(i));
      std::uint64_t const from = i & ~(std::uint64_t{1} << (depth - 1));
      std::uint64_t const place = entry_of(host, from);
      if (place == 0 || place == kDamaged) return place;
      Segment const parent = segment_at(place);
      while (Extent{host.load(&parent.header->extent)}.depth() < depth) {
        if (pool_->read_only() || starving_.load(std::memory_order_relaxed)) return 0;
        if (!split(host, parent, from, depth).ok())
          starving_.store(true, std::memory_order_relaxed);
      }
    }
    std::string fault = fault_of(host, i, s);
    if (fault.empty()) fault = make_sound(host, s);
    if (!fault.empty()) return damage_.note(told("segment at byte ", place_of(s), ": ", fault));
    host.store(&entry_at(i), place_of(s));
    return place_of(s);
  }
  template <class Host>
  std::uint64_t entry_of(Host& host, std::uint64_t i) {
    std::uint64_t const found = host.load(&entry_at(i));
    return found != 0 ? found : enter(host, i);
  }

  template <class Host>
  std::string unsound(Host& host, Segment s) {
    std::string fault = fault_of_chain(host, s);
    return fault.empty() ? Base::unsound(host, s) : fault;
  }

  template <class Host>
  void mend_directory(Host&) {}
  template <class Host>
  bool mendable(Host& host, Segment s) {
    return fault_of_chain(host, s).empty();
  }

  // --- Growing
  // -----------------------------------------------------------------------------------------------

  /// A bucket for this segment, and segments for the whole table.
  template <class Host>
  Status make_room(Host& host, std::uint64_t, Segment s) {
    Status status = add_bucket(host, s);
    for (std::uint32_t i = 0; status.ok() && i < kExpansions; ++i) status = expand(host);
    return status;
  }
  template <class Host>
  Status add_bucket(Host& host, Segment s) {
    auto block = blocks_.take();
    if (!block) return block.status();
    starving_.store(false, std::memory_order_relaxed);
    touch(s);
    PERDURE_ASSERT(block->bytes % sizeof(Bucket) == 0);
    if (!ops_.chain(host, s, block->bytes, true)) blocks_.give(*block);
    return {};
  }

  /// One segment more, whose keys stay where they are until somebody wants them.
  template <class Host>
  Status expand(Host& host) {
    exec::ExclusiveHold const held(host, growing_);
    Extents const now{host.load(&extents_)};
    std::uint64_t const all = first_ << now.rounds();
    std::uint64_t const i = all + now.next();
    if (Status s = back(host, i); !s.ok()) return s;
    if (now.rounds() + depth_ + 2 >= kChunks)
      return {Code::no_space, "the index has as many segments as it can"};
    PERDURE_ASSERT(now.next() < all);  // a round has as many as there were
    bool const ends = now.next() + 1 == all;
    std::uint64_t const word = ends ? std::uint64_t{now.rounds() + 1} << 32 : now.word + 1;
    if (ends) make_chunk(depth_ + now.rounds() + 1);
    host.store(&root_->directory, word);
    host.persist(&root_->directory, sizeof word);
    host.store(&extents_, word);
    return {};
  }

  /// Splits off what segment i is to give up next, unless another has brought it to depth `wanted`
  /// meanwhile: one split more would be of a segment that is not due yet.
  template <class Host>
  Status split(Host& host, Segment s, std::uint64_t i, std::uint32_t wanted) {
    Changing<Host> changing(host, ops_, s);
    std::uint32_t const depth = Extent{host.load(&s.header->extent)}.depth();
    bool const due = depth < wanted || mutated("dash_split_twice");
    return due ? split_locked(host, s, i, depth, changing) : Status{};
  }
  template <class Host>
  Status split_locked(Host& host, Segment s, std::uint64_t i, std::uint32_t depth,
                      Changing<Host>& changing) {
    PERDURE_ASSERT(depth > 0 && depth < 63);
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth);
    auto const moves = [&](std::uint64_t hash) { return (hash & bit) != 0; };
    std::uint64_t const other = i | std::uint64_t{1} << depth;
    Segment const made = segment(host, other);
    SegmentContents const contents = ops_.contents(host, s);
    auto chain = take_chained(ops_.chain_for(contents, moves));
    if (!chain) return chain.status();
    touch(s);
    if (!mutated("dash_split_not_touched")) touch(made);
    changing.begins();
    store_header(host, made.header, start_of(other), depth + 1, version_);
    bool const early = mutated("dash_split_before_copy");
    if (early) commit(host, s, depth + 1);
    for (Offset const block : *chain) ops_.chain(host, made, block.bytes, false);
    ops_.copy(host, s, contents, made, moves);
    if (!mutated("dash_split_not_ordered")) host.fence();
    if (!early) commit(host, s, depth + 1);
    if (!mutated("dash_split_keeps_moved")) ops_.remove_if(host, s, contents, moves);
    give_back(ops_.unchain(host, s));
    splits_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  Result<std::vector<Offset>> take_chained(std::uint32_t n) {
    std::vector<Offset> blocks;
    while (blocks.size() < n) {
      auto block = blocks_.take();
      if (!block) {
        for (Offset const taken : blocks) blocks_.give(taken);
        return block.status();
      }
      blocks.push_back(*block);
    }
    return blocks;
  }
  template <class Host>
  void commit(Host& host, Segment s, std::uint32_t depth) {
    host.store(&s.header->extent, extent_of(host.load(&s.header->start), depth).word);
    host.persist(&s.header->extent, sizeof(std::uint64_t));
  }
  void give_back(std::vector<std::uint64_t> const& chained) {
    for (std::uint64_t const place : chained) {
      epochs_.retire([this, place] {
        blocks_.give(Offset{place});
        starving_.store(false, std::memory_order_relaxed);
      });
    }
  }

  template <class Host>
  void store_header(Host& host, SegmentHeader* header, std::uint64_t start, std::uint32_t depth,
                    std::uint64_t version) {
    host.store(&header->start, start);
    host.store(&header->chain, 0);
    host.store(&header->version, version);
    host.store(&header->extent, extent_of(start, depth).word);
    host.persist(header, 32);
  }

  std::uint64_t first_ = 0;  // segments to begin with, 2^depth_
  std::uint32_t depth_ = 0;
  std::uint64_t extents_ = 0;  // what word `directory` says
  std::uint32_t chunk_depth_ = 0;  // of chunk 0
  std::array<ZeroWords, kChunks + 2> chunks_;
  exec::ReaderWriterLock growing_;
  /// The last split found no memory: segments that are due stay whole until there is.
  std::atomic<bool> starving_{false};
  exec::Epochs epochs_;  // last: what it frees is above, or Segmented's
};

}  // namespace perdure::dash
