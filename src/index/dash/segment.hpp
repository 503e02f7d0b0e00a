// Single operations on one segment of Dash: buckets of 14 slots and a stash, searched without locks
// and changed under the locks of a key's two buckets (Lu et al., VLDB'20, sections 4.2 to 4.6).
// Invariants:
//
//  * What counts after a crash, the slots say by themselves: a slot holds a record if its key
//    belongs to the segment, and to that bucket. Free slots name a key of the other half of all
//    hashes, which belongs to no segment of this half. A slot's key is stored last, and its line
//    holds what was stored to it in that order (pm/host.hpp), so a record appears by one flushed
//    line, whole, and goes by another. What a split moved away stays in its slot: it does not
//    belong there any more. Who lets a segment have more hashes frees such slots before
//    (whole_segment.hpp).
//  * Metadata serves searches alone, and is never flushed: recovery makes it anew from the slots.
//  * A record is changed, moved or removed only under the lock of its target bucket, wherever it
//    lies. So a search holds if the target bucket's state is what it was before, and no other
//    bucket's needs to be looked at again. What a bucket has, records and metadata, changes under
//    its own lock. So who needs no room, or finds it at target, locks that alone; all others lock
//    the probing bucket as well.
//  * What an operation did is ordered before it releases its locks: nobody sees what a crash can
//    take back.
//  * Locks are taken in the order of the buckets, the stash last; further ones, to displace into,
//    are only tried.
//
// Between target and probing bucket there is a filter of 24 bits that the paper has not, and a
// record goes to the probing bucket only once its target has kAtTarget: both spare most searches
// the second bucket. The paper has a bitmap say which slots count, a line and a fence more for each
// insert, and displaces one record where here up to four may move on. In a table whose segments may
// be chained (linear.hpp), buckets of their own follow the stash, one leading to the next; their
// `hints` are that link, which is durable and changes under the last stash bucket's lock.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/dash/layout.hpp"
#include "index/dash/segment_buckets.hpp"
#include "index/dash/segment_search.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class SegmentOps : public SegmentSearch<Keys, K> {
  using Base = SegmentSearch<Keys, K>;

 public:
  using Base::Base;
  using typename Base::Key;

  // --- Single operations. `right()` tells whether the segment is still the key's.
  // -------------------------------

  enum class Write : std::uint8_t { insert, put, update };
  /// `before`: what an update, or a put of a key that is there, replaced.
  template <class Host, class Right>
  Answer write(Host& host, Segment s, Key const& key, Slot const& slot, Write how,
               Right const& right, std::optional<Slot>& before) const {
    Pair pair = lock_target(host, s, key.hash);
    Answer const answer =
        right() ? write_locked(host, s, pair, key, slot, how, before) : Answer::retry;
    unlock_pair(host, s, pair);
    return answer;
  }

  /// Replaces the value that is there by change(slot), under the target bucket's lock.
  template <class Host, class Right, class Change>
  Answer modify(Host& host, Segment s, Key const& key, Right right, Change change,
                Slot& before) const {
    Pair const pair = lock_target(host, s, key.hash);
    Answer answer = Answer::retry;
    if (right()) {
      Slot found;
      SlotPosition position;
      answer = Answer::absent;
      if (locate(host, s, key, state_of(host, s, target_of(key.hash)), found, &position)) {
        before = found;
        replace(host, s, position, change(found));
        answer = Answer::done;
      }
    }
    unlock_pair(host, s, pair);
    return answer;
  }

  /// `sparse`: the key's two buckets have so little left that their segment may do with half the
  /// room.
  template <class Host, class Right>
  PERDURE_HOT Answer erase(Host& host, Segment s, Key const& key, Right const& right, Slot& before,
                           bool& sparse) const {
    if constexpr (K::optimistic) {
      auto const answer = erase_as_seen(host, s, key, right, before, sparse);
      if (answer) [[likely]]
        return *answer;
    }
    return erase_locked(host, s, key, right, before, sparse);
  }

 protected:
  using Base::all;
  using Base::bucket_at;
  using Base::buckets_of;
  using Base::fetch_ahead;
  using Base::fetch_bucket;
  using Base::keys_;
  using Base::kMetadata;
  using Base::last_of;
  using Base::leads_beyond;
  using Base::locate;
  using Base::locate_in;
  using Base::locate_outside;
  using Base::lock_next;
  using Base::lock_target;
  using Base::next_of;
  using Base::overflow_candidates;
  using Base::pair_of;
  using Base::shape_;
  using Base::slot_at;
  using Base::state_of;
  using Base::store_slot;
  using Base::target_of;
  using Base::unlock_pair;
  using typename Base::Pair;

  static constexpr std::uint32_t kSparse = 3;
  // buckets that displacement makes room in, for room in the one before
  static constexpr std::uint32_t kFurther = 3;

  // --- Erasing
  // -----------------------------------------------------------------------------------------------

  /// The key is searched for as find() does, and then its target bucket is locked from the very
  /// state that the search began with: so nobody has moved the record since, wherever it lies, and
  /// the segment is still the right one, for whoever changes that has the lock before. All lines
  /// are here by then. None: the record has to be searched for under locks.
  template <class Host, class Right>
  PERDURE_HOT std::optional<Answer> erase_as_seen(Host& host, Segment s, Key const& key,
                                                  Right const& right, Slot& before,
                                                  bool& sparse) const {
    std::uint32_t const b = target_of(key.hash);
    Bucket& target = s.bucket(b);
    fetch_ahead(host, s, b);
    host.read(&target, kMetadata);
    State const seen{host.load(&target.state)};
    if (seen.locked() || !right()) return Answer::retry;
    SlotPosition position;
    if (!locate_in(host, target, b, key, seen.used() & ~seen.guests(), before, &position))
        [[unlikely]]
      return erase_outside(host, s, key, seen, before, sparse);
    if (!lock_as_seen(host, target, seen, mutated("dash_erase_not_checked"))) return Answer::retry;
    State const left = seen.without(1u << position.slot);
    empty_slot(host, target, position.slot, key.hash);
    host.store(&target.state, left.unlocked().word);
    sparse =
        left.count() <= kSparse && left.count() + state_of(host, s, next_of(b)).count() <= kSparse;
    return Answer::done;
  }
  /// The same for a key that the target bucket, in the state `seen`, has not.
  template <class Host>
  std::optional<Answer> erase_outside(Host& host, Segment s, Key key, State seen, Slot& before,
                                      bool& sparse) const {
    Pair pair = pair_of(key.hash);
    Bucket& target = s.bucket(pair.target);
    Hints const hints{host.load(&target.hints)};
    bool const in_next = leads_beyond(hints, key.hash);
    if (in_next) fetch_bucket(host, s.bucket(pair.next));
    bool const late = mutated("dash_erase_outside_not_checked");
    SlotPosition position;
    if (!locate_outside(host, s, key, hints, in_next, before, &position)) {
      bool const still = host.load(&target.state) == seen.word;
      return still || late ? Answer::absent : Answer::retry;
    }
    if (pair.next < pair.target) return std::nullopt;  // its lock comes first
    if (!lock_as_seen(host, target, seen, late)) return Answer::retry;
    lock_next(host, s, pair);
    remove(host, s, position, key.hash);
    std::uint32_t const left = seen.count();
    sparse = left <= kSparse && left + state_of(host, s, pair.next).count() <= kSparse;
    unlock_pair(host, s, pair);
    return Answer::done;
  }
  template <class Host, class Right>
  Answer erase_locked(Host& host, Segment s, Key const& key, Right const& right, Slot& before,
                      bool& sparse) const {
    Pair pair = lock_target(host, s, key.hash);
    Answer answer = Answer::retry;
    if (right()) {
      SlotPosition position;
      answer = Answer::absent;
      if (locate(host, s, key, state_of(host, s, pair.target), before, &position)) {
        if (position.bucket != pair.target) lock_next(host, s, pair);
        remove(host, s, position, key.hash);
        answer = Answer::done;
        std::uint32_t const left = state_of(host, s, pair.target).count();
        sparse = left <= kSparse && left + state_of(host, s, pair.next).count() <= kSparse;
      }
    }
    unlock_pair(host, s, pair);
    return answer;
  }

  // --- Changing, under the target bucket's lock
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Answer write_locked(Host& host, Segment s, Pair& pair, Key const& key, Slot const& slot,
                      Write how, std::optional<Slot>& before) const {
    Slot found;
    SlotPosition position;
    PERDURE_ASSERT(!kCostlyAssertions || pair.target == target_of(key.hash));
    PERDURE_ASSERT(!kCostlyAssertions || is_locked(s.bucket(pair.target)));
    if (locate(host, s, key, state_of(host, s, pair.target), found, &position)) {
      if (how == Write::insert) return Answer::exists;
      before = found;
      replace(host, s, position, slot);
      return Answer::done;
    }
    if (how == Write::update) return Answer::absent;
    return insert(host, s, pair, key.hash, slot) ? Answer::done : Answer::full;
  }

  template <class Host>
  void replace(Host& host, Segment s, SlotPosition position, Slot const& slot) const {
    Slot& at = bucket_at(host, s, position.bucket).slots[position.slot];
    std::uint64_t& word = (at.*Keys::changing);
    host.store(&word, (slot.*Keys::changing));
    if (!mutated("dash_update_not_ordered")) host.persist(&word, sizeof word);
  }

  /// Whether a record stays in its target bucket, which has so many, whatever the probing bucket
  /// has.
  static bool stays_in_target(std::uint32_t here) {
    return !K::probing || here < (K::balanced ? kAtTarget : kSlots);
  }
  /// Whether it goes to its probing bucket, which has so many.
  static bool goes_next(std::uint32_t here, std::uint32_t there) {
    return !stays_in_target(here) && (!K::balanced || there < here);
  }

  template <class Host>
  bool insert(Host& host, Segment s, Pair& pair, std::uint64_t hash, Slot const& slot) const {
    std::uint32_t const target = pair.target, next = pair.next;
    State const here = state_of(host, s, target);
    if (stays_in_target(here.count()) && !here.full()) {
      place(host, s, target, hash, slot);
      return true;
    }
    lock_next(host, s, pair);
    PERDURE_ASSERT(!kCostlyAssertions || is_locked(s.bucket(next)));
    State const there = state_of(host, s, next);
    if (std::uint32_t const b = goes_next(here.count(), there.count()) ? next : target;
        !state_of(host, s, b).full()) {
      place(host, s, b, hash, slot);
      return true;
    }
    if constexpr (K::probing && K::displacement) {
      if (displace(host, s, next, false)) {
        place(host, s, next, hash, slot);
        return true;
      }
      if (displace(host, s, target, true)) {
        place(host, s, target, hash, slot);
        return true;
      }
    }
    return insert_in_stash(host, s, hash, slot);
  }

  /// Into a free slot of one of the key's buckets, or of the stash. The slot commits it.
  template <class Host>
  void place(Host& host, Segment s, std::uint32_t b, std::uint64_t hash, Slot const& slot) const {
    Bucket& bucket = bucket_at(host, s, b);
    State const state{host.load(&bucket.state)};
    std::uint32_t const i = state.free_slot();
    std::uint32_t const target = target_of(hash);
    PERDURE_ASSERT(!kCostlyAssertions || (!state.full() && i < kSlots));
    bool const guest = b < shape_.buckets && b != target;
    store_slot(host, s, {b, i}, slot);
    if (!mutated("dash_slot_not_ordered")) host.persist(&bucket.slots[i], sizeof slot);
    store_print(host, bucket, i, fingerprint(hash));
    if (guest) store_beyond(host, s.bucket(target), hash);
    host.store(&bucket.state, state.with_slot(i, guest).word);
  }

  /// Makes room in bucket b, which is full: moves one of its records, of this bucket or of the one
  /// before it, to its other bucket; where that is full too, it makes room there in the same way
  /// before, `further` buckets at most. Buckets that are busy stay as they are: then there may be
  /// no room.
  template <class Host>
  bool displace(Host& host, Segment s, std::uint32_t b, bool guest,
                std::uint32_t further = kFurther) const {
    State const state = state_of(host, s, b);
    PERDURE_ASSERT(!kCostlyAssertions || (state.full() && is_locked(s.bucket(b))));
    std::uint32_t const movable = state.used() & (guest ? state.guests() : ~state.guests());
    if (movable == 0) return false;
    std::uint32_t const to = guest ? last_of(b) : next_of(b);
    Bucket& into = s.bucket(to);
    host.read(&into, kMetadata);
    if ((further == 0 && State{host.load(&into.state)}.full()) || !try_lock(host, into))
      return false;
    bool const room = !State{host.load(&into.state)}.full() ||
                      (further != 0 && displace(host, s, to, guest, further - 1));
    if (room) {
      SlotPosition const from{b, static_cast<std::uint32_t>(std::countr_zero(movable))};
      Slot const slot = slot_at(host, s, from);
      std::uint64_t const hash = keys_.hash_of(slot);
      bool const late = !mutated("dash_displaced_before_copy");
      if (!late) free_slot(host, s, from, hash);
      place(host, s, to, hash, slot);
      if (late) free_slot(host, s, from, hash);
    }
    unlock(host, into);
    return room;
  }

  /// Of a record with this hash, or one of the same half.
  template <class Host>
  void free_slot(Host& host, Segment s, SlotPosition position, std::uint64_t hash) const {
    Bucket& bucket = bucket_at(host, s, position.bucket);
    PERDURE_ASSERT(!kCostlyAssertions || position.bucket >= all() || is_locked(bucket));
    empty_slot(host, bucket, position.slot, hash);
    host.store(&bucket.state, State{host.load(&bucket.state)}.without(1u << position.slot).word);
  }
  /// What counts of that; ordered.
  template <class Host>
  void empty_slot(Host& host, Bucket& bucket, std::uint32_t i, std::uint64_t hash) const {
    Slot& slot = bucket.slots[i];
    if (!mutated("dash_slot_not_freed")) host.store(&(slot.*Keys::naming), keys_.elsewhere(hash));
    if (!mutated("dash_removal_not_ordered")) host.persist(&slot, sizeof slot);
  }

  template <class Host>
  bool insert_in_stash(Host& host, Segment s, std::uint64_t hash, Slot const& slot) const {
    for (std::uint32_t i = 0; i < shape_.stash; ++i) {
      Bucket& bucket = s.bucket(shape_.buckets + i);
      host.read(&bucket, kMetadata);
      lock(host, bucket);
      // The last one's lock is the chain's too.
      std::uint32_t const end = i + 1 < shape_.stash ? i + 1 : buckets_of(host, s) - shape_.buckets;
      std::uint32_t free = i;
      while (free < end && state_of(host, s, shape_.buckets + free).full()) ++free;
      if (free < end) {
        if (!mutated("dash_stash_not_told")) tell_overflow(host, s, hash, free);
        place(host, s, shape_.buckets + free, hash, slot);
      }
      unlock(host, bucket);
      if (free < end) return true;
    }
    return false;
  }

  template <class Host>
  void tell_overflow(Host& host, Segment s, std::uint64_t hash, std::uint32_t stash) const {
    std::uint32_t const target = target_of(hash);
    PERDURE_ASSERT(!kCostlyAssertions || target < shape_.buckets);
    for (std::uint32_t const b : {target, next_of(target)}) {
      bool const guest = b != target;
      if (stash >= shape_.stash || (guest && !K::probing)) break;
      Bucket& bucket = s.bucket(b);
      Hints const hints{host.load(&bucket.hints)};
      auto const i = static_cast<std::uint32_t>(std::countr_one(hints.overflows()));
      if (i >= kOverflows) continue;
      Hints next = hints.with_overflow(i, guest, stash);
      if (i < 2) {
        store_print(host, bucket, kSlots + i, fingerprint(hash));
      } else {
        std::uint32_t const shift = 8 * (i - 2);
        next.word = (next.word & ~(std::uint64_t{255} << shift)) | std::uint64_t{fingerprint(hash)}
                                                                       << shift;
      }
      host.store(&bucket.hints, next.word);
      if (guest) store_beyond(host, s.bucket(target), hash);
      return;
    }
    Bucket& bucket = s.bucket(target);
    Hints const hints{host.load(&bucket.hints)};
    host.store(&bucket.hints, hints.one_more_untold().word);
  }

  template <class Host>
  void forget_overflow(Host& host, Segment s, std::uint64_t hash, std::uint32_t stash) const {
    std::uint32_t const target = target_of(hash);
    for (std::uint32_t const b : {target, next_of(target)}) {
      Bucket& bucket = s.bucket(b);
      Hints const hints{host.load(&bucket.hints)};
      std::uint32_t const of = hints.overflows() & (b != target ? hints.guests() : ~hints.guests());
      if (stash >= shape_.stash) break;
      for (std::uint32_t left = overflow_candidates(host, bucket, hints, hash, of); left != 0;
           left &= left - 1) {
        auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
        if (hints.stash_of(i) != stash) continue;
        host.store(&bucket.hints, hints.without_overflow(i).word);
        return;
      }
      if (!K::probing) break;
    }
    Bucket& bucket = s.bucket(target);
    Hints const hints{host.load(&bucket.hints)};
    host.store(&bucket.hints, hints.one_less_untold().word);
  }

  template <class Host>
  void remove(Host& host, Segment s, SlotPosition position, std::uint64_t hash) const {
    if (position.bucket < shape_.buckets) return free_slot(host, s, position, hash);
    Bucket& stash = s.bucket(std::min(position.bucket, all() - 1));
    lock(host, stash);
    free_slot(host, s, position, hash);
    unlock(host, stash);
    forget_overflow(host, s, hash, position.bucket - shape_.buckets);
  }
};

}  // namespace perdure::dash
