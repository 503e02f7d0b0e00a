// One bucket of a segment of Dash: its lock, and words of it. segment.hpp has the invariants.
#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/dash/layout.hpp"

namespace perdure::dash {

template <class F>
void for_each_bit(std::uint32_t bits, F f) {
  for (; bits != 0; bits &= bits - 1) f(static_cast<std::uint32_t>(std::countr_zero(bits)));
}

// --- Its lock
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
template <class Host>
void unlock(Host& host, Bucket& bucket) {
  State const state{host.load(&bucket.state)};
  PERDURE_ASSERT(!kCostlyAssertions || state.locked() || locks_are_faulty());
  host.store(&bucket.state, state.unlocked().word);
}

// --- Its words
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

}  // namespace perdure::dash
