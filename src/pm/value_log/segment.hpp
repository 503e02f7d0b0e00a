// What is known of one segment of the value log in DRAM. Invariant: `outdated` and `lowest_death`
// never lag behind a death that a published operation caused by the time that operation's piece
// has ended; both may be pessimistic, never the other way round: too many bytes are never called
// outdated, and the lowest death is never too high.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/offset.hpp"
#include "pm/value_log/layout.hpp"

namespace perdure::pm {

/// What an owner has written to a segment.
struct LogFill {
  std::uint64_t end = kFirstLogRecord;  // of its records
  std::uint64_t tombstone_bytes = 0;
  std::uint64_t last_tombstone = 0;  // the highest sequence of a tombstone in it
};

struct LogSegment;
/// A segment as its owner has it.
struct LogOwned {
  LogSegment* segment = nullptr;
  LogFill fill;
  bool of_reserve = false;  // it is of what puts leave to collectors and tombstones
};

struct LogSegment {
  enum class Use : std::uint8_t {
    free,
    owned,  // an appender has it, has records in it that are not published yet, or parked it
    partial,  // nobody appends to it at present, and there is room
    full,  // nobody will append to it
    queued,  // waits for a collector
    collecting,  // a collector has it
    damaged,  // part of it cannot be read: kept as it is
  };
  static constexpr std::uint64_t kNoDeath = ~std::uint64_t{0};
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  Offset at;
  std::atomic<std::uint64_t> outdated{0};  // bytes of items that are not current
  // the lowest sequence at which one of its items became outdated
  std::atomic<std::uint64_t> lowest_death{kNoDeath};

  // Outdated bytes from which it is due; kNever while it may grow.
  std::atomic<std::uint64_t> due_from{kNever};

  // Guarded by the lock of LogSegments; of an owned one, as its owner last settled it.
  std::uint32_t generation = 0;
  LogFill fill;
  bool open_in_pool = false;  // what its state says there
  bool abandoned = false;  // owned, and for good: who appended to it was cut short
  Use use = Use::free;

  /// Whether it has become due by that.
  bool note_outdated(std::uint64_t bytes, std::uint64_t death) {
    std::uint64_t lowest = lowest_death.load();
    while (death < lowest && !lowest_death.compare_exchange_weak(lowest, death)) {
    }
    std::uint64_t const before = outdated.fetch_add(bytes);
    std::uint64_t const due = due_from.load();
    return before < due && before + bytes >= due;
  }
};

}  // namespace perdure::pm
