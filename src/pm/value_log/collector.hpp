// The collection of a segment (thesis, section 2.3): each of its items that the index says is
// current is appended elsewhere, and then the index is told, unless the item has become outdated
// meanwhile. Invariants: the index leads to a copy only once it is durable; a segment is freed only
// when no item in it is current, and used again only when no reader can be in it; a copy keeps its
// item's sequence, so it does not matter which of the two a recovery finds.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "exec/reader_writer_lock.hpp"
#include "pm/value_log/appender.hpp"
#include "pm/value_log/index.hpp"
#include "pm/value_log/segments.hpp"

namespace perdure::pm {

class LogCollector {
 public:
  LogCollector(LogSegments& segments, MakeLogIndex const& make_index)
      : segments_(&segments), make_index_(&make_index) {}
  LogCollector(LogCollector const&) = delete;
  LogCollector& operator=(LogCollector const&) = delete;
  ~LogCollector() { stop(); }

  /// Collects by so many threads until stop().
  void begin(std::uint32_t threads);
  void stop();
  /// Collects what is queued, by this thread; how many segments.
  std::uint64_t collect_queued();

  /// No collection is under way, and none begins, while somebody holds this alone.
  [[nodiscard]] exec::ReaderWriterLock& rest() { return rest_; }

  struct Counters {
    std::uint64_t collections = 0, moved_bytes = 0, dropped_tombstones = 0;
    /// Segments that could not be collected: damaged, or without room for what is current in them.
    std::uint64_t failed = 0;
  };
  [[nodiscard]] Counters counters() const;

 private:
  static constexpr std::size_t kGroup = 64;  // items that are looked up at a time

  struct Copy {
    std::uint64_t address = 0;  // that the index has for the key
    std::uint64_t to = 0;  // 0: not copied
  };

  void collect(LogSegment& victim, LogIndex& index);
  bool move_all(LogWalk& walk, LogIndex& index);
  bool move(std::span<LogRecord const> group, LogIndex& index, LogAppender& to);
  bool copy(std::span<LogRecord const> group, std::span<Copy> copies, LogAppender& to);
  void publish(LogRecord const& item, LogIndex& index, std::uint64_t to);

  LogSegments* segments_;
  MakeLogIndex const* make_index_;
  exec::ReaderWriterLock rest_;
  std::optional<LogAttended> attended_;  // while there are threads
  std::vector<std::thread> threads_;
  std::atomic<std::uint64_t> collections_{0}, moved_bytes_{0}, dropped_tombstones_{0}, failed_{0};
};

}  // namespace perdure::pm
