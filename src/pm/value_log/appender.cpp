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
  for (LogOwned const& each : left_) segments_->abandon(*each.segment);
  if (now_.segment != nullptr) segments_->abandon(*now_.segment);
  if (spare_.segment != nullptr) segments_->abandon(*spare_.segment);
}

void LogAppender::let_go() {
  PERDURE_ASSERT(buffer_.empty() && left_.empty());
  for (LogOwned* const each : {&now_, &spare_})
    if (each->segment != nullptr) segments_->park(std::exchange(*each, {}));
}

/// Who waits for room has nothing itself that could be collected. What a collection frees after the
/// refusal counts, though it comes before the wait.
Status LogAppender::reserve(std::uint64_t bytes, LogSegments::For what) {
  std::uint64_t freed = segments_->freed();
  Status reserved = try_reserve(bytes, what);
  while (!reserved.ok() && what != LogSegments::For::collecting) {
    let_go();
    if (!segments_->wait_for_room(what, bytes, freed)) break;
    freed = segments_->freed();
    reserved = try_reserve(bytes, what);
  }
  if (reserved.ok() || segments_->is_attended()) return reserved;
  return {reserved.code(), reserved.message() +
                               "; nobody collects what is outdated in the value log: open the pool "
                               "with at least one collector, or collect by yourself"};
}

/// What does not fit into the present segment fits into the next one alone: so whatever of the
/// present one stays unused for that, there is room.
Status LogAppender::try_reserve(std::uint64_t bytes, LogSegments::For what) {
  PERDURE_ASSERT(bytes > 0 && kFirstLogRecord + bytes <= segments_->segment_bytes());
  bool const of_reserve = now_.of_reserve || spare_.of_reserve;
  if (what == LogSegments::For::puts && of_reserve) let_go();
  if (now_.segment == nullptr) {
    auto taken = segments_->take(what, bytes, true);
    if (!taken) return taken.status();
    now_ = *taken;
  }
  if (now_.fill.end + bytes <= segments_->segment_bytes()) return {};
  bool const spare = spare_.segment != nullptr;
  if (spare && spare_.fill.end + bytes <= segments_->segment_bytes()) return {};
  auto taken = segments_->take(what, bytes, false);
  if (!taken) return taken.status();
  if (spare) segments_->settle(*spare_.segment, spare_.fill);
  spare_ = *taken;
  return {};
}

void LogAppender::next_segment() {
  stream_out();
  left_.push_back(now_);
  PERDURE_ASSERT(spare_.segment != nullptr);  // reserve() has seen to it
  now_ = std::exchange(spare_, {});
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
    for (LogOwned const& each : left_) segments_->seal(*each.segment, each.fill.end);
  if (!mutated("vlog_item_not_ordered")) host_->fence();
  begins_piece_ = true;
  // Once all of their records are durable, and made durable by any later fence.
  for (LogOwned const& each : left_) segments_->seal(*each.segment, each.fill.end);
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
  for (LogOwned const& each : left_) segments_->settle(*each.segment, each.fill);
  left_.clear();
}

}  // namespace perdure::pm
