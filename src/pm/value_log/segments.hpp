// The segments of a value log: who has which, which are to be collected next, and who waits for
// that (thesis, section 2.3). Invariants: a segment has one owner at most; one that is freed says
// so in the pool, durably, before anybody counts on it, and is used again only when nobody can be
// reading it; puts leave the last free segments to collectors and tombstones, so that a full pool
// can still be collected and erased from.
//
// *Hands.* A small call that has published its records parks its segment in a hand of its thread's,
// where the thread's next call finds it: one mutex that every call of all threads takes twice bound
// them. A parked segment is owned, has room, and is none of the reserve. So nobody begins a segment
// while one with room is parked anywhere; nobody parks while somebody waits for room, who empties
// all hands first; and what hands know and the sums below do not is a sixteenth of a segment each.
//
// *When a tombstone may go.* A tombstone of sequence s stands for "no version of this key that is
// older than s counts". An older version became outdated at s at the latest, and its segment noted
// that before the tombstone's piece ended, which is before anybody can collect the tombstone. A
// collector that copies an outdated version meanwhile notes the copy's death, with a sequence that
// is lower still, before it frees the segment that it copied from. So while an older version is in
// any segment, that segment's lowest death is at most s. Once all are above s, the tombstone is not
// needed. lowest_death() holds the lock under which segments become free, so it misses no version
// that moves from one segment to another; and a segment's being free is durable by then, so no
// crash brings an older version back either. A tombstone whose key has a newer version is not
// needed anyway: that version outranks whatever the tombstone did, and so does the tombstone that
// ends it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"
#include "pm/value_log/segment.hpp"

namespace perdure::pm {

/// Of one log: perdure::ValueLogOptions, and the size of its segments.
struct LogSettings {
  std::uint64_t segment_bytes = kMostSegment;  // a multiple of the pool's superblocks
  // Threads; 0: whoever has the log collects, and has a LogAttended as long as anybody does.
  std::uint32_t collectors = 1;
  std::uint64_t most_queued = 8;
  // Of every item, where keys and values have one size each: so none is read to know what it took.
  // 0: they differ.
  std::uint64_t item_bytes = 0;
};

class LogSegments {
 public:
  /// `memory` guards the pool, and whatever else takes from it.
  LogSegments(Pool& pool, Mutex& memory, LogSettings const& options);
  LogSegments(LogSegments const&) = delete;
  LogSegments& operator=(LogSegments const&) = delete;

  enum class For : std::uint8_t { puts, tombstones, collecting };
  /// A segment that an appender is to own, with room for `bytes`. `any`: less room will do, down to
  /// an eighth of the segment.
  Result<LogOwned> take(For what, std::uint64_t bytes, bool any);
  /// The owner will not write to it any more: the word that says where its records end is stored,
  /// though not ordered.
  void seal(LogSegment& segment, std::uint64_t end);
  /// All records in it are published, or cancelled: it may be collected.
  void settle(LogSegment& segment, LogFill const& fill);
  /// The same, and this thread will want to append before long.
  void park(LogOwned const& owned);
  /// What is parked is settled.
  void empty_hands();
  /// A segment that could not be collected.
  void put_back(LogSegment& segment, LogSegment::Use use);

  /// The item at this address became outdated at sequence `death`.
  void note_outdated(Offset item, std::uint64_t bytes, std::uint64_t death);
  [[nodiscard]] LogSegment& of(Offset item) const;

  /// Waits while as many segments as may be are queued. The caller holds no EpochGuard.
  void admit();
  /// How many segments collections have freed.
  [[nodiscard]] std::uint64_t freed() const { return freed_.load(); }
  /// For somebody who was refused room for `bytes`, and owns nothing: waits until collections have
  /// freed more than `freed` segments, as many as before that refusal, and for a tombstone also
  /// until others leave room in what they own; or says that nothing can help.
  bool wait_for_room(For what, std::uint64_t bytes, std::uint64_t freed);
  /// Whether anybody collects what is queued; else nobody waits for that.
  [[nodiscard]] bool is_attended() const { return attending_.load() != 0; }
  /// Nobody is going to settle it.
  void abandon(LogSegment& segment);
  /// A segment to collect; null: stopped, or with `wait` false, there is none.
  LogSegment* next_to_collect(bool wait);
  /// What was current in it is elsewhere, durably: it is free, durably, from here on.
  void free(LogSegment& segment);
  /// Nobody can be reading it any more.
  void reuse(LogSegment& segment);
  [[nodiscard]] std::uint64_t lowest_death() const;
  /// Nobody waits from here on; for good.
  void stop();

  // Opening.
  /// Finds all segments in the pool. What it cannot read is in `damage`, and kept from everybody.
  void find(std::vector<Offset>& damage);
  [[nodiscard]] std::span<std::unique_ptr<LogSegment> const> all() const { return segments_; }
  [[nodiscard]] LogState state_of(LogSegment const& segment) const;
  /// After an opening: what is known of it is complete.
  void begin(LogSegment& segment, LogState const& state, LogFill const& fill);
  /// Every segment says in the pool where its records end, durably. Nobody appends.
  void seal_all();

  [[nodiscard]] std::byte* base() const { return pool_->base(); }
  [[nodiscard]] std::uint64_t pool_bytes() const { return pool_bytes_.load(); }
  [[nodiscard]] std::uint64_t segment_bytes() const { return options_.segment_bytes; }
  [[nodiscard]] std::uint64_t item_bytes() const { return options_.item_bytes; }

  struct Counters {
    std::uint64_t segments = 0, free = 0, queued = 0;
    std::uint64_t used_bytes = 0, outdated_bytes = 0, tombstone_bytes = 0;
    std::uint64_t waits = 0, longest_wait_ns = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  friend class LogAttended;
  [[nodiscard]] std::uint64_t run() const;
  [[nodiscard]] bool has_room(std::uint64_t end) const {
    return end + options_.segment_bytes / 8 <= options_.segment_bytes;
  }
  [[nodiscard]] std::uint64_t kept_free(std::uint64_t segments) const;
  /// What a thread parked. Taken after mutex_, and before nothing.
  struct alignas(64) Hand {
    Mutex mutex;
    LogOwned parked PERDURE_GUARDED_BY(mutex);
  };
  // In the explorer few, so that its threads meet in one and look into another's.
#if defined(PERDURE_EXPLORE)
  static constexpr std::size_t kHands = 2;
#else
  static constexpr std::size_t kHands = 32;
#endif
  static std::size_t own_hand();
  LogOwned take_parked(Hand& hand, std::uint64_t bytes);
  LogOwned take_parked_by_any(std::uint64_t bytes);
  bool put_into_hand(LogOwned const& owned);
  void empty_hands_locked() PERDURE_REQUIRES(mutex_);
  void settle_locked(LogSegment& segment, LogFill const& fill) PERDURE_REQUIRES(mutex_);

  /// Puts may have one more of those that are begun.
  [[nodiscard]] bool leaves_reserve() const PERDURE_REQUIRES(mutex_) {
    return free_.size() + partial_.size() > kept_free(segments_.size());
  }
  LogOwned take_begun(For what, std::uint64_t bytes) PERDURE_REQUIRES(mutex_);
  Result<LogOwned> take_free(For what) PERDURE_REQUIRES(mutex_);
  LogOwned take_last_free(bool of_reserve) PERDURE_REQUIRES(mutex_);
  Status add_free() PERDURE_REQUIRES(mutex_);
  Result<LogSegment*> add() PERDURE_REQUIRES(mutex_);
  LogSegment& attach(Offset at) PERDURE_REQUIRES(mutex_);
  LogSegment* take_partial(std::uint64_t bytes) PERDURE_REQUIRES(mutex_);
  void drop_partial(LogSegment& segment) PERDURE_REQUIRES(mutex_);
  void fill(LogSegment& segment, LogFill const& fill) PERDURE_REQUIRES(mutex_);
  void open(LogSegment& segment) PERDURE_REQUIRES(mutex_);
  void store_state(LogSegment const& segment, LogState const& state) const;
  void queue_if_due(LogSegment& segment) PERDURE_REQUIRES(mutex_);
  void queue_for_tombstones() PERDURE_REQUIRES(mutex_);
  void queue(LogSegment& segment) PERDURE_REQUIRES(mutex_);
  void queue_for_room() PERDURE_REQUIRES(mutex_);
  [[nodiscard]] bool is_left_to(For what, std::uint64_t bytes) PERDURE_REQUIRES(mutex_);
  [[nodiscard]] bool may_be_left_to(For what) const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] bool may_be_freed() const PERDURE_REQUIRES(mutex_) {
    return collecting_ != 0 || (is_attended() && !queue_.empty());
  }
  [[nodiscard]] std::uint64_t lowest_death_locked() const PERDURE_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t gain(LogSegment const& segment, std::uint64_t lowest) const;

  Pool* pool_;
  Mutex* memory_;
  LogSettings options_;
  std::atomic<std::uint64_t> pool_bytes_;
  std::vector<std::atomic<LogSegment*>> by_superblock_;

  mutable std::array<Hand, kHands> hands_;
  std::atomic<std::uint32_t> waiting_{0};  // for room; changes under mutex_
  std::atomic<std::uint32_t> attending_{0};  // changes under mutex_
  std::atomic<std::uint64_t> freed_{0};  // changes under mutex_

  mutable Mutex mutex_;  // taken before memory_ and before hands; guards the rest
  Condition work_;  // something is queued
  Condition room_;  // less is queued, or something became free
  std::vector<std::unique_ptr<LogSegment>> segments_;  // grows under mutex_
  std::vector<LogSegment*> free_ PERDURE_GUARDED_BY(mutex_);
  std::vector<LogSegment*> partial_ PERDURE_GUARDED_BY(mutex_);
  std::deque<LogSegment*> queue_ PERDURE_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> queued_{0};  // as many as are in it; changes under mutex_
  // Of all segments together, as they were last settled; free ones have an empty fill.
  std::uint64_t filled_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::uint64_t tombstones_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::uint64_t collecting_ PERDURE_GUARDED_BY(mutex_) = 0;  // with those that readers may be in
  std::uint64_t waits_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::uint64_t longest_wait_ns_ PERDURE_GUARDED_BY(mutex_) = 0;
  bool stopped_ PERDURE_GUARDED_BY(mutex_) = false;
};

/// Somebody collects what is queued, as long as it stands.
class LogAttended {
 public:
  explicit LogAttended(LogSegments& segments) : segments_(segments) { change(1); }
  LogAttended(LogAttended const&) = delete;
  LogAttended& operator=(LogAttended const&) = delete;
  ~LogAttended() { change(~std::uint32_t{0}); }

 private:
  void change(std::uint32_t by) {
    MutexLock const lock(segments_.mutex_);
    segments_.attending_ += by;
    segments_.room_.notify_all();
  }

  LogSegments& segments_;
};

/// Segments of the pool that had the identity `old` are its, now that it has another.
void take_log_identity(Pool& pool, std::array<std::uint8_t, 16> const& old,
                       std::uint64_t segment_bytes);

}  // namespace perdure::pm
