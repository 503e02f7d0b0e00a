// The host's side of the undo log: its room in the pool, undoing, and the epoch word whose one
// store commits a transaction (or ends one that was undone).
//
// Invariants: the epoch is the number of the last transaction that ended; entries of later ones are
// live. While entries are live no level of the index moves. An epoch ends only after everything
// that its transaction wrote, or that undoing it wrote, has been ordered.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "perdure/status.h"
#include "pm/pool.hpp"
#include "wal/undo.hpp"

namespace perdure::wal {

/// Of the root's entry: the log's room, and for how many entries it is.
inline constexpr std::string_view kUndoRoom = "undo";

class UndoLog {
 public:
  explicit UndoLog(pm::Pool& pool) : pool_(&pool) {}

  /// Takes over the room that the root names, if it names one.
  Status attach();
  /// Makes room for so many entries, at least; none is live.
  Status make_room(std::uint64_t entries);
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }

  [[nodiscard]] std::uint32_t step() const { return step_; }
  /// Number of the last transaction that ended.
  [[nodiscard]] std::uint64_t ended() const;
  /// Repair: that number, as it was.
  void set_ended(std::uint64_t number);
  /// For the next round of the transaction that is open; `first` entries are taken.
  [[nodiscard]] UndoRegion next_step(std::uint64_t first);
  /// Writes entry number place.first, of a word that the host will change. Ordered by the caller,
  /// before it does.
  void append(UndoRegion const& region, Offset slot);
  /// Restores, newest first, what steps from `step` on overwrote, durably. A slot that is_slot()
  /// does not know (a damaged pool) is left alone. Returns the number restored.
  std::uint64_t undo(std::uint32_t step, std::function<bool(Offset)> const& is_slot);
  /// Ends the transaction, durably: what it wrote stays, or has been undone.
  void end();

 private:
  [[nodiscard]] std::uint64_t run_of(std::uint64_t entries) const;
  [[nodiscard]] UndoEntry entry(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t* epoch() const;

  pm::Pool* pool_;
  Offset base_;  // as the root has it, and so the next
  std::uint64_t capacity_ = 0;
  std::uint32_t step_ = 0;
};

}  // namespace perdure::wal
