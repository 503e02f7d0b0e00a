// Single operations on one segment of Dash: buckets of 14 slots and a stash, searched without locks
// and changed under the locks of a key's two buckets (Lu et al., VLDB'20, sections 4.2 to 4.6).
// Invariants:
//
//  * What counts after a crash, the slots say by themselves: a slot holds a record if its key
//  belongs to the segment,
//    and to that bucket. Free slots name a key of the other half of all hashes, which belongs to no
//    segment of this half. A slot's key is stored last, and its line holds what was stored to it in
//    that order (pm/host.hpp), so a record appears by one flushed line, whole, and goes by another.
//    What a split moved away stays in its slot: it does not belong there any more. Who lets a
//    segment have more hashes frees such slots before (whole_segment.hpp).
//  * Metadata serves searches alone, and is never flushed: recovery makes it anew from the slots.
//  * A record is changed, moved or removed only under the lock of its home bucket, wherever it
//  lies. So a search holds
//    if the home bucket's state is what it was before, and no other bucket's needs to be looked at
//    again. What a bucket has, records and metadata, changes under its own lock. So who needs no
//    room, or finds it at home, locks that alone; all others lock the probing bucket as well.
//  * What an operation did is ordered before it lets go of its locks: nobody sees what a crash can
//  take back.
//  * Locks are taken in the order of the buckets, the stash last; further ones, to displace into,
//  are only tried.
//
// Between home and probing bucket there is a filter of 24 bits that the paper has not, and a record
// goes to the probing bucket only once its home has kAtHome: both spare most searches the second
// bucket. The paper has a bitmap say which slots count, a line and a fence more for each insert,
// and displaces one record where here up to four may move on. In a table whose segments may be
// chained (linear.hpp), buckets of their own follow the stash, one leading to the next; their
// `hints` are that link, which is durable and changes under the last stash bucket's lock.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/annotate.hpp"
#include "base/hooks.hpp"
#include "exec/bytes.hpp"
#include "index/dash/layout.hpp"
#include "pm/flush.hpp"

namespace perdure::dash {

/// Which of Dash's parts are there: what the paper's ablations (sections 6.5 to 6.7) leave out.
struct Knobs {
  static constexpr bool fingerprints = true;
  // else every search that finds nothing looks through the stash
  static constexpr bool overflow_hints = true;
  static constexpr bool filter = true;  // else every such search looks into the probing bucket
  static constexpr bool optimistic = true;  // else searches lock their home bucket
  static constexpr bool probing = true;  // a second bucket for each key
  static constexpr bool balanced = true;  // the less full one of the two
  static constexpr bool displacement = true;
};

enum class Answer : std::uint8_t {
  done,
  absent,
  exists,
  full,  // no room: the segment has to be split
  retry,  // somebody changes the bucket, or the segment is not the right one any more
  damaged,  // the segment cannot be used (damage.hpp)
};

/// One word, so that it travels in a register: two, stored one by one and loaded as one, stop the
/// processor from running ahead of a cache miss.
struct Segment {
  SegmentHeader* header = nullptr;

  static Segment at(std::byte* bytes) { return {reinterpret_cast<SegmentHeader*>(bytes)}; }
  [[nodiscard]] Bucket& bucket(std::uint32_t b) const {
    return reinterpret_cast<Bucket*>(header + 1)[b];
  }
  [[nodiscard]] bool operator==(Segment const& other) const { return header == other.header; }
};

/// A slot of a segment; buckets from SegmentShape::buckets on are the stash's, and then those
/// chained to it.
struct Spot {
  std::uint32_t bucket = 0;
  std::uint32_t slot = 0;
};

template <class Keys, class K = Knobs>
class SegmentOps {
 public:
  using Key = typename Keys::Key;

  /// `base`: of the pool, where segments may have chains.
  SegmentOps(Keys keys, SegmentShape shape, std::byte* base = nullptr)
      : keys_(keys), shape_(shape), base_(base) {}

  [[nodiscard]] SegmentShape shape() const { return shape_; }
  [[nodiscard]] Keys const& keys() const { return keys_; }

  // --- Single operations. `right()` tells whether the segment is still the key's.
  // -------------------------------

  template <class Host, class Right>
  PERDURE_HOT Answer find(Host& host, Segment s, Key const& key, Right right, Slot& found) const {
    Bucket& home = s.bucket(home_of(key.hash));
    host.read(&home, kMetadata);
    if constexpr (!K::optimistic) lock(host, home);
    State const before{host.load(&home.state)};
    if (K::optimistic && before.locked()) return Answer::retry;
    Answer answer = Answer::retry;
    if (right()) answer = locate(host, s, key, before, found) ? Answer::done : Answer::absent;
    if constexpr (!K::optimistic) {
      unlock(host, home);
    } else if (host.load(&home.state) != before.word && !mutated("dash_search_not_checked")) {
      return Answer::retry;
    }
    return answer;
  }

  template <class Host>
  void prefetch(Host& host, Segment s, std::uint64_t hash) const {
    if constexpr (Host::kNear) return fetch_ahead(host, s, home_of(hash));
    host.prefetch(&s.bucket(home_of(hash)));
    host.prefetch(&s.bucket(next_of(home_of(hash))));
  }

  /// f(slot) for what is in the key's buckets with its fingerprint, looked at without locks: a
  /// guess.
  template <class Host, class F>
  void guess(Host& host, Segment s, std::uint64_t hash, F f) const {
    std::uint32_t const home = home_of(hash);
    exec::ByteFinder const print(fingerprint(hash));
    auto const look = [&](std::uint32_t b, std::uint32_t of) {
      for_each_bit(printed(host, s.bucket(b), print) & of,
                   [&](std::uint32_t i) { f(slot_at(host, s, {b, i})); });
    };
    State const state = state_of(host, s, home);
    look(home, state.used() & ~state.guests());
    if (!K::probing || !Hints{host.load(&s.bucket(home).hints)}.beyond(filter_bit(hash))) return;
    State const guests = state_of(host, s, next_of(home));
    look(next_of(home), guests.used() & guests.guests());
  }

  enum class Write : std::uint8_t { insert, put, update };
  /// `before`: what an update, or a put of a key that is there, replaced.
  template <class Host, class Right>
  Answer write(Host& host, Segment s, Key const& key, Slot const& slot, Write how, Right right,
               std::optional<Slot>& before) const {
    Pair pair = lock_home(host, s, key.hash);
    Answer const answer =
        right() ? write_locked(host, s, pair, key, slot, how, before) : Answer::retry;
    unlock_pair(host, s, pair);
    return answer;
  }

  /// Replaces the value that is there by change(slot), under the home bucket's lock.
  template <class Host, class Right, class Change>
  Answer modify(Host& host, Segment s, Key const& key, Right right, Change change,
                Slot& before) const {
    Pair const pair = lock_home(host, s, key.hash);
    Answer answer = Answer::retry;
    if (right()) {
      Slot found;
      Spot spot;
      answer = Answer::absent;
      if (locate(host, s, key, state_of(host, s, home_of(key.hash)), found, &spot)) {
        before = found;
        replace(host, s, spot, change(found));
        answer = Answer::done;
      }
    }
    unlock_pair(host, s, pair);
    return answer;
  }

  /// `sparse`: the key's two buckets have so little left that their segment may do with half the
  /// room.
  template <class Host, class Right>
  Answer erase(Host& host, Segment s, Key const& key, Right right, Slot& before,
               bool& sparse) const {
    Pair pair = lock_home(host, s, key.hash);
    Answer answer = Answer::retry;
    if (right()) {
      Spot spot;
      answer = Answer::absent;
      if (locate(host, s, key, state_of(host, s, pair.home), before, &spot)) {
        if (spot.bucket != pair.home) lock_next(host, s, pair);
        remove(host, s, spot, key.hash);
        answer = Answer::done;
        std::uint32_t const left = state_of(host, s, pair.home).count();
        sparse = left <= kSparse && left + state_of(host, s, pair.next).count() <= kSparse;
      }
    }
    unlock_pair(host, s, pair);
    return answer;
  }

 protected:
  static constexpr std::size_t kMetadata = 32;
  static constexpr std::uint32_t kSparse = 3;
  // buckets that displacement makes room in, for room in the one before
  static constexpr std::uint32_t kFurther = 3;
  struct Pair {
    std::uint32_t home, next;
    bool both;  // are locked
  };

  /// Of every segment; those chained come after them.
  [[nodiscard]] std::uint32_t all() const { return shape_.buckets + shape_.stash; }
  template <class Host>
  [[nodiscard]] std::uint32_t buckets_of(Host& host, Segment s) const {
    std::uint32_t n = all();
    if (base_ == nullptr) return n;
    for (std::uint64_t at = host.load(&s.header->chain); at != 0;
         at = host.load(&chained_at(at).hints))
      ++n;
    return n;
  }
  /// Of a segment whose chain nobody lets go of meanwhile: the caller holds a lock of one of its
  /// buckets, or nobody else reaches it.
  template <class Host>
  [[nodiscard]] Bucket& bucket_at(Host& host, Segment s, std::uint32_t b) const {
    if (b < all()) return s.bucket(b);
    std::uint64_t at = host.load(&s.header->chain);
    for (; b > all(); --b) at = host.load(&chained_at(at).hints);
    return chained_at(at);
  }
  /// f(b, bucket) for the stash and what is chained to it, until one answers true. For searches,
  /// which hold no lock: a split may let go of the chain meanwhile, so it is walked once. What was
  /// let go of keeps its links while the caller's EpochGuard stands, and ends as it did; whether
  /// what was found counts, the home bucket's version says.
  template <class Host, class F>
  bool any_of_stash(Host& host, Segment s, F f) const {
    bool const twice = mutated("dash_chain_end_missed");
    std::uint32_t const end = twice ? buckets_of(host, s) : all();
    std::uint32_t b = shape_.buckets;
    for (; b < all(); ++b) {
      if (f(b, s.bucket(b))) return true;
    }
    if (base_ == nullptr) return false;
    std::uint64_t at = host.load(&s.header->chain);
    for (; twice ? b < end : at != 0; at = host.load(&chained_at(at).hints), ++b) {
      if (f(b, chained_at(at))) return true;
    }
    return false;
  }
  [[nodiscard]] Bucket& chained_at(std::uint64_t place) const {
    return *reinterpret_cast<Bucket*>(base_ + place);
  }
  [[nodiscard]] std::uint32_t home_of(std::uint64_t hash) const {
    return bucket_of(hash, shape_.buckets);
  }
  [[nodiscard]] std::uint32_t next_of(std::uint32_t bucket) const {
    return (bucket + 1) & (shape_.buckets - 1);
  }
  [[nodiscard]] std::uint32_t last_of(std::uint32_t bucket) const {
    return (bucket - 1) & (shape_.buckets - 1);
  }

  template <class F>
  static void for_each_bit(std::uint32_t bits, F f) {
    for (; bits != 0; bits &= bits - 1) f(static_cast<std::uint32_t>(std::countr_zero(bits)));
  }

  // --- Locks
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  [[nodiscard]] State state_of(Host& host, Segment s, std::uint32_t b) const {
    return {host.load(&bucket_at(host, s, b).state)};
  }
  template <class Host>
  static bool try_lock(Host& host, Bucket& bucket) {
    State const state{host.load(&bucket.state)};
    if (mutated("dash_lock_ignored")) {
      host.store(&bucket.state, state.word | State::kLocked);
      return true;
    }
    return !state.locked() && host.cas(&bucket.state, state.word, state.word | State::kLocked);
  }
  template <class Host>
  static void lock(Host& host, Bucket& bucket) {
    while (!try_lock(host, bucket)) host.pause();
  }
  template <class Host>
  static void unlock(Host& host, Bucket& bucket) {
    State const state{host.load(&bucket.state)};
    host.store(&bucket.state, state.unlocked().word);
  }
  /// The home bucket, and before it the probing bucket where that is the lower one: lock_next()
  /// could not have it later.
  template <class Host>
  Pair lock_home(Host& host, Segment s, std::uint64_t hash) const {
    std::uint32_t const home = home_of(hash), next = K::probing ? next_of(home) : home;
    fetch_ahead(host, s, home);
    host.read(&s.bucket(home), kMetadata);
    host.read(&s.bucket(next), kMetadata);  // one wait for both, should it come to that
    bool const late = mutated("dash_locks_out_of_order");
    if (next < home && !late) lock(host, s.bucket(next));
    lock(host, s.bucket(home));
    if (next < home && late) lock(host, s.bucket(next));
    return {home, next, next < home};
  }
  template <class Host>
  void lock_next(Host& host, Segment s, Pair& pair) const {
    if (pair.both || pair.next == pair.home) return;
    if (!mutated("dash_next_not_locked")) lock(host, s.bucket(pair.next));
    pair.both = true;
  }
  template <class Host>
  void unlock_pair(Host& host, Segment s, Pair pair) const {
    unlock(host, s.bucket(pair.home));
    if (pair.both) unlock(host, s.bucket(pair.next));
  }

  /// Of near memory, in one wait: a key's home bucket, and what its probing bucket says of itself.
  template <class Host>
  PERDURE_HOT void fetch_ahead(Host& host, Segment s, std::uint32_t home) const {
    if constexpr (Host::kNear) {
      auto const* const lines = reinterpret_cast<std::byte const*>(&s.bucket(home));
      for (std::size_t at = 0; at < sizeof(Bucket); at += pm::kCacheLine) host.prefetch(lines + at);
      host.prefetch(&s.bucket(next_of(home)));
    }
  }

  // --- Searching
  // -----------------------------------------------------------------------------------------------

  /// Slots of a bucket that may hold a key with this fingerprint; bits 14 and 15 mean nothing.
  template <class Host>
  PERDURE_HOT static std::uint32_t printed(Host& host, Bucket const& bucket,
                                           exec::ByteFinder const& print) {
    if constexpr (!K::fingerprints) return State::kAll;
    return print.in(host.load(&bucket.prints[0]), host.load(&bucket.prints[1]));
  }
  /// In `bucket`, which is number b of its segment.
  template <class Host>
  bool locate_in(Host& host, Bucket const& bucket, std::uint32_t b, Key const& key,
                 std::uint32_t of, Slot& found, Spot* spot) const {
    exec::ByteFinder const print(fingerprint(key.hash));
    for (std::uint32_t left = printed(host, bucket, print) & of; left != 0; left &= left - 1) {
      Spot const at{b, static_cast<std::uint32_t>(std::countr_zero(left))};
      Slot const slot = slot_in(host, bucket, at.slot);
      if (!keys_.equal(host, slot, key)) continue;
      found = slot;
      if (spot != nullptr) *spot = at;
      return true;
    }
    return false;
  }
  template <class Host>
  bool locate_in_stash(Host& host, Bucket const& bucket, std::uint32_t b, Key const& key,
                       Slot& found, Spot* spot) const {
    host.read(&bucket, kMetadata);
    return locate_in(host, bucket, b, key, State{host.load(&bucket.state)}.used(), found, spot);
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
                        Key const& key, Slot& found, Spot* spot) const {
    std::uint32_t const of = hints.overflows() & (guests ? hints.guests() : ~hints.guests());
    std::uint32_t left = of == 0 ? 0 : overflow_candidates(host, s.bucket(b), hints, key.hash, of);
    for (; left != 0; left &= left - 1) {
      std::uint32_t const stash =
          hints.stash_of(static_cast<std::uint32_t>(std::countr_zero(left)));
      if (stash >= shape_.stash) continue;  // a hint that is being changed
      std::uint32_t const at = shape_.buckets + stash;
      if (locate_in_stash(host, s.bucket(at), at, key, found, spot)) return true;
    }
    return false;
  }

  /// `state` is the home bucket's, and nobody has changed it since: else the answer means nothing.
  template <class Host>
  PERDURE_HOT bool locate(Host& host, Segment s, Key const& key, State state, Slot& found,
                          Spot* spot = nullptr) const {
    std::uint32_t const home = home_of(key.hash), next = next_of(home);
    if (locate_in(host, s.bucket(home), home, key, state.used() & ~state.guests(), found, spot))
      return true;
    Hints const hints{host.load(&s.bucket(home).hints)};
    Hints beyond;
    if (K::probing && (!K::filter || hints.beyond(filter_bit(key.hash)))) {
      host.read(&s.bucket(next), kMetadata);
      State const guests = state_of(host, s, next);
      if (locate_in(host, s.bucket(next), next, key, guests.used() & guests.guests(), found, spot))
        return true;
      beyond = {host.load(&s.bucket(next).hints)};
    }
    if (K::overflow_hints && (hints.overflows() | hints.untold() | beyond.guests()) == 0)
      return false;
    return locate_beyond(host, s, key, hints, beyond, found, spot);
  }
  /// In the stash, as far as the hints of the key's two buckets lead there.
  template <class Host>
  bool locate_beyond(Host& host, Segment s, Key const& key, Hints hints, Hints beyond, Slot& found,
                     Spot* spot) const {
    if (K::overflow_hints && hints.untold() == 0) {
      std::uint32_t const home = home_of(key.hash);
      return locate_overflows(host, s, home, hints, false, key, found, spot) ||
             locate_overflows(host, s, next_of(home), beyond, true, key, found, spot);
    }
    return any_of_stash(host, s, [&](std::uint32_t b, Bucket const& bucket) {
      return locate_in_stash(host, bucket, b, key, found, spot);
    });
  }

  // --- Changing, under the home bucket's lock
  // ---------------------------------------------------------------------

  template <class Host>
  Answer write_locked(Host& host, Segment s, Pair& pair, Key const& key, Slot const& slot,
                      Write how, std::optional<Slot>& before) const {
    Slot found;
    Spot spot;
    if (locate(host, s, key, state_of(host, s, pair.home), found, &spot)) {
      if (how == Write::insert) return Answer::exists;
      before = found;
      replace(host, s, spot, slot);
      return Answer::done;
    }
    if (how == Write::update) return Answer::absent;
    return insert(host, s, pair, key.hash, slot) ? Answer::done : Answer::full;
  }

  template <class Host>
  void replace(Host& host, Segment s, Spot spot, Slot const& slot) const {
    Slot& at = bucket_at(host, s, spot.bucket).slots[spot.slot];
    std::uint64_t& word = (at.*Keys::changing);
    host.store(&word, (slot.*Keys::changing));
    if (!mutated("dash_update_not_ordered")) host.persist(&word, sizeof word);
  }

  /// Whether a record stays in its home bucket, which has so many, whatever the probing bucket has.
  static bool stays_home(std::uint32_t here) {
    return !K::probing || here < (K::balanced ? kAtHome : kSlots);
  }
  /// Whether it goes to its probing bucket, which has so many.
  static bool goes_next(std::uint32_t here, std::uint32_t there) {
    return !stays_home(here) && (!K::balanced || there < here);
  }

  template <class Host>
  bool insert(Host& host, Segment s, Pair& pair, std::uint64_t hash, Slot const& slot) const {
    std::uint32_t const home = pair.home, next = pair.next;
    State const here = state_of(host, s, home);
    if (stays_home(here.count()) && !here.full()) {
      place(host, s, home, hash, slot);
      return true;
    }
    lock_next(host, s, pair);
    State const there = state_of(host, s, next);
    if (std::uint32_t const b = goes_next(here.count(), there.count()) ? next : home;
        !state_of(host, s, b).full()) {
      place(host, s, b, hash, slot);
      return true;
    }
    if constexpr (K::probing && K::displacement) {
      if (displace(host, s, next, false)) {
        place(host, s, next, hash, slot);
        return true;
      }
      if (displace(host, s, home, true)) {
        place(host, s, home, hash, slot);
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
    std::uint32_t const home = home_of(hash);
    bool const guest = b < shape_.buckets && b != home;
    store_slot(host, s, {b, i}, slot);
    if (!mutated("dash_slot_not_ordered")) host.persist(&bucket.slots[i], sizeof slot);
    store_print(host, bucket, i, fingerprint(hash));
    if (guest) store_beyond(host, s.bucket(home), hash);
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
    std::uint32_t const movable = state.used() & (guest ? state.guests() : ~state.guests());
    if (movable == 0) return false;
    std::uint32_t const to = guest ? last_of(b) : next_of(b);
    Bucket& target = s.bucket(to);
    host.read(&target, kMetadata);
    if ((further == 0 && State{host.load(&target.state)}.full()) || !try_lock(host, target))
      return false;
    bool const room = !State{host.load(&target.state)}.full() ||
                      (further != 0 && displace(host, s, to, guest, further - 1));
    if (room) {
      Spot const from{b, static_cast<std::uint32_t>(std::countr_zero(movable))};
      Slot const slot = slot_at(host, s, from);
      std::uint64_t const hash = keys_.hash_of(slot);
      bool const late = !mutated("dash_displaced_before_copy");
      if (!late) free_slot(host, s, from, hash);
      place(host, s, to, hash, slot);
      if (late) free_slot(host, s, from, hash);
    }
    unlock(host, target);
    return room;
  }

  /// Of a record with this hash, or one of the same half.
  template <class Host>
  void free_slot(Host& host, Segment s, Spot spot, std::uint64_t hash) const {
    Bucket& bucket = bucket_at(host, s, spot.bucket);
    if (!mutated("dash_slot_not_freed"))
      free_slots(host, bucket, 1u << spot.slot, keys_.elsewhere(hash));
    if (!mutated("dash_removal_not_ordered")) host.persist(&bucket.slots[spot.slot], sizeof(Slot));
    host.store(&bucket.state, State{host.load(&bucket.state)}.without(1u << spot.slot).word);
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
    std::uint32_t const home = home_of(hash);
    for (std::uint32_t const b : {home, next_of(home)}) {
      bool const guest = b != home;
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
      if (guest) store_beyond(host, s.bucket(home), hash);
      return;
    }
    Bucket& bucket = s.bucket(home);
    Hints const hints{host.load(&bucket.hints)};
    host.store(&bucket.hints, hints.one_more_untold().word);
  }

  template <class Host>
  void forget_overflow(Host& host, Segment s, std::uint64_t hash, std::uint32_t stash) const {
    std::uint32_t const home = home_of(hash);
    for (std::uint32_t const b : {home, next_of(home)}) {
      Bucket& bucket = s.bucket(b);
      Hints const hints{host.load(&bucket.hints)};
      std::uint32_t const of = hints.overflows() & (b != home ? hints.guests() : ~hints.guests());
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
    Bucket& bucket = s.bucket(home);
    Hints const hints{host.load(&bucket.hints)};
    host.store(&bucket.hints, hints.one_less_untold().word);
  }

  template <class Host>
  void remove(Host& host, Segment s, Spot spot, std::uint64_t hash) const {
    if (spot.bucket < shape_.buckets) return free_slot(host, s, spot, hash);
    Bucket& stash = s.bucket(std::min(spot.bucket, all() - 1));
    lock(host, stash);
    free_slot(host, s, spot, hash);
    unlock(host, stash);
    forget_overflow(host, s, hash, spot.bucket - shape_.buckets);
  }

  // --- Words
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Slot slot_at(Host& host, Segment s, Spot spot) const {
    return slot_in(host, bucket_at(host, s, spot.bucket), spot.slot);
  }
  template <class Host>
  static Slot slot_in(Host& host, Bucket const& bucket, std::uint32_t i) {
    Slot const& slot = bucket.slots[i];
    host.read(&slot, sizeof slot);
    return {host.load(&slot.first), host.load(&slot.second)};
  }
  /// Not flushed. The key comes last: it is what makes the slot count.
  template <class Host>
  void store_slot(Host& host, Segment s, Spot spot, Slot const& slot) const {
    Slot& at = bucket_at(host, s, spot.bucket).slots[spot.slot];
    bool const early = mutated("dash_key_before_value");
    if (early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
    host.store(&(at.*Keys::changing), (slot.*Keys::changing));
    if (!early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
  }
  /// `free`: what a slot names that holds nothing. Not flushed.
  template <class Host>
  static void free_slots(Host& host, Bucket& bucket, std::uint32_t slots, std::uint64_t free) {
    for_each_bit(slots,
                 [&](std::uint32_t i) { host.store(&(bucket.slots[i].*Keys::naming), free); });
  }
  template <class Host>
  static void store_print(Host& host, Bucket& bucket, std::uint32_t i, std::uint8_t print) {
    std::uint64_t& word = bucket.prints[i / 8];
    std::uint32_t const shift = 8 * (i % 8);
    host.store(&word,
               (host.load(&word) & ~(std::uint64_t{255} << shift)) | std::uint64_t{print} << shift);
  }
  template <class Host>
  static void store_beyond(Host& host, Bucket& home, std::uint64_t hash) {
    Hints const hints{host.load(&home.hints)};
    if (!hints.beyond(filter_bit(hash)))
      host.store(&home.hints, hints.with_beyond(filter_bit(hash)).word);
  }
  /// Without hints; a chained bucket's stay, for they are its link.
  template <class Host>
  void store_metadata(Host& host, Segment s, std::uint32_t b, State state,
                      std::array<std::uint64_t, 2> prints) const {
    Bucket& bucket = bucket_at(host, s, b);
    host.store(&bucket.prints[0], prints[0]);
    host.store(&bucket.prints[1], prints[1]);
    if (b < all()) host.store(&bucket.hints, 0);
    host.store(&bucket.state, state.word);
  }
  template <class Host>
  void flush_buckets(Host& host, Segment s) const {
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b)
      host.flush(&bucket_at(host, s, b), sizeof(Bucket));
  }

  Keys keys_;
  SegmentShape shape_;
  std::byte* base_;
};

}  // namespace perdure::dash
