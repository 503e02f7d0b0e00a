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
#include <string>
#include <unordered_set>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "exec/epochs.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/directory.hpp"
#include "index/dash/segment_chain.hpp"
#include "index/dash/segmented.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class Extendible : public Segmented<Extendible<Keys, K>, Keys, K> {
  using Base = Segmented<Extendible, Keys, K>;

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
    core_.set_root(index);
    core_.version = 1;
    depth = std::max(depth, 1u);
    PERDURE_ASSERT(depth <= Extent::kMostDepth);
    std::vector<Offset> segments;
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) {
      auto block = core_.blocks.take();
      if (!block) return block.status();
      segments.push_back(*block);
    }
    for (std::uint64_t i = 0; i < segments.size(); ++i) {
      std::uint64_t const next = i + 1 < segments.size() ? segments[i + 1].bytes : 0;
      core_.ops.clear(host,
                      make_segment(host, segments[i], i << (64 - depth), Extent::of(depth, next)));
    }
    auto word = directory_.create(host, depth, segments);
    if (!word) return word.status();
    core_.store_root(host, segments[0].bytes, *word);
    begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  PERDURE_HOT Answer erase(Host& host, Key const& key, Slot& before) {
    bool sparse = false;
    Answer const answer =
        until_settled(host, key.hash, [&](Segment s, auto right) PERDURE_HOT_LAMBDA {
          core_.touch(s);
          return core_.ops.erase(host, s, key, right, before, sparse);
        });
    // Looking costs a segment's metadata, so not every time.
    if (sparse && (key.hash >> 24) % kLookToMerge == 0) merge(host, key.hash);
    return answer;
  }

  /// Brings near what an operation on this hash will read first: its directory entry.
  template <class Host>
  void prefetch_entry(Host& host, std::uint64_t hash) {
    VolatileDirectory const& now = directory_.now(host);
    host.prefetch(&now.entries[now.index(hash)]);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// Where to go on after damage at `position`: a segment may begin there.
  template <class Host>
  std::uint64_t beyond(Host& host, std::uint64_t position) {
    VolatileDirectory& now = directory_.now(host);
    return (now.index(position) + 1) << (64 - now.depth);
  }

  template <class Host>
  std::uint32_t depth(Host& host) {
    return directory_.now(host).depth;
  }
  template <class Host>
  std::uint64_t segments(Host& host) {
    std::uint64_t n = 0;
    static_cast<void>(along_chain(core_, host, [&](std::uint64_t) { ++n; }));
    return n;
  }
  /// How many buckets it has taken from the pool. Nobody changes them.
  template <class Host>
  std::uint64_t buckets(Host& host) {
    return segments(host) * (core_.ops.shape().buckets + core_.ops.shape().stash);
  }

  /// f(what) for each word that leads astray of the chain of segments and of the directory on PM.
  /// Nobody changes them.
  template <class Host, class F>
  void look_over(Host& host, F f) {
    std::unordered_set<std::uint64_t> chained;
    if (std::string const fault =
            along_chain(core_, host, [&](std::uint64_t at) { chained.insert(at); });
        !fault.empty())
      return f(told("the chain of segments breaks off: ", fault));
    auto const entries = directory_.on_pm(host);
    for (std::uint64_t i = 0; i < entries.size(); ++i) {
      std::uint64_t const address = host.load(entries.at + i), least = i << (64 - entries.depth);
      if (!chained.contains(address))
        f(told("directory entry ", i, " leads to byte ", address, ", where no segment begins"));
      else if (host.load(&core_.segment_at(address).header->start) > least)
        f(told("directory entry ", i, " leads past its hashes, to the segment at byte ", address));
    }
  }

  /// From here on a segment that is entered, and whose contents are damaged, is mended; and now
  /// entries that lead astray lead to the very segment again, where the chain of segments is whole.
  /// Nobody else is here.
  template <class Host>
  void begin_mending(Host& host) {
    soundness_.begin_mending();
    std::vector<std::uint64_t> chained;
    if (!along_chain(core_, host, [&](std::uint64_t at) { chained.push_back(at); }).empty()) return;
    std::unordered_set<std::uint64_t> const known(chained.begin(), chained.end());
    auto const entries = directory_.on_pm(host);
    for (std::uint64_t i = 0, s = 0; i < entries.size(); ++i) {
      std::uint64_t const least = i << (64 - entries.depth), address = host.load(entries.at + i);
      while (s + 1 < chained.size() &&
             host.load(&core_.segment_at(chained[s + 1]).header->start) <= least)
        ++s;
      if (known.contains(address) && host.load(&core_.segment_at(address).header->start) <= least)
        continue;
      host.store(entries.at + i, chained[s]);
      host.persist(entries.at + i, sizeof address);
      soundness_.note_mended(
          told("directory entry ", i, " led to byte ", address, ": put right, nothing is lost"));
    }
  }

  [[nodiscard]] std::uint64_t merges() const { return merges_.load(); }

 private:
  friend Segmented<Extendible, Keys, K>;
  using Base::core_;
  using Base::soundness_;

  // erasures that leave sparse buckets, of which one looks
  static constexpr std::uint64_t kLookToMerge = 8;

  template <class Host>
  Status claim(Host& host) {
    return directory_.claim(host);
  }
  template <class Host>
  void begin(Host& host) {
    directory_.begin(host);
  }
  template <class Host>
  PERDURE_HOT std::uint64_t holder(Host& host, std::uint64_t hash) {
    VolatileDirectory& now = directory_.now(host);
    std::uint64_t const found = host.load(&now.entries[now.index(hash)]);
    return found != 0 ? found : enter(host, hash);
  }
  template <class Host>
  bool holds(Host& host, std::uint64_t address, std::uint64_t hash) {
    return holder(host, hash) == address;
  }

  template <class Host, class F>
  PERDURE_HOT Answer until_settled(Host& host, std::uint64_t hash, F operation) {
    for (;; host.pause()) {
      VolatileDirectory& seen = directory_.now(host);
      std::uint64_t const* const entry = &seen.entries[seen.index(hash)];
      std::uint64_t address = host.load(entry);
      if (address == 0) [[unlikely]] {
        address = enter(host, hash);
        if (address == kDamaged) return Answer::damaged;
      }
      auto const right = [&] {
        return mutated("dash_segment_not_checked") ||
               (&directory_.now(host) == &seen && host.load(entry) == address);
      };
      Answer const answer = operation(core_.segment_at(address), right);
      if (answer != Answer::retry) return answer;
    }
  }

  template <class Host>
  void mark(Host&, std::uint64_t address) {
    core_.blocks.mark(Offset{address});
  }

  // --- Entering
  // -----------------------------------------------------------------------------------------------

  /// Looks an entry up on PM, makes its segment sound, and notes it.
  template <class Host>
  std::uint64_t enter(Host& host, std::uint64_t hash) {
    exec::SharedHold const held(host, directory_.lock());
    auto const entries = directory_.on_pm(host);
    std::uint32_t const depth = entries.depth;
    std::uint64_t const i = hash >> (64 - depth);
    std::uint64_t const* const at = entries.at + i;
    host.read(at, sizeof *at);
    std::uint64_t address = host.load(at);
    for (;;) {
      Extent extent;
      std::uint64_t start = 0;
      std::string const fault = fault_at(core_, host, address, extent, start);
      if (!fault.empty()) return core_.damage.note(told("directory entry ", i, ": ", fault));
      host.read(core_.segment_at(address).header, sizeof(std::uint64_t) * 3);
      if (extent.depth() > depth || start > hash)
        return core_.damage.note(told(
            "directory entry ", i, " of ", depth, " bits leads to the segment at byte ", address,
            ", which begins with hash ", start, " and has ", extent.depth(), " bits"));
      if (covers(extent, start, hash)) break;
      address = extent.next();
    }
    if (std::string const fault = soundness_.make(host, core_.segment_at(address)); !fault.empty())
      return core_.damage.note(told("segment at byte ", address, ": ", fault));
    VolatileDirectory& now = directory_.now(host);
    std::uint64_t& entry = now.entries[now.index(hash)];
    // If another has stored something meanwhile, that is newer.
    return host.cas(&entry, 0, address) ? address : host.load(&entry);
  }

  // --- Segments
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Segment make_segment(Host& host, Offset block, std::uint64_t start, Extent extent) {
    PERDURE_ASSERT(extent.depth() > 0 && begins_segment(start, extent.depth()));
    Segment const s = core_.segment_at(block.bytes);
    host.store(&s.header->start, start);
    host.store(&s.header->version, core_.version);
    host.store(&s.header->extent, extent.word);
    host.store(&s.header->chain, 0);
    host.flush(s.header, 32);
    if (!mutated("dash_split_not_touched")) core_.touch(s);
    return s;
  }

  /// Makes two of the segment that has this hash, if it is still `s`.
  template <class Host>
  Status make_room(Host& host, std::uint64_t hash, Segment s) {
    core_.ops.lock_all(host, s);
    Status const status = holds(host, core_.address_of(s), hash) ? split_locked(host, s) : Status{};
    core_.ops.unlock_all(host, s);
    return status;
  }

  template <class Host>
  Status split_locked(Host& host, Segment s) {
    Extent const extent{host.load(&s.header->extent)};
    std::uint32_t const depth = extent.depth();
    core_.touch(s);
    if (depth >= Extent::kMostDepth)
      return {Code::no_space, "more keys than a segment has room for share the first " +
                                  std::to_string(depth) +
                                  " bits of their hash; no split would tell them apart"};
    for (;;) {
      exec::SharedHold held(host, directory_.lock());
      std::uint32_t const all = directory_.now(host).depth;
      if (mutated("dash_halving_beside_split")) held.release();
      if (all > depth) return split_off(host, s, extent);
      held.release();
      if (Status status = directory_.double_from(host, all); !status.ok()) return status;
    }
  }
  /// The directory has a bit for it, and keeps it.
  template <class Host>
  Status split_off(Host& host, Segment s, Extent extent) {
    std::uint32_t const depth = extent.depth();
    PERDURE_ASSERT(depth > 0 && depth < Extent::kMostDepth);
    auto block = core_.blocks.take();
    if (!block) return block.status();
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth);
    std::uint64_t const start = host.load(&s.header->start) | bit;
    auto const moves = [&](std::uint64_t h) { return (h & bit) != 0; };

    Segment const right = make_segment(host, *block, start, Extent::of(depth + 1, extent.next()));
    SegmentContents const contents = core_.ops.contents(host, s);
    bool const early = mutated("dash_split_before_copy");
    if (early) commit_extent(host, s, Extent::of(depth + 1, block->bytes));
    core_.ops.copy(host, s, contents, right, moves);
    core_.ops.lock_all(host, right);
    if (!mutated("dash_split_not_ordered")) host.fence();
    if (!early) commit_extent(host, s, Extent::of(depth + 1, block->bytes));
    directory_.turn_entries(host, start, depth + 1, block->bytes, 0);
    if (!mutated("dash_split_keeps_moved")) core_.ops.remove_if(host, s, contents, moves);
    core_.ops.unlock_all(host, right);
    core_.splits.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

  /// Makes one of the segment that has this hash and its other half, if both together leave much
  /// room.
  template <class Host>
  void merge(Host& host, std::uint64_t hash) {
    std::uint64_t const some = holder(host, hash);
    std::uint32_t const depth =
        some == kDamaged ? 0 : Extent{host.load(&core_.segment_at(some).header->extent)}.depth();
    if (depth <= 1) return;
    std::uint64_t const bit = std::uint64_t{1} << (64 - depth);
    std::uint64_t const start = hash & ~(bit - 1) & ~bit;
    std::uint64_t const here = holder(host, start), there = holder(host, start | bit);
    if (here == kDamaged || there == kDamaged || here == there) return;
    Segment const left = core_.segment_at(here), right = core_.segment_at(there);
    if (core_.ops.count(host, left) + core_.ops.count(host, right) > most_merged()) return;
    bool const mine_first = mutated("dash_merge_locks_out_of_order") && (hash & bit) != 0;
    core_.ops.lock_all(host, mine_first ? right : left);
    core_.ops.lock_all(host, mine_first ? left : right);
    bool const still = holds(host, core_.address_of(left), start) &&
                       holds(host, core_.address_of(right), start | bit) &&
                       Extent{host.load(&left.header->extent)}.depth() == depth &&
                       Extent{host.load(&right.header->extent)}.depth() == depth;
    bool const merged = still && merge_locked(host, left, right, depth);
    core_.ops.unlock_all(host, right);
    core_.ops.unlock_all(host, left);
    if (!merged) return;
    epochs_.retire([this, right] { core_.blocks.give(Offset{core_.address_of(right)}); });
    merges_.fetch_add(1, std::memory_order_relaxed);
    if (depth == directory_.now(host).depth) directory_.halve(host, start);
  }
  [[nodiscard]] std::uint64_t most_merged() const {
    return std::uint64_t{core_.ops.shape().buckets} * kSlots / 2;
  }

  template <class Host>
  bool merge_locked(Host& host, Segment left, Segment right, std::uint32_t depth) {
    PERDURE_ASSERT(depth > 1 && !(left == right));
    SegmentContents contents = core_.ops.contents(host, left);
    auto const plan = core_.ops.plan_merge(contents, core_.ops.contents(host, right));
    if (!plan) return false;
    Extent const both = Extent::of(depth - 1, Extent{host.load(&right.header->extent)}.next());
    core_.touch(left);
    core_.touched.gone(core_.address_of(right));
    bool const early = mutated("dash_merge_before_copy"),
               late = mutated("dash_merge_directory_last");
    if (early) commit_extent(host, left, both);
    core_.ops.merge(host, left, contents, right, *plan);
    if (!late)
      directory_.turn_entries(host, host.load(&right.header->start), depth, core_.address_of(left),
                              core_.address_of(right));
    if (!early) commit_extent(host, left, both);
    if (late)
      directory_.turn_entries(host, host.load(&right.header->start), depth, core_.address_of(left),
                              core_.address_of(right));
    return true;
  }

  Directory<typename Base::Core> directory_{core_, epochs_};
  std::atomic<std::uint64_t> merges_{0};
  exec::Epochs epochs_;  // last: what it frees is above, or Segmented's
};

}  // namespace perdure::dash
