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
#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "exec/epochs.hpp"
#include "index/dash/arrays.hpp"
#include "index/dash/chained_blocks.hpp"
#include "index/dash/linear_directory.hpp"
#include "index/dash/linear_segments.hpp"
#include "index/dash/segmented.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class Linear : public Segmented<Linear<Keys, K>, Keys, K> {
  using Base = Segmented<Linear, Keys, K>;

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
    core_.set_root(index);
    core_.version = 1;
    depth = std::max(depth, 1u);
    PERDURE_ASSERT(depth < Extents::kMostRounds);
    std::uint64_t const segments = std::uint64_t{1} << depth;
    arrays_.create(host);
    for (std::uint64_t i = 0; i < segments; ++i) {
      if (Status s = arrays_.back(host, i); !s.ok()) return s;
      Segment const s = arrays_.segment(host, i);
      store_header(host, s.header, start_of(i), depth, core_.version);
      core_.ops.clear(host, s);
      core_.touch(s);
    }
    core_.store_root(host, segments, 0);
    begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  PERDURE_HOT Answer erase(Host& host, Key const& key, Slot& before) {
    bool sparse = false;
    return until_settled(host, key.hash, [&](Segment s, auto right) PERDURE_HOT_LAMBDA {
      core_.touch(s);
      return core_.ops.erase(host, s, key, right, before, sparse);
    });
  }

  /// Brings near what an operation on this hash will read first: its directory entry.
  template <class Host>
  void prefetch_entry(Host& host, std::uint64_t hash) {
    host.prefetch(directory_.shortcuts().look_up(host, hash).address);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// Where to go on after damage at `position`: a segment may begin there.
  template <class Host>
  std::uint64_t beyond(Host& host, std::uint64_t position) {
    std::uint32_t const depth = directory_.depth_of(host, directory_.index_of(host, position));
    return ((position >> (64 - depth)) + 1) << (64 - depth);
  }

  template <class Host>
  std::uint32_t depth(Host& host) {
    return directory_.depth(host);
  }
  template <class Host>
  std::uint64_t segments(Host& host) {
    return directory_.segments(host);
  }

  /// How many buckets it has taken from the pool: those of every segment that its arrays have room
  /// for, named by now or not, and those that were chained to segments used since the pool was
  /// opened. Nobody changes them.
  template <class Host>
  std::uint64_t buckets(Host& host) {
    SegmentShape const shape = core_.ops.shape();
    std::uint64_t n = arrays_.room(host) * (shape.buckets + shape.stash);
    for (std::uint64_t i = 0, all = segments(host); i < all; ++i) {
      std::uint64_t const address = host.load(&directory_.entry_at(i));
      if (address != 0 && address != kDamaged)
        n += core_.ops.chain_of(host, core_.segment_at(address)).size();
    }
    return n;
  }

  /// See Soundness.
  template <class Host>
  void begin_mending(Host&) {
    soundness_.begin_mending();
  }

  /// f(what) for each chained bucket that two segments have. Nobody changes them.
  template <class Host, class F>
  void look_over(Host& host, F f) {
    std::unordered_map<std::uint64_t, std::uint64_t> owners;
    for (std::uint64_t i = 0, all = segments(host); i < all; ++i) {
      std::uint64_t const address = entry_of(host, i);
      if (address == 0 || address == kDamaged) continue;
      for (std::uint64_t const at : core_.ops.chain_of(host, core_.segment_at(address))) {
        if (auto const [owner, first] = owners.emplace(at, address); !first)
          f(told("bucket at byte ", at, " is chained to two segments, at bytes ", owner->second,
                 " and ", address));
      }
    }
  }

 private:
  friend Segmented<Linear, Keys, K>;
  using Base::core_;
  using Base::soundness_;
  using typename Base::Core;

  static constexpr std::uint32_t kExpansions = 2;  // for each bucket that is chained

  template <class Host>
  Status claim(Host& host) {
    return arrays_.claim(host);
  }
  template <class Host>
  void begin(Host& host) {
    directory_.begin(host);
  }

  /// Address of the segment that has this hash, made what it is to be; or, where there is no memory
  /// for that, and in read-only pools, of the one that still has what it is to have.
  template <class Host>
  PERDURE_HOT std::uint64_t holder(Host& host, std::uint64_t hash) {
    std::uint64_t const found = host.load(directory_.shortcuts().look_up(host, hash).address);
    return found != 0 ? found : holder_by_number(host, hash);
  }
  template <class Host>
  std::uint64_t holder_by_number(Host& host, std::uint64_t hash) {
    std::uint64_t const own = directory_.index_of(host, hash);
    for (std::uint64_t i = own;; i &= ~std::bit_floor(i)) {
      std::uint64_t const address = entry_of(host, i);
      if (address == 0) continue;
      if (i == own && address != kDamaged) directory_.note(host, hash, address);
      return address;
    }
  }
  template <class Host>
  bool holds(Host& host, std::uint64_t address, std::uint64_t hash) {
    std::uint64_t const now = directory_.present(host, hash);
    if (now != 0) return now == address;
    SegmentHeader* const header = core_.segment_at(address).header;
    Extent const extent{host.load(&header->extent)};
    return covers(extent, host.load(&header->start), hash);
  }

  template <class Host, class F>
  PERDURE_HOT Answer until_settled(Host& host, std::uint64_t hash, F operation) {
    for (;; host.pause()) {
      auto const shortcut = directory_.shortcuts().look_up(host, hash);
      std::uint64_t address = host.load(shortcut.address);
      if (address == 0) [[unlikely]] {
        address = holder_by_number(host, hash);
        if (address == kDamaged) return Answer::damaged;
      }
      auto const right = [&] {
        if (mutated("dash_segment_not_checked") ||
            directory_.shortcuts().leads_to(host, shortcut, address)) [[likely]]
          return true;
        return holds(host, address, hash);
      };
      Answer const answer = operation(core_.segment_at(address), right);
      if (answer != Answer::retry) return answer;
    }
  }

  template <class Host>
  void mark(Host& host, std::uint64_t address) {
    for (std::uint64_t const at : core_.ops.chain_of(host, core_.segment_at(address)))
      core_.blocks.mark(Offset{at});
  }

  /// Makes segment i what it is to be: split off, and sound. Answers its place, or 0 where there is
  /// no memory for that.
  template <class Host>
  std::uint64_t enter(Host& host, std::uint64_t i) {
    Segment const s = arrays_.segment(host, i);
    if (!directory_.was_there_first(i)) {
      auto const depth = static_cast<std::uint32_t>(std::bit_width(i));
      std::uint64_t const from = i & ~(std::uint64_t{1} << (depth - 1));
      std::uint64_t const address = entry_of(host, from);
      if (address == 0 || address == kDamaged) return address;
      Segment const parent = core_.segment_at(address);
      while (Extent{host.load(&parent.header->extent)}.depth() < depth) {
        if (core_.pool->read_only() || chained_.starving()) return 0;
        if (!split(host, parent, from, depth).ok()) chained_.starve();
      }
    }
    std::string fault = fault_of_header(directory_, host, i, s);
    if (fault.empty())
      fault = soundness_.make(host, s, [&] { return fault_of_chain(core_, host, s); });
    if (!fault.empty())
      return core_.damage.note(told("segment at byte ", core_.address_of(s), ": ", fault));
    host.store(&directory_.entry_at(i), core_.address_of(s));
    return core_.address_of(s);
  }
  template <class Host>
  std::uint64_t entry_of(Host& host, std::uint64_t i) {
    std::uint64_t const found = host.load(&directory_.entry_at(i));
    return found != 0 ? found : enter(host, i);
  }

  // --- Growing
  // -----------------------------------------------------------------------------------------------

  /// A bucket for this segment, and segments for the whole table.
  template <class Host>
  Status make_room(Host& host, std::uint64_t, Segment s) {
    Status status = add_bucket(host, s);
    for (std::uint32_t i = 0; status.ok() && i < kExpansions; ++i)
      status = directory_.expand(host, arrays_);
    return status;
  }
  template <class Host>
  Status add_bucket(Host& host, Segment s) {
    auto block = chained_.take_one();
    if (!block) return block.status();
    core_.touch(s);
    PERDURE_ASSERT(block->bytes % sizeof(Bucket) == 0);
    if (!core_.ops.chain(host, s, block->bytes, true)) chained_.give(*block);
    return {};
  }

  /// Splits off what segment i is to give up next, unless another has brought it to depth `target`
  /// meanwhile: one split more would be of a segment that is not due yet.
  template <class Host>
  Status split(Host& host, Segment s, std::uint64_t i, std::uint32_t target) {
    ChangingSegment changing(host, core_.ops, s);
    std::uint32_t const depth = Extent{host.load(&s.header->extent)}.depth();
    bool const due = depth < target || mutated("dash_split_twice");
    return due ? split_locked(host, s, i, depth, changing) : Status{};
  }
  template <class Host>
  Status split_locked(Host& host, Segment s, std::uint64_t i, std::uint32_t depth,
                      ChangingSegment<Host, Ops>& changing) {
    PERDURE_ASSERT(depth > 0 && depth < 63);
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth);
    auto const moves = [&](std::uint64_t hash) { return (hash & bit) != 0; };
    std::uint64_t const other = i | std::uint64_t{1} << depth;
    Segment const made = arrays_.segment(host, other);
    SegmentContents const contents = core_.ops.contents(host, s);
    auto chain = chained_.take(core_.ops.chain_for(contents, moves));
    if (!chain) return chain.status();
    core_.touch(s);
    if (!mutated("dash_split_not_touched")) core_.touch(made);
    changing.begins();
    store_header(host, made.header, start_of(other), depth + 1, core_.version);
    bool const early = mutated("dash_split_before_copy");
    if (early) commit_depth(host, s, depth + 1);
    for (Offset const block : *chain) core_.ops.chain(host, made, block.bytes, false);
    core_.ops.copy(host, s, contents, made, moves);
    if (!mutated("dash_split_not_ordered")) host.fence();
    if (!early) commit_depth(host, s, depth + 1);
    if (!mutated("dash_split_keeps_moved")) core_.ops.remove_if(host, s, contents, moves);
    chained_.give_later(core_.ops.unchain(host, s));
    core_.splits.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

  LinearDirectory<Core> directory_{core_};
  SegmentArrays<Core> arrays_{core_};
  ChainedBlocks chained_{core_.blocks, epochs_};
  exec::Epochs epochs_;  // last: what it frees is above, or Segmented's
};

}  // namespace perdure::dash
