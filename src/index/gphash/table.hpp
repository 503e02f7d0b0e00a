// The host's side of a GPHash table: its levels in the pool, growth, recovery, checking, walking.
// Invariants: the root always names every level that may hold a reachable record, so a crash at any
// point of a growth finds both the retiring level and its successors. Which units have moved is
// volatile: what the retiring level still holds after a crash has not moved, or stands in its
// successors too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
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

/// What an opening finds in the slots. Nothing has been changed.
struct Survey {
  std::uint64_t records = 0;
  std::uint64_t astray = 0;  // slots that lead to no record; left alone, never followed
  std::uint64_t sum = 0;  // of all slots: see Table::sum_of
  std::vector<std::uint64_t> half;  // in_place: slots of state INSERT
  std::vector<std::uint64_t> again;  // slots that lead where another one leads as well
};

/// What was changed, a line each, and how many slots lost their entry by it.
struct Mended {
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;
};

class Table {
 public:
  Table(pm::Pool& pool, pm::RecordHeap& heap);

  Status create(std::uint32_t top_level, exec::Workers& workers);
  /// Takes over the levels that the root names.
  Status attach();
  /// Marks every reachable record in the heap. In parallel; reads slots only.
  [[nodiscard]] Survey survey(exec::Workers& workers);
  /// Mends what a crash may leave: clears half-inserted slots, and of equal words all but the valid
  /// one.
  [[nodiscard]] Mended mend_crash(Survey const& found);
  /// Mends what a crash does not leave, after a survey. `missing` is what its sum lacks of the one
  /// that is known to be right: a single word that one or two flipped bits changed is found by it.
  /// Where that does not explain it, slots are looked at one by one: a word or key that one or two
  /// bits explain gets them back; other entries that cannot be right are dropped. Records whose own
  /// checksum fails stay, where all else says that the slot is theirs. `note(lines)` comes before
  /// anything is changed. Then survey() again.
  template <class Note>
  [[nodiscard]] Mended mend_damage(Survey const& found, std::optional<std::uint64_t> missing,
                                   Note note);
  /// Slots that hold something, and the sum of all of them: what a survey of the same slots comes
  /// to.
  struct Sum {
    std::uint64_t records = 0, sum = 0;
  };
  [[nodiscard]] Sum sum(exec::Workers& workers) const;

  [[nodiscard]] TableView const& view() const { return view_; }
  /// Whether a slot word of a level stands at this place.
  [[nodiscard]] bool has_slot(Offset at) const;
  void pool_grew() { view_.pool_bytes = pool_->bytes(); }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }  // with some rounding between levels
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
  /// units hold there. On failure nothing has changed.
  Status widen(exec::Workers& workers);
  /// Nor is there room for that: clears the copies of these units' entries, which have not moved,
  /// so that each stands on the retiring level alone; if none has moved, the growth is undone.
  void give_up(std::span<std::uint32_t const> units);

  /// The entry in slot `number` of all slots; none if the slot is empty.
  [[nodiscard]] std::optional<Entry> entry(std::uint64_t number) const;
  /// What is wrong with that entry (checksum, place, a second copy), or empty.
  [[nodiscard]] std::string fault(std::uint64_t number, Entry const& entry) const;
  /// Whether the checksum of a readable entry's record matches.
  [[nodiscard]] bool intact(Entry const& entry) const;
  /// Slots that lead to no record.
  [[nodiscard]] std::uint64_t astray() const;
  /// "slot 5 at byte 1000, record at byte 2000".
  [[nodiscard]] std::string name(std::uint64_t number) const;

 private:
  struct SlotAt {
    Level const* level;
    std::uint64_t slot;  // within it
  };
  void publish_levels(std::span<Level const> levels, bool retires);
  [[nodiscard]] bool may_hold(Level const& level) const;
  [[nodiscard]] SlotAt locate(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t word_at(SlotAt at) const;
  [[nodiscard]] Offset record_at(SlotAt at) const;
  [[nodiscard]] bool holds_entry(SlotAt at) const;
  [[nodiscard]] Entry read_entry(SlotAt at, std::uint64_t room) const;
  [[nodiscard]] static Offset word_of(SlotAt at) { return at.level->base + at.slot * 8; }
  void store(Offset at, std::uint64_t word);
  void clear(SlotAt at) { store(word_of(at), 0); }
  [[nodiscard]] std::vector<std::uint64_t> candidate_slots(std::span<std::byte const> key) const;
  [[nodiscard]] std::vector<std::uint64_t> slots_at(Candidates<ShapeAny> const& where) const;
  void clear_copies(std::uint64_t unit);
  [[nodiscard]] bool carry_into(Level const& wider);
  void put_entry(SlotAt from, SlotAt to);
  void resolve_duplicate(std::uint64_t number, Mended& mended);
  [[nodiscard]] std::uint64_t sum_of(SlotAt at, std::uint64_t word) const;
  /// A change of one word: what repairs are made of.
  struct Change {
    Offset at;
    std::uint64_t word;
    bool drops;  // the slot's entry
    std::string line;
  };
  [[nodiscard]] Change put_right(std::uint64_t number, Offset at, std::uint64_t word,
                                 std::string const& what) const;
  [[nodiscard]] Change drop(std::uint64_t number, std::string const& why) const;
  [[nodiscard]] std::optional<Change> change_by_sum(std::uint64_t missing) const;
  [[nodiscard]] std::optional<Change> change_for(std::uint64_t number, bool words_right) const;
  [[nodiscard]] std::optional<Change> key_nearby(std::uint64_t number) const;
  [[nodiscard]] std::optional<std::uint64_t> word_nearby(std::uint64_t number) const;
  [[nodiscard]] bool explains(std::uint64_t number, std::uint64_t word) const;
  [[nodiscard]] std::vector<Change> changes(Survey const& found,
                                            std::optional<std::uint64_t> missing) const;
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

template <class Note>
Mended Table::mend_damage(Survey const& found, std::optional<std::uint64_t> missing, Note note) {
  std::vector<Change> const all = changes(found, missing);
  Mended mended;
  for (Change const& c : all) {
    mended.lines.push_back(c.line);
    mended.dropped += c.drops;
  }
  PERDURE_ASSERT(mended.lines.size() == all.size() && mended.dropped <= all.size());
  note(mended.lines);
  for (Change const& c : all) store(c.at, c.word);
  return mended;
}

}  // namespace perdure::gphash
