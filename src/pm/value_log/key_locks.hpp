// Locks of keys, in stripes by their hashes. Whoever writes to the log holds the locks of all keys
// of a piece, from before it looks them up until all is published. Invariant: so the versions of a
// key have sequences in the order in which the index got them, and a record is in the log only if
// the operation that wrote it takes effect.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.hpp"

namespace perdure::pm {

class KeyLocks {
 public:
  static constexpr std::size_t kStripes = 4096;

 private:
  friend class KeysLocked;
  std::array<Mutex, kStripes> stripes_;
};

/// The locks of some keys, as long as it stands. In the order of their stripes, so that nobody
/// waits in a circle.
class KeysLocked {
 public:
  /// `stripes` is what the caller has used before, for its memory.
  KeysLocked(KeyLocks& locks, std::vector<std::uint32_t>& stripes)
      PERDURE_NO_THREAD_SAFETY_ANALYSIS  // of any number of locks
      : locks_(&locks),
        stripes_(&stripes) {
    std::ranges::sort(stripes);
    stripes.erase(std::ranges::unique(stripes).begin(), stripes.end());
    for (std::uint32_t const each : stripes) locks_->stripes_[each].lock();
  }
  KeysLocked(KeysLocked const&) = delete;
  KeysLocked& operator=(KeysLocked const&) = delete;
  ~KeysLocked() PERDURE_NO_THREAD_SAFETY_ANALYSIS {
    for (std::uint32_t const each : *stripes_) locks_->stripes_[each].unlock();
  }

  static std::uint32_t stripe_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 48) % KeyLocks::kStripes;
  }

 private:
  KeyLocks* locks_;
  std::vector<std::uint32_t>* stripes_;
};

}  // namespace perdure::pm
