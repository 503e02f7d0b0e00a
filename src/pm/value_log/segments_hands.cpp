// The hands of LogSegments: where the segments of small calls wait for the next one.
#include "base/hooks.hpp"
#include "pm/value_log/segments.hpp"
#if defined(PERDURE_EXPLORE)
#include "exec/sim/sim_scheduler.hpp"
#endif

namespace perdure::pm {

/// By turns: threads that begin together meet in no hand.
std::size_t LogSegments::own_hand() {
#if defined(PERDURE_EXPLORE)
  if (exec::sim_scheduler != nullptr) return exec::sim_scheduler->thread() % kHands;
#endif
  static std::atomic<std::size_t> threads{0};
  static thread_local std::size_t const mine = threads++;
  return mine % kHands;
}

LogOwned LogSegments::take_parked(Hand& hand, std::uint64_t bytes) {
  MutexLock const lock(hand.mutex);
  bool const fits = hand.parked.fill.end + bytes <= options_.segment_bytes;
  if (hand.parked.segment == nullptr || !fits) return {};
  LogOwned taken = hand.parked;
  if (mutated("vlog_parked_end_forgotten")) taken.fill = taken.segment->fill;
  hand.parked = {};
  return taken;
}

LogOwned LogSegments::take_parked_by_any(std::uint64_t bytes) {
  for (std::size_t i = 0, own = own_hand(); i < kHands; ++i)
    if (LogOwned const parked = take_parked(hands_[(own + i) % kHands], bytes);
        parked.segment != nullptr)
      return parked;
  return {};
}

/// Who waits says so before looking into the hands: so either this sees that, or is seen.
bool LogSegments::put_into_hand(LogOwned const& owned) {
  Hand& mine = hands_[own_hand()];
  MutexLock const lock(mine.mutex);
  bool const waited_for = waiting_.load() != 0 && !mutated("vlog_parked_beside_waiters");
  if (waited_for || mine.parked.segment != nullptr) return false;
  mine.parked = owned;
  return true;
}

/// `owned.segment->fill` is the owner's to read: it changes when somebody settles the segment.
void LogSegments::park(LogOwned const& owned) {
  LogSegment& segment = *owned.segment;
  bool const much = owned.fill.end - segment.fill.end >= options_.segment_bytes / 16;
  bool const usable = segment.open_in_pool && has_room(owned.fill.end) && !owned.of_reserve;
  if (much || !usable || !put_into_hand(owned)) settle(segment, owned.fill);
}

void LogSegments::empty_hands() {
  MutexLock const lock(mutex_);
  empty_hands_locked();
}

void LogSegments::empty_hands_locked() {
  for (Hand& each : hands_) {
    MutexLock const lock(each.mutex);
    if (each.parked.segment != nullptr) settle_locked(*each.parked.segment, each.parked.fill);
    each.parked = {};
  }
}

}  // namespace perdure::pm
