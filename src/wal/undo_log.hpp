// The host's side of the undo log: its room in the pool, undoing, and the epoch word whose one
// store commits a transaction (or ends one that was undone). With the epoch goes a bit: that
// transaction can be taken back, for nothing has been written since.
//
// Invariants: the epoch is the number of the last transaction that ended; entries of later ones are
// live. While entries are live, or can come to be by reopen(), no level of the index moves. An
// epoch ends only after everything that its transaction wrote, or that undoing it wrote, has been
// ordered. The bit is gone, durably, before anything is written over what taking back needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "perdure/status.h"
#include "pm/pool.hpp"
#include "wal/undo.hpp"

namespace perdure::wal {

/// Of the root's entry: the log's room, and for how many entries it is.
inline constexpr std::string_view kUndoRoom = "undo";
/// Of the root: the epoch may have its bit, so builds that do not know it refuse the pool.
inline constexpr std::string_view kUndoReverts = "undo.reverts";

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
  /// What a close notes of it and its bit; and repair: as it was.
  [[nodiscard]] std::uint64_t word() const;
  void set_word(std::uint64_t word);
  /// For the next round of the transaction that is open; `first` entries are taken.
  [[nodiscard]] UndoRegion next_step(std::uint64_t first);
  /// Writes entry number place.first, of a word that the host will change. Ordered by the caller,
  /// before it does.
  void append(UndoRegion const& region, Offset slot);
  /// Restores, newest first, what steps from `step` on overwrote, durably. A slot that is_slot()
  /// does not know (a damaged pool) is left alone. Returns the number restored.
  std::uint64_t undo(std::uint32_t step, std::function<bool(Offset)> const& is_slot);
  /// What steps from `step` on overwrote has been undone, and their entries count no more. Others
  /// take the room of some, and those that were left would undo a slot by half.
  void forget(std::uint32_t step);
  /// Ends the transaction, durably: what it wrote stays, or has been undone. `revertible`: it can
  /// be taken back until keep().
  void end(bool revertible = false);

  /// Before the first transaction that can be taken back.
  void allow_revertible();
  [[nodiscard]] bool revertible() const;
  /// The last transaction cannot be taken back any more, durably.
  void keep();
  /// It is open again, durably, and so live.
  void reopen();
  /// What the transaction that ended last overwrote, by slots, the oldest first.
  [[nodiscard]] std::vector<UndoEntry> of_last(std::function<bool(Offset)> const& is_slot) const;

 private:
  [[nodiscard]] std::uint64_t run_of(std::uint64_t entries) const;
  [[nodiscard]] UndoEntry entry(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t* epoch() const;
  [[nodiscard]] std::vector<UndoEntry> entries_of(std::uint64_t transaction, std::uint32_t step,
                                                  std::function<bool(Offset)> const& is_slot) const;

  pm::Pool* pool_;
  Offset base_;  // as the root has it, and so the next
  std::uint64_t capacity_ = 0;
  std::uint32_t step_ = 0;
};

}  // namespace perdure::wal
