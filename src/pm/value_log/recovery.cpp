#include "pm/value_log/recovery.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

// The word of a record's header that has its tag.
constexpr std::size_t kTagWord = offsetof(RecordHeader, key_bytes);
static_assert(kTagWord == 8 && offsetof(RecordHeader, tag) == kTagWord + sizeof(std::uint32_t));

}  // namespace

void LogRecovery::find(LogRecovered& to) {
  std::vector<Offset> damaged;
  segments_->find(damaged);
  for (Offset const at : damaged)
    to.damage.push_back("the header of the log segment at byte " + std::to_string(at.bytes) +
                        " is damaged: what the segment holds is lost");
  scanned_.resize(segments_->all().size());
}

Status LogRecovery::scan(exec::Workers& workers, LogRecovered& to) {
  find(to);
  auto const segments = segments_->all();
  std::mutex mutex;
  Status failed;
  std::int64_t current = 0;
  workers.for_chunks(segments.size(), 1, [&](std::size_t begin, std::size_t end) {
    Tally tally{.index = (*make_index_)()};
    Status status;
    for (std::size_t i = begin; i < end && status.ok(); ++i)
      status = scan_segment(*segments[i], scanned_[i], tally);
    std::lock_guard const lock(mutex);
    if (!status.ok()) failed = status;
    to.records += tally.records;
    current += tally.current;
    to.last_sequence = std::max(to.last_sequence, tally.last_sequence);
    tombstones_.insert(tombstones_.end(), tally.tombstones.begin(), tally.tombstones.end());
  });
  if (!failed.ok()) return failed;
  note_holes(to);
  drop_tombstones(to);
  PERDURE_ASSERT(current >= 0);
  to.current = static_cast<std::uint64_t>(current);
  return {};
}

void LogRecovery::note_holes(LogRecovered& to) const {
  for (Scanned const& each : scanned_) {
    to.segments += each.state.use != LogState::Use::free;
    for (LogHole const& hole : each.holes) {
      if (!hole.damage) to.torn_bytes += hole.bytes;
      if (hole.damage)
        to.damage.push_back("the value log is damaged at byte " + std::to_string(hole.at.bytes) +
                            ": " + std::to_string(hole.bytes) +
                            " bytes of records are lost, and older values of their keys may show");
    }
  }
}

void LogRecovery::begin_count() {
  auto const segments = segments_->all();
  counted_.assign(segments.size(), {});
  by_unit_.assign(segments_->pool_bytes() / kLeastSuperblock, 0);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    scanned_[i] = {segments_->state_of(*segments[i]), {}, {}};
    counted_[i].seen.assign(segments_->segment_bytes() / kRecordAlign / 64, 0);
    std::uint64_t const first = segments[i]->at.bytes / kLeastSuperblock;
    for (std::uint64_t n = 0; n < segments_->segment_bytes() / kLeastSuperblock; ++n)
      by_unit_[first + n] = static_cast<std::uint32_t>(i + 1);
  }
}

/// Whose record lies there; none: nobody's.
std::optional<std::size_t> LogRecovery::segment_at(Offset at, LogRecord* found) const {
  std::uint64_t const unit = at.bytes / kLeastSuperblock;
  if (unit >= by_unit_.size() || by_unit_[unit] == 0) return std::nullopt;
  std::size_t const i = by_unit_[unit] - 1;
  LogState const& state = scanned_[i].state;
  std::uint64_t const from = segments_->all()[i]->at.bytes;
  bool const sealed = state.use == LogState::Use::sealed;
  std::uint64_t const end = from + (sealed ? state.end : segments_->segment_bytes());
  bool const possible = state.use != LogState::Use::free && at.bytes >= from + kFirstLogRecord &&
                        at.bytes + sizeof(RecordHeader) <= end;
  LogRecord record;
  if (!possible || !view_log_record(segments_->base(), end, at, record)) return std::nullopt;
  if (record.tag.generation != state.generation || record.tag.tombstone) return std::nullopt;
  if (record.header.sequence == 0 || at.bytes + record.bytes() > end) return std::nullopt;
  if (found != nullptr) *found = record;
  return i;
}

LogRecovery::Mark LogRecovery::use(Offset at) {
  LogRecord record;
  auto const segment = segment_at(at, &record);
  if (!segment) return Mark::invalid;
  Counted& counted = counted_[*segment];
  std::uint64_t const place = (at.bytes - segments_->all()[*segment]->at.bytes) / kRecordAlign;
  std::uint64_t const bit = std::uint64_t{1} << place % 64;
  if ((std::atomic_ref(counted.seen[place / 64]).fetch_or(bit) & bit) != 0) return Mark::again;
  std::atomic_ref(counted.bytes).fetch_add(record.bytes());
  std::atomic_ref<std::uint64_t> last(counted.last_sequence);
  for (std::uint64_t before = last.load(); before < record.header.sequence;)
    if (last.compare_exchange_weak(before, record.header.sequence)) break;
  return Mark::first;
}

void LogRecovery::end_count(LogRecovered& to) {
  auto const segments = segments_->all();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    Scanned& scanned = scanned_[i];
    if (scanned.state.use == LogState::Use::free) continue;
    if (scanned.state.use == LogState::Use::sealed)
      scanned.fill.end = scanned.state.end;
    else
      end_open(*segments[i], scanned);
    std::uint64_t const used = scanned.fill.end - kFirstLogRecord;
    PERDURE_ASSERT(counted_[i].bytes <= used);
    if (!mutated("vlog_outdated_not_counted"))
      segments[i]->note_outdated(used - counted_[i].bytes, LogSegment::kNoDeath);
    to.last_sequence = std::max(to.last_sequence, counted_[i].last_sequence);
  }
  note_holes(to);
  counted_ = {};
  by_unit_ = {};
}

void LogRecovery::end_open(LogSegment const& segment, Scanned& scanned) const {
  LogWalk walk(segments_->base(), segment.at, segments_->segment_bytes(), scanned.state.generation,
               0);
  for (LogRecord record; walk.next(record);)
    if (mutated("vlog_open_ends_early")) break;
  scanned.fill.end = walk.end();
  scanned.holes.assign(walk.holes().begin(), walk.holes().end());
}

Status LogRecovery::scan_segment(LogSegment& segment, Scanned& scanned, Tally& tally) {
  scanned.state = segments_->state_of(segment);
  if (scanned.state.use == LogState::Use::free) return {};
  bool const sealed = scanned.state.use == LogState::Use::sealed;
  LogWalk walk(segments_->base(), segment.at, segments_->segment_bytes(), scanned.state.generation,
               sealed ? scanned.state.end : 0);
  LogRecord record;
  tally.index->host().enters(Part::value);
  while (walk.next(record)) {
    tally.index->host().read(segments_->base() + record.at.bytes, record.bytes());
    ++tally.records;
    tally.last_sequence = std::max(tally.last_sequence, record.header.sequence);
    if (record.tag.tombstone) {
      scanned.fill.tombstone_bytes += record.bytes();
      scanned.fill.last_tombstone = std::max(scanned.fill.last_tombstone, record.header.sequence);
    }
    Status const offered = offer(record, tally);
    tally.index->host().enters(Part::value);
    if (!offered.ok()) return offered;
  }
  scanned.fill.end = walk.end();
  scanned.holes.assign(walk.holes().begin(), walk.holes().end());
  std::uint64_t useless = walk.cancelled_bytes();
  for (LogHole const& hole : scanned.holes) useless += hole.bytes;
  segment.note_outdated(useless, LogSegment::kNoDeath);
  return {};
}

/// Of two versions the newer counts, and the other has died by it. Two of one sequence are one
/// item, copied by a collection that a crash cut short.
Status LogRecovery::offer(LogRecord const& record, Tally& tally) {
  PieceKeys key;
  key.add(hash_bytes(record.key.data(), record.key.size()));
  KeysLocked const locked(*locks_, key);
  LogIndex& index = *tally.index;
  index.host().enters(Part::index);
  exec::EpochGuard const guard(index.epochs());
  std::uint64_t address = 0;
  index.find(std::span(&record.key, 1), std::span(&address, 1));
  LogRecord other;
  if (address != 0) {
    view_log_record(segments_->base(), segments_->pool_bytes(), Offset{address}, other);
    index.host().read(segments_->base() + address, sizeof(RecordHeader));
  }
  bool const newer = address == 0 || record.header.sequence > other.header.sequence;
  if (address != 0) {
    index.host().enters(Part::space);
    LogRecord const& loser = newer ? other : record;
    LogRecord const& winner = newer ? record : other;
    // An older tombstone brings nothing back: its death keeps none of the others.
    bool const matters = !loser.tag.tombstone;
    segments_->note_outdated(loser.at, loser.bytes(),
                             matters ? winner.header.sequence : LogSegment::kNoDeath);
  }
  if (!newer) return {};
  index.host().enters(Part::index);
  std::uint64_t before = 0;
  if (Status put = index.put(record.key, record.at.bytes, before); !put.ok()) return put;
  tally.current += !record.tag.tombstone;
  tally.current -= address != 0 && !other.tag.tombstone;
  if (record.tag.tombstone) tally.tombstones.push_back(record.at);
  return {};
}

void LogRecovery::drop_tombstones(LogRecovered& to) {
  auto const index = (*make_index_)();
  exec::EpochGuard const guard(index->epochs());
  for (Offset const at : tombstones_) {
    LogRecord tombstone;
    view_log_record(segments_->base(), segments_->pool_bytes(), at, tombstone);
    std::uint64_t address = 0;
    index->find(std::span(&tombstone.key, 1), std::span(&address, 1));
    if (address != at.bytes) continue;
    index->erase(tombstone.key);
    ++to.tombstones;
  }
}

/// A cancelled record over each, so that the next opening passes over it. Its tag goes first and
/// comes last: until it is there, a hole is what it was, and not a record of other sizes.
void LogRecovery::fill_holes() {
  for_each_hole([&](std::byte* at, LogHole const&, std::uint32_t) {
    store_word(reinterpret_cast<std::uint64_t*>(at + kTagWord), 0);
  });
  order();
  for_each_hole([&](std::byte* at, LogHole const& hole, std::uint32_t) {
    RecordHeader header{};
    header.value_bytes = static_cast<std::uint32_t>(hole.bytes - sizeof header);
    write_bytes(at, &header, kTagWord);
    store_word(reinterpret_cast<std::uint64_t*>(at + offsetof(RecordHeader, sequence)), 0);
  });
  order();
  for_each_hole([&](std::byte* at, LogHole const&, std::uint32_t generation) {
    std::uint64_t const tag = LogTag{generation, false, false}.word();
    store_word(reinterpret_cast<std::uint64_t*>(at + kTagWord), tag << 32);
  });
  order();
}

void LogRecovery::finish() {
  auto const segments = segments_->all();
  for (std::size_t i = 0; i < segments.size(); ++i)
    segments_->begin(*segments[i], scanned_[i].state, scanned_[i].fill);
  scanned_.clear();
  tombstones_ = {};
}

}  // namespace perdure::pm
