// One segment of Dash: buckets of 14 slots and a stash, searched without locks and changed under the locks of a key's
// two buckets (Lu et al., VLDB'20, sections 4.2 to 4.6). Invariants:
//
//  * What counts after a crash, the slots say by themselves: a slot holds a record if its key belongs to the segment,
//    and to that bucket. Free slots name a key of the other half of all hashes, which belongs to no segment of this
//    half. A slot's key is stored last, and its line holds what was stored to it in that order (pm/host.hpp), so a
//    record appears by one flushed line, whole, and goes by another. What a split moved away stays in its slot: it does
//    not belong there any more. Who lets a segment have more hashes (merge()) frees such slots before.
//  * Metadata serves searches alone, and is never flushed: recover() makes it anew from the slots.
//  * A record is changed, moved or removed only under the lock of its home bucket, wherever it lies. So a search holds
//    if the home bucket's state is what it was before, and no other bucket's needs to be looked at again.
//  * What an operation did is ordered before it lets go of its locks: nobody sees what a crash can take back.
//  * Locks are taken in the order of the buckets, the stash last; a third bucket, to displace into, is only tried.
//
// Between home and probing bucket there is a filter of 16 bits that the paper has not: it spares most searches the
// second bucket. The paper has a bitmap say which slots count, a line and a fence more for each insert. In a table
// whose segments may be chained (linear.hpp), buckets of their own follow the stash, one leading to the next; their
// `hints` are that link, which is durable and changes under the last stash bucket's lock.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/annotate.hpp"
#include "base/mutants.hpp"
#include "exec/bytes.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/layout.hpp"
#include "pm/flush.hpp"

namespace perdure::dash {

/// Which of Dash's parts are there: what the paper's ablations (sections 6.5 to 6.7) leave out.
struct Knobs {
  static constexpr bool fingerprints = true;
  static constexpr bool overflow_hints = true;  // else every search that finds nothing looks through the stash
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

/// One word, so that it travels in a register: two, stored one by one and loaded as one, stop the processor from
/// running ahead of a cache miss.
struct Segment {
  SegmentHeader* header = nullptr;

  static Segment at(std::byte* bytes) { return {reinterpret_cast<SegmentHeader*>(bytes)}; }
  [[nodiscard]] Bucket& bucket(std::uint32_t b) const { return reinterpret_cast<Bucket*>(header + 1)[b]; }
  [[nodiscard]] bool operator==(Segment const& other) const { return header == other.header; }
};

/// A slot of a segment; buckets from SegmentShape::buckets on are the stash's, and then those chained to it.
struct Spot {
  std::uint32_t bucket = 0;
  std::uint32_t slot = 0;
};

/// What counts in a bucket, with the hash of each key.
struct BucketContents {
  std::uint32_t used = 0;
  std::uint32_t guests = 0;
  std::array<std::uint64_t, kSlots> hashes{};
};
using SegmentContents = std::vector<BucketContents>;

template <class Keys, class K = Knobs>
class SegmentOps {
 public:
  using Key = typename Keys::Key;

  /// `base`: of the pool, where segments may have chains.
  SegmentOps(Keys keys, SegmentShape shape, std::byte* base = nullptr) : keys_(keys), shape_(shape), base_(base) {}

  [[nodiscard]] SegmentShape shape() const { return shape_; }
  [[nodiscard]] Keys const& keys() const { return keys_; }

  // --- Single operations. `right()` tells whether the segment is still the key's. -------------------------------

  template <class Host, class Right>
  PERDURE_FN Answer find(Host& host, Segment s, Key const& key, Right right, Slot& found) const {
    Bucket& home = s.bucket(home_of(key.hash));
    host.read(&home, kMetadata);
    if constexpr (!K::optimistic) lock(host, home);
    State const before{host.load(&home.state)};
    if (K::optimistic && before.locked()) return Answer::retry;
    Answer answer = Answer::retry;
    if (right()) answer = locate(host, s, key, before, found) ? Answer::done : Answer::absent;
    if constexpr (!K::optimistic) {
      unlock(host, home);
    } else if (host.load(&home.state) != before.word && !mutated(Mutant::dash_search_not_checked)) {
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

  enum class Write : std::uint8_t { insert, put, update };
  /// `before`: what an update, or a put of a key that is there, replaced.
  template <class Host, class Right>
  Answer write(Host& host, Segment s, Key const& key, Slot const& slot, Write how, Right right,
               std::optional<Slot>& before) const {
    Pair const pair = lock_pair(host, s, key.hash);
    Answer const answer = right() ? write_locked(host, s, key, slot, how, before) : Answer::retry;
    unlock_pair(host, s, pair);
    return answer;
  }

  /// Replaces the value that is there by change(slot), under the locks.
  template <class Host, class Right, class Change>
  Answer modify(Host& host, Segment s, Key const& key, Right right, Change change, Slot& before) const {
    Pair const pair = lock_pair(host, s, key.hash);
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

  /// `sparse`: the key's two buckets have so little left that their segment may do with half the room.
  template <class Host, class Right>
  Answer erase(Host& host, Segment s, Key const& key, Right right, Slot& before, bool& sparse) const {
    Pair const pair = lock_pair(host, s, key.hash);
    Answer answer = Answer::retry;
    if (right()) {
      Spot spot;
      answer = Answer::absent;
      if (locate(host, s, key, state_of(host, s, home_of(key.hash)), before, &spot)) {
        remove(host, s, spot, key.hash);
        answer = Answer::done;
        sparse = state_of(host, s, pair.home).count() + state_of(host, s, pair.next).count() <= kSparse;
      }
    }
    unlock_pair(host, s, pair);
    return answer;
  }

  // --- Whole segments -------------------------------------------------------------------------------------------

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
      for_each_bit(state.used(),
                   [&](std::uint32_t i) { contents[b].hashes[i] = keys_.hash_of(slot_at(host, s, {b, i})); });
    }
    return contents;
  }

  /// f(slot) for each record of a segment that nobody changes.
  template <class Host, class F>
  void for_each(Host& host, Segment s, F f) const {
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b)
      for_each_bit(state_of(host, s, b).used(), [&](std::uint32_t i) { f(slot_at(host, s, {b, i})); });
  }

  /// How many more chained buckets it takes than `stash` has room for, if just what `wanted(hash)` picks is kept.
  template <class Wanted>
  [[nodiscard]] std::uint32_t chain_for(SegmentContents const& contents, Wanted wanted) const {
    std::uint32_t beyond = 0;
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b)
      for_each_bit(contents[b].used, [&](std::uint32_t i) { beyond += wanted(contents[b].hashes[i]); });
    std::uint32_t const room = shape_.stash * kSlots;
    return beyond <= room ? 0 : (beyond - room + kSlots - 1) / kSlots;
  }

  template <class Host>
  [[nodiscard]] std::uint64_t count(Host& host, Segment s) const {
    std::uint64_t n = 0;
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b) n += state_of(host, s, b).count();
    return n;
  }

  template <class Host>
  Slot slot_at(Host& host, Segment s, Spot spot) const {
    Slot const& slot = bucket_at(host, s, spot.bucket).slots[spot.slot];
    host.read(&slot, sizeof slot);
    return {host.load(&slot.first), host.load(&slot.second)};
  }

  /// Makes a segment of what nobody reaches yet, whose header is written: no record. Ordered by who fences next.
  template <class Host>
  void clear(Host& host, Segment s) const {
    write_whole(host, s, SegmentContents(all()));
  }

  /// The records of `from` that `wanted(hash)` picks, and no others, into `to`, which nobody reaches yet and whose
  /// header is written. Ordered by who fences next.
  template <class Host, class Wanted>
  void copy(Host& host, Segment from, SegmentContents const& contents, Segment to, Wanted wanted) const {
    SegmentContents made(buckets_of(host, to));
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        std::uint64_t const hash = contents[b].hashes[i];
        if (!wanted(hash)) return;
        bool const guest = (contents[b].guests >> i & 1) != 0;
        std::optional<Spot> const spot = b < shape_.buckets ? std::optional<Spot>{{b, i}} : room_for(made, hash);
        add(made, *spot, hash, b < shape_.buckets ? guest : spot->bucket != home_of(hash));
        store_slot(host, to, *spot, slot_at(host, from, {b, i}));
      });
    }
    write_whole(host, to, made);
  }

  /// Takes away what `unwanted(hash)` picks, of a segment that is locked, and that has not those hashes any more.
  template <class Host, class Unwanted>
  void remove_if(Host& host, Segment s, SegmentContents contents, Unwanted unwanted) const {
    for (std::uint32_t b = 0; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        if (unwanted(contents[b].hashes[i])) contents[b].used &= ~(1u << i);
      });
    }
    store_contents(host, s, contents);
    empty_stash(host, s, contents);
  }

  /// Room in `into` for all of `from`, as (from, into) spots; none where something does not fit.
  using Plan = std::vector<std::pair<Spot, Spot>>;
  std::optional<Plan> plan_merge(SegmentContents& into, SegmentContents const& from) const {
    Plan plan;
    for (std::uint32_t b = 0; b < from.size(); ++b) {
      std::uint32_t left = from[b].used;
      for (; left != 0; left &= left - 1) {
        auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
        std::optional<Spot> const spot = room_for(into, from[b].hashes[i]);
        if (!spot) return std::nullopt;
        add(into, *spot, from[b].hashes[i], spot->bucket != home_of(from[b].hashes[i]));
        plan.push_back({{b, i}, *spot});
      }
    }
    return plan;
  }
  /// Both are locked; `merged` is what plan_merge() made of `into`. Ordered when it returns.
  template <class Host>
  void merge(Host& host, Segment into, SegmentContents const& merged, Segment from, Plan const& plan) const {
    for (auto const& [source, target] : plan) store_slot(host, into, target, slot_at(host, from, source));
    if (!mutated(Mutant::dash_merge_keeps_leftovers)) free_unused(host, into, merged);
    flush_buckets(host, into);
    host.fence();
    store_contents(host, into, merged);
  }

  /// Of a segment that nobody can have locked since it was made sound: what an orderly close does not leave. Empty:
  /// nothing.
  template <class Host>
  std::string unsound(Host& host, Segment s) const {
    for (std::uint32_t b = 0, end = buckets_of(host, s); b < end; ++b) {
      State const state = state_of(host, s, b);
      if (state.locked()) return told("its bucket ", b, " is locked");
      if (!state.possible()) return told("its bucket ", b, " counts slots that there are none of");
    }
    return {};
  }

  // --- Chains -----------------------------------------------------------------------------------------------------

  /// Chains a bucket of its own to a segment. Where others may reach it, only if none that is chained has room by now;
  /// false: it has, and the bucket is the caller's still.
  template <class Host>
  bool chain(Host& host, Segment s, std::uint64_t place, bool reached) const {
    Bucket& last = s.bucket(all() - 1);
    if (reached) lock(host, last);
    std::uint64_t* link = &s.header->chain;  // at the end, so that the others' places in the chain stay
    bool room = false;
    for (std::uint64_t at = 0; (at = host.load(link)) != 0; link = &chained_at(at).hints)
      room |= reached && !State{host.load(&chained_at(at).state)}.full();
    if (!room) {
      Bucket& bucket = chained_at(place);
      host.store(&bucket.state, 0);
      host.store(&bucket.prints[0], 0);
      host.store(&bucket.prints[1], 0);
      host.store(&bucket.hints, 0);
      free_slots(host, bucket, State::kAll, keys_.elsewhere(host.load(&s.header->start)));
      host.flush(&bucket, sizeof bucket);
      if (!mutated(Mutant::dash_link_before_bucket)) host.fence();
      host.store(link, place);
      host.persist(link, sizeof *link);
    }
    if (reached) unlock(host, last);
    return !room;
  }
  /// Lets go of a chain of a segment that is locked, if nothing is in it: what to give back.
  template <class Host>
  std::vector<std::uint64_t> unchain(Host& host, Segment s) const {
    std::vector<std::uint64_t> chained = chain_of(host, s);
    for (std::uint64_t const at : chained) {
      if (State{host.load(&chained_at(at).state)}.used() != 0) return {};
    }
    if (chained.empty()) return {};
    host.store(&s.header->chain, 0);
    host.persist(&s.header->chain, sizeof s.header->chain);
    return chained;
  }
  template <class Host>
  std::vector<std::uint64_t> chain_of(Host& host, Segment s) const {
    std::vector<std::uint64_t> chained;
    for (std::uint64_t at = host.load(&s.header->chain); at != 0; at = host.load(&chained_at(at).hints))
      chained.push_back(at);
    return chained;
  }

  /// Makes a segment sound that a crash left: no lock held, no key twice, and metadata that says what the slots hold
  /// of what `belongs(hash)`. Nobody else reaches it. The caller orders it.
  template <class Host, class Belongs>
  void recover(Host& host, Segment s, Belongs belongs) const {
    SegmentContents found = surviving(host, s, belongs);
    std::uint64_t const free = keys_.elsewhere(host.load(&s.header->start));
    for (std::uint32_t b = 0; b < found.size(); ++b) {
      for_each_bit(found[b].used, [&](std::uint32_t i) {
        if (!stands_before(host, s, found, {b, i}) || mutated(Mutant::dash_recovery_keeps_duplicates)) return;
        found[b].used &= ~(1u << i);
        if (mutated(Mutant::dash_recovery_frees_nothing)) return;
        free_slots(host, bucket_at(host, s, b), 1u << i, free);
        host.flush(&bucket_at(host, s, b).slots[i], sizeof(Slot));
      });
    }
    new_metadata(host, s, found);
  }

 private:
  static constexpr std::size_t kMetadata = 32;
  static constexpr std::uint32_t kSparse = 3;
  struct Pair {
    std::uint32_t home, next;
  };

  /// Of every segment; those chained come after them.
  [[nodiscard]] std::uint32_t all() const { return shape_.buckets + shape_.stash; }
  template <class Host>
  [[nodiscard]] std::uint32_t buckets_of(Host& host, Segment s) const {
    std::uint32_t n = all();
    if (base_ == nullptr) return n;
    for (std::uint64_t at = host.load(&s.header->chain); at != 0; at = host.load(&chained_at(at).hints)) ++n;
    return n;
  }
  template <class Host>
  [[nodiscard]] Bucket& bucket_at(Host& host, Segment s, std::uint32_t b) const {
    if (b < all()) return s.bucket(b);
    std::uint64_t at = host.load(&s.header->chain);
    for (; b > all(); --b) at = host.load(&chained_at(at).hints);
    return chained_at(at);
  }
  [[nodiscard]] Bucket& chained_at(std::uint64_t place) const { return *reinterpret_cast<Bucket*>(base_ + place); }
  [[nodiscard]] std::uint32_t home_of(std::uint64_t hash) const { return bucket_of(hash, shape_.buckets); }
  [[nodiscard]] std::uint32_t next_of(std::uint32_t bucket) const { return (bucket + 1) & (shape_.buckets - 1); }
  [[nodiscard]] std::uint32_t last_of(std::uint32_t bucket) const { return (bucket - 1) & (shape_.buckets - 1); }

  template <class F>
  static void for_each_bit(std::uint32_t bits, F f) {
    for (; bits != 0; bits &= bits - 1) f(static_cast<std::uint32_t>(std::countr_zero(bits)));
  }

  // --- Locks ----------------------------------------------------------------------------------------------------

  template <class Host>
  [[nodiscard]] State state_of(Host& host, Segment s, std::uint32_t b) const {
    return {host.load(&bucket_at(host, s, b).state)};
  }
  template <class Host>
  static bool try_lock(Host& host, Bucket& bucket) {
    State const state{host.load(&bucket.state)};
    if (mutated(Mutant::dash_lock_ignored)) {
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
  template <class Host>
  Pair lock_pair(Host& host, Segment s, std::uint64_t hash) const {
    std::uint32_t const home = home_of(hash);
    Pair const pair{home, K::probing ? next_of(home) : home};
    fetch_ahead(host, s, home);
    host.read(&s.bucket(pair.home), kMetadata);
    host.read(&s.bucket(pair.next), kMetadata);
    lock(host, s.bucket(std::min(pair.home, pair.next)));
    if (pair.home != pair.next) lock(host, s.bucket(std::max(pair.home, pair.next)));
    return pair;
  }
  template <class Host>
  void unlock_pair(Host& host, Segment s, Pair pair) const {
    unlock(host, s.bucket(pair.home));
    if (pair.home != pair.next) unlock(host, s.bucket(pair.next));
  }

  /// Of near memory: both of a key's buckets, in one wait.
  template <class Host>
  PERDURE_FN void fetch_ahead(Host& host, Segment s, std::uint32_t home) const {
    if constexpr (Host::kNear) {
      for (std::uint32_t const b : {home, next_of(home)}) {
        auto const* const lines = reinterpret_cast<std::byte const*>(&s.bucket(b));
        for (std::size_t at = 0; at < sizeof(Bucket); at += pm::kCacheLine) host.prefetch(lines + at);
      }
    }
  }

  // --- Searching ------------------------------------------------------------------------------------------------

  /// Slots of a bucket that may hold a key with this fingerprint; bits 14 and 15 mean nothing.
  template <class Host>
  PERDURE_FN static std::uint32_t printed(Host& host, Bucket const& bucket, exec::ByteFinder const& print) {
    if constexpr (!K::fingerprints) return State::kAll;
    return print.in(host.load(&bucket.prints[0]), host.load(&bucket.prints[1]));
  }
  template <class Host>
  bool locate_in(Host& host, Segment s, std::uint32_t b, Key const& key, std::uint32_t of, Slot& found,
                 Spot* spot) const {
    exec::ByteFinder const print(fingerprint(key.hash));
    for (std::uint32_t left = printed(host, bucket_at(host, s, b), print) & of; left != 0; left &= left - 1) {
      Spot const at{b, static_cast<std::uint32_t>(std::countr_zero(left))};
      Slot const slot = slot_at(host, s, at);
      if (!keys_.equal(host, slot, key)) continue;
      found = slot;
      if (spot != nullptr) *spot = at;
      return true;
    }
    return false;
  }
  /// Both of a key's buckets at once: which of them has it is a coin's toss, and no branch should wait for that. As few
  /// instructions as may be wait for the metadata, so that a processor comes to the next search meanwhile.
  template <class Host>
  PERDURE_FN bool locate_in_pair(Host& host, Segment s, Key const& key, State state, Slot& found, Spot* spot) const {
    std::uint32_t const home = home_of(key.hash), next = next_of(home);
    Bucket const &here = s.bucket(home), &there = s.bucket(next);
    exec::ByteFinder const print(fingerprint(key.hash));
    std::uint64_t const its = state.word & ~(state.word >> kSlots);  // not guests
    std::uint64_t const guests = host.load(&there.state);
    std::uint64_t left =
        ((printed(host, here, print) & its) | (printed(host, there, print) & guests & guests >> kSlots) << 16) &
        (State::kAll | State::kAll << 16);
    for (; left != 0; left &= left - 1) {
      auto const bit = static_cast<std::uint32_t>(std::countr_zero(left));
      Spot const at{home + bit / 16 * (next - home), bit % 16};
      Slot const& place = s.bucket(at.bucket).slots[at.slot];
      Slot const slot{host.load(&place.first), host.load(&place.second)};
      if (!keys_.equal(host, slot, key)) continue;
      found = slot;
      if (spot != nullptr) *spot = at;
      return true;
    }
    return false;
  }
  template <class Host>
  bool locate_in_stash(Host& host, Segment s, std::uint32_t i, Key const& key, Slot& found, Spot* spot) const {
    std::uint32_t const b = shape_.buckets + i;
    host.read(&bucket_at(host, s, b), kMetadata);
    return locate_in(host, s, b, key, state_of(host, s, b).used(), found, spot);
  }
  /// Overflows of a bucket that may be the key's, of those in `of`.
  template <class Host>
  static std::uint32_t overflow_candidates(Host& host, Bucket const& bucket, Hints hints, std::uint64_t hash,
                                           std::uint32_t of) {
    std::uint32_t found = 0;
    std::uint64_t const two = host.load(&bucket.prints[1]) >> 48 | (hints.word & 0xffff) << 16;
    for (std::uint32_t i = 0; i < kOverflows; ++i) {
      if (static_cast<std::uint8_t>(two >> (8 * i)) == fingerprint(hash)) found |= 1u << i;
    }
    return found & of;
  }
  template <class Host>
  bool locate_overflows(Host& host, Segment s, std::uint32_t b, Hints hints, bool guests, Key const& key, Slot& found,
                        Spot* spot) const {
    std::uint32_t const of = hints.overflows() & (guests ? hints.guests() : ~hints.guests());
    std::uint32_t left = of == 0 ? 0 : overflow_candidates(host, s.bucket(b), hints, key.hash, of);
    for (; left != 0; left &= left - 1) {
      std::uint32_t const stash = hints.stash_of(static_cast<std::uint32_t>(std::countr_zero(left)));
      if (stash >= shape_.stash) continue;  // a hint that is being changed
      if (locate_in_stash(host, s, stash, key, found, spot)) return true;
    }
    return false;
  }

  /// `state` is the home bucket's, and nobody has changed it since: else the answer means nothing.
  template <class Host>
  PERDURE_FN bool locate(Host& host, Segment s, Key const& key, State state, Slot& found, Spot* spot = nullptr) const {
    std::uint32_t const home = home_of(key.hash), next = next_of(home);
    Hints beyond;
    if constexpr (Host::kNear && K::probing) {
      if (locate_in_pair(host, s, key, state, found, spot)) return true;
      beyond = {host.load(&s.bucket(next).hints)};
    } else {
      if (locate_in(host, s, home, key, state.used() & ~state.guests(), found, spot)) return true;
      if (K::probing && (!K::filter || Hints{host.load(&s.bucket(home).hints)}.beyond(filter_bit(key.hash)))) {
        host.read(&s.bucket(next), kMetadata);
        State const guests = state_of(host, s, next);
        if (locate_in(host, s, next, key, guests.used() & guests.guests(), found, spot)) return true;
        beyond = {host.load(&s.bucket(next).hints)};
      }
    }
    Hints const hints{host.load(&s.bucket(home).hints)};
    if (K::overflow_hints && (hints.overflows() | hints.untold() | beyond.guests()) == 0) return false;
    return locate_beyond(host, s, key, hints, beyond, found, spot);
  }
  /// In the stash, as far as the hints of the key's two buckets lead there.
  template <class Host>
  bool locate_beyond(Host& host, Segment s, Key const& key, Hints hints, Hints beyond, Slot& found, Spot* spot) const {
    if (K::overflow_hints && hints.untold() == 0) {
      std::uint32_t const home = home_of(key.hash);
      return locate_overflows(host, s, home, hints, false, key, found, spot) ||
             locate_overflows(host, s, next_of(home), beyond, true, key, found, spot);
    }
    for (std::uint32_t i = 0, end = buckets_of(host, s) - shape_.buckets; i < end; ++i) {
      if (locate_in_stash(host, s, i, key, found, spot)) return true;
    }
    return false;
  }

  // --- Changing, under the locks of the pair ----------------------------------------------------------------------

  template <class Host>
  Answer write_locked(Host& host, Segment s, Key const& key, Slot const& slot, Write how,
                      std::optional<Slot>& before) const {
    Slot found;
    Spot spot;
    if (locate(host, s, key, state_of(host, s, home_of(key.hash)), found, &spot)) {
      if (how == Write::insert) return Answer::exists;
      before = found;
      replace(host, s, spot, slot);
      return Answer::done;
    }
    if (how == Write::update) return Answer::absent;
    return insert(host, s, key.hash, slot) ? Answer::done : Answer::full;
  }

  template <class Host>
  void replace(Host& host, Segment s, Spot spot, Slot const& slot) const {
    Slot& at = bucket_at(host, s, spot.bucket).slots[spot.slot];
    std::uint64_t& word = (at.*Keys::changing);
    host.store(&word, (slot.*Keys::changing));
    if (!mutated(Mutant::dash_update_not_ordered)) host.persist(&word, sizeof word);
  }

  template <class Host>
  bool insert(Host& host, Segment s, std::uint64_t hash, Slot const& slot) const {
    std::uint32_t const home = home_of(hash);
    std::uint32_t const next = K::probing ? next_of(home) : home;
    State const here = state_of(host, s, home), there = state_of(host, s, next);
    bool const to_next = K::probing && (K::balanced ? there.count() < here.count() : here.full());
    if (std::uint32_t const b = to_next ? next : home; !state_of(host, s, b).full()) {
      place(host, s, b, hash, slot);
      return true;
    }
    if constexpr (K::probing && K::displacement) {
      if (displace(host, s, next, false, next_of(next))) {
        place(host, s, next, hash, slot);
        return true;
      }
      if (displace(host, s, home, true, last_of(home))) {
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
    if (!mutated(Mutant::dash_slot_not_ordered)) host.persist(&bucket.slots[i], sizeof slot);
    store_print(host, bucket, i, fingerprint(hash));
    if (guest) store_beyond(host, s.bucket(home), hash);
    host.store(&bucket.state, state.with_slot(i, guest).word);
  }

  /// Makes room in bucket b, which is full: moves one of its records, of this bucket or of the one before it, to its
  /// other bucket `to`. Bucket `to` may be busy, or full: then there is none.
  template <class Host>
  bool displace(Host& host, Segment s, std::uint32_t b, bool guest, std::uint32_t to) const {
    State const state = state_of(host, s, b);
    std::uint32_t const movable = state.used() & (guest ? state.guests() : ~state.guests());
    if (movable == 0) return false;
    Bucket& target = s.bucket(to);
    host.read(&target, kMetadata);
    if (State{host.load(&target.state)}.full() || !try_lock(host, target)) return false;
    bool const room = !State{host.load(&target.state)}.full();
    if (room) {
      Spot const from{b, static_cast<std::uint32_t>(std::countr_zero(movable))};
      Slot const slot = slot_at(host, s, from);
      std::uint64_t const hash = keys_.hash_of(slot);
      bool const late = !mutated(Mutant::dash_displaced_before_copy);
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
    if (!mutated(Mutant::dash_slot_not_freed)) free_slots(host, bucket, 1u << spot.slot, keys_.elsewhere(hash));
    if (!mutated(Mutant::dash_removal_not_ordered)) host.persist(&bucket.slots[spot.slot], sizeof(Slot));
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
        if (!mutated(Mutant::dash_stash_not_told)) tell_overflow(host, s, hash, free);
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
        next.word = (next.word & ~(std::uint64_t{255} << shift)) | std::uint64_t{fingerprint(hash)} << shift;
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
      for (std::uint32_t left = overflow_candidates(host, bucket, hints, hash, of); left != 0; left &= left - 1) {
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

  // --- Words ------------------------------------------------------------------------------------------------------

  /// Not flushed. The key comes last: it is what makes the slot count.
  template <class Host>
  void store_slot(Host& host, Segment s, Spot spot, Slot const& slot) const {
    Slot& at = bucket_at(host, s, spot.bucket).slots[spot.slot];
    bool const early = mutated(Mutant::dash_key_before_value);
    if (early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
    host.store(&(at.*Keys::changing), (slot.*Keys::changing));
    if (!early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
  }
  /// `free`: what a slot names that holds nothing. Not flushed.
  template <class Host>
  static void free_slots(Host& host, Bucket& bucket, std::uint32_t slots, std::uint64_t free) {
    for_each_bit(slots, [&](std::uint32_t i) { host.store(&(bucket.slots[i].*Keys::naming), free); });
  }
  template <class Host>
  void free_unused(Host& host, Segment s, SegmentContents const& contents) const {
    std::uint64_t const free = keys_.elsewhere(host.load(&s.header->start));
    for (std::uint32_t b = 0; b < contents.size(); ++b)
      free_slots(host, bucket_at(host, s, b), State::kAll & ~contents[b].used, free);
  }
  template <class Host>
  static void store_print(Host& host, Bucket& bucket, std::uint32_t i, std::uint8_t print) {
    std::uint64_t& word = bucket.prints[i / 8];
    std::uint32_t const shift = 8 * (i % 8);
    host.store(&word, (host.load(&word) & ~(std::uint64_t{255} << shift)) | std::uint64_t{print} << shift);
  }
  template <class Host>
  static void store_beyond(Host& host, Bucket& home, std::uint64_t hash) {
    Hints const hints{host.load(&home.hints)};
    if (!hints.beyond(filter_bit(hash))) host.store(&home.hints, hints.with_beyond(filter_bit(hash)).word);
  }
  /// Without hints; a chained bucket's stay, for they are its link.
  template <class Host>
  void store_metadata(Host& host, Segment s, std::uint32_t b, State state, std::array<std::uint64_t, 2> prints) const {
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

  // --- Contents ---------------------------------------------------------------------------------------------------

  static std::array<std::uint64_t, 2> prints_of(BucketContents const& contents) {
    std::array<std::uint64_t, 2> prints{};
    for_each_bit(contents.used, [&](std::uint32_t i) {
      prints[i / 8] |= std::uint64_t{fingerprint(contents.hashes[i])} << (8 * (i % 8));
    });
    return prints;
  }
  static void add(SegmentContents& contents, Spot spot, std::uint64_t hash, bool guest) {
    BucketContents& bucket = contents[spot.bucket];
    bucket.used |= 1u << spot.slot;
    bucket.guests = (bucket.guests & ~(1u << spot.slot)) | static_cast<std::uint32_t>(guest) << spot.slot;
    bucket.hashes[spot.slot] = hash;
  }
  /// In the less full of a key's buckets, or in the stash.
  std::optional<Spot> room_for(SegmentContents const& contents, std::uint64_t hash) const {
    std::uint32_t const home = home_of(hash), next = K::probing ? next_of(home) : home;
    bool const to_next = std::popcount(contents[next].used) < std::popcount(contents[home].used);
    if (auto const spot = free_in(contents, to_next ? next : home)) return spot;
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b) {
      if (auto const spot = free_in(contents, b)) return spot;
    }
    return std::nullopt;
  }
  static std::optional<Spot> free_in(SegmentContents const& contents, std::uint32_t b) {
    auto const i = static_cast<std::uint32_t>(std::countr_one(contents[b].used));
    if (i >= kSlots) return std::nullopt;
    return Spot{b, i};
  }

  /// Of a segment that nobody reaches and whose records are written.
  template <class Host>
  void write_whole(Host& host, Segment s, SegmentContents const& contents) const {
    if (!mutated(Mutant::dash_room_not_freed)) free_unused(host, s, contents);
    new_metadata(host, s, contents);
    flush_buckets(host, s);
  }
  /// Nobody reaches the segment: no lock is held.
  template <class Host>
  void new_metadata(Host& host, Segment s, SegmentContents const& contents) const {
    for (std::uint32_t b = 0; b < contents.size(); ++b)
      store_metadata(host, s, b, State{}.with(contents[b].used, contents[b].guests), prints_of(contents[b]));
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
      for_each_bit(contents[b].used & contents[b].guests,
                   [&](std::uint32_t i) { store_beyond(host, s.bucket(last_of(b)), contents[b].hashes[i]); });
    }
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b) {
      for_each_bit(contents[b].used,
                   [&](std::uint32_t i) { tell_overflow(host, s, contents[b].hashes[i], b - shape_.buckets); });
    }
  }

  /// What has room in its own buckets leaves the stash, of a segment that is locked.
  template <class Host>
  void empty_stash(Host& host, Segment s, SegmentContents& contents) const {
    bool moved = false;
    for (std::uint32_t b = shape_.buckets; b < contents.size(); ++b) {
      for_each_bit(contents[b].used, [&](std::uint32_t i) {
        std::uint64_t const hash = contents[b].hashes[i];
        std::optional<Spot> const spot = room_for(contents, hash);
        if (!spot || spot->bucket >= shape_.buckets) return;
        place(host, s, spot->bucket, hash, slot_at(host, s, {b, i}));
        free_slot(host, s, {b, i}, hash);
        add(contents, *spot, hash, spot->bucket != home_of(hash));
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
        bool const guest = b < shape_.buckets && b != home_of(hash);
        if (belongs(hash) && (!guest || (K::probing && b == next_of(home_of(hash))))) add(found, {b, i}, hash, guest);
      }
    }
    return found;
  }

  /// Whether a key stands a second time, in a place that a crash inside a move leaves the other copy of.
  template <class Host>
  bool stands_before(Host& host, Segment s, SegmentContents const& found, Spot spot) const {
    std::uint64_t const hash = found[spot.bucket].hashes[spot.slot];
    std::uint32_t const home = home_of(hash);
    for (std::uint32_t const b : {home, next_of(home)}) {
      if (b == spot.bucket) return false;
      bool twice = false;
      for_each_bit(found[b].used, [&](std::uint32_t i) {
        if (found[b].hashes[i] != hash) return;
        twice |= keys_.same(host, slot_at(host, s, {b, i}), slot_at(host, s, spot));
      });
      if (twice) return true;
    }
    return false;
  }

  Keys keys_;
  SegmentShape shape_;
  std::byte* base_;
};

}  // namespace perdure::dash
