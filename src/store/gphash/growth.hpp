// Growth of the table without a stop: when it begins, which units move when, what is done where
// there is no room. Invariants: a unit's entries are copied | order | it is emptied on the retiring
// level, and counts as moved; no transaction is open.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "store/gphash/core.hpp"
#include "store/gphash/records.hpp"

namespace perdure {

/// What answers no_space has left a sound table.
class Growth {
 public:
  Growth(Core& core, Records& records) : core_(core), records_(records) {}

  /// Before a write batch: its share of a growth that is under way.
  Status advance(std::uint64_t operations);
  /// So many new keys of a batch found no room.
  Status make_room(std::uint64_t waiting);
  /// Grows the table until `more` records would leave it with this load at most, if it may grow.
  Status grow_for(std::uint64_t more, double most_load);
  Status complete();
  /// So many, and more than the table can take, that no search for room is worth its time.
  [[nodiscard]] bool is_bulk(std::uint64_t waiting) const;
  /// Whether so many more records may all find room.
  [[nodiscard]] bool may_take(std::uint64_t more) const;

 private:
  /// The load with so many records more.
  [[nodiscard]] double load_with(std::uint64_t more) const;
  Status check_worth_growing();
  Status make_level(std::function<Status()> const& make);
  Status begin();
  Status abandon(Status const& why);
  Status move_units(std::vector<std::uint32_t> units);
  Status note_moved(std::vector<std::uint32_t> const& units);
  Status widen(std::vector<std::uint32_t> const& stuck);
  Status leave(std::vector<std::uint32_t> const& stuck);

  Core& core_;
  Records& records_;
  std::vector<std::uint32_t> stuck_units_;  // they found no room, and wait for more to be made
};

}  // namespace perdure
