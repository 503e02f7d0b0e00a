// Dash-EH: a directory over segments, each of which has the keys of one range of hashes (Lu et al.,
// VLDB'20, sections 4.1, 4.7, 4.8). It departs from the paper in what makes a split: one word.
// Invariants:
//
//  * The segments, each leading to the next, cover all hashes, in order, whatever crashes. A split
//  or a merge is
//    committed by storing the left segment's `extent`: how far it reaches and which comes next.
//    Before that store the right segment is not there (split) or still is (merge); after it, what
//    the left one holds of keys beyond its reach is left over, and recovery drops it. So nothing
//    has to be rolled back or forward.
//  * A directory entry on PM leads to the segment of its hashes, or to one before it, from which
//  the chain leads there.
//    An entry that a crash left behind is no error. A merge turns every entry that leads to the
//    right segment to the left one first, and only then commits: nothing durable ever leads to a
//    segment that is gone.
//  * Threads read a volatile copy of the directory, filled entry by entry. An entry that is there
//  leads to the very
//    segment, and that one has been made sound since the pool was opened (lazy recovery): opening
//    takes no time.
//  * Who changes which segment has a range of hashes holds all its locks from before that to after
//  it.
//  * Who splits a segment shares the directory's lock from before it looks whether the directory
//  has a bit for that
//    until its entries are turned: nobody halves it in between. Locks are taken in this order:
//    buckets, those of the left segment before those of the right, then the directory's, then the
//    pool's.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/zero_words.hpp"
#include "exec/epochs.hpp"
#include "index/dash/segmented.hpp"
#include "index/dash/shared_lock.hpp"
#include "index/dash/whole_segment.hpp"
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
  Extendible(pm::Pool& pool, std::mutex& memory, Keys keys, SegmentShape shape)
      : Base(pool, memory, Ops(keys, shape), shape.bytes()) {}

  /// Superblock `index` is the index's; there are 2^depth segments to begin with, two at
  /// least, so that free slots can name keys of the other half. The caller makes it the pool's
  /// root.
  template <class Host>
  Status create(Host& host, Offset index, std::uint32_t depth) {
    set_root(index);
    version_ = 1;
    depth = std::max(depth, 1u);
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
    Directory const& directory = this->directory(host);
    host.prefetch(&directory.entries[directory.index(hash)]);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// Where to go on after damage at `position`: a segment may begin there.
  template <class Host>
  std::uint64_t beyond(Host& host, std::uint64_t position) {
    Directory& directory = this->directory(host);
    return (directory.index(position) + 1) << (64 - directory.depth);
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
  friend Base;
  using Base::base_;
  using Base::blocks_;
  using Base::covers;
  using Base::damage_;
  using Base::gone;
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
  using Base::version_;

  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 56) - 1;
  // erasures that leave sparse buckets, of which one looks
  static constexpr std::uint64_t kLookToMerge = 8;
  static constexpr std::uint64_t kSmallDirectory = 1u
                                                   << 19;  // bytes; larger ones have to be worth it

  struct Directory {
    explicit Directory(std::uint32_t its_depth) : depth(its_depth), entries(size()) {}
    std::uint32_t depth;
    ZeroWords entries;  // places of segments; 0 = not looked up yet
    [[nodiscard]] std::size_t size() const { return std::size_t{1} << depth; }
    [[nodiscard]] std::uint64_t index(std::uint64_t hash) const { return hash >> (64 - depth); }
  };

  [[nodiscard]] Offset place_of_index() const {
    return Offset{static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(root_) - base_)};
  }
  [[nodiscard]] std::uint64_t* entries_at(Offset place) const {
    return reinterpret_cast<std::uint64_t*>(base_ + place.bytes);
  }

  // --- The directory
  // ----------------------------------------------------------------------------------------------

  template <class Host>
  PERDURE_HOT Directory& directory(Host& host) {
    return *reinterpret_cast<Directory*>(host.load(&volatile_));
  }
  template <class Host>
  PERDURE_HOT std::uint64_t holder(Host& host, std::uint64_t hash) {
    Directory& directory = this->directory(host);
    std::uint64_t const found = host.load(&directory.entries[directory.index(hash)]);
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

  template <class Host>
  Status claim(Host& host) {
    std::uint64_t const directory = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(directory >> 56);
    if (depth == 0 || depth > Extent::kMostDepth ||
        !claim_directory(depth, Offset{directory & kPlace}))
      return {Code::corrupt, told("the index's directory, of ", depth, " bits, cannot lie at byte ",
                                  directory & kPlace)};
    return {};
  }
  /// Whether a directory may lie there; if so, and it has superblocks of its own, they are in use.
  bool claim_directory(std::uint32_t depth, Offset place) {
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth),
                        superblock = pool_->superblock_bytes();
    if (at + (std::uint64_t{8} << depth) <= superblock)
      return place.bytes == place_of_index().bytes + at;
    std::lock_guard const lock(*memory_);
    if (!pool_->is_free_run(place, superblocks_of(depth))) return false;
    pool_->claim_run(place, superblocks_of(depth));
    return true;
  }

  // --- Entering
  // -----------------------------------------------------------------------------------------------

  /// Looks an entry up on PM, makes its segment sound, and notes it.
  template <class Host>
  std::uint64_t enter(Host& host, std::uint64_t hash) {
    HeldShared const held(host, directory_lock_);
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
    Directory& directory = this->directory(host);
    std::uint64_t& entry = directory.entries[directory.index(hash)];
    // If another has stored something meanwhile, that is newer.
    return host.cas(&entry, 0, place) ? place : host.load(&entry);
  }

  template <class Host>
  void begin(Host& host) {
    auto const depth = static_cast<std::uint32_t>(host.load(&root_->directory) >> 56);
    auto directory = std::make_unique<Directory>(depth);
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(directory.get()));
    owned_ = std::move(directory);
  }
  template <class Host>
  void replace_volatile(Host& host, std::unique_ptr<Directory> next) {
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(next.get()));
    // Others may be reading it: where there is no memory to note that it is to go, it stays.
    Directory* const old = owned_.release();
    owned_ = std::move(next);
    epochs_.retire([old] { delete old; });
  }

  [[nodiscard]] std::uint64_t pool_bytes() const {
    std::lock_guard const lock(*memory_);
    return pool_->bytes();
  }
  [[nodiscard]] std::uint64_t superblocks_of(std::uint32_t depth) const {
    return ((std::uint64_t{8} << depth) + pool_->superblock_bytes() - 1) /
           pool_->superblock_bytes();
  }
  Result<Offset> directory_place(std::uint32_t depth) {
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth);
    if (at + (std::uint64_t{8} << depth) <= pool_->superblock_bytes())
      return Offset{place_of_index().bytes + at};
    std::lock_guard const lock(*memory_);
    return pool_->take_run(superblocks_of(depth));
  }
  /// Writes a directory of entries[i] = of(i) and makes it the one that counts; nobody reads the
  /// old one.
  template <class Host, class Of>
  Status switch_directory(Host& host, std::uint32_t depth, Of of) {
    auto place = directory_place(depth);
    if (!place) return place.status();
    std::uint64_t* const entries = entries_at(*place);
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) host.store(entries + i, of(i));
    host.flush(entries, std::uint64_t{8} << depth);
    if (!mutated("dash_directory_not_ordered")) host.fence();
    std::uint64_t const old = host.load(&root_->directory);
    host.store(&root_->directory, std::uint64_t{depth} << 56 | place->bytes);
    host.persist(&root_->directory, sizeof root_->directory);
    if (std::uint64_t const run = old & kPlace; run % pool_->superblock_bytes() == 0) {
      std::lock_guard const lock(*memory_);
      pool_->give_run(Offset{run}, superblocks_of(static_cast<std::uint32_t>(old >> 56)));
    }
    return {};
  }

  /// Twice as many entries, if there are still as many as `depth` says.
  template <class Host>
  Status double_directory(Host& host, std::uint32_t depth) {
    HeldAlone const held(host, directory_lock_);
    std::uint64_t const root = host.load(&root_->directory);
    if (root >> 56 != depth) return {};
    if (std::uint64_t const bytes = std::uint64_t{16} << depth;
        bytes > std::max(kSmallDirectory, pool_bytes() / 4))
      return {Code::no_space, "keys whose hashes are alike would take a directory of " +
                                  std::to_string(bytes) +
                                  " bytes, more than a quarter of the pool"};
    std::uint64_t const* const old = entries_at(Offset{root & kPlace});
    auto next = std::make_unique<Directory>(
        depth + 1);  // before anything is changed: there may be no memory for it
    if (Status s = switch_directory(host, depth + 1,
                                    [&](std::uint64_t i) { return host.load(old + i / 2); });
        !s.ok())
      return s;
    Directory const& now = directory(host);
    for (std::size_t i = 0; i < now.size(); ++i)
      next->entries[2 * i] = next->entries[2 * i + 1] = host.load(&now.entries[i]);
    replace_volatile(host, std::move(next));
    return {};
  }

  /// Half as many entries, if no segment needs more. Looks from hash `start` on, where one has just
  /// ceased to.
  template <class Host>
  void halve_directory(Host& host, std::uint64_t start) {
    HeldAlone const held(host, directory_lock_);
    std::uint64_t const root = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t const* const old = entries_at(Offset{root & kPlace});
    if (depth == 1) return;
    std::uint64_t const last = (std::uint64_t{1} << depth) - 1;
    for (std::uint64_t n = 0, i = start >> (64 - depth) & ~std::uint64_t{1}; n <= last;
         n += 2, i = (i + 2) & last) {
      std::uint64_t const place = host.load(old + i);
      // Entries that a crash left behind may agree though there are two segments.
      if (place != host.load(old + i + 1) || !blocks_.is_block(Offset{place})) return;
      std::uint64_t const& extent = segment_at(place).header->extent;
      bool const two = Extent{host.load(&extent)}.depth() >= depth;
      if (two && !mutated("dash_halving_trusts_entries")) return;
      // Who merged it may not have come to that; ordered before the switch.
      if (!mutated("dash_halving_not_flushed")) host.flush(&extent, sizeof extent);
    }
    auto next = std::make_unique<Directory>(depth - 1);
    if (!switch_directory(host, depth - 1, [&](std::uint64_t i) {
           return host.load(old + 2 * i);
         }).ok())
      return;
    Directory const& now = directory(host);
    for (std::size_t i = 0; i < next->size(); ++i) next->entries[i] = agreed(host, now, 2 * i);
    replace_volatile(host, std::move(next));
  }
  /// Two entries that become one lead to one segment, or are not looked up yet.
  template <class Host>
  static std::uint64_t agreed(Host& host, Directory const& directory, std::size_t i) {
    std::uint64_t const left = host.load(&directory.entries[i]),
                        right = host.load(&directory.entries[i + 1]);
    return left == right ? left : 0;
  }

  /// Entries of the hashes from `start` on that `depth` bits tell apart, or, beyond them, those
  /// that still lead to `instead_of`, lead to `place` from now on.
  template <class Host>
  void turn_entries(Host& host, std::uint64_t start, std::uint32_t depth, std::uint64_t place,
                    std::uint64_t instead_of) {
    HeldShared const held(
        host, directory_lock_);  // a split has it already: who waits to be alone keeps nobody out
    std::uint64_t const root = host.load(&root_->directory);
    auto const all = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t* const entries = entries_at(Offset{root & kPlace});
    std::uint64_t const first = start >> (64 - all), n = std::uint64_t{1} << (all - depth);
    std::uint64_t end = first;
    for (; end < std::uint64_t{1} << all; ++end) {
      if (end >= first + n && host.load(entries + end) != instead_of) break;
      host.store(entries + end, place);
    }
    host.persist(entries + first, (end - first) * 8);
    Directory& now = directory(host);
    for (std::uint64_t i = first; i < first + n; ++i) host.store(&now.entries[i], place);
  }

  // --- Segments
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Segment make_segment(Host& host, Offset block, std::uint64_t start, Extent extent) {
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
      HeldShared held(host, directory_lock_);
      std::uint32_t const all = directory(host).depth;
      if (mutated("dash_halving_beside_split")) held.let_go();
      if (all > depth) return split_off(host, s, extent);
      held.let_go();
      if (Status status = double_directory(host, all); !status.ok()) return status;
    }
  }
  /// The directory has a bit for it, and keeps it.
  template <class Host>
  Status split_off(Host& host, Segment s, Extent extent) {
    std::uint32_t const depth = extent.depth();
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

  std::uint64_t volatile_ = 0;  // a Directory, shared: read and replaced through the Host
  std::unique_ptr<Directory> owned_;  // the same
  SharedLock directory_lock_;  // shared by who reads or changes entries on PM, alone by who
                               // replaces the directory
  std::atomic<std::uint64_t> merges_{0};
  exec::Epochs epochs_;  // last: what it frees is above, or Segmented's
};

}  // namespace perdure::dash
