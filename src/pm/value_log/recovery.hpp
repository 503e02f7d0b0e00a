// What an opening makes of a value log: all segments are read, and each whole record is offered to
// the index, where the newest sequence of a key counts (thesis, section 2.4, minimal persistence
// with logs). Meanwhile the index leads to tombstones as to items; at the end they go. Invariants:
// nothing is written before fill_holes(); a death that is noted here is that of a version that
// really outranks the item.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/offset.hpp"
#include "exec/workers.hpp"
#include "perdure/status.h"
#include "pm/value_log/index.hpp"
#include "pm/value_log/key_locks.hpp"
#include "pm/value_log/segments.hpp"
#include "pm/value_log/walk.hpp"

namespace perdure::pm {

struct LogRecovered {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;  // whole ones, tombstones and outdated ones among them
  std::uint64_t current = 0;  // items
  std::uint64_t tombstones = 0;  // that still count
  std::uint64_t torn_bytes = 0;  // between records, of a piece that was never acknowledged
  std::uint64_t last_sequence = 0;
  std::vector<std::string> damage;  // what no crash explains, a line each
};

class LogRecovery {
 public:
  LogRecovery(LogSegments& segments, MakeLogIndex const& make_index, KeyLocks& locks)
      : segments_(&segments), make_index_(&make_index), locks_(&locks) {}

  /// Fails where the index has no memory.
  Status scan(exec::Workers& workers, LogRecovered& to);
  /// Damage is skipped from here on.
  void fill_holes();
  /// The segments know what is in them. Writes nothing.
  void finish();

 private:
  struct Scanned {
    LogState state;
    LogFill fill;
    std::vector<LogHole> holes;
  };
  struct Tally {
    std::unique_ptr<LogIndex> index;  // of the thread whose tally it is
    std::uint64_t records = 0, last_sequence = 0;
    std::int64_t current = 0;
    std::vector<Offset> tombstones = {};  // that counted when they were offered
  };
  Status scan_segment(LogSegment& segment, Scanned& scanned, Tally& tally);
  Status offer(LogRecord const& record, Tally& tally);
  void drop_tombstones(LogRecovered& to);
  /// f(bytes of the pool, hole, generation) for each that has room for a record.
  template <class F>
  void for_each_hole(F f) const {
    for (Scanned const& each : scanned_)
      for (LogHole const& hole : each.holes)
        if (hole.bytes >= sizeof(RecordHeader))
          f(segments_->base() + hole.at.bytes, hole, each.state.generation);
  }

  LogSegments* segments_;
  MakeLogIndex const* make_index_;
  KeyLocks* locks_;
  std::vector<Scanned> scanned_;  // by segment
  std::vector<Offset> tombstones_;
};

}  // namespace perdure::pm
