// The ring of a log read as one endless stream, ahead of its reader. Invariant: what peek() returns
// is contiguous in memory, although the file is read in segments and wraps at the ring's end.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "perdure/status.h"
#include "wal/disk/block_file.hpp"
#include "wal/log_format.hpp"

namespace perdure::wal {

class LogStream {
 public:
  static Result<LogStream> begin(BlockFile& file, std::uint64_t ring_bytes, Lsn from);
  LogStream(LogStream&&) = default;
  ~LogStream();

  /// The bytes that follow, `needed` of them (at most kMaxGroup). Fewer only where the ring ends,
  /// or the file does, or a whole lap has been read.
  Result<std::span<std::byte const>> peek(std::uint64_t needed);
  void advance(std::uint64_t bytes);
  [[nodiscard]] Lsn lsn() const { return lsn_; }
  /// The file ends before the ring does, and the stream has come there.
  [[nodiscard]] bool file_ended() const { return current().short_read; }

 private:
  static constexpr std::size_t kSegments = 8;
  static constexpr std::uint64_t kSegmentBytes = 2u << 20;
  struct Segment {
    // kMaxGroup bytes for what the segment before leaves over, then its own
    std::byte* data = nullptr;
    std::uint64_t begin = kMaxGroup, end = kMaxGroup;  // unread bytes, from `data`
    bool in_flight = false;
    Status failed;  // how its reading ended
    bool wraps = false;  // it ends where the ring does
    bool short_read = false;  // the file ended in it
  };
  LogStream(BlockFile& file, std::uint64_t ring_bytes, Lsn from);
  [[nodiscard]] Segment const& current() const { return segments_[at_ % kSegments]; }
  Segment& current() { return segments_[at_ % kSegments]; }
  Status read_ahead();
  /// All that ended meanwhile is noted, also where one of them has failed: a segment that is under
  /// way for ever would be waited for, for ever.
  Status await(Segment const& segment);
  Status take_ends();
  Status next_segment();

  BlockFile* file_;
  std::uint64_t ring_bytes_;
  Lsn lsn_;
  Lsn ahead_;  // the next read begins here
  Lsn lap_end_;  // nothing is read from here on
  std::uint64_t at_ = 0;  // number of the current segment
  std::uint64_t started_ = 0;  // segments whose reading has been begun
  std::size_t in_flight_ = 0;
  AlignedBuffer memory_;
  std::vector<Done>
      done_;  // with room for all there can be: where memory lacks, what ended must be noted, too
  std::array<Segment, kSegments> segments_;
};

}  // namespace perdure::wal
