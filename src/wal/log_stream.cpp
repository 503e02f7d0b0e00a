#include "wal/log_stream.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/assert.hpp"

namespace perdure::wal {

LogStream::LogStream(BlockFile& file, std::uint64_t ring_bytes, Lsn from)
    : file_(&file), ring_bytes_(ring_bytes), lsn_(from), ahead_(from), lap_end_(from + ring_bytes) {
  PERDURE_ASSERT(ring_bytes > 0 && ring_bytes % kBlock == 0 && from % kBlock == 0);
}

Result<LogStream> LogStream::begin(BlockFile& file, std::uint64_t ring_bytes, Lsn from) {
  LogStream stream(file, ring_bytes, from);
  auto memory = AlignedBuffer::make(kSegments * (kMaxGroup + kSegmentBytes));
  if (!memory) return memory.status();
  stream.done_.reserve(BlockFile::kMaxInFlight);
  stream.memory_ = std::move(*memory);
  for (std::size_t i = 0; i < kSegments; ++i)
    stream.segments_[i].data = stream.memory_.data() + i * (kMaxGroup + kSegmentBytes);
  if (Status s = stream.read_ahead(); !s.ok()) return s;
  if (Status s = stream.await(stream.current()); !s.ok()) return s;
  return stream;
}

// The disk must not write into memory that is gone. What it says of its reads nobody needs any
// more, and a wait that fails has seen to it that none is in flight.
LogStream::~LogStream() {
  if (memory_.data() == nullptr) return;  // moved from
  while (in_flight_ > 0 && take_ends().ok()) {
  }
}

/// Begins to read into every segment that is free.
Status LogStream::read_ahead() {
  for (; started_ < at_ + kSegments && ahead_ < lap_end_; ++started_) {
    std::uint64_t const in_ring = ahead_ % ring_bytes_;
    std::uint64_t const bytes = std::min({kSegmentBytes, ring_bytes_ - in_ring, lap_end_ - ahead_});
    Segment& s = segments_[started_ % kSegments];
    PERDURE_ASSERT(!s.in_flight && bytes > 0 && bytes % kBlock == 0);
    s.begin = s.end = kMaxGroup;
    s.short_read = false;
    s.failed = {};
    s.wraps = in_ring + bytes == ring_bytes_;
    Request const request{Verb::read, kRingOffset + in_ring, s.data + kMaxGroup, bytes,
                          started_ % kSegments};
    if (Status status = file_->start(request); !status.ok()) return status;
    s.in_flight = true;
    ++in_flight_;
    ahead_ += bytes;
    s.end += bytes;
    PERDURE_ASSERT(ahead_ <= lap_end_ && in_flight_ <= kSegments);
  }
  return {};
}

Status LogStream::await(Segment const& segment) {
  while (segment.in_flight) {
    if (Status s = take_ends(); !s.ok()) return s;
  }
  return segment.failed;
}

/// All that have come: each of them is of its own segment.
Status LogStream::take_ends() {
  done_.clear();
  if (Status s = file_->wait(done_); !s.ok()) return s;
  for (Done const& d : done_) {
    PERDURE_ASSERT(d.tag < kSegments && segments_[d.tag].in_flight && in_flight_ > 0);
    Segment& s = segments_[d.tag];
    s.in_flight = false;
    --in_flight_;
    s.failed = d.status;
    s.short_read = kMaxGroup + d.bytes < s.end;
    PERDURE_ASSERT(kMaxGroup + d.bytes <= s.end);
    s.end = kMaxGroup + d.bytes;
  }
  return {};
}

/// Puts what is left of the current segment before the next one's bytes.
Status LogStream::next_segment() {
  Segment& old = current();
  Segment& next = segments_[(at_ + 1) % kSegments];
  if (Status s = await(next); !s.ok()) return s;
  std::uint64_t const left = old.end - old.begin;
  PERDURE_ASSERT(left <= kMaxGroup && next.begin == kMaxGroup);
  next.begin = kMaxGroup - left;
  std::memcpy(next.data + next.begin, old.data + old.begin, left);
  ++at_;
  return read_ahead();
}

Result<std::span<std::byte const>> LogStream::peek(std::uint64_t needed) {
  PERDURE_ASSERT(needed > 0 && needed <= kMaxGroup);
  for (;;) {
    Segment const& s = current();
    PERDURE_ASSERT(!s.in_flight && s.begin <= s.end);
    std::uint64_t const here = s.end - s.begin;
    bool const last = s.short_read || at_ + 1 >= started_ || (s.wraps && here > 0);
    if (here >= needed || last)
      return std::span<std::byte const>(s.data + s.begin, std::min(here, needed));
    if (Status status = next_segment(); !status.ok()) return status;
  }
}

void LogStream::advance(std::uint64_t bytes) {
  PERDURE_ASSERT(bytes <= current().end - current().begin);
  current().begin += bytes;
  lsn_ += bytes;
}

}  // namespace perdure::wal
