// The log of entries of a store of layout `log`: room for what a batch will add, its extent, and
// what an opening makes of it. Invariants: there is always room to write an entry for each key
// anew, so a log that is long can be made short; a batch counts once its extent is sealed and
// ordered, and what it unlinked is used again only then.
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
  void show_room(std::uint64_t operations, Reservation& reservation) const;
  /// The extent of a batch of that number, whose passes have ended. Ordered by the caller.
  void seal(WriteBatch const& batch);

  /// An opening: puts into the table what the log says. A last batch whose values are not whole is
  /// dropped.
  Status replay(BatchWriter& writer);

 private:
  using Extent = wal::EntryLog::Extent;
  Status copy();
  [[nodiscard]] bool is_long() const;
  [[nodiscard]] bool values_whole(Extent const& extent) const;
  [[nodiscard]] bool value_whole(wal::LogEntry const& entry) const;

  Core& core_;
};

}  // namespace perdure
