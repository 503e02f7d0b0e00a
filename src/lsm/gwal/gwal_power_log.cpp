#include "lsm/gwal/gwal_power_log.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/hooks.hpp"
#include "base/process.hpp"

namespace perdure::lsm {

GwalPowerLog::GwalPowerLog(std::unique_ptr<GwalPowerDisk> disk)
    : name_(disk->name()), process_(this_process()), disk_(std::move(disk)) {}

/// In a child that was forked the log's thread is elsewhere.
GwalPowerLog::~GwalPowerLog() {
  if (disk_ != nullptr && !ours().ok()) put_aside(std::move(disk_));
}

std::string GwalPowerLog::name_of(std::uint64_t number) const {
  return "power log " + name_ + ", segment " + std::to_string(number);
}

/// Asked before a lock is taken, which somebody may have had when the process was forked.
Status GwalPowerLog::ours() const {
  if (process_ == this_process()) return {};
  return {Code::closed, "power log " + name_ +
                            " belongs to the process that opened it, not to one that it forked; "
                            "open the database in the process that uses it"};
}

Status GwalPowerLog::usable() const {
  if (!broken_.ok()) return broken_;
  return disk_ != nullptr ? Status{} : Status{Code::closed, "power log " + name_ + " is closed"};
}

GwalPowerLog::Live* GwalPowerLog::live(std::uint64_t number) {
  auto const at = std::find_if(live_.begin(), live_.end(),
                               [&](Live const& one) { return one.number == number; });
  return at == live_.end() || at->retired ? nullptr : &*at;
}

bool GwalPowerLog::holds_records() const {
  return std::any_of(live_.begin(), live_.end(),
                     [](Live const& one) { return one.first && !one.retired; });
}

/// What the images are to say now. Without records nobody needs what the ring holds.
GwalPowerPlace GwalPowerLog::place() const {
  for (Live const& one : live_)
    if (one.first && !one.retired) return {newest_, one.number, one.intent, *one.first};
  return {newest_, 0, kNoGwalIntent, disk_->log().position()};
}

Status GwalPowerLog::write(GwalPowerPlace const& place) {
  Status const s = disk_->write(place);
  return s.ok() ? s : broken_by(s);
}

Status GwalPowerLog::broken_by(Status const& s) {
  MutexLock const lock(mutex_);
  if (broken_.ok())
    broken_ = {s.code(), s.message() +
                             "; what the power log has on its disk is not known, so nothing more "
                             "is written: open the database anew"};
  return broken_;
}

Status GwalPowerLog::found(std::vector<Live> segments, std::uint64_t newest,
                           RequestId next_request) {
  MutexLock const writing(writing_);
  GwalPowerPlace now;
  {
    MutexLock const lock(mutex_);
    live_.assign(segments.begin(), segments.end());
    newest_ = newest;
    next_request_ = next_request;
    now = place();
  }
  return write(now);
}

Result<std::uint64_t> GwalPowerLog::begin() {
  if (Status s = ours(); !s.ok()) return s;
  MutexLock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  live_.push_back({++newest_, {}, kNoGwalIntent, false});
  begun_ = true;
  return newest_;
}

bool GwalPowerLog::close() {
  if (!ours().ok()) return false;
  MutexLock const writing(writing_);
  std::unique_ptr<GwalPowerDisk> closed;  // once nobody has the lock
  MutexLock const lock(mutex_);
  bool const needed = holds_records() || !broken_.ok() || disk_ == nullptr;
  closed = std::move(disk_);
  return !needed;
}

// ------------------------------------------------------------------------------------------------
// Records

Status GwalPowerLog::is_newest(std::uint64_t number) const {
  if (Status s = usable(); !s.ok()) return s;
  bool const newest = begun_ && !live_.empty() && live_.back().number == number;
  if (newest && !live_.back().retired) return {};
  return {Code::closed, name_of(number) +
                            " takes no records: it is retired, sealed, or was left "
                            "by an earlier process; begin another"};
}

Status GwalPowerLog::takes_records(std::uint64_t number) const {
  if (Status s = ours(); !s.ok()) return s;
  MutexLock const lock(mutex_);
  return is_newest(number);
}

/// Under the lock, so that its place in the log is the one that it says.
Result<wal::Lsn> GwalPowerLog::put(std::uint64_t number, GwalRecord const& record) {
  MutexLock const lock(mutex_);
  if (Status s = is_newest(number); !s.ok()) return s;
  if (record.first_request < next_request_ || record.requests == 0)
    return Status{Code::invalid_argument,
                  name_of(number) + ": a record of " + std::to_string(record.requests) +
                      " requests from " + std::to_string(record.first_request) +
                      " on does not follow: the next is " + std::to_string(next_request_)};
  wal::LogPosition const at = disk_->log().position();
  GwalPowerRecord const h{
      kGwalPowerRecordMagic, kGwalPowerVersion,     number, at.lsn, record.first_request,
      record.requests,       record.payload.size(), {}};
  std::array<std::span<std::byte const>, 2> const pieces{std::as_bytes(std::span(&h, 1)),
                                                         record.payload};
  auto const end = disk_->log().append(pieces);
  if (!end.ok()) return end;
  if (!live_.back().first) live_.back().first = at;
  next_request_ = record.first_request + record.requests;
  return end;
}

Status GwalPowerLog::append(std::uint64_t number, GwalRecord const& record) {
  if (Status s = ours(); !s.ok()) return s;
  auto const end = put(number, record);
  if (!end.ok()) {
    bool const failed = end.status().code() != Code::no_space || !disk_->log().failure().ok();
    bool const refused =
        end.status().code() == Code::closed || end.status().code() == Code::invalid_argument;
    return failed && !refused ? broken_by(end.status()) : end.status();
  }
  if (mutated("gwal_power_acknowledged_early")) return {};
  Status const s = disk_->log().wait_durable(end.value());
  return s.ok() ? s : broken_by(s);
}

bool GwalPowerLog::fits(std::uint64_t bytes) const {
  wal::LogRoom const room = disk_->log().room();
  return room.used_bytes + disk_->log().room_for(bytes) <= room.ring_bytes;
}

/// Of two images the older one may keep more of the ring: one that is written anew does not. A log
/// that is broken has room: the record hears why it is.
GwalRoom GwalPowerLog::make_room(std::uint64_t payload) {
  std::uint64_t const bytes = sizeof(GwalPowerRecord) + payload;
  if (!ours().ok()) return GwalRoom::there;
  MutexLock const writing(writing_);
  GwalPowerPlace now;
  {
    MutexLock const lock(mutex_);
    if (!usable().ok() || fits(bytes)) return GwalRoom::there;
    if (mutated("gwal_power_ring_reused")) {
      disk_->log().truncate(disk_->log().position().lsn);
      return GwalRoom::there;
    }
    now = place();
  }
  if (!write(now).ok()) return GwalRoom::there;
  MutexLock const lock(mutex_);
  if (fits(bytes)) return GwalRoom::there;
  return holds_records() ? GwalRoom::after_retiring : GwalRoom::never;
}

// ------------------------------------------------------------------------------------------------
// Handing over to RocksDB

/// Into both images: which of them counts after damage to the other is not ours to choose. An
/// intent may become lower by itself, for a power loss takes what RocksDB was told not to log: its
/// number is then below both, and the segment is replayed by either.
Status GwalPowerLog::intend(std::uint64_t number, std::uint64_t rocks_sequence) {
  if (Status s = ours(); !s.ok()) return s;
  MutexLock const writing(writing_);
  GwalPowerPlace next;
  {
    MutexLock const lock(mutex_);
    if (Status s = usable(); !s.ok()) return s;
    Live* const segment = live(number);
    if (segment == nullptr) return {Code::closed, name_of(number) + " is retired"};
    if (!segment->first) return {};  // nothing of it comes back
    next = place();
    if (next.oldest != number)
      return {Code::invalid_argument, name_of(number) + " is not the oldest, which goes first: " +
                                          std::to_string(next.oldest)};
    if (segment->intent != kNoGwalIntent && rocks_sequence != kNoGwalIntent &&
        rocks_sequence > segment->intent)
      return {Code::invalid_argument,
              name_of(number) + " is to be ingested above the sequence number " +
                  std::to_string(segment->intent) + ", which is below " +
                  std::to_string(rocks_sequence) + "; withdraw that first (kNoGwalIntent)"};
    segment->intent = next.intent = rocks_sequence;
    if (mutated("gwal_power_retired_before_ingest")) {
      segment->retired = true;
      next = place();
      segment->retired = false;
    }
  }
  if (mutated("gwal_power_intent_not_written")) return {};
  for (int image = 0; image < 2; ++image)
    if (Status s = write(next); !s.ok()) return s;
  return {};
}

/// One that is not the oldest has no records, and goes with those before it.
Status GwalPowerLog::retire(std::uint64_t number) {
  if (Status s = ours(); !s.ok()) return s;
  MutexLock const writing(writing_);
  GwalPowerPlace next;
  {
    MutexLock const lock(mutex_);
    if (Status s = usable(); !s.ok()) return s;
    Live* const segment = live(number);
    if (segment == nullptr) return {Code::closed, name_of(number) + " is retired already"};
    if (segment->first && place().oldest != number)
      return {Code::invalid_argument, name_of(number) + " is not the oldest, which goes first: " +
                                          std::to_string(place().oldest)};
    bool const held_records = segment->first.has_value();
    segment->retired = true;
    while (!live_.empty() && live_.front().retired) live_.pop_front();
    if (!held_records || mutated("gwal_power_retire_not_written")) return {};
    next = place();
  }
  return write(next);
}

}  // namespace perdure::lsm
