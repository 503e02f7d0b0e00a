#include "pm/value_log/segments.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

std::uint32_t header_sum(LogSegmentHeader header) {
  header.state = 0;
  return checksum(header);
}

std::uint64_t* state_word(std::byte* base, Offset segment) {
  return reinterpret_cast<std::uint64_t*>(base + segment.bytes + offsetof(LogSegmentHeader, state));
}

}  // namespace

LogSegments::LogSegments(Pool& pool, Mutex& memory, LogSettings const& options)
    : pool_(&pool),
      memory_(&memory),
      options_(options),
      pool_bytes_(pool.bytes()),
      by_superblock_(pool.addresses().size() / pool.superblock_bytes()) {
  PERDURE_ASSERT(options.segment_bytes % pool.superblock_bytes() == 0 &&
                 options.segment_bytes >= pool.superblock_bytes() &&
                 options.segment_bytes <= kMostSegment);
}

std::uint64_t LogSegments::run() const {
  return options_.segment_bytes / pool_->superblock_bytes();
}

LogSegment& LogSegments::attach(Offset at) {
  LogSegment& segment = *segments_.emplace_back(std::make_unique<LogSegment>());
  segment.at = at;
  std::uint64_t const first = at.bytes / pool_->superblock_bytes();
  for (std::uint64_t i = first; i < first + run(); ++i) by_superblock_[i] = &segment;
  return segment;
}

LogSegment& LogSegments::of(Offset item) const {
  LogSegment* const segment = by_superblock_[item.bytes / pool_->superblock_bytes()];
  PERDURE_ASSERT(segment != nullptr);
  return *segment;
}

void LogSegments::store_state(LogSegment const& segment, LogState const& state) const {
  store_word(state_word(pool_->base(), segment.at), state.word());
}

/// Its header is durable before its magic, and that before its state; so a crash leaves a segment,
/// or superblocks that are nobody's.
Result<LogSegment*> LogSegments::add() {
  MutexLock const lock(*memory_);
  auto at = pool_->take_run(run());
  if (!at) return at.status();
  pool_bytes_ = pool_->bytes();
  LogSegmentHeader header{};
  header.magic = kLogMagic;
  header.segment_bytes = static_cast<std::uint32_t>(options_.segment_bytes);
  header.pool_id = pool_->header().pool_id;
  header.crc = header_sum(header);
  LogSegmentHeader first = header;
  first.magic = 0;
  std::byte* const to = pool_->base() + at->bytes;
  write_bytes(to, &first, sizeof first);
  if (!mutated("vlog_header_not_ordered")) order();
  std::uint64_t word = 0;
  std::memcpy(&word, &header, sizeof word);
  store_word(reinterpret_cast<std::uint64_t*>(to), word);
  // before its state: with that, and without magic, it would look damaged
  if (!mutated("vlog_magic_not_ordered")) order();
  return &attach(*at);
}

void LogSegments::open(LogSegment& segment) {
  drop_partial(segment);
  if (segment.use == LogSegment::Use::free) {
    PERDURE_ASSERT(segment.generation + 1 < LogState::kGenerations);
    ++segment.generation;
    segment.outdated = 0;
    segment.lowest_death = LogSegment::kNoDeath;
    segment.open_in_pool = false;
  }
  segment.use = LogSegment::Use::owned;
  segment.due_from = LogSegment::kNever;
  if (segment.open_in_pool) return;
  store_state(segment, {segment.generation, LogState::Use::open, 0});
  // Before any record of that generation: of one that a crash left without it, the next use would
  // have the same generation, and the record would count again.
  if (!mutated("vlog_open_not_ordered")) order();
  segment.open_in_pool = true;
}

/// How many segments puts leave free, of so many.
std::uint64_t LogSegments::kept_free(std::uint64_t segments) const {
  return std::min<std::uint64_t>(std::max(options_.collectors, 1u) + 1, segments / 2);
}

LogSegment* LogSegments::take_partial(std::uint64_t bytes) {
  LogSegment* best = nullptr;  // the fullest
  for (LogSegment* const each : partial_) {
    bool const fits = each->fill.end + bytes <= options_.segment_bytes;
    if (fits && (best == nullptr || each->fill.end > best->fill.end)) best = each;
  }
  return best;
}

void LogSegments::drop_partial(LogSegment& segment) {
  if (segment.use == LogSegment::Use::partial) std::erase(partial_, &segment);
}

void LogSegments::fill(LogSegment& segment, LogFill const& fill) {
  filled_ += fill.end - segment.fill.end;
  tombstones_ += fill.tombstone_bytes - segment.fill.tombstone_bytes;
  segment.fill = fill;
}

/// One that has records already.
LogOwned LogSegments::take_begun(For what, std::uint64_t bytes) {
  // What tombstones have begun of the reserve stays theirs.
  bool const of_reserve = !leaves_reserve();
  bool const may = what != For::puts || !of_reserve;
  LogSegment* const partial = may ? take_partial(bytes) : nullptr;
  if (partial == nullptr) return take_parked_by_any(bytes);
  open(*partial);
  return {partial, partial->fill, of_reserve};
}

Status LogSegments::add_free() {
  auto added = add();
  if (!added) return added.status();
  free_.push_back(*added);
  return {};
}

LogOwned LogSegments::take_last_free(bool of_reserve) {
  LogSegment* const taken = free_.back();
  free_.pop_back();
  open(*taken);
  return {taken, taken->fill, of_reserve};
}

/// The reserve is for a pool that cannot grow: tombstones have what puts may have, as long as there
/// is any.
Result<LogOwned> LogSegments::take_free(For what) {
  Status more;
  if (what != For::collecting) {
    std::uint64_t kept = kept_free(segments_.size() + (free_.empty() ? 1 : 0));
    while (free_.size() <= kept && (more = add_free()).ok()) kept = kept_free(segments_.size());
    if (free_.size() > kept) return take_last_free(false);
    if (what == For::puts) return more;
  }
  // Where one segment is all that is left, collectors go on in it.
  bool const leaves_one = what == For::tombstones && kept_free(segments_.size()) > 1;
  while (free_.size() <= (leaves_one ? 1 : 0))
    if (more = add_free(); !more.ok()) return more;
  return take_last_free(true);
}

Result<LogOwned> LogSegments::take(For what, std::uint64_t bytes, bool any) {
  PERDURE_ASSERT(kFirstLogRecord + bytes <= options_.segment_bytes);
  std::uint64_t const least = any ? 0 : bytes;
  if (what != For::collecting)
    if (LogOwned const mine = take_parked(hands_[own_hand()], least); mine.segment != nullptr)
      return mine;
  MutexLock const lock(mutex_);
  if (LogOwned const begun = take_begun(what, least); begun.segment != nullptr) return begun;
  return take_free(what);
}

void LogSegments::seal(LogSegment& segment, std::uint64_t end) {
  store_state(segment, {segment.generation, LogState::Use::sealed, end});
  segment.open_in_pool = false;
}

void LogSegments::settle(LogSegment& segment, LogFill const& fill) {
  MutexLock const lock(mutex_);
  settle_locked(segment, fill);
}

void LogSegments::settle_locked(LogSegment& segment, LogFill const& fill) {
  PERDURE_ASSERT(segment.use == LogSegment::Use::owned);
  this->fill(segment, fill);
  if (segment.open_in_pool && !has_room(fill.end)) seal(segment, fill.end);
  segment.use = segment.open_in_pool ? LogSegment::Use::partial : LogSegment::Use::full;
  if (segment.use == LogSegment::Use::partial) partial_.push_back(&segment);
  if (segment.use == LogSegment::Use::full)
    segment.due_from = std::max(kRecordAlign, (fill.end - kFirstLogRecord) / 2);
  queue_if_due(segment);
  queue_for_tombstones();
  room_.notify_all();
}

void LogSegments::put_back(LogSegment& segment, LogSegment::Use use) {
  MutexLock const lock(mutex_);
  PERDURE_ASSERT(collecting_ > 0);
  --collecting_;
  // One that was freed already comes back at the next opening.
  if (segment.use == LogSegment::Use::collecting) segment.use = use;
  room_.notify_all();
}

void LogSegments::note_outdated(Offset item, std::uint64_t bytes, std::uint64_t death) {
  LogSegment& segment = of(item);
  if (!segment.note_outdated(bytes, death)) return;
  MutexLock const lock(mutex_);
  queue_if_due(segment);
}

void LogSegments::queue_if_due(LogSegment& segment) {
  if (segment.use == LogSegment::Use::full && segment.outdated.load() >= segment.due_from.load())
    queue(segment);
}

void LogSegments::queue(LogSegment& segment) {
  drop_partial(segment);
  segment.use = LogSegment::Use::queued;
  queue_.push_back(&segment);
  queued_ = queue_.size();
  work_.notify_one();
}

std::uint64_t LogSegments::lowest_death_locked() const {
  std::uint64_t lowest = LogSegment::kNoDeath;
  for (auto const& each : segments_)
    if (each->use != LogSegment::Use::free) lowest = std::min(lowest, each->lowest_death.load());
  return lowest;
}

std::uint64_t LogSegments::lowest_death() const {
  MutexLock const lock(mutex_);
  return lowest_death_locked();
}

/// Where tombstones take more than an eighth of the log, the segment whose death keeps most of them
/// goes next. Whoever owns it, or has it in the queue, is waited for.
void LogSegments::queue_for_tombstones() {
  if (tombstones_ * 8 <= filled_ || !queue_.empty()) return;
  LogSegment* lowest = nullptr;
  for (auto const& each : segments_) {
    if (each->use == LogSegment::Use::free) continue;
    if (lowest == nullptr || each->lowest_death.load() < lowest->lowest_death.load())
      lowest = each.get();
  }
  PERDURE_ASSERT(lowest != nullptr);  // some segment has those tombstones
  if (lowest->lowest_death.load() == LogSegment::kNoDeath) {  // no tombstone is needed
    auto const most = [](auto const& a, auto const& b) {
      return a->fill.tombstone_bytes < b->fill.tombstone_bytes;
    };
    lowest = std::max_element(segments_.begin(), segments_.end(), most)->get();
  }
  if (lowest->use == LogSegment::Use::full) queue(*lowest);
}

}  // namespace perdure::pm
