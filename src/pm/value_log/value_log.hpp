// Values by logs (thesis, section 2.3): where the items of an index lie that are appended, never
// changed, and collected. One of it a pool. Invariants: see segments.hpp (who has which segment,
// and when a tombstone may go), key_locks.hpp (the order of a key's versions) and collector.hpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "exec/workers.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"
#include "pm/value_log/collector.hpp"
#include "pm/value_log/index.hpp"
#include "pm/value_log/key_locks.hpp"
#include "pm/value_log/recovery.hpp"
#include "pm/value_log/segments.hpp"

namespace perdure::pm {

class ValueLog {
 public:
  /// `memory` guards the pool, and whatever else takes from it.
  ValueLog(Pool& pool, Mutex& memory, MakeLogIndex make_index, LogSettings const& options);

  /// In a pool that is being made: the root says that it has a log.
  static void announce(Pool& pool, std::uint64_t segment_bytes);
  /// The size of segments that the root says; 0: the pool has no log.
  static Result<std::uint64_t> segment_bytes(Pool const& pool);

  /// At an opening, before anything else takes from the pool: fills the index. Nothing is written,
  /// and where there is damage neither begin need follow.
  Result<LogRecovered> recover(exec::Workers& workers);
  /// Instead, where the index is durable: recovery.hpp has what to do with it, before end_count().
  [[nodiscard]] LogRecovery& recovery() { return recovery_; }
  void end_count(LogRecovered& found) {
    recovery_.end_count(found);
    sequence_ = found.last_sequence;
  }
  /// Of a pool that is only read: counters() tells what was found, and nothing is written.
  void begin_reading();
  /// From here on there may be writers. Damage is passed over for good.
  void begin();
  /// Nobody writes any more, and nobody collects. Every segment says where it ends, so that the
  /// next opening knows of every hole that it is damage.
  void close();

  [[nodiscard]] LogSegments& segments() { return segments_; }
  [[nodiscard]] LogSegments const& segments() const { return segments_; }
  [[nodiscard]] LogCollector& collector() { return collector_; }
  [[nodiscard]] KeyLocks& locks() { return locks_; }
  /// That no version has yet. The caller holds the key's lock.
  [[nodiscard]] std::uint64_t next_sequence() { return sequence_.fetch_add(1) + 1; }
  void note_appended(std::uint64_t bytes) { appended_ += bytes; }

  struct Counters {
    LogSegments::Counters segments;
    LogCollector::Counters collector;
    std::uint64_t appended_bytes = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  LogSettings options_;
  MakeLogIndex make_index_;
  KeyLocks locks_;
  LogSegments segments_;
  LogRecovery recovery_;
  LogCollector collector_;  // last: its threads use the others
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> appended_{0};
};

}  // namespace perdure::pm
