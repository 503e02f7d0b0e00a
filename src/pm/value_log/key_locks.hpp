// Locks of keys, in stripes by their hashes. Whoever writes to the log holds the locks of all keys
// of a piece, from before it looks them up until all is published. Invariant: so the versions of a
// key have sequences in the order in which the index got them, and a record is in the log only if
// the operation that wrote it takes effect.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/hooks.hpp"
#include "base/simulated.hpp"

namespace perdure::pm {

/// Words instead of mutexes: a piece holds hundreds of them, more than a thread sanitizer can
/// follow, and nearly nobody ever waits for one.
class KeyLocks {
 public:
  static constexpr std::size_t kStripes = 4096;

 private:
  friend class KeysLocked;
  enum : std::uint32_t { kFree, kHeld, kWaitedFor };

  void lock(std::uint32_t stripe) {
    std::atomic<std::uint32_t>& word = words_[stripe];
    fault::locks();
    std::uint32_t free = mutated("vlog_lock_ignored") ? word.load() : kFree;
    if (!word.compare_exchange_strong(free, kHeld, std::memory_order_acquire))
      while (word.exchange(kWaitedFor, std::memory_order_acquire) != kFree) wait(word);
    fault::locked(&word);
  }
  static void wait(std::atomic<std::uint32_t>& word) {
    fault::simulated() ? fault::give_way() : word.wait(kWaitedFor);
  }
  void unlock(std::uint32_t stripe) {
    fault::unlocks(&words_[stripe]);
    if (words_[stripe].exchange(kFree, std::memory_order_release) == kWaitedFor)
      words_[stripe].notify_one();
  }

  std::array<std::atomic<std::uint32_t>, kStripes> words_{};
};

/// Some stripes, each once: a bit each, and a bit for each word of those that has any. So a piece
/// needs no sort, and an empty set costs one word.
class Stripes {
 public:
  void add(std::uint64_t hash) {
    std::uint32_t const stripe = static_cast<std::uint32_t>(hash >> 48) % KeyLocks::kStripes;
    words_[stripe / 64] |= std::uint64_t{1} << stripe % 64;
    some_ |= std::uint64_t{1} << stripe / 64;
  }
  void clear() {
    for (; some_ != 0; some_ &= some_ - 1) words_[std::countr_zero(some_)] = 0;
  }
  /// In their order.
  template <class F>
  void for_each(F f) const {
    for (std::uint64_t some = some_; some != 0; some &= some - 1) {
      auto const word = static_cast<std::uint32_t>(std::countr_zero(some));
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1)
        f(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }

 private:
  static_assert(KeyLocks::kStripes == std::size_t{64} * 64);
  std::uint64_t some_ = 0;
  std::array<std::uint64_t, 64> words_{};
};

/// The locks of some keys, as long as it stands. In the order of their stripes, so that nobody
/// waits in a circle.
class KeysLocked {
 public:
  /// `stripes` stays as it is as long as this stands.
  KeysLocked(KeyLocks& locks, Stripes const& stripes) : locks_(&locks), stripes_(&stripes) {
    stripes.for_each([&](std::uint32_t each) { locks_->lock(each); });
  }
  KeysLocked(KeysLocked const&) = delete;
  KeysLocked& operator=(KeysLocked const&) = delete;
  ~KeysLocked() {
    stripes_->for_each([&](std::uint32_t each) { locks_->unlock(each); });
  }

 private:
  KeyLocks* locks_;
  Stripes const* stripes_;
};

}  // namespace perdure::pm
