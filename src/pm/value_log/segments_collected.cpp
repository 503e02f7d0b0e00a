// LogSegments, as collectors and those who wait for them see it.
#include <algorithm>
#include <chrono>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "pm/value_log/segments.hpp"

namespace perdure::pm {
namespace {

class Waiting {
 public:
  explicit Waiting(std::atomic<std::uint32_t>& count) : count_(count) { ++count_; }
  Waiting(Waiting const&) = delete;
  Waiting& operator=(Waiting const&) = delete;
  ~Waiting() { --count_; }

 private:
  std::atomic<std::uint32_t>& count_;
};

}  // namespace

void LogSegments::admit() {
  if (queued_.load() < options_.most_queued) return;
  MutexLock const lock(mutex_);
  if (queue_.size() < options_.most_queued || stopped_ || !is_attended()) return;
  if (mutated("vlog_queue_not_bounded")) return;
  auto const begin = std::chrono::steady_clock::now();
  while (queue_.size() >= options_.most_queued && !stopped_ && is_attended()) room_.wait(mutex_);
  auto const took = std::chrono::steady_clock::now() - begin;
  ++waits_;
  longest_wait_ns_ = std::max(
      longest_wait_ns_, static_cast<std::uint64_t>(
                            std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
}

/// Bytes that collecting it would free.
std::uint64_t LogSegments::gain(LogSegment const& segment, std::uint64_t lowest) const {
  bool const open = segment.use == LogSegment::Use::full || segment.use == LogSegment::Use::partial;
  if (!open) return 0;
  bool const needless = segment.fill.last_tombstone < lowest;
  return segment.outdated.load() + (needless ? segment.fill.tombstone_bytes : 0);
}

/// Queues the segment that has most to give, if that is worth the copying: a sixteenth of it.
void LogSegments::queue_for_room() {
  std::uint64_t const lowest = lowest_death_locked();
  LogSegment* best = nullptr;
  for (auto const& each : segments_)
    if (best == nullptr || gain(*each, lowest) > gain(*best, lowest)) best = each.get();
  if (best == nullptr || gain(*best, lowest) * 16 < options_.segment_bytes) return;
  queue(*best);
}

/// The reserve has one segment for tombstones. Who owns that needs little of it, and lets go when
/// its batch ends: so erasures by many threads at once find room, too.
bool LogSegments::is_left_to(For what, std::uint64_t bytes) {
  return what == For::tombstones && take_partial(bytes) != nullptr;
}

bool LogSegments::may_be_left_to(For what) const {
  return what == For::tombstones && std::ranges::any_of(segments_, [](auto const& each) {
           return each->use == LogSegment::Use::owned && !each->abandoned;
         });
}

bool LogSegments::wait_for_room(For what, std::uint64_t bytes, std::uint64_t freed) {
  MutexLock const lock(mutex_);
  if (stopped_) return false;
  Waiting const waiting(waiting_);  // from here on nobody parks
  empty_hands_locked();
  if (queue_.empty() && collecting_ == 0 && is_attended()) queue_for_room();
  if (mutated("vlog_room_freed_before_the_wait_missed")) freed = freed_;
  while (freed_ == freed && !is_left_to(what, bytes) && !stopped_ &&
         (may_be_freed() || may_be_left_to(what)))
    room_.wait(mutex_);
  return freed_ != freed || is_left_to(what, bytes);
}

void LogSegments::abandon(LogSegment& segment) {
  MutexLock const lock(mutex_);
  segment.abandoned = true;
  room_.notify_all();
}

LogSegment* LogSegments::next_to_collect(bool wait) {
  MutexLock const lock(mutex_);
  while (queue_.empty() && wait && !stopped_) work_.wait(mutex_);
  if (queue_.empty() || stopped_) return nullptr;
  LogSegment* const next = queue_.front();
  queue_.pop_front();
  queued_ = queue_.size();
  PERDURE_ASSERT(next->use == LogSegment::Use::queued);
  next->use = LogSegment::Use::collecting;
  ++collecting_;
  room_.notify_all();
  return next;
}

void LogSegments::free(LogSegment& segment) {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(segment.use == LogSegment::Use::collecting);
  store_state(segment, {segment.generation, LogState::Use::free, 0});
  order();
  segment.open_in_pool = false;
  segment.use = LogSegment::Use::free;
  fill(segment, {});
}

void LogSegments::reuse(LogSegment& segment) {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(segment.use == LogSegment::Use::free && collecting_ > 0);
  --collecting_;
  ++freed_;
  free_.push_back(&segment);
  queue_for_tombstones();
  room_.notify_all();
}

void LogSegments::stop() {
  MutexLock const lock(mutex_);
  stopped_ = true;
  work_.notify_all();
  room_.notify_all();
}

LogSegments::Counters LogSegments::counters() const {
  MutexLock const lock(mutex_);
  Counters sum;
  sum.segments = segments_.size();
  sum.free = free_.size();
  sum.queued = queue_.size() + collecting_;
  sum.waits = waits_;
  sum.longest_wait_ns = longest_wait_ns_;
  for (auto const& each : segments_) {
    if (each->use == LogSegment::Use::free) continue;
    sum.used_bytes += each->fill.end - kFirstLogRecord;
    sum.outdated_bytes += each->outdated.load();
    sum.tombstone_bytes += each->fill.tombstone_bytes;
  }
  for (Hand& each : hands_) {  // what is parked has more than was settled of it
    MutexLock const hand(each.mutex);
    if (each.parked.segment == nullptr) continue;
    LogFill const& settled = each.parked.segment->fill;
    sum.used_bytes += each.parked.fill.end - settled.end;
    sum.tombstone_bytes += each.parked.fill.tombstone_bytes - settled.tombstone_bytes;
  }
  return sum;
}

}  // namespace perdure::pm
