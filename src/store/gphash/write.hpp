// A batch of writes on the pool, step by step: reserve records, group by key, then passes of plan,
// order, publish, order, until every operation is decided; then what it did not need is released.
// Plain batches, those of transactions and those of the log that are run again are all made of
// these steps. Invariants: nothing of a batch is visible before the ordering point that follows its
// records; a record that it unlinked is released after the last ordering point.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "store/gphash/core.hpp"
#include "store/gphash/entries.hpp"
#include "store/gphash/growth.hpp"
#include "store/gphash/logged_beside.hpp"
#include "store/gphash/power_log.hpp"
#include "store/gphash/records.hpp"

namespace perdure {

/// Of one batch; each either decides a group or grows the table.
inline constexpr int kMostPasses = 64;

/// A batch on its way.
struct WriteBatch {
  WriteBatch(Call const& of_caller, std::span<KeyStatus> answers)
      : call(of_caller), statuses(answers) {}

  Call const& call;
  std::span<KeyStatus> statuses;  // the caller's
  std::unique_ptr<Session> session;
  std::vector<std::uint64_t> reserved;  // unless they are from the lease
  bool from_lease = false;
  bool any_fits = false;  // each of the records fits every operation
  std::uint64_t sequence = 0;  // its number
  bool undoable = false;  // of a transaction; layout `log`: what it does can be undone
  bool alone = true;  // or others may come before its transaction ends
  bool replays =
      false;  // what the log of entries says: all of it has a place, refused growth or not
  exec::Counts done;  // by all its passes
  bool answered = false;  // the last pass's statuses are the caller's already
  bool full = false;  // the table is, and some operations wait
  std::uint64_t refused = 0;  // new keys that found no room in the last pass
  Status not_grown;  // why it stayed so
};

class BatchWriter {
 public:
  BatchWriter(Core& core, Records& records, Growth& growth, PowerLog& log)
      : core_(core), records_(records), growth_(growth), log_(log), entries_(core) {}

  /// A batch that may be half there after a crash, but that nobody sees half of, into the log where
  /// there is one. May be stopped between two of its pieces, but for a log, which has it whole.
  Status write(Call const& call, std::span<KeyStatus> statuses, std::atomic<bool> const* stop);
  Status write_piece(Call const& call, std::span<KeyStatus> statuses);

  /// Layout `log`, at an opening: the table is what the log says from here on.
  Status recover_entries() { return entries_.replay(*this); }
  /// Puts what cells of the log say into the table, in their order.
  /// No key of a hash that others have too may keep it from being done: see replaying.cpp.
  Status replay(CellsToReplay const& cells);

  // The steps. On failure of the first nothing has happened; of the others the store fails.
  Status prepare(WriteBatch& batch, bool from_lease);
  /// Plan, order, publish, order; with `undo`, what is overwritten is logged before. What it
  /// counted.
  Result<exec::Counts> pass(WriteBatch& batch, bool displace, wal::UndoRegion const* undo);
  /// The status of each operation, and the caller's of them.
  Result<std::span<std::uint8_t const>> answer(WriteBatch& batch);
  /// What the batch used and unlinked; empty spans: all that was reserved, and nothing.
  Result<Downloaded> outcome(WriteBatch& batch);
  void release_unused(WriteBatch const& batch, Downloaded const& outcome);
  /// Its records are the heap's from here on, and not the lease's.
  Status take_over_records(WriteBatch& batch);
  /// All passes, growth among them.
  Status passes(WriteBatch& batch);

  // Layout `log`.
  Status make_room_for_entries(std::uint64_t entries);
  /// The batch's extent, ordered.
  Status seal(WriteBatch& batch, wal::ExtentKind kind);
  void commit_entries(std::uint64_t undo_number) { entries_.commit(undo_number); }
  Status undo_entries(std::uint64_t operations) { return entries_.undo_batch(*this, operations); }
  Status undo_parts() { return entries_.undo_parts(*this); }

 private:
  Status replay_at_once(CellsToReplay const& cells);
  Status take_out(CellsToReplay const& cells);
  Status put_what_stays(CellsToReplay const& cells);
  [[nodiscard]] std::byte const* cell_of(CellsToReplay const& cells, std::uint64_t number) const;
  Status execute(Call const& call, std::span<KeyStatus> statuses);
  Status begin_session(WriteBatch& batch, std::span<std::uint8_t const> status);
  Status prepare_reserved(WriteBatch& batch);
  Status prepare_leased(WriteBatch& batch);
  Status answer_early(WriteBatch& batch);
  Status order(WriteBatch& batch, exec::Counts& counts);
  Status release_records(WriteBatch& batch);
  [[nodiscard]] Status table_is_full(WriteBatch const& batch) const;

  Core& core_;
  Records& records_;
  Growth& growth_;
  PowerLog& log_;
  Entries entries_;  // of layout `log`
};

}  // namespace perdure
