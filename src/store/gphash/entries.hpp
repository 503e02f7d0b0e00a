// The log of entries of a store of layout `log`: room for what a batch will add, its extent, and
// what an opening makes of it. Invariants: there is always room to end the transaction that is open
// and to write an entry for each key anew, so a log that is long can be made short; a batch counts
// once its extent is sealed and ordered, one of a transaction once its commit is, and what it
// unlinked is used again only then.
#pragma once

#include <cstdint>

#include "store/gphash/core.hpp"

namespace perdure {

class BatchWriter;
struct WriteBatch;

class Entries {
 public:
  // A log is long when it has so many cells for each that its keys need, and some more: then they
  // are written anew, and the rest goes.
#if defined(PERDURE_EXPLORE)
  static constexpr std::uint64_t kLong = 1;  // so that runs of a few batches come to it
#else
  static constexpr std::uint64_t kLong = 3;
#endif
  // That a record may come to need of the pool: those, and one to write it anew.
  static constexpr std::uint64_t kCellsARecord = kLong + 1;

  explicit Entries(Core& core) : core_(core) {}

  /// Room for the entries of a batch of so many operations. No session is running.
  Status make_room(std::uint64_t operations);
  /// Where they go.
  void show_room(WriteBatch const& batch, Reservation& reservation) const;
  /// The extent of a batch of that number, whose passes have ended. Ordered by the caller.
  void seal(WriteBatch const& batch, wal::ExtentKind kind);
  /// The parts count from here on, durably; and with them what that transaction of the undo log
  /// changed, if it is not 0.
  void commit(std::uint64_t undo_number);

  /// An opening: puts into the table what the log says. A last batch whose values are not whole is
  /// dropped, and so is a transaction without its commit.
  Status replay(BatchWriter& writer);
  /// The table is as it was before the undoable batch that ran last, and was not sealed; before all
  /// parts of the transaction that is open.
  Status undo_batch(BatchWriter& writer, std::uint64_t operations);
  Status undo_parts(BatchWriter& writer);

 private:
  using Extent = wal::EntryLog::Extent;
  Status copy();
  void claim_share();
  [[nodiscard]] Status named(Status const& s) const;
  [[nodiscard]] bool may_copy() const;
  [[nodiscard]] bool is_long() const;
  [[nodiscard]] std::uint64_t few_cells() const;
  [[nodiscard]] bool values_whole(Extent const& extent) const;
  [[nodiscard]] bool value_whole(wal::LogEntry const& entry) const;
  [[nodiscard]] bool record_whole(wal::LogEntry const& entry) const;

  Core& core_;
};

}  // namespace perdure
