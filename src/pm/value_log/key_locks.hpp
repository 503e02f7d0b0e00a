// Locks of keys. Whoever writes to the log holds the locks of all keys of a piece, from before it
// looks them up until all is published. Invariant: so the versions of a key have sequences in the
// order in which the index got them, and a record is in the log only if the operation that wrote it
// takes effect.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"

namespace perdure::pm {

/// A key of a piece, by its hash; while the piece has it, in the list of its bucket.
struct HeldKey {
  std::uint64_t hash;
  HeldKey* next;
};

/// Lists of what pieces have at present, by the hashes' top bits. A piece waits only for its own
/// keys: of locks that stood for many keys each, pieces of hundreds always met, and one went on at
/// a time, however many threads there were.
class KeyLocks {
 public:
  static constexpr std::size_t kBuckets = 1024;
  static std::size_t bucket_of(std::uint64_t hash) { return hash >> 54; }

 private:
  friend class KeysLocked;
  struct alignas(64) Bucket {
    Mutex mutex;
    Condition let_go;
    HeldKey* held PERDURE_GUARDED_BY(mutex) = nullptr;
    std::uint32_t waiting PERDURE_GUARDED_BY(mutex) = 0;
    std::atomic<std::uint32_t> let_go_count{0};  // changes with each unlock()

    [[nodiscard]] bool has_any_of(std::span<HeldKey const> keys) const PERDURE_REQUIRES(mutex) {
      for (HeldKey const* each = held; each != nullptr; each = each->next)
        if (std::ranges::find(keys, each->hash, &HeldKey::hash) != keys.end()) return true;
      return false;
    }
  };

  /// All of them of one bucket, and at once: so of two that want the same ones, neither waits for
  /// the other with some of them.
  void lock(std::span<HeldKey> keys) {
    Bucket& bucket = buckets_[bucket_of(keys[0].hash)];
    MutexLock lock(bucket.mutex);
    for (int looks = kLooks; bucket.has_any_of(keys) && !mutated("vlog_lock_ignored"); --looks) {
      if (looks <= 0 || fault::simulated()) {
        ++bucket.waiting;
        bucket.let_go.wait(bucket.mutex);
        --bucket.waiting;
        continue;
      }
      std::uint32_t const seen = bucket.let_go_count.load(std::memory_order_relaxed);
      lock.unlock();
      look_until_changed(bucket.let_go_count, seen);
      lock.lock();
    }
    for (HeldKey& each : keys) {
      each.next = bucket.held;
      bucket.held = &each;
    }
  }
  void unlock(std::span<HeldKey> keys) {
    Bucket& bucket = buckets_[bucket_of(keys[0].hash)];
    MutexLock const lock(bucket.mutex);
    for (HeldKey const& each : keys) {
      HeldKey** at = &bucket.held;
      while (*at != &each) at = &(*at)->next;
      *at = each.next;
    }
    bucket.let_go_count.fetch_add(1, std::memory_order_relaxed);
    if (bucket.waiting != 0) bucket.let_go.notify_all();
  }

  // A key is held for as long as one ordering point takes, a few microseconds, and a sleeper wakes
  // in fifty. So who waits looks for about as long as that first; where keys are drawn by Zipf's
  // law, every tenth operation waits.
  static constexpr int kLooks = 8, kYields = 8;
  static void look_until_changed(std::atomic<std::uint32_t> const& count, std::uint32_t seen) {
    for (int i = 0; i < kYields && count.load(std::memory_order_relaxed) == seen; ++i)
      std::this_thread::yield();
  }

  std::array<Bucket, kBuckets> buckets_;
};

/// The keys of a piece.
class PieceKeys {
 public:
  static constexpr std::size_t kMost = 256;

  /// That it does not have yet.
  void add(std::uint64_t hash) {
    PERDURE_ASSERT(count_ < kMost);
    keys_[count_++].hash = hash;
  }
  void clear() { count_ = 0; }

 private:
  friend class KeysLocked;
  /// f(keys of one bucket), bucket by bucket in their order, once they are sorted.
  template <class F>
  void for_each_bucket(F f) {
    for (std::size_t from = 0, end = 0; from < count_; from = end) {
      std::size_t const bucket = KeyLocks::bucket_of(keys_[from].hash);
      while (end < count_ && KeyLocks::bucket_of(keys_[end].hash) == bucket) ++end;
      f(std::span(keys_).subspan(from, end - from));
    }
  }

  std::size_t count_ = 0;
  std::array<HeldKey, kMost> keys_;  // the first of them are made
};

/// The locks of some keys, as long as it stands. In the order of their buckets, so that nobody
/// waits in a circle.
class KeysLocked {
 public:
  /// `keys` stay as they are as long as this stands.
  KeysLocked(KeyLocks& locks, PieceKeys& keys) : locks_(&locks), keys_(&keys) {
    if (!mutated("vlog_keys_locked_unsorted"))
      std::ranges::sort(std::span(keys.keys_).first(keys.count_), {}, &HeldKey::hash);
    keys_->for_each_bucket([&](std::span<HeldKey> each) { locks_->lock(each); });
  }
  KeysLocked(KeysLocked const&) = delete;
  KeysLocked& operator=(KeysLocked const&) = delete;
  ~KeysLocked() {
    keys_->for_each_bucket([&](std::span<HeldKey> each) { locks_->unlock(each); });
  }

 private:
  KeyLocks* locks_;
  PieceKeys* keys_;
};

}  // namespace perdure::pm
