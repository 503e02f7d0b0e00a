// The host's side of a GPHash table: its levels in the pool, and its growth.
// Invariants: the root always names every level that may hold a reachable record, so a crash at any
// point of a growth finds both the retiring level and its successors. Which units have moved is
// volatile: what the retiring level still holds after a crash has not moved, or stands in its
// successors too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "index/gphash/layout.hpp"
#include "index/gphash/slots.hpp"
#include "perdure/status.h"

namespace perdure::gphash {

struct Shape {
  std::uint32_t levels, hashes, slots;
};

/// The smallest top level (log2 of its buckets) whose table holds `records` at load factor `load`.
[[nodiscard]] std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load);
/// Slots of all levels under a top level of 2^top buckets.
[[nodiscard]] std::uint64_t slots_under(Shape shape, std::uint32_t top);

class Table : public Slots {
 public:
  using Slots::Slots;

  /// Its levels, empty. Those of layout `log` are the engine's: here they have sizes alone.
  Status create(std::uint32_t top_level, exec::Workers& workers);
  /// Takes over the levels that the root names; of layout `log`, their sizes.
  Status attach();

  void pool_grew() { view_.pool_bytes = pool_->bytes(); }
  [[nodiscard]] std::uint64_t usable_slots() const;
  [[nodiscard]] std::uint32_t top_level() const { return view_.level[0].log2_buckets; }
  [[nodiscard]] std::uint64_t bytes() const;

  /// Growth: a new top level, and the bottom level retires, with all its units yet to move. The
  /// engine copies what a unit holds there to where it belongs afterwards, and empties it; then
  /// moved() counts it. When none is left, or their copies are ordered, finish_growth() drops the
  /// retiring level. On failure nothing has changed.
  Status begin_growth(exec::Workers& workers);
  [[nodiscard]] bool growing() const { return view_.retiring == 1; }
  [[nodiscard]] std::uint64_t units() const { return std::uint64_t{1} << view_.unit_bits; }
  [[nodiscard]] std::uint64_t units_left() const { return units_left_; }
  /// Slots of a unit on the retiring level: what it takes to move it.
  [[nodiscard]] std::uint64_t unit_slots() const {
    return in_place::level_slots(view_.retiring_level(), view_.slots) >> view_.unit_bits;
  }
  /// `most` of the units that have not moved, but for those in `without`.
  [[nodiscard]] std::vector<std::uint32_t> unmoved(std::uint64_t most,
                                                   std::span<std::uint32_t const> without) const;
  void moved(std::span<std::uint32_t const> units);
  [[nodiscard]] std::span<std::uint32_t const> moved_bits() const { return moved_; }
  void finish_growth();
  /// Entries of some unit find no room: a larger top level in place of the new one, with what moved
  /// units hold there. On failure nothing has changed. In layout `log` no unit has moved.
  Status widen(exec::Workers& workers);
  /// Nor is there room for that: clears the copies of these units' entries, which have not moved,
  /// so that each stands on the retiring level alone; if none has moved, the growth is undone.
  void give_up(std::span<std::uint32_t const> units);

 private:
  void publish_levels(std::span<Level const> levels, bool retires);
  [[nodiscard]] bool may_hold(Level const& level) const;
  void clear_copies(std::uint64_t unit);
  [[nodiscard]] bool carry_into(Level const& wider);
  void put_entry(SlotAt from, SlotAt to);
  [[nodiscard]] std::uint64_t run_of(std::uint32_t log2_buckets) const;
  void give_level(Level const& level);
  Result<Level> new_level(std::uint32_t log2_buckets, exec::Workers& workers);
  void renumber();
  void retire(bool retires);

  std::vector<std::uint32_t> moved_;  // one bit a unit, while the table grows
  std::uint64_t units_left_ = 0;
};

}  // namespace perdure::gphash
