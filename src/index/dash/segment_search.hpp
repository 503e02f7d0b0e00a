// Searching one segment of Dash, without locks. segment.hpp has the invariants.
#pragma once

#include <bit>
#include <cstdint>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/bytes.hpp"
#include "index/dash/segment_buckets.hpp"

namespace perdure::dash {

template <class Keys, class K = Knobs>
class SegmentSearch : public SegmentBuckets<Keys, K> {
  using Base = SegmentBuckets<Keys, K>;

 public:
  using Base::Base;
  using typename Base::Key;

  // `right()` tells whether the segment is still the key's.

  template <class Host, class Right>
  PERDURE_HOT Answer find(Host& host, Segment s, Key const& key, Right right, Slot& found) const {
    Bucket& target = s.bucket(target_of(key.hash));
    host.read(&target, kMetadata);
    if constexpr (!K::optimistic) lock(host, target);
    State const before{host.load(&target.state)};
    if (K::optimistic && before.locked()) return Answer::retry;
    Answer answer = Answer::retry;
    if (right()) answer = locate(host, s, key, before, found) ? Answer::done : Answer::absent;
    if constexpr (!K::optimistic) {
      unlock(host, target);
    } else if (host.load(&target.state) != before.word && !mutated("dash_search_not_checked")) {
      return Answer::retry;
    }
    return answer;
  }

  /// For whoever changes something: the lines of both buckets that it may need.
  template <class Host>
  void prefetch(Host& host, Segment s, std::uint64_t hash) const {
    if constexpr (Host::kNear) return fetch_ahead(host, s, target_of(hash));
    prefetch_metadata(host, s, hash);
  }

  // --- For searches for several keys at once, each of these for all of them before the next: so no
  // line is fetched that a search does not read.
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  void prefetch_metadata(Host& host, Segment s, std::uint64_t hash) const {
    host.prefetch(&s.bucket(target_of(hash)));
    if constexpr (!Host::kNear) host.prefetch(&s.bucket(next_of(target_of(hash))));
  }
  /// Of buckets whose metadata is near: the slots that may have the key, and the probing bucket's
  /// metadata, where the filter does not rule that out.
  template <class Host>
  void prefetch_candidates(Host& host, Segment s, std::uint64_t hash) const {
    Bucket const& target = s.bucket(target_of(hash));
    exec::ByteFinder const print(fingerprint(hash));
    State const state{host.load(&target.state)};
    for_each_bit(printed(host, target, print) & state.used() & ~state.guests(),
                 [&](std::uint32_t i) { host.prefetch(&target.slots[i]); });
    if (Host::kNear && is_beyond(host, target, hash))
      host.prefetch(&s.bucket(next_of(target_of(hash))));
  }
  /// f(slot) for what is in the key's buckets with its fingerprint, looked at without locks: a
  /// guess.
  template <class Host, class F>
  void guess(Host& host, Segment s, std::uint64_t hash, F f) const {
    std::uint32_t const target = target_of(hash);
    exec::ByteFinder const print(fingerprint(hash));
    auto const look = [&](std::uint32_t b, std::uint32_t of) {
      for_each_bit(printed(host, s.bucket(b), print) & of,
                   [&](std::uint32_t i) { f(slot_in(host, s.bucket(b), i)); });
    };
    State const state{host.load(&s.bucket(target).state)};
    look(target, state.used() & ~state.guests());
    if (!is_beyond(host, s.bucket(target), hash)) return;
    State const guests{host.load(&s.bucket(next_of(target)).state)};
    look(next_of(target), guests.used() & guests.guests());
  }

 protected:
  using Base::any_of_stash;
  using Base::fetch_ahead;
  using Base::keys_;
  using Base::kMetadata;
  using Base::next_of;
  using Base::shape_;
  using Base::state_of;
  using Base::target_of;

  /// Whether a record of this target bucket may be in the probing bucket.
  PERDURE_HOT static bool leads_beyond(Hints hints, std::uint64_t hash) {
    return K::probing && (!K::filter || hints.beyond(filter_bit(hash)));
  }
  template <class Host>
  static bool is_beyond(Host& host, Bucket const& target, std::uint64_t hash) {
    return leads_beyond({host.load(&target.hints)}, hash);
  }
  /// Slots of a bucket that may hold a key with this fingerprint; bits 14 and 15 mean nothing.
  template <class Host>
  PERDURE_HOT static std::uint32_t printed(Host& host, Bucket const& bucket,
                                           exec::ByteFinder const& print) {
    if constexpr (!K::fingerprints) return State::kAll;
    return print.in(host.load(&bucket.prints[0]), host.load(&bucket.prints[1]));
  }
  /// In `bucket`, which is number b of its segment.
  template <class Host>
  PERDURE_HOT bool locate_in(Host& host, Bucket const& bucket, std::uint32_t b, Key const& key,
                             std::uint32_t of, Slot& found, SlotPosition* position) const {
    exec::ByteFinder const print(fingerprint(key.hash));
    for (std::uint32_t left = printed(host, bucket, print) & of; left != 0; left &= left - 1) {
      SlotPosition const at{b, static_cast<std::uint32_t>(std::countr_zero(left))};
      Slot const slot = slot_in(host, bucket, at.slot);
      if (!keys_.equal(host, slot, key)) continue;
      found = slot;
      if (position != nullptr) *position = at;
      return true;
    }
    return false;
  }
  template <class Host>
  bool locate_in_stash(Host& host, Bucket const& bucket, std::uint32_t b, Key const& key,
                       Slot& found, SlotPosition* position) const {
    host.read(&bucket, kMetadata);
    return locate_in(host, bucket, b, key, State{host.load(&bucket.state)}.used(), found, position);
  }
  /// Overflows of a bucket that may be the key's, of those in `of`.
  template <class Host>
  static std::uint32_t overflow_candidates(Host& host, Bucket const& bucket, Hints hints,
                                           std::uint64_t hash, std::uint32_t of) {
    std::uint32_t found = 0;
    std::uint64_t const two = host.load(&bucket.prints[1]) >> 48 | (hints.word & 0xffff) << 16;
    for (std::uint32_t i = 0; i < kOverflows; ++i) {
      if (static_cast<std::uint8_t>(two >> (8 * i)) == fingerprint(hash)) found |= 1u << i;
    }
    return found & of;
  }
  template <class Host>
  bool locate_overflows(Host& host, Segment s, std::uint32_t b, Hints hints, bool guests,
                        Key const& key, Slot& found, SlotPosition* position) const {
    std::uint32_t const of = hints.overflows() & (guests ? hints.guests() : ~hints.guests());
    std::uint32_t left = of == 0 ? 0 : overflow_candidates(host, s.bucket(b), hints, key.hash, of);
    for (; left != 0; left &= left - 1) {
      std::uint32_t const stash =
          hints.stash_of(static_cast<std::uint32_t>(std::countr_zero(left)));
      if (stash >= shape_.stash) continue;  // a hint that is being changed
      std::uint32_t const at = shape_.buckets + stash;
      if (locate_in_stash(host, s.bucket(at), at, key, found, position)) return true;
    }
    return false;
  }

  /// `state` is the target bucket's, and nobody has changed it since: else the answer means
  /// nothing. Most searches end in the target bucket. What they do there is inlined, and nothing in
  /// it takes the address of the key: the fewer instructions a search has, the more of those that
  /// follow it run while it waits for memory.
  template <class Host>
  PERDURE_HOT bool locate(Host& host, Segment s, Key const& key, State state, Slot& found,
                          SlotPosition* position = nullptr) const {
    std::uint32_t const target = target_of(key.hash);
    Bucket const& bucket = s.bucket(target);
    PERDURE_ASSERT(!kCostlyAssertions || (target < shape_.buckets && target != next_of(target)));
    if (locate_in(host, bucket, target, key, state.used() & ~state.guests(), found, position))
      return true;
    Hints const hints{host.load(&bucket.hints)};
    bool const in_next = leads_beyond(hints, key.hash);
    bool const in_stash = !K::overflow_hints || (hints.overflows() | hints.untold()) != 0;
    if (!in_next && !in_stash) [[likely]]
      return false;
    return locate_outside(host, s, key, hints, in_next, found, position);
  }
  /// In the probing bucket, unless the target bucket's filter rules that out, and in the stash.
  template <class Host>
  bool locate_outside(Host& host, Segment s, Key key, Hints hints, bool in_next, Slot& found,
                      SlotPosition* position) const {
    Hints beyond;
    if (in_next) {
      std::uint32_t const next = next_of(target_of(key.hash));
      Bucket const& bucket = s.bucket(next);
      host.read(&bucket, kMetadata);
      State const guests{host.load(&bucket.state)};
      if (locate_in(host, bucket, next, key, guests.used() & guests.guests(), found, position))
        return true;
      beyond = {host.load(&bucket.hints)};
    }
    if (K::overflow_hints && (hints.overflows() | hints.untold() | beyond.guests()) == 0)
      return false;
    return locate_beyond(host, s, key, hints, beyond, found, position);
  }
  /// In the stash, as far as the hints of the key's two buckets lead there.
  template <class Host>
  bool locate_beyond(Host& host, Segment s, Key const& key, Hints hints, Hints beyond, Slot& found,
                     SlotPosition* position) const {
    if (K::overflow_hints && hints.untold() == 0) {
      std::uint32_t const target = target_of(key.hash);
      return locate_overflows(host, s, target, hints, false, key, found, position) ||
             locate_overflows(host, s, next_of(target), beyond, true, key, found, position);
    }
    return any_of_stash(host, s, [&](std::uint32_t b, Bucket const& bucket) {
      return locate_in_stash(host, bucket, b, key, found, position);
    });
  }
};

}  // namespace perdure::dash
