// Operations of Dash on whole segments: what splits, merges, chains and recovery are made of.
// Invariant: they move records as single operations do (segment.hpp): a copy is ordered before its
// original goes, and a slot that is free says so before its segment has hashes for which it could
// count.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "index/dash/segment.hpp"

namespace perdure::dash {

/// What counts in a bucket, with the hash of each key.
struct BucketContents {
  std::uint32_t used = 0;
  std::uint32_t guests = 0;
  std::array<std::uint64_t, kSlots> hashes{};
  [[nodiscard]] std::uint32_t count() const {
    return static_cast<std::uint32_t>(std::popcount(used));
  }
};
using SegmentContents = std::vector<BucketContents>;

/// `base`: of the pool, where segments may have chains.
template <class Keys, class K = Knobs>
class WholeSegmentOps : public SegmentOps<Keys, K> {
  using Base = SegmentOps<Keys, K>;

 public:
  using Base::Base;
  using Base::chain_of;
  using Base::chained_at;

  template <class Host>
  void lock_all(Host& host, Segment s) const {
    for (std::uint32_t b = 0; b < all(); ++b) lock(host, s.bucket(b));
  }
  template <class Host>
  void unlock_all(Host& host, Segment s) const {
    for (std::uint32_t b = all(); b-- > 0;) unlock(host, s.bucket(b));
  }

  /// Of a segment that nobody changes.
  template <class Host>
  SegmentContents contents(Host& host, Segment s) const {
    SegmentContents contents(buckets_of(host, s));
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      State const state = state_of(host, s, b);
      contents[b].used = state.used();
      contents[b].guests = state.guests();
      for_each_bit(state.used(), [&](std::uint32_t i) {
        contents[b].hashes[i] = keys_.hash_of(slot_at(host, s, {b, i}));
      });
    }
    return contents;
  }

  /// f(slot) for each record of a segment that nobody changes.
  template <class Host, class F>
  void for_each(Host& host, Segment s, F f) const {
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b)
      for_each_bit(state_of(host, s, b).used(),
                   [&](std::uint32_t i) { f(slot_at(host, s, {b, i})); });
  }

  /// How many more chained buckets it takes than `stash` has room for, if just what `selects(hash)`
  /// picks is kept.
  template <class Selects>
  [[nodiscard]] std::uint32_t chain_for(SegmentContents const& contents, Selects selects) const {
    std::uint32_t beyond = 0;
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b)
      for_each_bit(contents[b].used,
                   [&](std::uint32_t i) { beyond += selects(contents[b].hashes[i]); });
    std::uint32_t const room = shape_.stash * kSlots;
    return beyond <= room ? 0 : (beyond - room + kSlots - 1) / kSlots;
  }

  template <class Host>
  [[nodiscard]] std::uint64_t count(Host& host, Segment s) const {
    std::uint64_t n = 0;
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b)
      n += state_of(host, s, b).count();
    return n;
  }

  /// Makes a segment of what nobody reaches yet, whose header is written: no record. Ordered by who
  /// fences next.
  template <class Host>
  void clear(Host& host, Segment s) const {
    write_whole(host, s, SegmentContents(all()));
  }

  /// The records of `from` that `selects(hash)` picks, and no others, into `to`, which nobody
  /// reaches yet and whose header is written; into their target buckets where those have room.
  /// Ordered by who fences next.
  template <class Host, class Selects>
  void copy(Host& host, Segment from, SegmentContents const& contents, Segment to,
            Selects selects) const {
    std::vector<std::uint32_t> waiting(
        contents.size());  // slots whose records are still to come, and may stay there
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        waiting[b] |= std::uint32_t{selects(contents[b].hashes[i])} << i;
      });
    }
    PERDURE_ASSERT(contents.size() >= all() && !(from == to));
    SegmentContents made(buckets_of(host, to));
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      for_each_bit(waiting[b], [&](std::uint32_t i) {
        std::uint64_t const hash = contents[b].hashes[i];
        std::uint32_t const target = target_of(hash);
        std::optional<SlotPosition> position =
            b < shape_.buckets ? SlotPosition{b, i} : room_for(made, hash);
        if (b < shape_.buckets && b != target) {
          if (auto const in_target = free_in(made[target].used | waiting[target], target))
            position = in_target;
        }
        waiting[b] &= ~(1u << i);
        PERDURE_ASSERT(position.has_value());  // chain_for() has seen to it
        add(made, *position, hash);
        store_slot(host, to, *position, slot_at(host, from, {b, i}));
      });
    }
    write_whole(host, to, made);
  }

  /// Takes away what `removed(hash)` picks, of a segment that is locked, and that has not those
  /// hashes any more.
  template <class Host, class Removed>
  void remove_if(Host& host, Segment s, SegmentContents contents, Removed removed) const {
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        if (removed(contents[b].hashes[i])) contents[b].used &= ~(1u << i);
      });
    }
    PERDURE_ASSERT(is_locked(s.bucket(0)) && contents.size() >= all());
    store_contents(host, s, contents);
    empty_stash(host, s, contents);
  }

  /// Room in `into` for all of `from`, as (from, into) positions; none where something does not
  /// fit.
  using Plan = std::vector<std::pair<SlotPosition, SlotPosition>>;
  std::optional<Plan> plan_merge(SegmentContents& into, SegmentContents const& from) const {
    Plan plan;
    for (std::uint32_t b = 0; b < from.size(); ++b) {
      std::uint32_t left = from[b].used;
      for (; left != 0; left &= left - 1) {
        auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
        std::optional<SlotPosition> const position = room_for(into, from[b].hashes[i]);
        if (!position) return std::nullopt;
        add(into, *position, from[b].hashes[i]);
        plan.push_back({{b, i}, *position});
      }
    }
    return plan;
  }
  /// Both are locked; `merged` is what plan_merge() made of `into`. Ordered when it returns.
  template <class Host>
  void merge(Host& host, Segment into, SegmentContents const& merged, Segment from,
             Plan const& plan) const {
    PERDURE_ASSERT(is_locked(into.bucket(0)) && is_locked(from.bucket(0)));
    PERDURE_ASSERT(!(into == from) && merged.size() >= all());
    for (auto const& [source, slot] : plan)
      store_slot(host, into, slot, slot_at(host, from, source));
    if (!mutated("dash_merge_keeps_leftovers")) free_unused(host, into, merged);
    flush_buckets(host, into);
    host.fence();
    store_contents(host, into, merged);
  }

  // --- Chains
  // -----------------------------------------------------------------------------------------------

  /// Chains a bucket of its own to a segment. Where others may reach it, only if none that is
  /// chained has room by now; false: it has, and the bucket is the caller's still.
  template <class Host>
  bool chain(Host& host, Segment s, std::uint64_t block, bool reached) const {
    PERDURE_ASSERT(base_ != nullptr && block != 0 && block % sizeof(Bucket) == 0);
    Bucket& last = s.bucket(all() - 1);
    if (reached) lock(host, last);
    // at the end, so that the others' places in the chain stay
    std::uint64_t* link = &s.header->chain;
    bool room = false;
    for (std::uint64_t at = 0; (at = host.load(link)) != 0; link = &chained_at(at).hints)
      room |= reached && !State{host.load(&chained_at(at).state)}.full();
    if (!room) {
      Bucket& bucket = chained_at(block);
      host.store(&bucket.state, 0);
      host.store(&bucket.prints[0], 0);
      host.store(&bucket.prints[1], 0);
      host.store(&bucket.hints, 0);
      free_slots(host, bucket, State::kAll, keys_.elsewhere(host.load(&s.header->start)));
      host.flush(&bucket, sizeof bucket);
      if (!mutated("dash_link_before_bucket")) host.fence();
      host.store(link, block);
      host.persist(link, sizeof *link);
    }
    if (reached) unlock(host, last);
    return !room;
  }
  /// Lets go of a chain of a segment that is locked, if nothing is in it: what to give back.
  template <class Host>
  std::vector<std::uint64_t> unchain(Host& host, Segment s) const {
    PERDURE_ASSERT(is_locked(s.bucket(all() - 1)));
    std::vector<std::uint64_t> chained = chain_of(host, s);
    for (std::uint64_t const at : chained) {
      if (State{host.load(&chained_at(at).state)}.used() != 0) return {};
    }
    if (chained.empty()) return {};
    host.store(&s.header->chain, 0);
    host.persist(&s.header->chain, sizeof s.header->chain);
    return chained;
  }
  /// Makes a segment sound that a crash left: no lock held, no key twice, and metadata that says
  /// what the slots hold of what `belongs(hash)`. Nobody else reaches it. The caller orders it.
  template <class Host, class Belongs>
  void recover(Host& host, Segment s, Belongs belongs) const {
    SegmentContents found = surviving(host, s, belongs);
    std::uint64_t const free = keys_.elsewhere(host.load(&s.header->start));
    for (std::uint32_t b = 0; b < found.size(); ++b) {
      for_each_bit(found[b].used, [&](std::uint32_t i) {
        if (!stands_before(host, s, found, {b, i}) || mutated("dash_recovery_keeps_duplicates"))
          return;
        found[b].used &= ~(1u << i);
        if (mutated("dash_recovery_frees_nothing")) return;
        free_slots(host, bucket_at(host, s, b), 1u << i, free);
        host.flush(&bucket_at(host, s, b).slots[i], sizeof(Slot));
      });
    }
    new_metadata(host, s, found);
  }

 private:
  using Base::all;
  using Base::base_;
  using Base::bucket_at;
  using Base::buckets_of;
  using Base::flush_buckets;
  using Base::free_slot;
  using Base::free_slots;
  using Base::goes_next;
  using Base::keys_;
  using Base::last_of;
  using Base::next_of;
  using Base::place;
  using Base::shape_;
  using Base::slot_at;
  using Base::state_of;
  using Base::store_metadata;
  using Base::store_slot;
  using Base::target_of;
  using Base::tell_overflow;

  template <class Host>
  void free_unused(Host& host, Segment s, SegmentContents const& contents) const {
    std::uint64_t const free = keys_.elsewhere(host.load(&s.header->start));
    for (std::uint32_t b = 0; b < contents.size(); ++b)
      free_slots(host, bucket_at(host, s, b), State::kAll & ~contents[b].used, free);
  }
  static std::array<std::uint64_t, 2> prints_of(BucketContents const& contents) {
    std::array<std::uint64_t, 2> prints{};
    for_each_bit(contents.used, [&](std::uint32_t i) {
      prints[i / 8] |= std::uint64_t{fingerprint(contents.hashes[i])} << (8 * (i % 8));
    });
    return prints;
  }
  void add(SegmentContents& contents, SlotPosition position, std::uint64_t hash) const {
    BucketContents& bucket = contents[position.bucket];
    PERDURE_ASSERT((bucket.used >> position.slot & 1) == 0);
    bool const guest = position.bucket < shape_.buckets && position.bucket != target_of(hash);
    bucket.used |= 1u << position.slot;
    bucket.guests = (bucket.guests & ~(1u << position.slot)) | static_cast<std::uint32_t>(guest)
                                                                   << position.slot;
    bucket.hashes[position.slot] = hash;
  }
  /// In the one of a key's buckets that an insert would take, or in the stash.
  std::optional<SlotPosition> room_for(SegmentContents const& contents, std::uint64_t hash) const {
    std::uint32_t const target = target_of(hash), next = next_of(target);
    std::uint32_t const b =
        goes_next(contents[target].count(), contents[next].count()) ? next : target;
    if (auto const position = free_in(contents[b].used, b)) return position;
    for (std::uint32_t stash = shape_.buckets; stash < contents.size(); ++stash) {
      if (auto const position = free_in(contents[stash].used, stash)) return position;
    }
    return std::nullopt;
  }
  static std::optional<SlotPosition> free_in(std::uint32_t used, std::uint32_t b) {
    auto const i = static_cast<std::uint32_t>(std::countr_one(used));
    if (i >= kSlots) return std::nullopt;
    return SlotPosition{b, i};
  }

  /// Of a segment that nobody reaches and whose records are written.
  template <class Host>
  void write_whole(Host& host, Segment s, SegmentContents const& contents) const {
    if (!mutated("dash_room_not_freed")) free_unused(host, s, contents);
    new_metadata(host, s, contents);
    flush_buckets(host, s);
  }
  /// Nobody reaches the segment: no lock is held.
  template <class Host>
  void new_metadata(Host& host, Segment s, SegmentContents const& contents) const {
    for (std::uint32_t b = 0; b < contents.size(); ++b)
      store_metadata(host, s, b, State{}.with(contents[b].used, contents[b].guests),
                     prints_of(contents[b]));
    store_hints(host, s, contents);
  }
  /// All metadata of a segment that is locked; locks and versions stay.
  template <class Host>
  void store_contents(Host& host, Segment s, SegmentContents const& contents) const {
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      State const state = state_of(host, s, b).with(contents[b].used, contents[b].guests);
      store_metadata(host, s, b, state, prints_of(contents[b]));
    }
    store_hints(host, s, contents);
  }
  /// Hints are zero.
  template <class Host>
  void store_hints(Host& host, Segment s, SegmentContents const& contents) const {
    for (std::uint32_t b = 0; b < shape_.buckets; ++b) {
      for_each_bit(contents[b].used & contents[b].guests, [&](std::uint32_t i) {
        store_beyond(host, s.bucket(last_of(b)), contents[b].hashes[i]);
      });
    }
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        tell_overflow(host, s, contents[b].hashes[i], b - shape_.buckets);
      });
    }
  }

  /// What has room in its own buckets leaves the stash, of a segment that is locked.
  template <class Host>
  void empty_stash(Host& host, Segment s, SegmentContents& contents) const {
    bool moved = false;
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        std::uint64_t const hash = contents[b].hashes[i];
        std::optional<SlotPosition> const position = room_for(contents, hash);
        if (!position || position->bucket >= shape_.buckets) return;
        place(host, s, position->bucket, hash, slot_at(host, s, {b, i}));
        free_slot(host, s, {b, i}, hash);
        add(contents, *position, hash);
        contents[b].used &= ~(1u << i);
        moved = true;
      });
    }
    if (moved) store_contents(host, s, contents);
  }

  /// What the slots say after a crash.
  template <class Host, class Belongs>
  SegmentContents surviving(Host& host, Segment s, Belongs belongs) const {
    SegmentContents found(buckets_of(host, s));
    for (std::uint32_t b = 0; b < found.size(); ++b) {
      Bucket& bucket = bucket_at(host, s, b);
      host.read(&bucket, sizeof bucket);
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        Slot slot;
        (slot.*Keys::naming) = host.load(&(bucket.slots[i].*Keys::naming));
        std::uint64_t const hash = keys_.hash_of(slot);
        bool const guest = b < shape_.buckets && b != target_of(hash);
        if (belongs(hash) && (!guest || (K::probing && b == next_of(target_of(hash)))))
          add(found, {b, i}, hash);
      }
    }
    return found;
  }

  /// Whether a key stands a second time, in a place that a crash inside a move leaves the other
  /// copy of.
  template <class Host>
  bool stands_before(Host& host, Segment s, SegmentContents const& found,
                     SlotPosition position) const {
    std::uint64_t const hash = found[position.bucket].hashes[position.slot];
    std::uint32_t const target = target_of(hash);
    for (std::uint32_t const b : {target, next_of(target)}) {
      if (b == position.bucket) return false;
      bool twice = false;
      for_each_bit(found[b].used, [&](std::uint32_t i) {
        if (found[b].hashes[i] != hash) return;
        twice |= keys_.same(host, slot_at(host, s, {b, i}), slot_at(host, s, position));
      });
      if (twice) return true;
    }
    return false;
  }
};

}  // namespace perdure::dash
