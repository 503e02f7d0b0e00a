#include "wal/entry_log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint64_t kChunk = 1u << 14;  // cells that a worker takes at once

std::uint64_t any_id() {
#if defined(PERDURE_EXPLORE)
  return 1;  // a run follows from its seed
#else
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
#endif
}

Status damaged(std::string what) {
  return {
      Code::corrupt,
      std::move(what) +
          "; nothing was changed: restore a snapshot, or open it with repair (repair=True, perdure "
          "verify --repair), which mends what it can and says what it drops"};
}

}  // namespace

std::byte* EntryLog::cell(std::uint64_t position) const {
  return pool_->base() + cells_.offset(position).bytes;
}

// ------------------------------------------------------------------------------------------------
// Segments

bool EntryLog::is_segment(std::uint64_t at, std::uint64_t number) const {
  return pool_->is_free_run(Offset{at}, 1) && cells_.is_segment(at, number);
}

void EntryLog::write_header(std::uint64_t segment, std::uint64_t number) const {
  SegmentHeader header{kSegmentMagic, 0, cells_.id, number, 0, {}};
  header.crc = EntryCells::crc_of(header);
  pm::write_bytes(pool_->base() + segment, &header, sizeof header);
}

/// Its header is ordered before the word that leads to it; that word is ordered with the extent
/// that goes on there.
void EntryLog::link(std::uint64_t segment) {
  write_header(segment, cells_.first_number + cells_.segments.size());
  if (!mutated("entry_segment_linked_early")) pm::order();
  if (!cells_.segments.empty()) {
    std::byte* const last = pool_->base() + cells_.segments.back();
    pm::store_word(reinterpret_cast<std::uint64_t*>(last + offsetof(SegmentHeader, next)), segment);
  }
  cells_.segments.push_back(segment);
}

Status EntryLog::add_segment() {
  auto run = pool_->take_run(1);
  if (!run) return run.status();
  link(run->bytes);
  return {};
}

void EntryLog::publish(std::uint64_t first_segment, std::uint64_t begin, std::uint64_t above) {
  pm::Root root = pool_->root();
  root.set(kEntrySegments, first_segment, begin);
  root.set(kEntryNumbers, ordered_, above);
  root.remove(kEntrySessions);  // one that is over is in front of `begin`
  pool_->publish_root(root);
  above_ = above;
}

void EntryLog::note_ordered(pm::Root& root) {
  ordered_ = last_;
  root.set(kEntryNumbers, ordered_, above_);
}

Status EntryLog::create() {
  PERDURE_ASSERT(cells_.segments.empty() && used() == 0);
  cells_.id = any_id();
  if (Status s = add_segment(); !s.ok()) return s;
  pm::zero_bytes(cell(0), head_cells() * cells_.cell_bytes());
  publish(cells_.segments[0], 0, 0);
  return {};
}

Status EntryLog::attach() {
  pm::RootEntry const* const first = pool_->root().find(kEntrySegments);
  pm::RootEntry const* const above = pool_->root().find(kEntryNumbers);
  if (first == nullptr || above == nullptr || !pool_->is_free_run(Offset{first->offset}, 1) ||
      first->value >= cells_each())
    return damaged("the root names a log of entries that cannot be there");
  SegmentHeader const header = cells_.header_at(first->offset);
  cells_.id = header.log_id;
  cells_.first_number = header.number;
  for (std::uint64_t at = first->offset; at != 0; at = cells_.header_at(at).next) {
    if (!is_segment(at, cells_.first_number + cells_.segments.size()))
      return damaged("the log of entries has no segment at byte " + std::to_string(at) +
                     ", where one should be");
    pool_->claim_run(Offset{at}, 1);
    cells_.segments.push_back(at);
  }
  begin_ = end_ = last_begin_ = first->value;
  last_ = before_last_ = above_ = above->value;
  ordered_ = above->offset;
  return {};
}

// ------------------------------------------------------------------------------------------------
// Reading

/// Only its head has been looked at.
std::optional<EntryLog::Extent> EntryLog::extent_at(std::uint64_t position) const {
  auto const extent = cells_.head_at(position, last_);
  if (!extent || extent->entries > cells_.cells() - extent->first) return std::nullopt;
  return extent;
}

std::uint64_t EntryLog::sum_of_entries(Extent const& extent, exec::Workers& workers) const {
  std::atomic<std::uint64_t> sum{0};
  workers.for_chunks(extent.entries, kChunk, [&](std::size_t begin, std::size_t end) {
    sum += cells_.sum_of_cells(extent, begin, end);
  });
  return sum;
}

bool EntryLog::is_whole(Extent const& extent, exec::Workers& workers) const {
  return EntryCells::is_borne_out(extent, [&] { return sum_of_entries(extent.saying(), workers); });
}

/// By its first word alone. Most cells behind the log's end have never been written.
bool EntryLog::may_be_head(std::byte const* cell) const {
  std::uint64_t number = 0;
  pm::read_bytes(&number, cell, sizeof number);
  return number > last_;
}

/// A head above all that were read, which its extent's entries bear out. A crash can leave none:
/// the extent before it was ordered first. Behind the last extent there may be as many cells as the
/// log has entries.
bool EntryLog::another_follows(std::uint64_t position, exec::Workers& workers) const {
  std::uint64_t const each = cells_each();
  if (position >= cells_.segments.size() * each) return false;
  std::mutex mutex;
  std::vector<Extent> heads;
  auto const look = [&](std::uint64_t at) {
    auto const extent = extent_at(at);
    if (!extent) return;
    std::lock_guard const lock(mutex);
    heads.push_back(*extent);
  };
  std::uint64_t const first = position / each;
  workers.for_chunks(cells_.segments.size() - first, 1, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t segment = first + begin; segment < first + end; ++segment) {
      std::byte const* const cells = cell(segment * each);
      for (std::uint64_t i = segment == first ? position % each : 0; i < each; ++i)
        if (may_be_head(cells + i * cells_.cell_bytes())) look(segment * each + i);
    }
  });
  return std::ranges::any_of(heads,
                             [&](Extent const& extent) { return is_whole(extent, workers); });
}

/// A session's end stands directly behind it, and nothing else does.
Status EntryLog::fits_session(Extent const& extent, exec::Workers& workers) const {
  bool const ends = extent.kind == ExtentKind::session_end;
  std::string const number = std::to_string(extent.number);
  if (ends != session_.has_value())
    return damaged("the log of entries has " +
                   std::string(ends ? "no device session before the end of number "
                                    : "no end of the device session before the batch of number ") +
                   number);
  if (!ends) return {};
  if (sum_of_entries(*session_, workers) == extent.sum) return {};
  return damaged("the log of entries is damaged in the device session of number " +
                 std::to_string(session_->number));
}

/// Whether parts count is not known before what follows them.
Status EntryLog::take(Extent const& extent, Take const& f, exec::Workers& workers) {
  if (static_cast<std::uint32_t>(extent.kind) > kLastExtentKind)
    return {Code::unsupported,
            "the log of entries has a batch of a kind that this build does not "
            "know; open it with the build that wrote it"};
  last_parts_.reset();
  if (Status s = fits_session(extent, workers); !s.ok()) return s;
  session_.reset();
  if (extent.kind == ExtentKind::part && !mutated("part_counts_alone")) {
    parts_.push_back(extent);
    return {};
  }
  if (!is_commit(extent.kind)) {
    if (extent.kind == ExtentKind::session) session_ = extent;
    if (parts_.empty()) return f(extent.saying());
    return damaged("the log of entries has no end of the transaction before the batch of number " +
                   std::to_string(extent.number));
  }
  for (Extent const& part : parts_)
    if (Status s = f(part.saying()); !s.ok()) return s;
  note_commit(extent);
  return {};
}

/// That was read, of all parts before it.
void EntryLog::note_commit(Extent const& extent) {
  std::uint64_t number = extent.sum;
  undo_said_.reset();
  if (extent.kind == ExtentKind::undoable_commit) {
    LogEntry entry{};
    pm::read_bytes(&entry, cell(extent.first), sizeof entry);
    number = entry.key;
    undo_said_ = entry.what;
  }
  if (number != 0) committed_ = number;
  commit_entries_ = extent.entries;
  end_parts((number & pm::kEpochRevertible) != 0);
}

/// Of what stands behind the entries of parts.
std::uint64_t EntryLog::sum_of_undo(std::span<Extent const> parts, exec::Workers& workers) const {
  std::atomic<std::uint64_t> sum{0};
  for (Extent const& part : parts) {
    std::uint64_t const half = part.entries / 2;
    workers.for_chunks(half, kChunk, [&](std::size_t begin, std::size_t end) {
      sum += cells_.sum_of_cells(part, half + begin, half + end);
    });
  }
  return sum;
}

/// A commit follows them.
void EntryLog::end_parts(bool revertible) {
  last_parts_.reset();
  if (revertible) last_parts_ = std::move(parts_);
  parts_.clear();
}

Status EntryLog::read(exec::Workers& workers, Take const& f) {
  PERDURE_ASSERT(!cells_.segments.empty());
  for (;;) {
    auto const extent = extent_at(end_);
    bool const whole = extent && (is_whole(*extent, workers) || mutated("torn_extent_counts"));
    if (!whole) {
      if (!another_follows(end_ + 1, workers)) break;
      return damaged("the log of entries is damaged behind the batch of number " +
                     std::to_string(last_));
    }
    last_begin_ = end_;
    before_last_ = last_;
    if (Status s = take(*extent, f, workers); !s.ok()) return s;
    end_ = extent->end();
    last_ = extent->number;
  }
  if (!last_parts_ || !undo_said_) return {};
  CommitEntry const is{0, sum_of_undo(*last_parts_, workers)};
  if (is.sum_said() != *undo_said_) last_parts_.reset();  // it stays committed
  return {};
}

void EntryLog::drop_last() {
  end_ = last_begin_;
  last_ = before_last_;
}

/// At the log's end.
void EntryLog::zero_head() {
  std::uint64_t const cells = std::min(head_cells(), room());
  for (std::uint64_t i = 0; i < cells; ++i) pm::zero_bytes(cell(end_ + i), cells_.cell_bytes());
  pm::order();
}

/// A batch that was dropped must not come back when another of its words reaches the medium.
void EntryLog::finish_reading() {
  zero_head();
  drop_parts();
}

/// The newest first, one by one: behind the log's end there is never one that is whole.
void EntryLog::drop_parts() {
  if (mutated("abort_keeps_parts")) return;
  for (; !parts_.empty(); parts_.pop_back()) {
    end_ = parts_.back().first - head_cells();
    if (!mutated("parts_stay_behind_the_end")) zero_head();
  }
}

void EntryLog::reopen_parts() {
  PERDURE_ASSERT(parts_.empty() && last_parts_.has_value());
  parts_ = std::move(*last_parts_);
  last_parts_.reset();
  end_ -= head_cells() + commit_entries_;
  zero_head();
}

// ------------------------------------------------------------------------------------------------
// Writing

Status EntryLog::reserve(std::uint64_t entries) {
  std::size_t const before = cells_.segments.size();
  while (room() < head_cells() + entries) {
    Status const s = add_segment();
    if (s.ok()) continue;
    give_back_behind(before);
    return s;
  }
  return {};
}

/// Of so many segments; the others hold nothing. They are free once nothing leads to them, durably.
void EntryLog::give_back_behind(std::size_t segments) {
  PERDURE_ASSERT(segments > 0 && end_ <= segments * cells_each());
  if (segments == cells_.segments.size()) return;
  std::byte* const last = pool_->base() + cells_.segments[segments - 1];
  pm::store_word(reinterpret_cast<std::uint64_t*>(last + offsetof(SegmentHeader, next)), 0);
  pm::order();
  for (std::size_t i = segments; i < cells_.segments.size(); ++i)
    pool_->give_run(Offset{cells_.segments[i]}, 1);
  cells_.segments.resize(segments);
}

EntryRegion EntryLog::next() const { return region_at(end_ + head_cells()); }

std::span<std::uint64_t const> EntryLog::segments_for(std::uint64_t entries) const {
  std::uint64_t const begin = end_ + head_cells();
  PERDURE_ASSERT(entries == 0 || begin + entries <= cells_.cells());
  return segments_of(begin, begin + std::max<std::uint64_t>(entries, 1));
}

EntryRegion EntryLog::region_at(std::uint64_t begin) const {
  EntryRegion region;
  region.first = begin % cells_each();
  region.cells_each = static_cast<std::uint32_t>(cells_each());
  region.cell_bytes = cells_.cell_bytes();
  return region;
}

std::span<std::uint64_t const> EntryLog::segments_of(std::uint64_t begin, std::uint64_t end) const {
  PERDURE_ASSERT(begin < end);
  std::uint64_t const first = begin / cells_each(), behind = (end - 1) / cells_each() + 1;
  return std::span(cells_.segments)
      .subspan(first, std::min(behind, cells_.segments.size()) - first);
}

void EntryLog::seal(std::uint64_t number, std::uint64_t entries, ExtentKind kind,
                    std::uint64_t sum) {
  PERDURE_ASSERT(number > last_ && head_cells() + entries <= room());
  PERDURE_ASSERT(session_.has_value() == (kind == ExtentKind::session_end));
  bool const ends = is_commit(kind), goes_on = kind == ExtentKind::part;
  PERDURE_ASSERT(parts_.empty() || ends || goes_on || mutated("abort_keeps_parts") ||
                 mutated("copy_swallows_parts"));
  ExtentHead head{number, static_cast<std::uint32_t>(entries), static_cast<std::uint32_t>(kind),
                  sum, 0};
  head.check = cells_.check_of(head);
  auto const* const bytes = reinterpret_cast<std::byte const*>(&head);
  cells_.each_of_head(end_, [&](std::uint64_t at, std::size_t begin, std::size_t n) {
    pm::write_bytes(cell(at), bytes + begin, n);
  });
  last_parts_.reset();
  if (goes_on) parts_.push_back({number, entries, kind, end_ + head_cells(), sum});
  if (ends) end_parts(kind == ExtentKind::undoable_commit);
  if (ends) commit_entries_ = entries;
  end_ += head_cells() + entries;
  last_ = number;
}

void EntryLog::commit(std::uint64_t number, std::uint64_t undo_number, exec::Workers& workers) {
  if ((undo_number & pm::kEpochRevertible) == 0)
    return seal(number, 0, ExtentKind::commit, undo_number);
  CommitEntry const entry{undo_number, sum_of_undo(parts_, workers)};
  std::byte* const to = cell(end_ + head_cells());
  LogEntry const first = entry.first();
  pm::zero_bytes(to, cell_bytes());
  pm::write_bytes(to, &first, sizeof first);
  seal(number, 1, ExtentKind::undoable_commit, sum_of(entry, cell_bytes()));
}

/// By workers: a session may have as many cells as the log has room for.
void EntryLog::zero_cells(std::uint64_t begin, std::uint64_t n, exec::Workers& workers) {
  workers.for_chunks(n, kChunk, [&](std::size_t from, std::size_t to) {
    while (from < to) {
      std::uint64_t const position = begin + from;
      std::uint64_t const here =
          std::min<std::uint64_t>(to - from, cells_each() - position % cells_each());
      pm::zero_bytes(cell(position), here * cell_bytes());
      from += here;
    }
  });
}

/// Older builds must not take what follows for the log's end: the root says that they cannot.
void EntryLog::note_session() {
  if (pool_->root().find(kEntrySessions) != nullptr) return;
  pm::Root root = pool_->root();
  root.set(kEntrySessions, 0, 0);
  pool_->publish_root(root);
}

void EntryLog::begin_session(std::uint64_t number, std::uint64_t cells, exec::Workers& workers) {
  PERDURE_ASSERT(parts_.empty() && 2 * head_cells() + cells <= room());
  note_session();
  if (!mutated("session_cells_not_zeroed")) zero_cells(end_ + head_cells(), cells, workers);
  if (!mutated("session_head_before_zeros")) pm::order();
  std::uint64_t const first = end_ + head_cells();
  seal(number, cells, ExtentKind::session, 0);
  pm::order();
  session_ = Extent{number, cells, ExtentKind::session, first, 0};
}

void EntryLog::end_session(std::uint64_t number, exec::Workers& workers) {
  PERDURE_ASSERT(session_.has_value() && session_->end() == end_);
  pm::order();  // all that others wrote, or an opening read
  seal(number, 0, ExtentKind::session_end, sum_of_entries(*session_, workers));
  session_.reset();
  pm::order();
}

void EntryLog::release_before(Mark const& mark) {
  PERDURE_ASSERT(begin_ <= mark.position && mark.position < end_);
  PERDURE_ASSERT(parts_.empty() || mutated("copy_swallows_parts"));
  parts_.clear();
  auto const gone = static_cast<std::ptrdiff_t>(mark.position / cells_each());
  std::uint64_t const fell = static_cast<std::uint64_t>(gone) * cells_each();
  auto const rest = cells_.segments.begin() + gone;
  std::uint64_t const first = *rest, begin = mark.position - fell;
  bool const late = mutated("segments_used_before_root");
  if (!late) publish(first, begin, mark.above);  // after an ordering point of its own
  std::vector<std::uint64_t> const free(cells_.segments.begin(), rest);
  cells_.segments.erase(cells_.segments.begin(), rest);
  cells_.first_number += free.size();
  begin_ = begin;
  end_ -= fell;
  for (std::uint64_t const segment : free) link(segment);
  if (late) publish(first, begin, mark.above);
}

}  // namespace perdure::wal
