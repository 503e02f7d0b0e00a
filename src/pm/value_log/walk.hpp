// Going through the records of a segment as they lie in the pool. Invariant: what is answered as a
// record is whole and of the segment's present use; whatever else lies between two records is
// answered as a hole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/offset.hpp"
#include "pm/record.hpp"
#include "pm/value_log/layout.hpp"

namespace perdure::pm {

struct LogRecord {
  Offset at;
  RecordHeader header;
  LogTag tag;
  std::span<std::byte const> key;
  std::span<std::byte const> value;

  [[nodiscard]] std::uint64_t bytes() const {
    return log_bytes(header.key_bytes, header.value_bytes);
  }
};

struct LogHole {
  Offset at;
  std::uint64_t bytes = 0;
  bool damage = false;  // no crash explains it
};

class LogWalk {
 public:
  /// `end` 0: the segment is open, and records may go on up to `segment_bytes`.
  LogWalk(std::byte const* base, Offset segment, std::uint64_t segment_bytes,
          std::uint32_t generation, std::uint64_t end);

  /// The next whole record; false: there are no more.
  bool next(LogRecord& record);

  /// Once next() has answered false: holes between records,
  [[nodiscard]] std::span<LogHole const> holes() const { return holes_; }
  /// bytes of cancelled records,
  [[nodiscard]] std::uint64_t cancelled_bytes() const { return cancelled_; }
  /// and where the last record ends.
  [[nodiscard]] std::uint64_t end() const { return last_end_; }

 private:
  enum class Found : std::uint8_t { record, cancelled, nothing };
  Found look(std::uint64_t at, LogRecord& record) const;

  std::byte const* base_;
  Offset segment_;
  std::uint32_t generation_;
  bool sealed_;
  std::uint64_t limit_;
  std::uint64_t at_ = kFirstLogRecord;
  std::uint64_t last_end_ = kFirstLogRecord;
  std::uint64_t cancelled_ = 0;
  std::vector<LogHole> holes_;
};

/// A record as the log wrote it, at an address that an index has. False: none can lie there.
bool view_log_record(std::byte const* base, std::uint64_t pool_bytes, Offset at, LogRecord& record);

}  // namespace perdure::pm
