// The host's side of a GPHash table: its levels in the pool, growth, recovery, checking, walking.
// Invariant: the root always names every level that may hold a reachable record, so a crash at any
// point of a resize finds both the retiring level and its successors.
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
  [[nodiscard]] bool resizing() const { return pool_->root().retiring == 1; }
  /// Marks every reachable record in the heap and mends what a crash may leave. In parallel; reads
  /// slots only, but for duplicates.
  Recovered recover(exec::Workers& workers);

  [[nodiscard]] TableView const& view() const { return view_; }
  /// Whether a slot word of a live level stands at this place.
  [[nodiscard]] bool has_slot(Offset at) const;
  void pool_grew() { view_.pool_bytes = pool_->bytes(); }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }  // with some rounding between levels
  [[nodiscard]] std::uint64_t usable_slots() const;
  [[nodiscard]] std::uint32_t top_level() const { return view_.level[0].log2_buckets; }
  [[nodiscard]] std::uint64_t bytes() const;

  /// A resize: a new top level, 2^extra times the next size; the bottom level retires. Then rehash
  /// every slot of retiring() into view(), then finish. Called again while resizing, it replaces the
  /// new top level by a larger one (nothing has left the retiring level yet). On failure nothing has
  /// changed: abandon_growth() if the table is resizing.
  Status begin_growth(exec::Workers& workers);
  [[nodiscard]] Level retiring() const { return retiring_; }
  [[nodiscard]] std::uint64_t retiring_slots() const;
  void finish_growth();
  /// There is no room for the level that the resize needs: undoes it, so that the levels are those
  /// before begin_growth(), and every entry is found again.
  void abandon_growth();

  /// The entry in slot `number` of all live slots; none if the slot is empty.
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
  [[nodiscard]] Entry read_entry(SlotAt at, std::uint64_t room) const;
  void clear(SlotAt at);
  [[nodiscard]] std::vector<std::uint64_t> candidate_slots(std::span<std::byte const> key) const;
  std::uint64_t resolve_duplicate(std::uint64_t number);
  [[nodiscard]] std::uint64_t run_of(std::uint32_t log2_buckets) const;
  Result<Level> new_level(std::uint32_t log2_buckets, exec::Workers& workers);
  void renumber();

  pm::Pool* pool_;
  pm::RecordHeap* heap_;
  bool in_place_;
  TableView view_;
  Level retiring_;
  std::uint64_t slots_ = 0;
};

}  // namespace perdure::gphash
