#include "pm/value_log/appender.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"

namespace perdure::pm {

/// Where an exception came in between, nobody may collect what has been written: the segments stay
/// owned.
LogAppender::~LogAppender() {
  if (settled_) {
    let_go();
    return;
  }
  for (Owned const& each : left_) segments_->abandon(*each.segment);
  if (now_.segment != nullptr) segments_->abandon(*now_.segment);
  if (spare_ != nullptr) segments_->abandon(*spare_);
}

void LogAppender::let_go() {
  PERDURE_ASSERT(buffer_.empty() && left_.empty());
  if (now_.segment != nullptr) segments_->settle(*now_.segment, now_.fill);
  if (spare_ != nullptr) segments_->settle(*spare_, LogFill(spare_->fill));
  now_ = {};
  spare_ = nullptr;
  of_reserve_ = false;
}

/// Who waits for room has nothing itself that could be collected.
Status LogAppender::reserve(std::uint64_t bytes, LogSegments::For what) {
  Status reserved = try_reserve(bytes, what);
  while (!reserved.ok() && what != LogSegments::For::collecting) {
    let_go();
    if (!segments_->wait_for_room(what, bytes)) break;
    reserved = try_reserve(bytes, what);
  }
  return reserved;
}

/// What does not fit into the present segment fits into the next one alone: so whatever of the
/// present one stays unused for that, there is room.
Status LogAppender::try_reserve(std::uint64_t bytes, LogSegments::For what) {
  PERDURE_ASSERT(bytes > 0 && kFirstLogRecord + bytes <= segments_->segment_bytes());
  if (what == LogSegments::For::puts && of_reserve_) let_go();
  of_reserve_ |= what == LogSegments::For::tombstones;
  if (now_.segment == nullptr) {
    auto taken = segments_->take(what, bytes, true);
    if (!taken) return taken.status();
    now_ = {*taken, (*taken)->fill};
  }
  if (now_.fill.end + bytes <= segments_->segment_bytes()) return {};
  if (spare_ != nullptr && spare_->fill.end + bytes <= segments_->segment_bytes()) return {};
  auto taken = segments_->take(what, bytes, false);
  if (!taken) return taken.status();
  if (spare_ != nullptr) segments_->settle(*spare_, LogFill(spare_->fill));
  spare_ = *taken;
  return {};
}

void LogAppender::next_segment() {
  stream_out();
  left_.push_back(now_);
  PERDURE_ASSERT(spare_ != nullptr);  // reserve() has seen to it
  now_ = {spare_, spare_->fill};
  spare_ = nullptr;
  begins_piece_ = true;
}

Offset LogAppender::append(LogKey key, std::span<std::byte const> value, std::uint64_t sequence,
                           bool tombstone) {
  std::uint64_t const bytes = log_bytes(key.size(), value.size());
  PERDURE_ASSERT(now_.segment != nullptr && sequence != 0 && !key.empty());
  if (now_.fill.end + bytes > segments_->segment_bytes()) next_segment();
  if (buffer_.size() + bytes > kBuffer) stream_out();
  LogTag const tag{now_.segment->generation, std::exchange(begins_piece_, false), tombstone};
  RecordHeader header{0, static_cast<std::uint32_t>(value.size()),
                      static_cast<std::uint32_t>(key.size()), tag.word(), sequence};
  settled_ = false;
  std::size_t const from = buffer_.size();
  buffer_.resize(from + bytes);  // zeros where nothing is copied
  std::byte* const to = buffer_.data() + from;
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + sizeof header + key.size(), value.data(), value.size());
  header.crc = crc32c(0, to + kCrcSkip, record_bytes(key.size(), value.size()) - kCrcSkip);
  std::memcpy(to, &header.crc, sizeof header.crc);
  Offset const at = now_.segment->at + now_.fill.end;
  now_.fill.end += bytes;
  appended_ += bytes;
  if (tombstone) {
    now_.fill.tombstone_bytes += bytes;
    now_.fill.last_tombstone = std::max(now_.fill.last_tombstone, sequence);
  }
  return at;
}

void LogAppender::stream_out() {
  if (buffer_.empty()) return;
  std::byte* const end = segments_->base() + now_.segment->at.bytes + now_.fill.end;
  host_->stream(end - buffer_.size(), buffer_.data(), buffer_.size());
  buffer_.clear();
}

void LogAppender::order() {
  stream_out();
  if (mutated("vlog_sealed_before_ordered"))
    for (Owned const& each : left_) segments_->seal(*each.segment, each.fill.end);
  if (!mutated("vlog_item_not_ordered")) host_->fence();
  begins_piece_ = true;
  // Once all of their records are durable, and made durable by any later fence.
  for (Owned const& each : left_) segments_->seal(*each.segment, each.fill.end);
}

void LogAppender::cancel(Offset record, std::uint64_t bytes) {
  std::byte* const at = segments_->base() + record.bytes;
  host_->store(reinterpret_cast<std::uint64_t*>(at + offsetof(RecordHeader, sequence)), 0);
  host_->fence();
  segments_->note_outdated(record, bytes, LogSegment::kNoDeath);
}

void LogAppender::settle() {
  PERDURE_ASSERT(buffer_.empty());
  settled_ = true;
  for (Owned const& each : left_) segments_->settle(*each.segment, each.fill);
  left_.clear();
}

}  // namespace perdure::pm
