#include "pm/value_log/walk.hpp"

#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

LogRecord record_of(RecordView const& view, Offset at) {
  return {at,
          view.header,
          LogTag::of(view.header.tag),
          {view.key, view.header.key_bytes},
          {view.value, view.header.value_bytes}};
}

}  // namespace

bool is_whole(LogRecord const& record) {
  std::byte const* const summed = record.key.data() - summed_before_key(false);
  std::size_t const bytes = summed_before_key(false) + record.key.size() + record.value.size();
  if (mutated("vlog_checksum_ignored")) return true;
  return crc32c(0, summed, bytes) == record.header.crc;
}

LogWalk::LogWalk(std::byte const* base, Offset segment, std::uint64_t segment_bytes,
                 std::uint32_t generation, std::uint64_t end)
    : base_(base),
      segment_(segment),
      generation_(generation),
      sealed_(end != 0),
      limit_(end != 0 ? end : segment_bytes) {}

LogWalk::Found LogWalk::look(std::uint64_t at, LogRecord& record) const {
  RecordView const view = view_whole(base_ + segment_.bytes + at, limit_ - at);
  bool const ours = LogTag::of(view.header.tag).generation == generation_;
  if (!ours && !mutated("vlog_older_use_counts")) return Found::nothing;
  record = record_of(view, segment_ + at);
  if (view.header.sequence == 0) return Found::cancelled;
  return view.header.key_bytes != 0 && is_whole(record) ? Found::record : Found::nothing;
}

bool LogWalk::next(LogRecord& record) {
  // Cancelled records lie from here to there. A hole behind them takes them in: the last of them
  // may be a torn record, whose sizes say nothing.
  std::uint64_t const from = at_;
  std::uint64_t until = at_;
  while (at_ + sizeof(RecordHeader) <= limit_) {
    Found const found = look(at_, record);
    // In a hole nothing says how long a cancelled record is.
    if (found == Found::cancelled && at_ == until && record.bytes() <= limit_ - at_) {
      last_end_ = until = at_ += record.bytes();
      continue;
    }
    if (found != Found::record && mutated("vlog_ends_at_torn_item")) break;
    if (found != Found::record) {
      at_ += kRecordAlign;
      continue;
    }
    if (at_ != until)
      holes_.push_back({segment_ + from, at_ - from, false});
    else
      cancelled_ += until - from;
    if (record.tag.begins_piece)
      for (LogHole& hole : holes_) hole.damage = true;
    at_ += record.bytes();
    last_end_ = at_;
    return true;
  }
  if (sealed_ && until < limit_) {
    holes_.push_back({segment_ + from, limit_ - from, true});
    last_end_ = limit_;
  } else {
    cancelled_ += until - from;
  }
  if (sealed_)
    for (LogHole& hole : holes_) hole.damage = true;
  at_ = limit_;
  return false;
}

bool view_log_record(std::byte const* base, std::uint64_t pool_bytes, Offset at,
                     LogRecord& record) {
  if (at.bytes % kRecordAlign != 0 || at.bytes + sizeof(RecordHeader) > pool_bytes) return false;
  RecordView const view = view_whole(base + at.bytes, pool_bytes - at.bytes);
  record = record_of(view, at);
  return view.header.key_bytes != 0;
}

}  // namespace perdure::pm
