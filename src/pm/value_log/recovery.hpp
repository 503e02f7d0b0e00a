// What an opening makes of a value log: all segments are read, and each whole record is offered to
// the index, where the newest sequence of a key counts (thesis, section 2.4, minimal persistence
// with logs). Meanwhile the index leads to tombstones as to items; at the end they go. Invariants:
// nothing is written before fill_holes(); a death that is noted here is that of a version that
// really outranks the item.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
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

  // Instead, where the index is durable, and says which records count (thesis, section 2.4, index
  // persistence with logs): find() once, then begin_count(), use() and end_count().
  void find(LogRecovered& to);
  /// Nothing is in use yet.
  void begin_count();
  enum class Mark : std::uint8_t { first, again, invalid };
  /// The index leads there. Any number of threads.
  Mark use(Offset at);
  /// Whether a record of the log's present use lies there.
  [[nodiscard]] bool has(Offset at) const { return segment_at(at, nullptr).has_value(); }
  /// All else is outdated. Segments that were open are read, for where their records end.
  void end_count(LogRecovered& to);

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
  /// Of a segment what the index leads to.
  struct Counted {
    std::vector<std::uint64_t> seen;  // bit i: the record at byte i * kRecordAlign
    std::uint64_t bytes = 0, last_sequence = 0;
  };
  struct Tally {
    std::unique_ptr<LogIndex> index;  // of the thread whose tally it is
    std::uint64_t records = 0, last_sequence = 0;
    std::int64_t current = 0;
    std::vector<Offset> tombstones = {};  // that counted when they were offered
  };
  std::optional<std::size_t> segment_at(Offset at, LogRecord* found) const;
  void end_open(LogSegment const& segment, Scanned& scanned) const;
  void note_holes(LogRecovered& to) const;
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
  std::vector<Counted> counted_;  // by segment
  std::vector<std::uint32_t>
      by_unit_;  // of kLeastSuperblock bytes: which segment, from 1 on; 0: none
};

}  // namespace perdure::pm
