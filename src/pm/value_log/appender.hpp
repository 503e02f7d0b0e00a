// Who appends records to a value log: a run of a batch, or a collector. Records of a piece are put
// together in DRAM and stream into the segment side by side; then one fence makes all of them
// durable (thesis, section 2.3). Invariants: nothing that has been appended is published before
// order() has returned, and a segment can be collected only after settle(), when all of it is
// published; room is reserved while the caller holds neither guard nor lock, for it may wait.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/value_log/index.hpp"
#include "pm/value_log/segments.hpp"
#include "pm/value_log/walk.hpp"

namespace perdure::pm {

class LogAppender {
 public:
  LogAppender(LogSegments& segments, LogHost& host) : segments_(&segments), host_(&host) {}
  LogAppender(LogAppender const&) = delete;
  LogAppender& operator=(LogAppender const&) = delete;
  ~LogAppender();

  /// Room for records of `bytes` in all.
  Status reserve(std::uint64_t bytes, LogSegments::For what);
  /// The most that reserve() can be asked for.
  [[nodiscard]] std::uint64_t most() const {
    return (segments_->segment_bytes() - kFirstLogRecord) / 2;
  }

  /// Where the record will be.
  Offset append(LogKey key, std::span<std::byte const> value, std::uint64_t sequence,
                bool tombstone);
  /// All that has been appended is durable.
  void order();
  /// A record that was appended and ordered counts as nothing, durably.
  void cancel(Offset record, std::uint64_t bytes);
  /// All that has been ordered is published.
  void settle();

  [[nodiscard]] std::uint64_t appended_bytes() const { return appended_; }

 private:
  static constexpr std::size_t kBuffer = 64u << 10;

  Status try_reserve(std::uint64_t bytes, LogSegments::For what);
  void let_go();
  void next_segment();
  void stream_out();

  LogSegments* segments_;
  LogHost* host_;
  LogOwned now_;
  LogOwned spare_;  // for what does not fit into it
  std::vector<LogOwned> left_;  // not to be appended to any more, and not settled yet
  std::vector<std::byte> buffer_;  // the last records of now_, not in the pool yet
  bool begins_piece_ = true;
  bool settled_ = true;  // nothing has been appended since
  std::uint64_t appended_ = 0;
};

}  // namespace perdure::pm
