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

std::uint32_t crc_of(SegmentHeader header) {
  header.crc = 0;
  header.next = 0;
  return crc32c(0, &header, sizeof header);
}

Status damaged(std::string what) {
  return {Code::corrupt, std::move(what) + "; restore the pool from a copy"};
}

/// Without the entries that undo it.
EntryLog::Extent saying(EntryLog::Extent extent) {
  if (extent.kind == ExtentKind::part) extent.entries /= 2;
  return extent;
}

}  // namespace

std::uint64_t EntryLog::cells_each() const {
#if defined(PERDURE_EXPLORE)
  return 16;  // so that batches of a few operations go on in other segments
#else
  return cells_in(pool_->superblock_bytes(), cell_bytes_);
#endif
}

std::byte* EntryLog::cell(std::uint64_t position) const {
  PERDURE_ASSERT(position < segments_.size() * cells_each());
  std::uint64_t const segment = segments_[position / cells_each()];
  return pool_->base() + cell_in(segment, position % cells_each(), cell_bytes_).bytes;
}

/// Calls f(cell, begin, bytes) for what each of the cells from there on has of an extent's head.
template <class F>
void EntryLog::each_of_head(std::uint64_t position, F f) const {
  for (std::size_t begin = 0; begin < sizeof(ExtentHead); begin += cell_bytes_, ++position)
    f(cell(position), begin, std::min<std::size_t>(cell_bytes_, sizeof(ExtentHead) - begin));
}

// ------------------------------------------------------------------------------------------------
// Segments

SegmentHeader EntryLog::header_at(std::uint64_t segment) const {
  SegmentHeader header;
  pm::read_bytes(&header, pool_->base() + segment, sizeof header);
  return header;
}

bool EntryLog::is_segment(std::uint64_t at, std::uint64_t number) const {
  if (!pool_->is_free_run(Offset{at}, 1)) return false;
  SegmentHeader const header = header_at(at);
  return header.magic == kSegmentMagic && header.crc == crc_of(header) && header.log_id == id_ &&
         header.number == number;
}

void EntryLog::write_header(std::uint64_t segment, std::uint64_t number) const {
  SegmentHeader header{kSegmentMagic, 0, id_, number, 0, {}};
  header.crc = crc_of(header);
  pm::write_bytes(pool_->base() + segment, &header, sizeof header);
}

/// Its header is ordered before the word that leads to it; that word is ordered with the extent
/// that goes on there.
void EntryLog::link(std::uint64_t segment) {
  write_header(segment, first_number_ + segments_.size());
  if (!mutated("entry_segment_linked_early")) pm::order();
  if (!segments_.empty()) {
    std::byte* const last = pool_->base() + segments_.back();
    pm::store_word(reinterpret_cast<std::uint64_t*>(last + offsetof(SegmentHeader, next)), segment);
  }
  segments_.push_back(segment);
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
  root.set(kEntryNumbers, 0, above);
  pool_->publish_root(root);
}

Status EntryLog::create() {
  PERDURE_ASSERT(segments_.empty() && used() == 0);
  id_ = any_id();
  if (Status s = add_segment(); !s.ok()) return s;
  pm::zero_bytes(cell(0), head_cells() * cell_bytes_);
  publish(segments_[0], 0, 0);
  return {};
}

Status EntryLog::attach() {
  pm::RootEntry const* const first = pool_->root().find(kEntrySegments);
  pm::RootEntry const* const above = pool_->root().find(kEntryNumbers);
  if (first == nullptr || above == nullptr || !pool_->is_free_run(Offset{first->offset}, 1) ||
      first->value >= cells_each())
    return damaged("the root names a log of entries that cannot be there");
  SegmentHeader const header = header_at(first->offset);
  id_ = header.log_id;
  first_number_ = header.number;
  for (std::uint64_t at = first->offset; at != 0; at = header_at(at).next) {
    if (!is_segment(at, first_number_ + segments_.size()))
      return damaged("the log of entries has no segment at byte " + std::to_string(at) +
                     ", where one should be");
    pool_->claim_run(Offset{at}, 1);
    segments_.push_back(at);
  }
  begin_ = end_ = last_begin_ = first->value;
  last_ = before_last_ = above->value;
  return {};
}

// ------------------------------------------------------------------------------------------------
// Reading

std::uint64_t EntryLog::check_of(ExtentHead const& head) const {
  std::byte bytes[sizeof head];
  std::memcpy(bytes, &head, sizeof head);
  std::memcpy(bytes + offsetof(ExtentHead, check), &id_, sizeof id_);
  return hash_bytes(bytes, sizeof bytes);
}

/// Only its head has been looked at.
std::optional<EntryLog::Extent> EntryLog::extent_at(std::uint64_t position) const {
  std::uint64_t const cells = segments_.size() * cells_each();
  if (position + head_cells() > cells) return std::nullopt;
  ExtentHead head;
  auto* const bytes = reinterpret_cast<std::byte*>(&head);
  each_of_head(position, [&](std::byte const* from, std::size_t begin, std::size_t n) {
    pm::read_bytes(bytes + begin, from, n);
  });
  std::uint64_t const first = position + head_cells();
  if (head.number <= last_ || head.entries > cells - first || head.check != check_of(head))
    return std::nullopt;
  return Extent{head.number, head.entries, static_cast<ExtentKind>(head.kind), first, head.sum};
}

void EntryLog::copy(Extent const& extent, std::uint64_t from, std::span<std::byte> to) const {
  std::size_t const n = to.size() / cell_bytes_;
  PERDURE_ASSERT(to.size() % cell_bytes_ == 0 && from + n <= extent.entries);
  for (std::size_t done = 0; done < n;) {
    std::uint64_t const position = extent.first + from + done;
    std::size_t const here =
        std::min<std::size_t>(n - done, cells_each() - position % cells_each());
    pm::read_bytes(&to[done * cell_bytes_], cell(position), here * cell_bytes_);
    done += here;
  }
}

std::uint64_t EntryLog::sum_of_entries(Extent const& extent, exec::Workers& workers) const {
  constexpr std::uint64_t kMany = 256;
  std::atomic<std::uint64_t> sum{0};
  workers.for_chunks(extent.entries, kChunk, [&](std::size_t begin, std::size_t end) {
    std::array<std::byte, kMany * cell_bytes_for(kMostEntryKey)> some;
    std::uint64_t mine = 0;
    for (std::size_t from = begin; from < end; from += kMany) {
      std::size_t const n = std::min<std::size_t>(kMany, end - from);
      copy(extent, from, std::span(some).first(n * cell_bytes_));
      for (std::size_t i = 0; i < n; ++i) mine += sum_of(&some[i * cell_bytes_], cell_bytes_);
    }
    sum += mine;
  });
  return sum;
}

bool EntryLog::is_whole(Extent const& extent, exec::Workers& workers) const {
  if (extent.kind == ExtentKind::commit) return extent.entries == 0;
  return sum_of_entries(saying(extent), workers) == extent.sum;
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
  if (position >= segments_.size() * each) return false;
  std::mutex mutex;
  std::vector<Extent> heads;
  auto const look = [&](std::uint64_t at) {
    auto const extent = extent_at(at);
    if (!extent) return;
    std::lock_guard const lock(mutex);
    heads.push_back(*extent);
  };
  std::uint64_t const first = position / each;
  workers.for_chunks(segments_.size() - first, 1, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t segment = first + begin; segment < first + end; ++segment) {
      std::byte const* const cells = cell(segment * each);
      for (std::uint64_t i = segment == first ? position % each : 0; i < each; ++i)
        if (may_be_head(cells + i * cell_bytes_)) look(segment * each + i);
    }
  });
  return std::ranges::any_of(heads,
                             [&](Extent const& extent) { return is_whole(extent, workers); });
}

/// Whether parts count is not known before what follows them.
Status EntryLog::take(Extent const& extent, Take const& f) {
  if (static_cast<std::uint32_t>(extent.kind) > kLastExtentKind)
    return {Code::unsupported,
            "the log of entries has a batch of a kind that this build does not "
            "know; open it with the build that wrote it"};
  if (extent.kind == ExtentKind::commit && extent.sum != 0) committed_ = extent.sum;
  last_parts_.reset();
  if (extent.kind == ExtentKind::part && !mutated("part_counts_alone")) {
    parts_.push_back(extent);
    return {};
  }
  if (extent.kind != ExtentKind::commit) {
    if (parts_.empty()) return f(saying(extent));
    return damaged("the log of entries has no end of the transaction before the batch of number " +
                   std::to_string(extent.number));
  }
  for (Extent const& part : parts_)
    if (Status s = f(saying(part)); !s.ok()) return s;
  end_parts((extent.sum & pm::kEpochRevertible) != 0);
  return {};
}

/// A commit follows them.
void EntryLog::end_parts(bool revertible) {
  last_parts_.reset();
  if (revertible) last_parts_ = std::move(parts_);
  parts_.clear();
}

Status EntryLog::read(exec::Workers& workers, Take const& f) {
  PERDURE_ASSERT(!segments_.empty());
  for (;;) {
    auto const extent = extent_at(end_);
    bool const whole = extent && (is_whole(*extent, workers) || mutated("torn_extent_counts"));
    if (!whole) {
      if (!another_follows(end_ + 1, workers)) return {};
      return damaged("the log of entries is damaged behind the batch of number " +
                     std::to_string(last_));
    }
    last_begin_ = end_;
    before_last_ = last_;
    if (Status s = take(*extent, f); !s.ok()) return s;
    end_ = extent->first + extent->entries;
    last_ = extent->number;
  }
}

void EntryLog::drop_last() {
  end_ = last_begin_;
  last_ = before_last_;
}

/// At the log's end.
void EntryLog::zero_head() {
  std::uint64_t const cells = std::min(head_cells(), room());
  for (std::uint64_t i = 0; i < cells; ++i) pm::zero_bytes(cell(end_ + i), cell_bytes_);
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
  end_ -= head_cells();
  zero_head();
}

// ------------------------------------------------------------------------------------------------
// Writing

Status EntryLog::reserve(std::uint64_t entries) {
  std::size_t const before = segments_.size();
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
  if (segments == segments_.size()) return;
  std::byte* const last = pool_->base() + segments_[segments - 1];
  pm::store_word(reinterpret_cast<std::uint64_t*>(last + offsetof(SegmentHeader, next)), 0);
  pm::order();
  for (std::size_t i = segments; i < segments_.size(); ++i)
    pool_->give_run(Offset{segments_[i]}, 1);
  segments_.resize(segments);
}

EntryRegion EntryLog::next() const { return region_at(end_ + head_cells()); }

std::span<std::uint64_t const> EntryLog::segments_for(std::uint64_t entries) const {
  std::uint64_t const begin = end_ + head_cells();
  PERDURE_ASSERT(entries == 0 || begin + entries <= segments_.size() * cells_each());
  return segments_of(begin, begin + std::max<std::uint64_t>(entries, 1));
}

EntryRegion EntryLog::region_at(std::uint64_t begin) const {
  EntryRegion region;
  region.first = begin % cells_each();
  region.cells_each = static_cast<std::uint32_t>(cells_each());
  region.cell_bytes = cell_bytes_;
  return region;
}

std::span<std::uint64_t const> EntryLog::segments_of(std::uint64_t begin, std::uint64_t end) const {
  PERDURE_ASSERT(begin < end);
  std::uint64_t const first = begin / cells_each(), behind = (end - 1) / cells_each() + 1;
  return std::span(segments_).subspan(first, std::min(behind, segments_.size()) - first);
}

void EntryLog::seal(std::uint64_t number, std::uint64_t entries, ExtentKind kind,
                    std::uint64_t sum) {
  PERDURE_ASSERT(number > last_ && head_cells() + entries <= room());
  bool const ends = kind == ExtentKind::commit, goes_on = kind == ExtentKind::part;
  PERDURE_ASSERT(parts_.empty() || ends || goes_on || mutated("abort_keeps_parts") ||
                 mutated("copy_swallows_parts"));
  ExtentHead head{number, static_cast<std::uint32_t>(entries), static_cast<std::uint32_t>(kind),
                  sum, 0};
  head.check = check_of(head);
  auto const* const bytes = reinterpret_cast<std::byte const*>(&head);
  each_of_head(end_, [&](std::byte* to, std::size_t begin, std::size_t n) {
    pm::write_bytes(to, bytes + begin, n);
  });
  last_parts_.reset();
  if (goes_on) parts_.push_back({number, entries, kind, end_ + head_cells(), sum});
  if (ends) end_parts((sum & pm::kEpochRevertible) != 0);
  end_ += head_cells() + entries;
  last_ = number;
}

void EntryLog::release_before(Mark const& mark) {
  PERDURE_ASSERT(begin_ <= mark.position && mark.position < end_);
  PERDURE_ASSERT(parts_.empty() || mutated("copy_swallows_parts"));
  parts_.clear();
  auto const gone = static_cast<std::ptrdiff_t>(mark.position / cells_each());
  std::uint64_t const fell = static_cast<std::uint64_t>(gone) * cells_each();
  auto const rest = segments_.begin() + gone;
  std::uint64_t const first = *rest, begin = mark.position - fell;
  bool const late = mutated("segments_used_before_root");
  if (!late) publish(first, begin, mark.above);  // after an ordering point of its own
  std::vector<std::uint64_t> const free(segments_.begin(), rest);
  segments_.erase(segments_.begin(), rest);
  first_number_ += free.size();
  begin_ = begin;
  end_ -= fell;
  for (std::uint64_t const segment : free) link(segment);
  if (late) publish(first, begin, mark.above);
}

}  // namespace perdure::wal
