// Dash-EH: a directory over segments, each of which has the keys of one range of hashes (Lu et al.,
// VLDB'20, sections 4.1, 4.7, 4.8). It departs from the paper in what makes a split: one word.
// Invariants:
//
//  * The segments, each leading to the next, cover all hashes, in order, whatever crashes. A split
//    or a merge is committed by storing the left segment's `extent`: how far it reaches and which
//    comes next. Before that store the right segment is not there (split) or still is (merge);
//    after it, what the left one holds of keys beyond its reach is left over, and recovery drops
//    it. So nothing has to be rolled back or forward.
//  * A directory entry on PM leads to the segment of its hashes, or to one before it, from which
//    the chain leads there. An entry that a crash left behind is no error. A merge turns every
//    entry that leads to the right segment to the left one first, and only then commits: nothing
//    durable ever leads to a segment that is gone.
//  * Threads read a volatile copy of the directory, filled entry by entry. An entry that is there
//    leads to the very segment, and that one has been made sound since the pool was opened (lazy
//    recovery): opening takes no time.
//  * Who changes which segment has a range of hashes holds all its locks from before that to after
//    it.
//  * Who splits a segment shares the directory's lock from before it looks whether the directory
//    has a bit for that until its entries are turned: nobody halves it in between. Locks are taken
//    in this order: buckets, those of the left segment before those of the right, then the
//    directory's, then the pool's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "exec/epochs.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/directory.hpp"
#include "index/dash/segmented.hpp"
#include "index/dash/whole_segment.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class Extendible : public WithDirectory<Extendible<Keys, K>, Keys, K> {
  using Base = WithDirectory<Extendible, Keys, K>;

 public:
  using typename Base::Key;
  using typename Base::Ops;
  static constexpr Kind kKind = Kind::extendible;

  /// `memory` guards pool and blocks.
  Extendible(pm::Pool& pool, Mutex& memory, Keys keys, SegmentShape shape)
      : Base(pool, memory, Ops(keys, shape), shape.bytes()) {}

  /// Superblock `index` is the index's; there are 2^depth segments to begin with, two at
  /// least, so that free slots can name keys of the other half. The caller makes it the pool's
  /// root.
  template <class Host>
  Status create(Host& host, Offset index, std::uint32_t depth) {
    set_root(index);
    version_ = 1;
    depth = std::max(depth, 1u);
    PERDURE_ASSERT(depth <= Extent::kMostDepth);
    std::vector<Offset> segments;
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) {
      auto block = blocks_.take();
      if (!block) return block.status();
      segments.push_back(*block);
    }
    for (std::uint64_t i = 0; i < segments.size(); ++i) {
      std::uint64_t const next = i + 1 < segments.size() ? segments[i + 1].bytes : 0;
      ops_.clear(host, make_segment(host, segments[i], i << (64 - depth), Extent::of(depth, next)));
    }
    auto place = directory_place(depth);
    if (!place) return place.status();
    for (std::uint64_t i = 0; i < segments.size(); ++i)
      host.store(entries_at(*place) + i, segments[i].bytes);
    host.flush(entries_at(*place), segments.size() * 8);
    store_root(host, segments[0].bytes, std::uint64_t{depth} << 56 | place->bytes);
    begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  Answer erase(Host& host, Key const& key, Slot& before) {
    bool sparse = false;
    Answer const answer = until_settled(host, key.hash, [&](Segment s, auto right) {
      touch(s);
      return ops_.erase(host, s, key, right, before, sparse);
    });
    // Looking costs a segment's metadata, so not every time.
    if (sparse && (key.hash >> 24) % kLookToMerge == 0) merge(host, key.hash);
    return answer;
  }

  /// Brings near what an operation on this hash will read first: its directory entry.
  template <class Host>
  void prefetch_entry(Host& host, std::uint64_t hash) {
    Directory const& now = directory(host);
    host.prefetch(&now.entries[now.index(hash)]);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// Where to go on after damage at `position`: a segment may begin there.
  template <class Host>
  std::uint64_t beyond(Host& host, std::uint64_t position) {
    Directory& now = directory(host);
    return (now.index(position) + 1) << (64 - now.depth);
  }

  template <class Host>
  std::uint32_t depth(Host& host) {
    return directory(host).depth;
  }
  template <class Host>
  std::uint64_t segments(Host& host) {
    std::uint64_t n = 0;
    static_cast<void>(along_chain(host, [&](std::uint64_t) { ++n; }));
    return n;
  }
  /// How many buckets it has taken from the pool. Nobody changes them.
  template <class Host>
  std::uint64_t buckets(Host& host) {
    return segments(host) * (ops_.shape().buckets + ops_.shape().stash);
  }

  /// f(what) for each word that leads astray of the chain of segments and of the directory on PM.
  /// Nobody changes them.
  template <class Host, class F>
  void look_over(Host& host, F f) {
    std::unordered_set<std::uint64_t> chained;
    if (std::string const fault = along_chain(host, [&](std::uint64_t at) { chained.insert(at); });
        !fault.empty())
      return f(told("the chain of segments breaks off: ", fault));
    std::uint64_t const root = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t const* const entries = entries_at(Offset{root & kPlace});
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) {
      std::uint64_t const place = host.load(entries + i), least = i << (64 - depth);
      if (!chained.contains(place))
        f(told("directory entry ", i, " leads to byte ", place, ", where no segment begins"));
      else if (host.load(&segment_at(place).header->start) > least)
        f(told("directory entry ", i, " leads past its hashes, to the segment at byte ", place));
    }
  }

  /// Entries that lead astray lead to the very segment again, where the chain of segments is whole.
  template <class Host>
  void mend_directory(Host& host) {
    std::vector<std::uint64_t> chained;
    if (!along_chain(host, [&](std::uint64_t at) { chained.push_back(at); }).empty()) return;
    std::unordered_set<std::uint64_t> const known(chained.begin(), chained.end());
    std::uint64_t const root = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t* const entries = entries_at(Offset{root & kPlace});
    for (std::uint64_t i = 0, s = 0; i < std::uint64_t{1} << depth; ++i) {
      std::uint64_t const least = i << (64 - depth), place = host.load(entries + i);
      while (s + 1 < chained.size() &&
             host.load(&segment_at(chained[s + 1]).header->start) <= least)
        ++s;
      if (known.contains(place) && host.load(&segment_at(place).header->start) <= least) continue;
      host.store(entries + i, chained[s]);
      host.persist(entries + i, sizeof place);
      note_mended(
          told("directory entry ", i, " led to byte ", place, ": put right, nothing is lost"));
    }
  }

  [[nodiscard]] std::uint64_t merges() const { return merges_.load(); }

 private:
  friend Segmented<Extendible, Keys, K>;
  using Base::base_;
  using Base::begin;
  using Base::blocks_;
  using Base::claim;
  using Base::covers;
  using Base::damage_;
  using Base::directory;
  using Base::directory_lock_;
  using Base::directory_place;
  using Base::double_directory;
  using Base::entries_at;
  using Base::gone;
  using Base::halve_directory;
  using Base::kPlace;
  using Base::make_sound;
  using Base::memory_;
  using Base::note_mended;
  using Base::ops_;
  using Base::place_of;
  using Base::pool_;
  using Base::root_;
  using Base::segment_at;
  using Base::set_root;
  using Base::splits_;
  using Base::store_root;
  using Base::touch;
  using Base::turn_entries;
  using Base::version_;
  using typename Base::Directory;

  // erasures that leave sparse buckets, of which one looks
  static constexpr std::uint64_t kLookToMerge = 8;
  template <class Host>
  PERDURE_HOT std::uint64_t holder(Host& host, std::uint64_t hash) {
    Directory& now = directory(host);
    std::uint64_t const found = host.load(&now.entries[now.index(hash)]);
    return found != 0 ? found : enter(host, hash);
  }
  template <class Host>
  bool holds(Host& host, std::uint64_t place, std::uint64_t hash) {
    return holder(host, hash) == place;
  }

  template <class Host, class F>
  PERDURE_HOT Answer until_settled(Host& host, std::uint64_t hash, F operation) {
    for (;; host.pause()) {
      Directory& seen = directory(host);
      std::uint64_t const* const entry = &seen.entries[seen.index(hash)];
      std::uint64_t place = host.load(entry);
      if (place == 0) [[unlikely]] {
        place = enter(host, hash);
        if (place == kDamaged) return Answer::damaged;
      }
      auto const right = [&] {
        return mutated("dash_segment_not_checked") ||
               (&directory(host) == &seen && host.load(entry) == place);
      };
      Answer const answer = operation(segment_at(place), right);
      if (answer != Answer::retry) return answer;
    }
  }

  template <class Host>
  void mark(Host&, std::uint64_t place) {
    blocks_.mark(Offset{place});
  }

  // --- Damage
  // -----------------------------------------------------------------------------------------------

  /// What no header says that crashes leave: a segment reaches as far as the next one begins.
  /// Empty: nothing.
  template <class Host>
  std::string fault_of(Host& host, std::uint64_t place, Extent& extent, std::uint64_t& start) {
    if (!blocks_.is_block(Offset{place})) return told("no segment begins at byte ", place);
    SegmentHeader const* const header = segment_at(place).header;
    extent = {host.load(&header->extent)};
    start = host.load(&header->start);
    if (extent.depth() > Extent::kMostDepth || !begins_segment(start, extent.depth()))
      return told("segment at byte ", place, ": none of ", extent.depth(),
                  " bits begins with hash ", start);
    std::uint64_t const end = end_of(start, extent.depth()), next = extent.next();
    if (end == 0 && next == 0) return {};
    if (end == 0 || !blocks_.is_block(Offset{next}) ||
        host.load(&segment_at(next).header->start) != end)
      return told("segment at byte ", place, " ends before hash ", end,
                  ", and the next one, at byte ", next, ", does not begin there");
    return {};
  }

  /// f(place) for each segment from the first on. Answers what breaks the chain off; empty:
  /// nothing.
  template <class Host, class F>
  std::string along_chain(Host& host, F f) {
    std::uint64_t end = 0;
    for (std::uint64_t at = host.load(&root_->first);;) {
      Extent extent;
      std::uint64_t start = 0;
      if (std::string fault = fault_of(host, at, extent, start); !fault.empty()) return fault;
      if (start != end)
        return told("the first segment, at byte ", at, ", begins with hash ", start);
      f(at);
      if (extent.next() == 0) return {};
      end = end_of(start, extent.depth());
      at = extent.next();
    }
  }

  // --- Entering
  // -----------------------------------------------------------------------------------------------

  /// Looks an entry up on PM, makes its segment sound, and notes it.
  template <class Host>
  std::uint64_t enter(Host& host, std::uint64_t hash) {
    exec::SharedHold const held(host, directory_lock_);
    std::uint64_t const root = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t const i = hash >> (64 - depth);
    std::uint64_t* const at = entries_at(Offset{root & kPlace}) + i;
    host.read(at, sizeof *at);
    std::uint64_t place = host.load(at);
    for (;;) {
      Extent extent;
      std::uint64_t start = 0;
      std::string const fault = fault_of(host, place, extent, start);
      if (!fault.empty()) return damage_.note(told("directory entry ", i, ": ", fault));
      host.read(segment_at(place).header, sizeof(std::uint64_t) * 3);
      if (extent.depth() > depth || start > hash)
        return damage_.note(
            told("directory entry ", i, " of ", depth, " bits leads to the segment at byte ", place,
                 ", which begins with hash ", start, " and has ", extent.depth(), " bits"));
      if (covers(extent, start, hash)) break;
      place = extent.next();
    }
    if (std::string const fault = make_sound(host, segment_at(place)); !fault.empty())
      return damage_.note(told("segment at byte ", place, ": ", fault));
    Directory& now = directory(host);
    std::uint64_t& entry = now.entries[now.index(hash)];
    // If another has stored something meanwhile, that is newer.
    return host.cas(&entry, 0, place) ? place : host.load(&entry);
  }

  // --- Segments
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Segment make_segment(Host& host, Offset block, std::uint64_t start, Extent extent) {
    PERDURE_ASSERT(extent.depth() > 0 && begins_segment(start, extent.depth()));
    Segment const s = segment_at(block.bytes);
    host.store(&s.header->start, start);
    host.store(&s.header->version, version_);
    host.store(&s.header->extent, extent.word);
    host.store(&s.header->chain, 0);
    host.flush(s.header, 32);
    if (!mutated("dash_split_not_touched")) touch(s);
    return s;
  }

  /// Makes two of the segment that has this hash, if it is still `s`.
  template <class Host>
  Status make_room(Host& host, std::uint64_t hash, Segment s) {
    ops_.lock_all(host, s);
    Status const status = holds(host, place_of(s), hash) ? split_locked(host, s) : Status{};
    ops_.unlock_all(host, s);
    return status;
  }

  template <class Host>
  Status split_locked(Host& host, Segment s) {
    Extent const extent{host.load(&s.header->extent)};
    std::uint32_t const depth = extent.depth();
    touch(s);
    if (depth >= Extent::kMostDepth)
      return {Code::no_space, "more keys than a segment has room for share the first " +
                                  std::to_string(depth) +
                                  " bits of their hash; no split would tell them apart"};
    for (;;) {
      exec::SharedHold held(host, directory_lock_);
      std::uint32_t const all = directory(host).depth;
      if (mutated("dash_halving_beside_split")) held.release();
      if (all > depth) return split_off(host, s, extent);
      held.release();
      if (Status status = double_directory(host, all); !status.ok()) return status;
    }
  }
  /// The directory has a bit for it, and keeps it.
  template <class Host>
  Status split_off(Host& host, Segment s, Extent extent) {
    std::uint32_t const depth = extent.depth();
    PERDURE_ASSERT(depth > 0 && depth < Extent::kMostDepth);
    auto block = blocks_.take();
    if (!block) return block.status();
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth);
    std::uint64_t const start = host.load(&s.header->start) | bit;
    auto const moves = [&](std::uint64_t h) { return (h & bit) != 0; };

    Segment const right = make_segment(host, *block, start, Extent::of(depth + 1, extent.next()));
    SegmentContents const contents = ops_.contents(host, s);
    bool const early = mutated("dash_split_before_copy");
    if (early) commit(host, s, Extent::of(depth + 1, block->bytes));
    ops_.copy(host, s, contents, right, moves);
    ops_.lock_all(host, right);
    if (!mutated("dash_split_not_ordered")) host.fence();
    if (!early) commit(host, s, Extent::of(depth + 1, block->bytes));
    turn_entries(host, start, depth + 1, block->bytes, 0);
    if (!mutated("dash_split_keeps_moved")) ops_.remove_if(host, s, contents, moves);
    ops_.unlock_all(host, right);
    splits_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  template <class Host>
  void commit(Host& host, Segment s, Extent extent) {
    PERDURE_ASSERT(extent.depth() > 0 && extent.depth() <= Extent::kMostDepth);
    host.store(&s.header->extent, extent.word);
    host.persist(&s.header->extent, sizeof extent.word);
  }

  /// Makes one of the segment that has this hash and its other half, if both together leave much
  /// room.
  template <class Host>
  void merge(Host& host, std::uint64_t hash) {
    std::uint64_t const some = holder(host, hash);
    std::uint32_t const depth =
        some == kDamaged ? 0 : Extent{host.load(&segment_at(some).header->extent)}.depth();
    if (depth <= 1) return;
    std::uint64_t const bit = std::uint64_t{1} << (64 - depth);
    std::uint64_t const start = hash & ~(bit - 1) & ~bit;
    std::uint64_t const here = holder(host, start), there = holder(host, start | bit);
    if (here == kDamaged || there == kDamaged || here == there) return;
    Segment const left = segment_at(here), right = segment_at(there);
    if (ops_.count(host, left) + ops_.count(host, right) > most_merged()) return;
    bool const mine_first = mutated("dash_merge_locks_out_of_order") && (hash & bit) != 0;
    ops_.lock_all(host, mine_first ? right : left);
    ops_.lock_all(host, mine_first ? left : right);
    bool const still = holds(host, place_of(left), start) &&
                       holds(host, place_of(right), start | bit) &&
                       Extent{host.load(&left.header->extent)}.depth() == depth &&
                       Extent{host.load(&right.header->extent)}.depth() == depth;
    bool const merged = still && merge_locked(host, left, right, depth);
    ops_.unlock_all(host, right);
    ops_.unlock_all(host, left);
    if (!merged) return;
    epochs_.retire([this, right] { blocks_.give(Offset{place_of(right)}); });
    merges_.fetch_add(1, std::memory_order_relaxed);
    if (depth == directory(host).depth) halve_directory(host, start);
  }
  [[nodiscard]] std::uint64_t most_merged() const {
    return std::uint64_t{ops_.shape().buckets} * kSlots / 2;
  }

  template <class Host>
  bool merge_locked(Host& host, Segment left, Segment right, std::uint32_t depth) {
    PERDURE_ASSERT(depth > 1 && !(left == right));
    SegmentContents contents = ops_.contents(host, left);
    auto const plan = ops_.plan_merge(contents, ops_.contents(host, right));
    if (!plan) return false;
    Extent const both = Extent::of(depth - 1, Extent{host.load(&right.header->extent)}.next());
    touch(left);
    gone(right);
    bool const early = mutated("dash_merge_before_copy"),
               late = mutated("dash_merge_directory_last");
    if (early) commit(host, left, both);
    ops_.merge(host, left, contents, right, *plan);
    if (!late)
      turn_entries(host, host.load(&right.header->start), depth, place_of(left), place_of(right));
    if (!early) commit(host, left, both);
    if (late)
      turn_entries(host, host.load(&right.header->start), depth, place_of(left), place_of(right));
    return true;
  }

  std::atomic<std::uint64_t> merges_{0};
  exec::Epochs epochs_;  // last: what it frees is above, or Segmented's
};

}  // namespace perdure::dash
