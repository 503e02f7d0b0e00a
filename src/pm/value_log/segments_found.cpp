// LogSegments at an opening and a close.
#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "pm/host_verbs.hpp"
#include "pm/value_log/segments.hpp"

namespace perdure::pm {
namespace {

enum class Says : std::uint8_t { nothing, segment, damaged };

/// What the header of a superblock says of it, in a pool of that identity. One that never was a
/// segment, for a crash came before its magic, has no state yet.
Says read_header(Pool const& pool, Offset at, std::uint64_t segment_bytes,
                 std::array<std::uint8_t, 16> const& id) {
  LogSegmentHeader header;
  read_bytes(&header, pool.base() + at.bytes, sizeof header);
  bool const magic = header.magic == kLogMagic;
  bool const ours = header.pool_id == id;
  std::uint64_t const word = header.state;
  header.state = 0;
  header.magic = kLogMagic;
  bool const whole =
      header.crc == checksum(header) && header.segment_bytes == segment_bytes && ours;
  LogState state;
  bool const sane = word == 0 || (LogState::parse(word, state) && state.end <= segment_bytes);
  if (magic && whole && sane) return Says::segment;
  if (magic && ours) return Says::damaged;
  return whole && word != 0 ? Says::damaged : Says::nothing;
}

}  // namespace

void LogSegments::find(std::vector<Offset>& damage) {
  MutexLock const lock(mutex_);
  MutexLock const guard(*memory_);
  std::uint64_t const each = pool_->superblock_bytes();
  // In address order, and a whole segment at a time: what users keep in one may look like a header.
  for (std::uint64_t i = 1; i + run() <= pool_->superblocks(); ++i) {
    Offset const at{i * each};
    if (!pool_->is_free_run(at, run())) continue;
    Says const says = read_header(*pool_, at, options_.segment_bytes, pool_->header().pool_id);
    if (says == Says::nothing) continue;
    pool_->claim_run(at, run());
    i += run() - 1;
    if (says == Says::segment)
      attach(at);
    else
      damage.push_back(at);
  }
  pool_bytes_ = pool_->bytes();
}

void take_log_identity(Pool& pool, std::array<std::uint8_t, 16> const& old,
                       std::uint64_t segment_bytes) {
  std::uint64_t const run = segment_bytes / pool.superblock_bytes();
  for (std::uint64_t i = 1; i + run <= pool.superblocks(); ++i) {
    Offset const at{i * pool.superblock_bytes()};
    if (read_header(pool, at, segment_bytes, old) != Says::segment) continue;
    LogSegmentHeader header;
    read_bytes(&header, pool.base() + at.bytes, sizeof header);
    header.pool_id = pool.header().pool_id;
    LogSegmentHeader summed = header;
    summed.state = 0;
    header.crc = checksum(summed);
    write_bytes(pool.base() + at.bytes, &header, sizeof header);
    i += run - 1;
  }
}

LogState LogSegments::state_of(LogSegment const& segment) const {
  LogState state;
  std::uint64_t const word =
      load_word(pool_->base() + segment.at.bytes + offsetof(LogSegmentHeader, state));
  if (word != 0) LogState::parse(word, state);
  return state;
}

void LogSegments::begin(LogSegment& segment, LogState const& state, LogFill const& fill) {
  MutexLock const lock(mutex_);
  segment.generation = state.generation;
  segment.open_in_pool = state.use == LogState::Use::open;
  if (state.use == LogState::Use::free) {
    segment.use = LogSegment::Use::free;
    free_.push_back(&segment);
    return;
  }
  this->fill(segment, fill);
  bool const room = has_room(fill.end);
  segment.use = room ? LogSegment::Use::partial : LogSegment::Use::full;
  if (room) partial_.push_back(&segment);
  if (!room) segment.due_from = std::max(kRecordAlign, (fill.end - kFirstLogRecord) / 2);
  queue_if_due(segment);
}

void LogSegments::seal_all() {
  MutexLock const lock(mutex_);
  empty_hands_locked();
  for (auto const& each : segments_) {
    if (!each->open_in_pool || each->use == LogSegment::Use::free) continue;
    PERDURE_ASSERT(each->use != LogSegment::Use::owned);
    seal(*each, each->fill.end);
  }
  order();
}

}  // namespace perdure::pm
