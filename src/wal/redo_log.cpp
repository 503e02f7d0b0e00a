#include "wal/redo_log.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "base/own_thread.hpp"

namespace perdure::wal {
namespace {

Status corrupt_log(BlockFile const& file, std::string const& what) {
  return {Code::corrupt, "log " + file.name() + ": " + what};
}

Status write_header(BlockFile& file, LogIdentity const& identity) {
  PERDURE_ASSERT(identity.ring_bytes > 0 && identity.ring_bytes % kBlock == 0);
  PERDURE_ASSERT(identity.epoch_lsn % kBlock == 0);
  auto block = AlignedBuffer::make(kBlock);
  if (!block) return block.status();
  LogHeader h{};
  h.magic = kLogMagic;
  h.format_version = kLogVersion;
  h.epoch = identity.epoch;
  h.pool_id = identity.pool_id;
  h.ring_bytes = identity.ring_bytes;
  h.epoch_lsn = identity.epoch_lsn;
  h.crc = checksum(h);
  std::memcpy(block->data(), &h, sizeof h);
  return file.write_durably(identity.epoch % 2 * kBlock, block->span());
}

}  // namespace

Status format_log(BlockFile& file, PoolId const& pool_id, std::uint64_t ring_bytes) {
  if (ring_bytes == 0 || ring_bytes % kBlock != 0)
    return {Code::invalid_argument,
            "log " + file.name() + ": its size must be a multiple of 4096 bytes"};
  // A crash in here leaves no valid header, and the file is refused.
  if (Status s = file.zero(0, kRingOffset + ring_bytes); !s.ok()) return s;
  if (Status s = write_header(file, {pool_id, ring_bytes, 0, 0}); !s.ok()) return s;
  return write_header(file,
                      {pool_id, ring_bytes, 1, 0});  // so that a copy that is not valid is damaged
}

Result<LogIdentity> read_identity(BlockFile& file) {
  auto blocks = AlignedBuffer::make(2 * kBlock);
  if (!blocks) return blocks.status();
  auto const read = file.read(0, blocks->span());
  if (!read) return read.status();
  LogHeader best{};
  int found = 0;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    LogHeader h;
    std::memcpy(&h, blocks->data() + copy * kBlock, sizeof h);
    if (h.magic != kLogMagic || h.crc != checksum(h)) continue;
    if (h.format_version != kLogVersion) {
      return corrupt_log(file, "it has log format version " + std::to_string(h.format_version) +
                                   "; this build reads version " + std::to_string(kLogVersion) +
                                   ": open it with the build that made it");
    }
    if (found == 0 || h.epoch > best.epoch) best = h;
    ++found;
  }
  if (found == 0)
    return corrupt_log(
        file,
        "neither copy of its header (bytes 0 and 4096) is valid: not a Perdure log, or "
        "damaged, or its "
        "creation was cut short; restore a snapshot");
  if (best.ring_bytes == 0 || best.ring_bytes % kBlock != 0)
    return corrupt_log(file, "its header gives an impossible size");
  return LogIdentity{best.pool_id, best.ring_bytes, best.epoch, best.epoch_lsn, found < 2};
}

RedoLog::RedoLog(std::unique_ptr<BlockFile> file, LogIdentity const& identity, LogPosition end,
                 Lsn keep_from, LogOptions const& options)
    : file_(std::move(file)),
      identity_(identity),
      options_(options),
      tail_(end),
      keep_from_(keep_from),
      durable_(end.lsn),
      whole_(end.lsn) {
  PERDURE_ASSERT(keep_from <= end.lsn);
}

Result<std::unique_ptr<RedoLog>> RedoLog::start(std::unique_ptr<BlockFile> file, LogPosition end,
                                                Lsn keep_from, LogOptions const& options) {
  auto const fits = [](std::uint64_t bytes, std::uint64_t most) {
    return bytes % kBlock == 0 && bytes >= kBlock && bytes <= most;
  };
  if (!fits(options.buffer_bytes, 1u << 30) ||
      !fits(options.group_bytes, std::min(kMaxGroup, options.buffer_bytes)) ||
      !fits(options.write_bytes, 1u << 30) || options.depth == 0 ||
      options.depth >= BlockFile::kMaxInFlight)
    return Status{Code::invalid_argument,
                  "log " + file->name() + ": impossible buffer, group or write size, or depth"};
  auto const identity = read_identity(*file);
  if (!identity) return identity.status();
  PERDURE_ASSERT(end.lsn % kBlock == 0 && keep_from % kBlock == 0);
  auto buffer = AlignedBuffer::make(options.buffer_bytes);
  if (!buffer) return buffer.status();
  std::unique_ptr<RedoLog> log(
      new RedoLog(std::move(file), identity.value(), end, keep_from, options));
  log->buffer_ = std::move(*buffer);
  log->file_->register_buffer(log->buffer_.span());
  if (Status s = log->begin_epoch(); !s.ok()) return s;
  log->committer_ = own_thread([at = log.get()] { at->commit(); });
  return log;
}

// Durable before the first group of the epoch is written: whatever an earlier opening left beyond
// `end` carries an older epoch, and replay will not take it for a continuation. The copy that is
// damaged may have been of the next epoch, so that one is passed over; and both copies are written,
// so that of two the newer is always the next.
Status RedoLog::begin_epoch() {
  if (mutated("epoch_not_begun")) return {};
  bool const both = std::exchange(identity_.copy_damaged, false);
  identity_.epoch += both && !mutated("log_damaged_epoch_begun") ? 3 : 1;
  {
    MutexLock const lock(mutex_);
    PERDURE_ASSERT(!committer_.joinable() && durable_ == tail_.lsn);  // nobody appends yet
    identity_.epoch_lsn = tail_.lsn;
  }
  Status s = write_header(*file_, identity_);
  if (!s.ok() || !both) return s;
  LogIdentity before = identity_;
  --before.epoch;
  return write_header(*file_, before);
}

RedoLog::~RedoLog() {
  if (!committer_.joinable()) return;
  static_cast<void>(wait_durable(position().lsn));
  {
    MutexLock const lock(mutex_);
    stopping_ = true;
  }
  file_->wake();
  committer_.join();
  PERDURE_ASSERT(in_flight_ == 0 || !failed_.ok());
}

// ------------------------------------------------------------------------------------------------
// Appending

/// Most bytes of a group at `lsn`: it crosses neither the ring's end nor the buffer's.
std::uint64_t RedoLog::group_room(Lsn lsn) const {
  std::uint64_t const to_ring_end = identity_.ring_bytes - lsn % identity_.ring_bytes;
  std::uint64_t const to_buffer_end = options_.buffer_bytes - lsn % options_.buffer_bytes;
  std::uint64_t const room = std::min({options_.group_bytes, to_ring_end, to_buffer_end});
  PERDURE_ASSERT(room >= kBlock && room % kBlock == 0);
  return room;
}

/// Where a batch of `bytes` bytes that begins at `lsn` ends.
Lsn RedoLog::end_of(Lsn lsn, std::uint64_t bytes) const {
  PERDURE_ASSERT(lsn % kBlock == 0);
  do {
    std::uint64_t const payload = std::min(bytes, group_room(lsn) - sizeof(GroupHeader));
    PERDURE_ASSERT(group_bytes(payload) <= group_room(lsn));
    lsn += group_bytes(payload);
    bytes -= payload;
  } while (bytes > 0);
  return lsn;
}

Status RedoLog::check_room(std::uint64_t bytes, Lsn end) const {
  PERDURE_ASSERT(end > tail_.lsn && keep_from_ <= tail_.lsn);
  std::string const what =
      "log " + file_->name() + ": a batch of " + std::to_string(bytes) + " bytes ";
  if (end - tail_.lsn > identity_.ring_bytes)
    return {Code::no_space, what + "is larger than the whole log (" +
                                std::to_string(identity_.ring_bytes) +
                                " bytes): split it, or make the log larger"};
  if (end - keep_from_ > identity_.ring_bytes)
    return {Code::no_space, what + "finds the log full (" + std::to_string(tail_.lsn - keep_from_) +
                                " of " + std::to_string(identity_.ring_bytes) +
                                " bytes): a checkpoint must truncate it first"};
  return {};
}

void PieceReader::copy(std::byte* to, std::uint64_t bytes) {
  while (bytes > 0) {
    PERDURE_ASSERT(!pieces_.empty());
    auto const piece = pieces_.front().subspan(inside_);
    std::uint64_t const n = std::min<std::uint64_t>(bytes, piece.size());
    if (n > 0) std::memcpy(to, piece.data(), n);
    to += n;
    bytes -= n;
    inside_ += n;
    if (inside_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      inside_ = 0;
    }
  }
}

Result<Lsn> RedoLog::append(std::span<std::span<std::byte const> const> pieces) {
  auto batch = begin(pieces);
  return batch ? end(std::move(*batch)) : Result<Lsn>(batch.status());
}

// The guard of append_ is an object that outlives the call.
Result<std::unique_ptr<RedoLog::Open>> RedoLog::begin(
    std::span<std::span<std::byte const> const> pieces) {
  auto batch = std::make_unique<Open>(*this, pieces);
  for (auto const& piece : pieces) batch->bytes_ += piece.size();
  append_.lock();
  MutexLock const lock(mutex_);
  Status s = failed_;
  Lsn const end = end_of(tail_.lsn, batch->bytes_);
  if (s.ok()) s = check_room(batch->bytes_, end);
  if (!s.ok()) {
    batch->log_ = nullptr;  // it has no place
    append_.unlock();
    return s;
  }
  PERDURE_ASSERT(end > tail_.lsn &&
                 // nothing that is needed is overwritten
                 end - keep_from_ <= identity_.ring_bytes);
  batch->at_ = tail_;
  batch->next_ = tail_.lsn;
  batch->end_ = end;
  tail_ = {end, tail_.next_batch + 1};
  return batch;
}

// From begin() on the place is taken: what does not come there ends the log.
RedoLog::Open::~Open() {
  if (log_ == nullptr) return;
  log_->let_go(next_ == end_);
}

void RedoLog::let_go(bool whole) {
  if (!whole) {
    MutexLock const lock(mutex_);
    fail({Code::closed, "a batch was begun, and not ended"});
  }
  append_.unlock();
}

Result<Lsn> RedoLog::end(std::unique_ptr<Open> batch) {
  try {
    if (Status s = write_known(*batch, batch->bytes_); !s.ok()) return s;
  } catch (...) {
    MutexLock const lock(mutex_);
    fail({Code::no_space, "out of memory"});
    throw;
  }
  PERDURE_ASSERT(batch->next_ == batch->end_ && batch->written_ == batch->bytes_);
  return batch->end_;
}

Status RedoLog::write_known(Open& batch, std::uint64_t known) {
  PERDURE_ASSERT(known <= batch.bytes_);
  while (batch.next_ < batch.end_) {
    Lsn const lsn = batch.next_;
    std::uint64_t const left = batch.bytes_ - batch.written_;
    PERDURE_ASSERT(lsn % kBlock == 0 && (left > 0 || batch.part_ == 0));
    std::uint64_t const payload = std::min(left, group_room(lsn) - sizeof(GroupHeader));
    if (batch.written_ + payload > known) return {};
    Lsn const next = lsn + group_bytes(payload);
    if (Status s = wait_for_buffer(next); !s.ok()) return s;
    batch.reader_.copy(buffered(lsn) + sizeof(GroupHeader), payload);
    PERDURE_ASSERT(next <= batch.end_);
    seal(lsn, payload, batch.part_++, next == batch.end_, batch.at_.next_batch);
    batch.written_ += payload;
    batch.next_ = next;
  }
  return {};
}

/// The buffer holds the last `size` bytes before `end`; what it held there before must be durable.
Status RedoLog::wait_for_buffer(Lsn end) {
  MutexLock const lock(mutex_);
  while (failed_.ok() && end - durable_ > options_.buffer_bytes) changed_.wait(mutex_);
  PERDURE_ASSERT(!failed_.ok() || durable_ < end || mutated("log_durable_when_begun"));
  return failed_;
}

/// Completes the group whose payload stands in the buffer, and lets it be written.
void RedoLog::seal(Lsn lsn, std::uint64_t payload, std::uint32_t part, bool last,
                   std::uint64_t batch) {
  std::byte* const group = buffered(lsn);
  std::uint64_t const bytes = group_bytes(payload);
  PERDURE_ASSERT(lsn % options_.buffer_bytes + bytes <= options_.buffer_bytes);
  PERDURE_ASSERT(lsn % identity_.ring_bytes + bytes <= identity_.ring_bytes);
  GroupHeader h{};
  h.magic = kGroupMagic;
  h.format_version = kLogVersion;
  h.last = last ? 1 : 0;
  h.pool_id = identity_.pool_id;
  h.lsn = lsn;
  h.batch = batch;
  h.epoch = identity_.epoch;
  h.part = part;
  h.payload_bytes = static_cast<std::uint32_t>(payload);
  h.behind = static_cast<std::uint32_t>(1 + (lsn - durable_lsn()) / kBlock);
  if (mutated("log_behind_not_known")) h.behind = 0;
  if (mutated("log_behind_too_little")) h.behind = 1;
  seal_group(h, group, bytes);
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(sealed_.empty() || sealed_.back().end == lsn);
  PERDURE_ASSERT(lsn + bytes <= tail_.lsn);  // append() has taken the place
  sealed_.push_back({lsn, lsn + bytes, last ? lsn + bytes : 0});
  begin_writes();
}

// ------------------------------------------------------------------------------------------------
// Writing

/// Begins as many writes as may be in flight; each takes sealed groups that are adjacent in the
/// ring and in the buffer. The caller holds mutex_.
void RedoLog::begin_writes() {
  while (failed_.ok() && in_flight_ < options_.depth && !sealed_.empty()) {
    Extent write = sealed_.front();
    std::uint64_t const in_ring = write.begin % identity_.ring_bytes;
    std::uint64_t const in_buffer = write.begin % options_.buffer_bytes;
    std::uint64_t const most = std::min(
        {options_.write_bytes, identity_.ring_bytes - in_ring, options_.buffer_bytes - in_buffer});
    sealed_.pop_front();
    while (!sealed_.empty() && sealed_.front().end - write.begin <= most) {
      write.end = sealed_.front().end;
      write.batch_end = std::max(write.batch_end, sealed_.front().batch_end);
      sealed_.pop_front();
    }
    PERDURE_ASSERT(write.end - write.begin <= most && write.begin >= durable_);
    PERDURE_ASSERT(flying_.empty() || flying_.back().end == write.begin);
    std::uint64_t const tag = first_flying_ + flying_.size();
    Verb const verb = mutated("log_write_not_durable") ? Verb::write : Verb::write_durably;
    flying_.push_back(write);  // before it flies: its end must find it
    Status const s = caught([&] {
      return file_->start(
          {verb, kRingOffset + in_ring, buffered(write.begin), write.end - write.begin, tag});
    });
    if (!s.ok()) {
      flying_.pop_back();
      return fail(s);
    }
    ++in_flight_;
    PERDURE_ASSERT(in_flight_ <= options_.depth && in_flight_ <= flying_.size());
    if (mutated("log_durable_when_begun")) durable_ = write.end;
  }
}

/// The caller holds mutex_.
void RedoLog::complete(std::vector<Done> const& done) {
  for (Done const& d : done) {
    bool const there = d.status.ok() || mutated("log_write_error_dropped");
    if (!there) fail(d.status);
    PERDURE_ASSERT(d.tag >= first_flying_ && d.tag - first_flying_ < flying_.size() &&
                   in_flight_ > 0);
    // A write that failed is never marked, so that durable_ stays before it.
    flying_[d.tag - first_flying_].done = there;
    --in_flight_;
  }
  bool const more = !flying_.empty() && flying_.front().done;
  while (!flying_.empty() && flying_.front().done) {
    PERDURE_ASSERT(flying_.front().begin == durable_ || mutated("log_durable_when_begun"));
    durable_ = flying_.front().end;
    whole_ = std::max(whole_, flying_.front().batch_end);
    flying_.pop_front();
    ++first_flying_;
  }
  if (more) note_whole();
  PERDURE_ASSERT(durable_ <= tail_.lsn && in_flight_ <= flying_.size());
}

/// Before anybody is told that it is durable: what was acknowledged is counted. A replay ends
/// behind whole batches, so groups of one that was cut off are not.
void RedoLog::note_whole() {
  if (!word_ || mutated("log_word_not_stored")) return;
  word_->note(mutated("log_word_before_its_log")   ? tail_.lsn
              : mutated("log_word_inside_a_batch") ? durable_
                                                   : whole_);
}

/// The caller holds mutex_.
void RedoLog::fail(Status const& status) {
  PERDURE_ASSERT(!status.ok());
  if (!failed_.ok()) return;
  failed_ = {status.code(), "out of memory"};  // which needs none, should that be what lacks
  if (Status told = caught([&]() -> Status {
        return {status.code(),
                "log " + file_->name() +
                    " failed, and what its last writes left is unknown until it is reopened: " +
                    status.message()};
      });
      told.code() == status.code())
    failed_ = std::move(told);
  sealed_.clear();
  wake_waiters();
}

void RedoLog::wake_waiters() {
  if (mutated("log_failure_wakes_nobody") && !failed_.ok()) return;
  changed_.notify_all();
}

/// The committer's thread: takes completions, and begins what was sealed meanwhile.
void RedoLog::commit() {
  std::vector<Done> done;  // its room is had in the first wait, before which nothing is under way
  for (;;) {
    done.clear();
    Status s = caught([&] { return file_->wait(done); });
    {
      MutexLock const lock(mutex_);
      if (!s.ok()) fail(s);
      complete(done);
      if (s.ok()) {
        s = caught([this]() -> Status {
          mutex_.is_held();
          begin_writes();
          return {};
        });
        if (!s.ok()) fail(s);
      }
      bool const idle = in_flight_ == 0 || !s.ok();
      if (idle && (stopping_ || !s.ok())) break;
    }
    wake_waiters();
  }
  wake_waiters();
}

void RedoLog::skip_batch() {
  MutexLock const only(append_);
  MutexLock const lock(mutex_);
  ++tail_.next_batch;
}

Status RedoLog::wait_durable(Lsn lsn) {
  MutexLock const lock(mutex_);
  while (durable_ < lsn && failed_.ok()) changed_.wait(mutex_);
  PERDURE_ASSERT(durable_ >= lsn || !failed_.ok());
  return durable_ >= lsn ? Status{} : failed_;
}

void RedoLog::truncate(Lsn lsn) {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(lsn % kBlock == 0);
  keep_from_ = std::max(keep_from_, std::min(lsn, durable_));
  PERDURE_ASSERT(keep_from_ <= tail_.lsn);
}

void RedoLog::note_in(std::optional<pm::LogWord> word) {
  MutexLock const lock(mutex_);
  word_ = word;
  note_whole();
}

Lsn RedoLog::durable_lsn() const {
  MutexLock const lock(mutex_);
  return durable_;
}

LogPosition RedoLog::position() const {
  MutexLock const lock(mutex_);
  return tail_;
}

LogRoom RedoLog::room() const {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(keep_from_ <= tail_.lsn);
  return {identity_.ring_bytes, tail_.lsn - keep_from_, tail_.lsn};
}

std::uint64_t RedoLog::room_for(std::uint64_t bytes) const {
  MutexLock const lock(mutex_);
  return end_of(tail_.lsn, bytes) - tail_.lsn;
}

Status RedoLog::failure() const {
  MutexLock const lock(mutex_);
  return failed_;
}

}  // namespace perdure::wal
