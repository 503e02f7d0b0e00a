#include "lsm/gwal/gwal_segment.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/process.hpp"
#include "lsm/gwal/gwal_sum.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::lsm {

/// Of a segment, so much is used before the next one's file is prepared: an eighth.
static constexpr std::uint64_t kPartBeforeNext = 8;

GwalLog::GwalLog(std::unique_ptr<GwalFiles> files, GwalOptions const& options)
    : files_(std::move(files)),
      identity_(gwal_identity(options.identity)),
      identity_bytes_(static_cast<std::uint32_t>(options.identity.size())),
      segment_bytes_(options.segment_bytes),
      workers_(options.workers),
      boot_(files_->boot()),
      process_(this_process()) {}

void GwalLog::found(std::vector<GwalLive> segments, std::uint64_t newest, RequestId next_request) {
  MutexLock const lock(mutex_);
  live_.assign(segments.begin(), segments.end());
  newest_ = mutated("gwal_number_again") && live_.empty() ? 0 : newest;
  next_request_ = next_request;
}

std::string GwalLog::name_of(std::uint64_t number) const {
  return "G-WAL " + files_->name() + ", segment " + std::to_string(number);
}

/// Asked before the lock is taken, which somebody may have had when the process was forked.
Status GwalLog::ours() const {
  if (process_ == this_process()) return {};
  return {Code::closed, "G-WAL " + files_->name() +
                            " belongs to the process that opened it, not to one that it forked; "
                            "open the database in the process that uses it"};
}

GwalLive* GwalLog::live(std::uint64_t number) {
  if (live_.empty() || number < live_.front().number || number > live_.back().number)
    return nullptr;
  return &live_[number - live_.front().number];
}

std::shared_ptr<GwalFile> GwalLog::file(std::uint64_t number) {
  MutexLock const lock(mutex_);
  return live(number)->file;
}

// ------------------------------------------------------------------------------------------------
// Beginning a segment

/// All that a file which was used before may still hold there is overwritten, or does not pass.
Status GwalLog::write_header(GwalFile& file, std::uint64_t number,
                             std::uint64_t previous_end) const {
  std::byte* const at = file.bytes().data();
  for (std::uint64_t const intent : kGwalIntents)
    if (!mutated("gwal_stale_intent")) pm::zero_bytes(at + intent, sizeof(GwalIntent));
  GwalSegmentHeader h{kGwalSegmentMagic,   kGwalVersion, identity_bytes_, identity_, number,
                      file.bytes().size(), previous_end, boot_,           {},        0};
  h.crc = checksum(h);
  pm::write_bytes(at, &h, sizeof h);
  return mutated("gwal_header_not_ordered") ? Status{} : file.sync(at, kGwalRecords);
}

/// The file is made without the lock: that may take long, and nobody else begins a segment.
Result<std::uint64_t> GwalLog::begin(std::uint64_t bytes) {
  if (Status s = ours(); !s.ok()) return s;
  std::uint64_t number = 0, previous_end = 0;
  {
    MutexLock const lock(mutex_);
    if (!broken_.ok()) return broken_;
    number = newest_ + 1;
    previous_end = live_.empty() ? 0 : live_.back().end;
  }
  auto file = files_->make(number, bytes);
  if (!file.ok()) return file.status();
  if (Status s = write_header(*file.value(), number, previous_end); !s.ok()) return s;
  if (Status s = file.value()->keep(); !s.ok()) {
    (void)file.value()->remove(false);  // it may have the name already
    return s;
  }
  MutexLock const lock(mutex_);
  live_.push_back(
      {std::move(file).value(), number, kGwalRecords, kGwalRecords, kNoGwalIntent, false});
  newest_ = number;
  begun_ = true;
  return number;
}

/// In time for the next begin(), and not for segments that little is written to.
void GwalLog::prepare_next(std::uint64_t number, std::uint64_t used, std::uint64_t size) {
  if (used < std::max(size, segment_bytes_) / kPartBeforeNext || prepared_behind_ == number) return;
  prepared_behind_ = number;
  prepare();
}

// ------------------------------------------------------------------------------------------------
// Records

Status GwalLog::takes_records(std::uint64_t number) const {
  if (!broken_.ok()) return broken_;
  bool const newest = number == newest_ && !live_.empty() && live_.back().number == number;
  if (newest && begun_ && !live_.back().retired) return {};
  return {Code::closed, name_of(number) +
                            (number == newest_ ? " is retired, or was left by an earlier process"
                                               : " is sealed: a later one was begun") +
                            "; begin another"};
}

Result<std::span<std::byte>> GwalLog::room(std::uint64_t number, std::uint64_t bytes) {
  if (Status s = ours(); !s.ok()) return s;
  MutexLock const lock(mutex_);
  if (Status s = takes_records(number); !s.ok()) return s;
  GwalLive const& segment = live_.back();
  std::uint64_t const left = segment.file->bytes().size() - segment.end;
  if (bytes > kMostGwalPayload || gwal_record_bytes(bytes) > left)
    return Status{Code::no_space, name_of(number) + " has no room for " + std::to_string(bytes) +
                                      " bytes: " + std::to_string(left) +
                                      " are left, the record's header's among them; begin "
                                      "the next segment"};
  return segment.file->bytes().subspan(segment.end + sizeof(GwalRecordHeader), bytes);
}

/// Where the next record goes, of this many bytes and with these requests.
Result<GwalLive> GwalLog::place_for(std::uint64_t number, GwalRecord const& record) const {
  MutexLock const lock(mutex_);
  if (Status s = takes_records(number); !s.ok()) return s;
  if (record.first_request >= next_request_ && record.requests != 0) return live_.back();
  return Status{Code::invalid_argument,
                name_of(number) + ": a record of " + std::to_string(record.requests) +
                    " requests from " + std::to_string(record.first_request) +
                    " on does not follow: the next is " + std::to_string(next_request_)};
}

/// The payload stands there already. What orders it before the acknowledgement orders the header,
/// too: a record of which a part is missing does not pass. Nobody else appends, so the lock is not
/// held while the payload is summed.
Status GwalLog::append(std::uint64_t number, GwalRecord const& record, bool sync,
                       GwalPayloadSum const* summed) {
  if (Status s = ours(); !s.ok()) return s;
  auto const segment = place_for(number, record);
  if (!segment.ok()) return segment.status();
  std::byte* const at = segment.value().file->bytes().data() + segment.value().end;
  std::uint64_t const bytes = record.payload.size();
  PERDURE_ASSERT(record.payload.data() == at + sizeof(GwalRecordHeader));
  pm::wrote(record.payload.data(), bytes);
  GwalPayloadSum own(record.payload);
  if (summed == nullptr) own.sum_all(workers_);
  GwalPayloadSum const& sum = summed == nullptr ? own : *summed;
  GwalRecordHeader h{
      kGwalRecordMagic,     kGwalVersion,    number, segment.value().end, segment.value().synced,
      record.first_request, record.requests, bytes,  sum.hash(),          0};
  h.crc = gwal_crc(identity_, h, sum);
  pm::write_bytes(at, &h, sizeof h);
  if (!mutated("gwal_not_ordered")) pm::order();
  {
    MutexLock const lock(mutex_);
    live_.back().end += gwal_record_bytes(bytes);
    next_request_ = record.first_request + record.requests;
  }
  prepare_next(number, h.offset + bytes, segment.value().file->bytes().size());
  return sync ? sync_all() : Status{};
}

/// Older segments first, so that no record outlasts one before it.
Status GwalLog::sync_all() {
  std::vector<GwalLive> behind;
  {
    MutexLock const lock(mutex_);
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(behind),
                 [](GwalLive const& s) { return s.synced < s.end; });
  }
  for (GwalLive const& segment : behind) {
    Status const s = segment.file->sync(segment.file->bytes().data() + segment.synced,
                                        segment.end - segment.synced);
    if (!s.ok()) return broken_by(s);
    MutexLock const lock(mutex_);
    if (GwalLive* const now = live(segment.number)) now->synced = segment.end;
  }
  return {};
}

Status GwalLog::broken_by(Status const& s) {
  MutexLock const lock(mutex_);
  broken_ = {s.code(), s.message() +
                           "; whether what was written last is there is not known, so "
                           "nothing more is written: open the database anew"};
  return broken_;
}

// ------------------------------------------------------------------------------------------------
// Handing over to RocksDB

/// Two copies, one after the other. A crash leaves one of them torn at most, and then nothing has
/// been ingested: so what the other one says, or nothing at all, is replayed.
Status GwalLog::write_intent(GwalFile& file, std::uint64_t number,
                             std::uint64_t rocks_sequence) const {
  GwalIntent intent{kGwalIntentMagic, kGwalVersion, number, rocks_sequence, {}, 0};
  intent.crc = gwal_crc(identity_, intent);
  for (std::uint64_t const offset : kGwalIntents) {
    std::byte* const at = file.bytes().data() + offset;
    pm::write_bytes(at, &intent, sizeof intent);
    bool const unordered = mutated("gwal_intent_not_ordered") ||
                           (mutated("gwal_intents_at_once") && offset == kGwalIntents[0]);
    if (unordered) continue;
    if (Status s = file.sync(at, sizeof intent); !s.ok()) return s;
  }
  return {};
}

/// While an intent stands, RocksDB's number is its own or nothing of the segment is to come back.
/// A higher one would be taken for the latter by who finds the old one in its place. A lower one
/// comes after a crash, which takes what RocksDB was told not to log.
Status GwalLog::intend(std::uint64_t number, std::uint64_t rocks_sequence) {
  std::shared_ptr<GwalFile> file;
  {
    if (Status s = ours(); !s.ok()) return s;
    MutexLock const lock(mutex_);
    if (!broken_.ok()) return broken_;
    GwalLive* const segment = live(number);
    if (segment == nullptr || segment->retired)
      return {Code::closed, name_of(number) + " is retired"};
    if (segment->intent != kNoGwalIntent && rocks_sequence != kNoGwalIntent &&
        segment->intent < rocks_sequence)
      return {Code::invalid_argument,
              name_of(number) + " is to be ingested above the sequence number " +
                  std::to_string(segment->intent) + ", which is below " +
                  std::to_string(rocks_sequence) + "; withdraw that first (kNoGwalIntent)"};
    segment->intent = rocks_sequence;
    file = segment->file;
  }
  if (mutated("gwal_naive_intent")) return {};
  if (mutated("gwal_retired_before_ingest")) return file->remove(true);
  Status const s = write_intent(*file, number, rocks_sequence);
  return s.ok() ? s : broken_by(s);
}

Status GwalLog::retire(std::uint64_t number) {
  if (Status s = ours(); !s.ok()) return s;
  {
    MutexLock const lock(mutex_);
    if (!broken_.ok()) return broken_;
    GwalLive* const segment = live(number);
    if (segment == nullptr || segment->retired)
      return {Code::closed, name_of(number) + " is retired already"};
    bool const holds_records = segment->end > kGwalRecords;
    if (holds_records && number != live_.front().number)
      return {Code::invalid_argument, name_of(number) + " is not the oldest, which goes first: " +
                                          std::to_string(live_.front().number)};
    segment->retired = true;
  }
  return remove_retired();
}

/// Oldest first, for none may be missing between two. One that is not the oldest has no records.
Status GwalLog::remove_retired() {
  MutexLock const one_at_a_time(retiring_);
  for (;;) {
    std::shared_ptr<GwalFile> file;
    {
      MutexLock const lock(mutex_);
      if (live_.empty() || !live_.front().retired) return {};
      file = live_.front().file;
    }
    Status const s = file->remove(true);
    MutexLock const lock(mutex_);
    if (!s.ok()) {
      live_.front().retired = false;
      return s;
    }
    live_.pop_front();
  }
}

namespace {

class Segment final : public GwalSegment {
 public:
  Segment(std::shared_ptr<GwalLog> log, std::uint64_t number)
      : log_(std::move(log)), file_(log_->file(number)), number_(number) {}

  [[nodiscard]] std::uint64_t number() const override { return number_; }
  [[nodiscard]] std::uint64_t memory() const override { return file_->bytes().size(); }
  Result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    auto room = log_->room(number_, bytes);
    reserved_ = room.ok();
    if (reserved_) payload_ = room.value();
    return room;
  }
  Status commit(RequestId first_request, std::uint64_t requests, bool sync,
                GwalPayloadSum const* sum) override {
    if (!std::exchange(reserved_, false))
      return {Code::invalid_argument, "G-WAL: commit() without a payload that was reserved"};
    return log_->append(number_, {first_request, requests, payload_}, sync, sum);
  }
  Status intend(std::uint64_t rocks_sequence) override {
    return log_->intend(number_, rocks_sequence);
  }
  Status retire() override { return log_->retire(number_); }

 private:
  std::shared_ptr<GwalLog> log_;
  std::shared_ptr<GwalFile> file_;  // its memory stays when it is retired
  std::uint64_t number_;
  std::span<std::byte> payload_;
  bool reserved_ = false;
};

}  // namespace

std::unique_ptr<GwalSegment> make_gwal_segment(std::shared_ptr<GwalLog> log, std::uint64_t number) {
  return std::make_unique<Segment>(std::move(log), number);
}

}  // namespace perdure::lsm
