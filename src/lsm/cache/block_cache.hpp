// The block cache: what RocksDB said of keys, for readers who see RocksDB as it was then (H-Rocks,
// section 5). The host alone fills it; who looks keys up takes no lock.
//
// RocksDB's state has a number, its last sequence number. The cache knows one state at a time, and
// what is in it holds there.
//
// Invariants:
//  1. A reader believes what it found only if the cache knew the reader's state before it looked,
//     and knows it still (holds()). To go from one state to another there are two ways:
//     a new epoch, which makes all of it unknown at once; and, where it is known which keys change,
//     close(), invalidate() of these, advance().
//  2. What is inserted was read of RocksDB with a ticket that was taken before. From close() on
//     nothing is inserted, so that nobody inserts behind invalidate()'s back what was read before:
//     who inserts locks the set and then looks whether it is closed; close() comes before
//     invalidate() looks whether the set is locked.
//  3. Epochs rise, and an entry of an older epoch never stands beside one of a newer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/prefetch.hpp"
#include "lsm/cache/cache_counters.hpp"
#include "lsm/cache/cache_memory.hpp"
#include "lsm/cache/cache_view.hpp"

namespace perdure::lsm {

/// The verbs of a lookup, and of who fills, on a thread of the host.
struct CacheThread {
  static constexpr bool kLoadsAcquire = true;
  template <class T>
  static T load(T const* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  template <class T>
  static void store(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  void prefetch(std::byte const* at, std::size_t bytes) const {
    for (std::size_t i = 0; i < bytes; i += 64) prefetch_line(at + i);
  }
};

/// A reader's leave to use the cache.
struct CacheTicket {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  // RocksDB's, of the state that the reader sees
  bool may_fill = false;
};

/// What RocksDB said of a key.
struct CacheValue {
  std::byte const* data = nullptr;
  std::size_t size = 0;
  bool is_absent = false;
};

/// Rules that a test breaks one by one, to show that it would notice.
struct CacheRules {
  static constexpr bool kCloses = true;  // close() keeps entries out
  static constexpr bool kInvalidates = true;
  static constexpr bool kHoldsAsks = true;  // holds() looks at the state again
  static constexpr bool kEmptiesOldSets = true;  // before a newer epoch's entry comes
};

template <class Rules>
class BasicBlockCache {
 public:
  /// As many keys must be read in one state before the cache turns to it: where RocksDB is written
  /// to all the time, nothing would be read twice.
  static constexpr std::uint64_t kStill = 16;
  static constexpr std::uint32_t kGroup = 16;
  static constexpr std::uint32_t kAgeAfter =
      64;  // of zipf(0.99) keys, 97 in 100 hits of what is to be had

  BasicBlockCache(CacheMemory memory, CacheCounters& counters)
      : memory_(std::move(memory)), view_(memory_.view()), counters_(counters) {}

  [[nodiscard]] std::uint64_t bytes() const { return memory_.bytes(); }
  /// For lookups by a machine's own body, with a ticket's epoch; holds() says whether they count.
  [[nodiscard]] CacheView const& view() const { return view_; }
  /// Words that look_up() needs for each key's value.
  [[nodiscard]] std::uint32_t value_words() const { return view_.slot_words; }

  [[nodiscard]] CacheCounters& counters() { return counters_; }

  // For readers, any threads.
  /// Nothing: the cache knows another state than this one, or none. `keys` are about to be read.
  std::optional<CacheTicket> ticket(std::uint64_t sequence, std::uint64_t keys) {
    std::uint64_t const epoch = epoch_.load();
    std::uint64_t const state = state_.load();
    if (state >> 1 == sequence) return CacheTicket{epoch, sequence, (state & 1) == 0};
    if (sequence >= last_.load(std::memory_order_relaxed) && is_still(sequence, keys))
      turn_to(sequence);
    return std::nullopt;
  }
  /// Whether the ticket's state is known still, so that what was found since then is right.
  [[nodiscard]] bool holds(CacheTicket const& ticket) const {
    if (!Rules::kHoldsAsks) return true;
    return state_.load() >> 1 == ticket.sequence && epoch_.load() == ticket.epoch;
  }
  /// Of n keys, keys.at(i) and keys.size(i). Values that are found begin at `values` +
  /// i * value_words(). To be believed if holds() says so afterwards. The answer is how many there
  /// are.
  template <class Keys>
  std::size_t look_up(CacheTicket const& ticket, std::uint32_t family, Keys const& keys,
                      std::size_t n, CacheAnswer* answers, std::uint64_t* values);
  [[nodiscard]] bool fits(std::size_t key, std::size_t value) const {
    return value < CacheSlotHead::kAbsent && key < CacheSlotHead::kAbsent &&
           1 + (key + 7) / 8 + (value + 7) / 8 <= view_.slot_words;
  }
  /// What was read after the ticket was taken, of the ticket's state.
  void insert(CacheTicket const& ticket, std::uint32_t family, std::span<std::byte const> key,
              CacheValue const& value);

  // For who changes RocksDB.
  /// RocksDB's state `sequence` is about to change: an entry would come too late.
  void close(std::uint64_t sequence);
  /// Keys' hashes (cache_hash()) that have another value in the state to come. After close(). The
  /// answer is which of them were there.
  std::vector<std::uint32_t> invalidate(std::span<std::uint64_t const> hashes);
  /// The keys that were not invalidated are in this state what they were before.
  void advance(std::uint64_t sequence);
  /// After close(), for nothing changed.
  void reopen();
  /// RocksDB changes in ways that its sequence number may not show.
  void suspend();
  void resume();

 private:
  using W = CacheThread;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  static bool lock(CacheSet* set, std::uint32_t even) {
    return __atomic_compare_exchange_n(&set->version, &even, even + 1, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
  }
  static void unlock(CacheSet* set) { W::store(&set->version, W::load(&set->version) + 1); }
  [[nodiscard]] bool is_open(CacheTicket const& ticket) const {
    std::uint64_t const state = state_.load();
    return (Rules::kCloses ? state : state & ~std::uint64_t{1}) == ticket.sequence << 1 &&
           epoch_.load() == ticket.epoch;
  }

  bool is_still(std::uint64_t sequence, std::uint64_t keys);
  void turn_to(std::uint64_t sequence);
  void begin_epoch() PERDURE_REQUIRES(mutex_);
  // With the set locked:
  bool fill(CacheSet* set, CacheTicket const& ticket, std::uint64_t hash, CacheSlotHead const& head,
            std::byte const* key, CacheValue const& value);
  std::uint32_t choose_way(CacheSet* set);
  static void age(CacheSet* set);
  void write(CacheSet* set, std::uint32_t way, CacheSlotHead const& head, std::byte const* key,
             std::byte const* value);
  void forget(CacheSet* set, std::uint32_t tag);

  CacheMemory memory_;
  CacheView const view_;
  CacheCounters& counters_;

  std::atomic<std::uint64_t> epoch_ = 0;
  std::atomic<std::uint64_t> state_ = kNone;  // twice the sequence number, and 1 if it is closed
  std::atomic<std::uint64_t> seen_ = kNone;  // a state that is not known, and
  std::atomic<std::uint64_t> seen_keys_ = 0;  // as many keys were read in it

  std::atomic<std::uint64_t> last_ = 0;  // state that was known: there is no way back

  Mutex mutex_;  // of who changes the state
  bool closed_ PERDURE_GUARDED_BY(mutex_) = false;
  std::uint32_t suspended_ PERDURE_GUARDED_BY(mutex_) = 0;
};

template <class Rules>
template <class Keys>
std::size_t BasicBlockCache<Rules>::look_up(CacheTicket const& ticket, std::uint32_t family,
                                            Keys const& keys, std::size_t n, CacheAnswer* answers,
                                            std::uint64_t* values) {
  thread_local std::uint64_t salt = reinterpret_cast<std::uintptr_t>(&salt);
  salt += hash_detail::k2;
  CacheLookupBody<W, kGroup, Keys> body{view_, keys, n, family, ticket.epoch, salt};
  body.answers = answers;
  body.values = values;
  for (std::size_t group = 0; group * kGroup < n; ++group) body(group);
  std::uint64_t found = 0, locked = 0;
  for (std::size_t i = 0; i < n; ++i) {
    found += is_known(answers[i].found);
    locked += answers[i].found == Cached::locked;
  }
  counters_.hits.fetch_add(found, std::memory_order_relaxed);
  if (locked != 0) counters_.locked.fetch_add(locked, std::memory_order_relaxed);
  return found;
}

template <class Rules>
bool BasicBlockCache<Rules>::is_still(std::uint64_t sequence, std::uint64_t keys) {
  if (seen_.load(std::memory_order_relaxed) == sequence)
    return seen_keys_.fetch_add(keys, std::memory_order_relaxed) + keys >= kStill;
  seen_keys_.store(keys, std::memory_order_relaxed);
  seen_.store(sequence, std::memory_order_relaxed);
  return keys >= kStill;
}

template <class Rules>
void BasicBlockCache<Rules>::begin_epoch() {
  state_ = kNone;
  ++epoch_;
  ++counters_.epochs;
}

template <class Rules>
void BasicBlockCache<Rules>::turn_to(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  if (closed_ || suspended_ != 0 || sequence < last_ || state_ >> 1 == sequence) return;
  begin_epoch();
  last_ = sequence;
  state_ = sequence << 1;
}

template <class Rules>
void BasicBlockCache<Rules>::close(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  closed_ = true;
  if (state_ == sequence << 1)
    state_ = sequence << 1 | 1;
  else
    begin_epoch();
}

template <class Rules>
void BasicBlockCache<Rules>::advance(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  closed_ = false;
  if (suspended_ != 0) return;
  if (state_ == kNone) begin_epoch();
  last_ = sequence;
  state_ = sequence << 1;
}

template <class Rules>
void BasicBlockCache<Rules>::reopen() {
  MutexLock lock(mutex_);
  closed_ = false;
  if (state_ != kNone) state_ = state_ & ~std::uint64_t{1};
}

template <class Rules>
void BasicBlockCache<Rules>::suspend() {
  MutexLock lock(mutex_);
  ++suspended_;
  state_ = kNone;
}

template <class Rules>
void BasicBlockCache<Rules>::resume() {
  MutexLock lock(mutex_);
  begin_epoch();
  --suspended_;
}

/// Sets without the key are not locked: see invariant 2. The order of all that is asked there is
/// one order for all threads (seq_cst).
template <class Rules>
std::vector<std::uint32_t> BasicBlockCache<Rules>::invalidate(
    std::span<std::uint64_t const> hashes) {
  std::vector<std::uint32_t> there;
  if (!Rules::kInvalidates || state_ == kNone) return there;
  constexpr std::size_t kAhead = 16;
  std::uint64_t const epoch = epoch_.load();
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) prefetch_line(view_.set_of(hashes[i + kAhead]));
    CacheSet* const set = view_.set_of(hashes[i]);
    std::uint32_t const tag = cache_tag(hashes[i]);
    std::uint32_t version = __atomic_load_n(&set->version, __ATOMIC_SEQ_CST);
    bool const is_locked = (version & 1) != 0;
    if (!is_locked && (W::load(&set->epoch) != epoch || ways_with<W>(set, tag) == 0)) continue;
    while ((version & 1) != 0 || !lock(set, version))
      version = __atomic_load_n(&set->version, __ATOMIC_SEQ_CST);
    if (ways_with<W>(set, tag) != 0) there.push_back(static_cast<std::uint32_t>(i));
    forget(set, tag);
    unlock(set);
  }
  return there;
}

template <class Rules>
void BasicBlockCache<Rules>::forget(CacheSet* set, std::uint32_t tag) {
  for (std::uint32_t ways = ways_with<W>(set, tag); ways != 0; ways &= ways - 1) {
    std::uint32_t const way = exec::lowest_bit(ways);
    W::store(set->tags + way, std::uint32_t{0});
    ++counters_.invalidated;
  }
}

template <class Rules>
void BasicBlockCache<Rules>::insert(CacheTicket const& ticket, std::uint32_t family,
                                    std::span<std::byte const> key, CacheValue const& value) {
  if (!ticket.may_fill || !fits(key.size(), value.size)) return;
  CacheSlotHead const head(
      family, static_cast<std::uint32_t>(key.size()),
      value.is_absent ? CacheSlotHead::kAbsent : static_cast<std::uint32_t>(value.size));
  std::uint64_t const hash = cache_hash(family, key.data(), key.size());
  CacheSet* const set = view_.set_of(hash);
  std::uint32_t const version = W::load(&set->version);
  bool filled = false;
  if ((version & 1) == 0 && lock(set, version)) {
    filled = fill(set, ticket, hash, head, key.data(), value);
    unlock(set);
  }
  ++(filled ? counters_.inserted : counters_.refused);
}

template <class Rules>
bool BasicBlockCache<Rules>::fill(CacheSet* set, CacheTicket const& ticket, std::uint64_t hash,
                                  CacheSlotHead const& head, std::byte const* key,
                                  CacheValue const& value) {
  if (!is_open(ticket)) return false;
  if (W::load(&set->epoch) != ticket.epoch) {  // an older one's
    for (std::uint32_t w = 0; w < kCacheWays && Rules::kEmptiesOldSets; ++w)
      W::store(set->tags + w, std::uint32_t{0});
    W::store(&set->epoch, ticket.epoch);
  }
  std::uint32_t const tag = cache_tag(hash);
  for (std::uint32_t ways = ways_with<W>(set, tag); ways != 0; ways &= ways - 1) {
    std::uint64_t const* const slot = view_.slot(set, exec::lowest_bit(ways));
    CacheSlotHead const there(W::load(slot));
    if (there.family == head.family && there.key_bytes == head.key_bytes &&
        is_key<W>(slot + 1, key, head.key_bytes))
      return false;  // and its value is this one
  }
  std::uint32_t const way = choose_way(set);
  if (way == kCacheWays) return false;
  write(set, way, head, key, value.data);
  W::store(set->tags + way, tag);
  return true;
}

/// An empty way, else one that was not read since it came, or since the ways aged: of several, now
/// this and now that, so that who comes anew has time to be read. kCacheWays: there is none.
template <class Rules>
std::uint32_t BasicBlockCache<Rules>::choose_way(CacheSet* set) {
  for (std::uint32_t w = 0; w < kCacheWays; ++w)
    if (W::load(set->tags + w) == 0) return w;
  if (++set->arrivals >= kAgeAfter) age(set);
  for (std::uint32_t i = 0; i < kCacheWays; ++i) {
    std::uint32_t const way = (set->arrivals + i) % kCacheWays;
    if (W::load(set->uses + way) != 0) continue;
    ++counters_.evicted;
    return way;
  }
  return kCacheWays;
}

template <class Rules>
void BasicBlockCache<Rules>::age(CacheSet* set) {
  set->arrivals = 0;
  for (std::uint8_t& uses : set->uses) {
    std::uint8_t const now = W::load(&uses);
    if (now != 0) W::store(&uses, static_cast<std::uint8_t>(now - 1));
  }
}

template <class Rules>
void BasicBlockCache<Rules>::write(CacheSet* set, std::uint32_t way, CacheSlotHead const& head,
                                   std::byte const* key, std::byte const* value) {
  std::uint64_t* to = view_.slot(set, way);
  W::store(to++, head.word());
  for (std::uint32_t at = 0; at < head.key_bytes; at += 8)
    W::store(to++, hash_detail::load_tail(key + at, head.key_bytes - at));
  for (std::uint32_t at = 0; at < head.value_words() * 8; at += 8)
    W::store(to++, hash_detail::load_tail(value + at, head.value_bytes - at));
  W::store(set->uses + way, std::uint8_t{0});
}

using BlockCache = BasicBlockCache<CacheRules>;
extern template class BasicBlockCache<CacheRules>;

/// As long as it stands, the cache knows nothing. Null: there is none.
class CacheSuspension {
 public:
  explicit CacheSuspension(BlockCache* cache) : cache_(cache) {
    if (cache_ != nullptr) cache_->suspend();
  }
  ~CacheSuspension() {
    if (cache_ != nullptr) cache_->resume();
  }
  CacheSuspension(CacheSuspension const&) = delete;
  CacheSuspension& operator=(CacheSuspension const&) = delete;

 private:
  BlockCache* const cache_;
};

}  // namespace perdure::lsm
