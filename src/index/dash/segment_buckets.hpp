// The buckets of a segment of Dash: where they lie, their locks, and the words that they are made
// of. segment.hpp has the invariants.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/dash/layout.hpp"
#include "pm/flush.hpp"

namespace perdure::dash {

/// Which of Dash's parts are there: what the paper's ablations (sections 6.5 to 6.7) leave out.
struct Knobs {
  static constexpr bool fingerprints = true;
  // else every search that finds nothing looks through the stash
  static constexpr bool overflow_hints = true;
  static constexpr bool filter = true;  // else every such search looks into the probing bucket
  static constexpr bool optimistic = true;  // else searches lock their target bucket
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
struct SlotPosition {
  std::uint32_t bucket = 0;
  std::uint32_t slot = 0;
};

template <class F>
void for_each_bit(std::uint32_t bits, F f) {
  for (; bits != 0; bits &= bits - 1) f(static_cast<std::uint32_t>(std::countr_zero(bits)));
}

// --- A bucket's lock
// -----------------------------------------------------------------------------------------------

/// A mutant of the explorer's is planted that leaves a lock out.
inline bool locks_are_faulty() {
  return mutated("dash_lock_ignored") || mutated("dash_next_not_locked");
}
/// Whoever changes a bucket has its lock.
/// Looked at beside the Host, so that assertions cost it nothing, and no other thread goes on.
[[nodiscard]] inline bool is_locked(Bucket const& bucket) {
  return State{__atomic_load_n(&bucket.state, __ATOMIC_RELAXED)}.locked() || locks_are_faulty();
}

template <class Host>
bool try_lock(Host& host, Bucket& bucket) {
  State const state{host.load(&bucket.state)};
  if (mutated("dash_lock_ignored")) {
    host.store(&bucket.state, state.word | State::kLocked);
    return true;
  }
  return !state.locked() && host.cas(&bucket.state, state.word, state.word | State::kLocked);
}
template <class Host>
void lock(Host& host, Bucket& bucket) {
  while (!try_lock(host, bucket)) host.pause();
}
/// The lock for who has searched without it, if the bucket's state is `seen` still, not locked: so
/// nobody has changed it since. `late`, a mutant's: if that is so or not.
template <class Host>
[[nodiscard]] PERDURE_HOT bool lock_as_seen(Host& host, Bucket& bucket, State seen, bool late) {
  if (!late) return host.cas(&bucket.state, seen.word, seen.word | State::kLocked);
  lock(host, bucket);
  return true;
}
template <class Host>
void unlock(Host& host, Bucket& bucket) {
  State const state{host.load(&bucket.state)};
  PERDURE_ASSERT(!kCostlyAssertions || state.locked() || locks_are_faulty());
  host.store(&bucket.state, state.unlocked().word);
}

// --- A bucket's words
// -----------------------------------------------------------------------------------------------

template <class Host>
Slot slot_in(Host& host, Bucket const& bucket, std::uint32_t i) {
  PERDURE_ASSERT(!kCostlyAssertions || i < kSlots);
  Slot const& slot = bucket.slots[i];
  host.read(&slot, sizeof slot);
  return {host.load(&slot.first), host.load(&slot.second)};
}
template <class Host>
void store_print(Host& host, Bucket& bucket, std::uint32_t i, std::uint8_t print) {
  PERDURE_ASSERT(!kCostlyAssertions || i < kSlots + 2);  // two are of overflows
  std::uint64_t& word = bucket.prints[i / 8];
  std::uint32_t const shift = 8 * (i % 8);
  host.store(&word,
             (host.load(&word) & ~(std::uint64_t{255} << shift)) | std::uint64_t{print} << shift);
}
template <class Host>
void store_beyond(Host& host, Bucket& target, std::uint64_t hash) {
  Hints const hints{host.load(&target.hints)};
  if (!hints.beyond(filter_bit(hash)))
    host.store(&target.hints, hints.with_beyond(filter_bit(hash)).word);
}

template <class Keys, class K = Knobs>
class SegmentBuckets {
 public:
  using Key = typename Keys::Key;

  /// `base`: of the pool, where segments may have chains.
  SegmentBuckets(Keys keys, SegmentShape shape, std::byte* base = nullptr)
      : keys_(keys), shape_(shape), base_(base) {
    PERDURE_ASSERT(shape.buckets >= 4 && std::has_single_bit(shape.buckets));
    PERDURE_ASSERT(shape.buckets <= 512 && shape.stash <= kMostStash);
  }

  [[nodiscard]] SegmentShape shape() const { return shape_; }
  [[nodiscard]] Keys const& keys() const { return keys_; }

  // --- Where its buckets lie
  // -----------------------------------------------------------------------------------------------

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
  /// Of a segment whose chain nobody releases meanwhile: the caller holds a lock of one of its
  /// buckets, or nobody else reaches it.
  template <class Host>
  [[nodiscard]] Bucket& bucket_at(Host& host, Segment s, std::uint32_t b) const {
    if (b < all()) return s.bucket(b);
    std::uint64_t at = host.load(&s.header->chain);
    PERDURE_ASSERT(!kCostlyAssertions || (base_ != nullptr && at != 0));
    for (; b > all(); --b) at = host.load(&chained_at(at).hints);
    return chained_at(at);
  }
  [[nodiscard]] Bucket& chained_at(std::uint64_t address) const {
    return *reinterpret_cast<Bucket*>(base_ + address);
  }
  /// Addresses of the buckets that are chained to it.
  template <class Host>
  [[nodiscard]] std::vector<std::uint64_t> chain_of(Host& host, Segment s) const {
    std::vector<std::uint64_t> chained;
    if (base_ == nullptr) return chained;
    for (std::uint64_t at = host.load(&s.header->chain); at != 0;
         at = host.load(&chained_at(at).hints))
      chained.push_back(at);
    return chained;
  }
  template <class Host>
  [[nodiscard]] State state_of(Host& host, Segment s, std::uint32_t b) const {
    return {host.load(&bucket_at(host, s, b).state)};
  }

 protected:
  static constexpr std::size_t kMetadata = 32;
  struct Pair {
    std::uint32_t target, next;
    bool both;  // are locked
  };

  /// f(b, bucket) for the stash and what is chained to it, until one answers true. For searches,
  /// which hold no lock: a split may release the chain meanwhile, so it is walked once. What was
  /// released keeps its links while the caller's EpochGuard stands, and ends as it did; whether
  /// what was found counts, the target bucket's version says.
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
  [[nodiscard]] std::uint32_t target_of(std::uint64_t hash) const {
    return bucket_of(hash, shape_.buckets);
  }
  [[nodiscard]] std::uint32_t next_of(std::uint32_t bucket) const {
    return (bucket + 1) & (shape_.buckets - 1);
  }
  [[nodiscard]] std::uint32_t last_of(std::uint32_t bucket) const {
    return (bucket - 1) & (shape_.buckets - 1);
  }

  // --- Locks
  // -----------------------------------------------------------------------------------------------

  /// Of a hash, neither locked.
  [[nodiscard]] Pair pair_of(std::uint64_t hash) const {
    std::uint32_t const target = target_of(hash);
    return {target, K::probing ? next_of(target) : target, false};
  }
  /// The target bucket, and before it the probing bucket where that is the lower one: lock_next()
  /// could not have it later.
  template <class Host>
  Pair lock_target(Host& host, Segment s, std::uint64_t hash) const {
    Pair pair = pair_of(hash);
    std::uint32_t const target = pair.target, next = pair.next;
    fetch_ahead(host, s, target);
    host.read(&s.bucket(target), kMetadata);
    host.read(&s.bucket(next), kMetadata);  // one wait for both, should it come to that
    bool const late = mutated("dash_locks_out_of_order");
    if (next < target && !late) lock(host, s.bucket(next));
    lock(host, s.bucket(target));
    if (next < target && late) lock(host, s.bucket(next));
    pair.both = next < target;
    return pair;
  }
  template <class Host>
  void lock_next(Host& host, Segment s, Pair& pair) const {
    if (pair.both || pair.next == pair.target) return;
    // Locks are taken in the order of the buckets.
    PERDURE_ASSERT(!kCostlyAssertions || pair.next > pair.target);
    if (!mutated("dash_next_not_locked")) lock(host, s.bucket(pair.next));
    pair.both = true;
  }
  template <class Host>
  void unlock_pair(Host& host, Segment s, Pair pair) const {
    unlock(host, s.bucket(pair.target));
    if (pair.both) unlock(host, s.bucket(pair.next));
  }

  /// Of near memory, in one wait: all lines of a bucket.
  template <class Host>
  PERDURE_HOT static void fetch_bucket(Host& host, Bucket const& bucket) {
    if constexpr (Host::kNear) {
      auto const* const lines = reinterpret_cast<std::byte const*>(&bucket);
      for (std::size_t at = 0; at < sizeof(Bucket); at += pm::kCacheLine) host.prefetch(lines + at);
    }
  }
  /// Likewise a key's target bucket, and what its probing bucket says of itself.
  template <class Host>
  PERDURE_HOT void fetch_ahead(Host& host, Segment s, std::uint32_t target) const {
    fetch_bucket(host, s.bucket(target));
    if constexpr (Host::kNear) host.prefetch(&s.bucket(next_of(target)));
  }

  // --- Words
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  Slot slot_at(Host& host, Segment s, SlotPosition position) const {
    return slot_in(host, bucket_at(host, s, position.bucket), position.slot);
  }
  /// Not flushed. The key comes last: it is what makes the slot count.
  template <class Host>
  void store_slot(Host& host, Segment s, SlotPosition position, Slot const& slot) const {
    PERDURE_ASSERT(!kCostlyAssertions || position.slot < kSlots);
    Slot& at = bucket_at(host, s, position.bucket).slots[position.slot];
    bool const early = mutated("dash_key_before_value");
    if (early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
    host.store(&(at.*Keys::changing), (slot.*Keys::changing));
    if (!early) host.store(&(at.*Keys::naming), (slot.*Keys::naming));
  }
  /// `free`: what a slot names that holds nothing. Not flushed.
  template <class Host>
  static void free_slots(Host& host, Bucket& bucket, std::uint32_t slots, std::uint64_t free) {
    PERDURE_ASSERT(!kCostlyAssertions || (slots & ~State::kAll) == 0);
    for_each_bit(slots,
                 [&](std::uint32_t i) { host.store(&(bucket.slots[i].*Keys::naming), free); });
  }
  /// Without hints; a chained bucket's stay, for they are its link.
  template <class Host>
  void store_metadata(Host& host, Segment s, std::uint32_t b, State state,
                      std::array<std::uint64_t, 2> prints) const {
    Bucket& bucket = bucket_at(host, s, b);
    PERDURE_ASSERT(!kCostlyAssertions || state.possible());
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
