// Which segments were changed since the opening, and which are none any more: what an orderly close
// has to store sums of. Volatile. Invariant: whoever changes a segment touches it before it does,
// and a place whose bit is set is listed.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "base/zero_words.hpp"

namespace perdure::dash {

class Touched {
 public:
  /// One bit for every place that a segment can have.
  Touched(std::uint64_t address_bytes, std::uint64_t segment_bytes)
      : shift_(static_cast<std::uint32_t>(std::bit_width(segment_bytes)) - 1),
        bits_((address_bytes >> shift_) / 64 + 1) {}

  PERDURE_HOT void touch(std::uint64_t address) {
    PERDURE_ASSERT(!kCostlyAssertions || address > 0);  // there the pool has its head
    std::uint64_t const n = number(address), bit = std::uint64_t{1} << n % 64;
    if ((__atomic_load_n(&bits_[n / 64], __ATOMIC_RELAXED) & bit) == 0) [[unlikely]]
      note(address);
  }
  /// Of a segment that is merged: nobody is to take it for one again, should a damaged word lead
  /// there.
  void gone(std::uint64_t address) {
    MutexLock const lock(mutex_);
    gone_.push_back(address);
  }

  // Nobody changes anything during the next two.
  [[nodiscard]] std::vector<std::uint64_t> take_gone() {
    MutexLock const lock(mutex_);
    return std::exchange(gone_, {});
  }
  /// f(place) for each that was touched, which it is no more then. One by one: where memory lacks
  /// in between, the rest is for the next close.
  template <class F>
  void take_each(F f) {
    for (; !addresses_.empty(); addresses_.pop_back()) {
      std::uint64_t const n = number(addresses_.back());
      f(addresses_.back());
      if (!mutated("dash_touched_kept")) bits_[n / 64] &= ~(std::uint64_t{1} << n % 64);
    }
  }

 private:
  /// Segments begin further apart than 2^shift_ bytes, so each has a number of its own.
  [[nodiscard]] std::uint64_t number(std::uint64_t address) const { return address >> shift_; }
  void note(std::uint64_t address) {
    std::uint64_t const n = number(address), bit = std::uint64_t{1} << n % 64;
    MutexLock const lock(mutex_);
    if ((__atomic_load_n(&bits_[n / 64], __ATOMIC_RELAXED) & bit) != 0) return;
    addresses_.push_back(address);  // first: where there is no memory for it, the bit is not set
    __atomic_fetch_or(&bits_[n / 64], bit, __ATOMIC_RELAXED);
  }

  std::uint32_t shift_;  // no division: every write comes by
  ZeroWords bits_;
  Mutex mutex_;
  std::vector<std::uint64_t> addresses_;  // whose bit is set; guarded by mutex_
  std::vector<std::uint64_t> gone_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure::dash
