// The host's side of a GPHash table: its levels in the pool, growth, recovery, checking, walking.
// Invariants: the root always names every level that may hold a reachable record, so a crash at any
// point of a growth finds both the retiring level and its successors. Which units have moved is volatile: what the
// retiring level still holds after a crash has not moved, or stands in its successors too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "index/gphash/layout.hpp"
#include "perdure/status.h"
#include "pm/heap.hpp"
#include "pm/pool.hpp"

namespace perdure::gphash {

struct Shape {
  std::uint32_t levels, hashes, slots;
};

/// The smallest top level (log2 of its buckets) whose table holds `records` at load factor `load`.
[[nodiscard]] std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load);
/// Slots of all levels under a top level of 2^top buckets.
[[nodiscard]] std::uint64_t slots_under(Shape shape, std::uint32_t top);

/// What stands in a slot.
struct Entry {
  Offset record;
  std::span<std::byte const> key;
  std::span<std::byte const> value;
  bool readable = false;  // false: the slot leads outside any record
};

struct Recovered {
  std::uint64_t records = 0;
  std::uint64_t half_inserted = 0;  // in_place: states INSERT, cleared
  std::uint64_t astray = 0;         // slots that lead to no record; left alone, never followed
  std::uint64_t duplicates = 0;     // lower copies of a word, cleared
};

class Table {
 public:
  Table(pm::Pool& pool, pm::RecordHeap& heap);

  Status create(std::uint32_t top_level, exec::Workers& workers);
  /// Takes over the levels that the root names.
  Status attach();
  /// Marks every reachable record in the heap and mends what a crash may leave. In parallel; reads
  /// slots only, but for duplicates.
  Recovered recover(exec::Workers& workers);

  [[nodiscard]] TableView const& view() const { return view_; }
  /// Whether a slot word of a level stands at this place.
  [[nodiscard]] bool has_slot(Offset at) const;
  void pool_grew() { view_.pool_bytes = pool_->bytes(); }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }  // with some rounding between levels
  [[nodiscard]] std::uint64_t usable_slots() const;
  [[nodiscard]] std::uint32_t top_level() const { return view_.level[0].log2_buckets; }
  [[nodiscard]] std::uint64_t bytes() const;

  /// Growth: a new top level, and the bottom level retires, with all its units yet to move. The engine copies what a
  /// unit holds there to where it belongs afterwards, and empties it; then moved() counts it. When none is left, or
  /// their copies are ordered, finish_growth() drops the retiring level. On failure nothing has changed.
  Status begin_growth(exec::Workers& workers);
  [[nodiscard]] bool growing() const { return view_.retiring == 1; }
  [[nodiscard]] std::uint64_t units() const { return std::uint64_t{1} << view_.unit_bits; }
  [[nodiscard]] std::uint64_t units_left() const { return units_left_; }
  /// Slots of a unit on the retiring level: what it takes to move it.
  [[nodiscard]] std::uint64_t unit_slots() const {
    return in_place::level_slots(view_.retiring_level(), view_.slots) >> view_.unit_bits;
  }
  /// `most` of the units that have not moved, but for those in `without`.
  [[nodiscard]] std::vector<std::uint32_t> unmoved(std::uint64_t most, std::span<std::uint32_t const> without) const;
  void moved(std::span<std::uint32_t const> units);
  [[nodiscard]] std::span<std::uint32_t const> moved_bits() const { return moved_; }
  void finish_growth();
  /// Entries of some unit find no room: a larger top level in place of the new one, with what moved units hold there.
  /// On failure nothing has changed.
  Status widen(exec::Workers& workers);
  /// Nor is there room for that: clears the copies of these units' entries, which have not moved, so that each stands
  /// on the retiring level alone; if none has moved, the growth is undone.
  void give_up(std::span<std::uint32_t const> units);

  /// The entry in slot `number` of all slots; none if the slot is empty.
  [[nodiscard]] std::optional<Entry> entry(std::uint64_t number) const;
  /// What is wrong with that entry (checksum, place, a second copy), or empty.
  [[nodiscard]] std::string fault(std::uint64_t number, Entry const& entry) const;

 private:
  struct SlotAt {
    Level const* level;
    std::uint64_t slot;  // within it
  };
  [[nodiscard]] bool may_hold(pm::RootLevel const& level) const;
  [[nodiscard]] SlotAt locate(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t word_at(SlotAt at) const;
  [[nodiscard]] Offset record_at(SlotAt at) const;
  [[nodiscard]] bool holds_entry(SlotAt at) const;
  [[nodiscard]] Entry read_entry(SlotAt at, std::uint64_t room) const;
  void clear(SlotAt at);
  [[nodiscard]] std::vector<std::uint64_t> candidate_slots(std::span<std::byte const> key) const;
  [[nodiscard]] std::vector<std::uint64_t> slots_at(Candidates<ShapeAny> const& where) const;
  void clear_copies(std::uint64_t unit);
  [[nodiscard]] bool carry_into(Level const& wider);
  void put_entry(SlotAt from, SlotAt to);
  std::uint64_t resolve_duplicate(std::uint64_t number);
  [[nodiscard]] std::uint64_t run_of(std::uint32_t log2_buckets) const;
  Result<Level> new_level(std::uint32_t log2_buckets, exec::Workers& workers);
  void renumber();
  void retire(bool retires);

  pm::Pool* pool_;
  pm::RecordHeap* heap_;
  bool in_place_;
  TableView view_;
  std::vector<std::uint32_t> moved_;  // one bit a unit, while the table grows
  std::uint64_t units_left_ = 0;
  std::uint64_t slots_ = 0;
};

}  // namespace perdure::gphash
