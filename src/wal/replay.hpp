// Reading a log back. Invariant: batches are delivered whole, in order, without a gap, and only if
// every byte of every group of theirs passes its checksum; the first group that does not pass ends
// the log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "perdure/status.h"
#include "wal/disk/block_file.hpp"
#include "wal/redo_log.hpp"

namespace perdure::wal {

/// What was found where the next group should have been.
enum class StopReason : std::uint8_t {
  end,        // zeros: the log was never written here
  stale_lap,  // a whole group of an earlier lap of the ring, or of an earlier opening
  torn,       // part of a group: its write was under way, or lost beside others
  truncated,  // the file ends
  flipped,    // a group that is whole but for one bit
  foreign,    // a whole group of another pool
};
[[nodiscard]] std::string_view name(StopReason reason);

struct ReplayReport {
  LogPosition begin, end;          // end: after the last batch that was delivered
  std::uint64_t batches = 0;
  std::uint64_t payload_bytes = 0;
  StopReason reason = StopReason::end;
  Lsn stop_lsn = 0;  // of the group that ended the log; end.lsn, or inside the batch after it
  std::uint64_t stop_offset = 0;  // its byte in the file
  std::string detail;  // for example "bit 3 of byte 77 of the group"
  /// The log ends before a place that it is known to have reached, or in a group that was whole
  /// once.
  bool lost_acknowledged = false;
  std::string lost_why;  // how that is known
  double seconds = 0;

  void lost(std::string why);
  [[nodiscard]] std::string describe() const;
};

/// May take the payload's memory, and leave other memory for the next one instead.
using Deliver = std::function<Status(std::uint64_t batch, std::vector<std::byte>& payload)>;

/// Delivers every batch from `from` on. An error of `deliver`, or of reading, ends it and is
/// returned.
Result<ReplayReport> replay(BlockFile& file, LogIdentity const& identity, LogPosition from,
                            Deliver const& deliver);

}  // namespace perdure::wal
