// Locks of keys, in stripes by their hashes. Whoever writes to the log holds the locks of all keys
// of a piece, from before it looks them up until all is published. Invariant: so the versions of a
// key have sequences in the order in which the index got them, and a record is in the log only if
// the operation that wrote it takes effect.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// The locks of some keys, as long as it stands. In the order of their stripes, so that nobody
/// waits in a circle.
class KeysLocked {
 public:
  /// `stripes` is the caller's for its memory, and stays as it is as long as this stands.
  KeysLocked(KeyLocks& locks, std::vector<std::uint32_t>& stripes)
      : locks_(&locks), stripes_(&stripes) {
    std::ranges::sort(stripes);
    stripes.erase(std::ranges::unique(stripes).begin(), stripes.end());
    for (std::uint32_t const each : stripes) locks_->lock(each);
  }
  KeysLocked(KeysLocked const&) = delete;
  KeysLocked& operator=(KeysLocked const&) = delete;
  ~KeysLocked() {
    for (std::uint32_t const each : *stripes_) locks_->unlock(each);
  }

  static std::uint32_t stripe_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 48) % KeyLocks::kStripes;
  }

 private:
  KeyLocks* locks_;
  std::vector<std::uint32_t>* stripes_;
};

}  // namespace perdure::pm
