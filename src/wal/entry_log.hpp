// The host's side of the entry log: its segments in the pool, where extents begin and end, reading
// them back, and letting old segments go.
//
// Invariants: the root names the first segment and where in it the oldest extent begins; segments
// are chained, and one is linked only once its header is ordered; an extent is written behind all
// others, once those are ordered, and is there once the ordering point after seal() has passed; a
// segment is used again only once a root that does not name it is durable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/hooks.hpp"
#include "exec/workers.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"
#include "wal/entries.hpp"
#include "wal/entry_cells.hpp"

namespace perdure::wal {

/// Of the root: the first segment, and the cell at which the oldest extent begins.
inline constexpr std::string_view kEntrySegments = "entries";
/// Numbers of extents are above this one. Its offset is no offset: the number of the last extent
/// that an opening has found whole, values and all.
inline constexpr std::string_view kEntryNumbers = "entries.above";
/// The log may have extents of device sessions, which older builds would take for its end.
inline constexpr std::string_view kEntrySessions = "entries.session";

class EntryLog {
 public:
  explicit EntryLog(pm::Pool& pool) : pool_(&pool), cells_(pool.header()) {
    cells_.base = pool.base();
  }

  /// A log without an extent.
  Status create();
  /// Takes over the segments that the root's chain names. Where extents end is not known before
  /// read().
  Status attach();

  /// Positions count cells from the first segment's first one.
  using Extent = EntryExtent;
  using Take = std::function<Status(Extent const&)>;
  /// Calls f(extent) for each extent that counts, in their order, until one is not whole; parts
  /// come with their commit. What follows the last whole one was never acknowledged. Code::corrupt:
  /// a whole one follows, so acknowledged ones are damaged.
  Status read(exec::Workers& workers, Take const& f);
  /// The newest transaction of the undo log that an extent which was read commits, or 0; and
  /// whether it can be taken back.
  [[nodiscard]] std::uint64_t committed() const { return committed_ & ~pm::kEpochRevertible; }
  [[nodiscard]] bool committed_reverts() const { return committed_ != committed(); }
  /// Entries number from, from + 1, ... of an extent: whole cells.
  void copy(Extent const& extent, std::uint64_t from, std::span<std::byte> to) const {
    cells_.copy(extent, from, to);
  }
  /// Whether the extent that was read last had been ordered, values and all: an earlier opening
  /// found it so, or another was begun behind it, whose entries are not whole.
  [[nodiscard]] bool last_was_ordered() const {
    return (last_ <= ordered_ && !mutated("last_batch_judged_again")) ||
           extent_at(end_).has_value();
  }
  /// In the root that is published next: whatever has been read is.
  void note_ordered(pm::Root& root);
  /// The extent that was read last does not count: its values are not whole.
  void drop_last();
  /// Nothing that was not read, and no part that no commit followed, can be taken for an extent
  /// later, and what was read is durable.
  void finish_reading();

  /// Room for an extent of so many entries; refused, there is as much as before.
  Status reserve(std::uint64_t entries);
  /// Where the next extent's entries go: in segments(), which begins with the one of the first.
  [[nodiscard]] EntryRegion next() const;
  [[nodiscard]] std::span<std::uint64_t const> segments_for(std::uint64_t entries) const;
  /// The segments in which cells from `begin` up to `end` lie, and where there the first of them
  /// does.
  [[nodiscard]] std::span<std::uint64_t const> segments_of(std::uint64_t begin,
                                                           std::uint64_t end) const;
  [[nodiscard]] EntryRegion region_at(std::uint64_t begin) const;
  /// The head of the extent whose entries have been written. Ordered by the caller.
  void seal(std::uint64_t number, std::uint64_t entries, ExtentKind kind, std::uint64_t sum);
  /// Of all parts, which have been ordered. `undo_number`: of the undo log's transaction that it
  /// commits too, or 0; with pm::kEpochRevertible if it can be taken back. Ordered by the caller.
  void commit(std::uint64_t number, std::uint64_t undo_number, exec::Workers& workers);
  /// At the log's end, with no commit behind them: of the transaction that is open, or was.
  [[nodiscard]] std::span<Extent const> parts() const { return parts_; }
  /// They are no extents any more, durably.
  void drop_parts();
  /// Of the commit at the log's end, if it can be taken back; it may have none. After read() only
  /// if what undoes them is what it was when they were committed.
  [[nodiscard]] std::optional<std::span<Extent const>> last_parts() const { return last_parts_; }
  /// No commit follows them any more, durably.
  void reopen_parts();

  /// The extent of a device session, with so many cells that say nothing yet, durably. There is
  /// room for it and for the head of its end. Its kernels write behind next(), as that was before.
  void begin_session(std::uint64_t number, std::uint64_t cells, exec::Workers& workers);
  /// Durably. Nothing is written before it.
  void end_session(std::uint64_t number, exec::Workers& workers);
  /// At the log's end, with no end behind it: of the session that is open, or that a crash left.
  [[nodiscard]] bool in_session() const { return session_.has_value(); }

  /// Cells between the oldest extent's beginning and the newest's end.
  [[nodiscard]] std::uint64_t used() const { return end_ - begin_; }
  /// Cells behind the newest extent for which there are segments.
  [[nodiscard]] std::uint64_t room() const { return cells_.cells() - end_; }
  [[nodiscard]] std::uint64_t segments() const { return cells_.segments.size(); }
  [[nodiscard]] std::uint64_t cells_each() const { return cells_.cells_each(); }
  [[nodiscard]] std::uint32_t cell_bytes() const { return cells_.cell_bytes(); }
  /// Of an extent's head.
  [[nodiscard]] std::uint64_t head_cells() const { return cells_.head_cells(); }
  [[nodiscard]] std::uint64_t last_number() const { return last_; }
  [[nodiscard]] std::uint64_t id() const { return cells_.id; }  // random

  /// Where the next extent begins. Not beyond the next release.
  struct Mark {
    std::uint64_t position = 0;
    std::uint64_t above = 0;  // number of the extent before it
  };
  [[nodiscard]] Mark mark() const { return {end_, last_}; }
  /// Orders what was written; then extents before the mark go, durably: all of what counts in them
  /// stands behind it, in one extent at least. Their segments are used again.
  void release_before(Mark const& mark);

 private:
  [[nodiscard]] std::byte* cell(std::uint64_t position) const;
  [[nodiscard]] bool is_segment(std::uint64_t at, std::uint64_t number) const;
  [[nodiscard]] std::optional<Extent> extent_at(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t sum_of_entries(Extent const& extent, exec::Workers& workers) const;
  [[nodiscard]] bool is_whole(Extent const& extent, exec::Workers& workers) const;
  [[nodiscard]] Status fits_session(Extent const& extent, exec::Workers& workers) const;
  void zero_cells(std::uint64_t begin, std::uint64_t n, exec::Workers& workers);
  void note_session();
  Status take(Extent const& extent, Take const& f, exec::Workers& workers);
  void zero_head();
  void end_parts(bool revertible);
  void note_commit(Extent const& extent);
  [[nodiscard]] std::uint64_t sum_of_undo(std::span<Extent const> parts,
                                          exec::Workers& workers) const;
  [[nodiscard]] bool another_follows(std::uint64_t position, exec::Workers& workers) const;
  [[nodiscard]] bool may_be_head(std::byte const* cell) const;
  void write_header(std::uint64_t segment, std::uint64_t number) const;
  Status add_segment();
  void link(std::uint64_t segment);
  void give_back_behind(std::size_t segments);
  void publish(std::uint64_t first_segment, std::uint64_t begin, std::uint64_t above);

  pm::Pool* pool_;
  EntryCells cells_;
  std::uint64_t begin_ = 0, end_ = 0;  // positions
  std::uint64_t last_ = 0;  // number of the newest extent
  std::uint64_t above_ = 0, ordered_ = 0;  // as the root has them
  std::vector<Extent> parts_;
  std::optional<std::vector<Extent>> last_parts_;
  std::uint64_t commit_entries_ = 0;  // of the commit behind them
  std::optional<Extent> session_;  // with no end yet
  std::optional<std::uint64_t> undo_said_;  // by that commit, of what undoes them; while reading
  std::uint64_t before_last_ = 0, last_begin_ = 0, committed_ = 0;  // while reading
};

}  // namespace perdure::wal
