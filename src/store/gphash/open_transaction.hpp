// A transaction that is open, or has committed and can be taken back: what it has done so far, and
// what is released when it ends. Invariant: a record that it unlinked is nobody's before it has
// ended for good.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "store/gphash/engine/engine.hpp"

namespace perdure {

struct OpenTransaction {
  std::uint64_t operations = 0;  // so far, a step among them
  std::uint64_t room = 0;  // for so many
  std::uint64_t undo_entries = 0;  // of the undo log, that are taken
  std::uint32_t first_step = 0;  // of the undo log
  std::vector<std::uint64_t> used;  // records that it published
  std::vector<std::uint64_t> unlinked;  // records that it replaced or erased
  std::vector<std::byte> logged;  // durability power: its batches, encoded
  std::uint64_t records_before = 0;
  std::optional<std::uint64_t> step;  // written
  bool alone = false;  // an atomic batch by itself
  bool revertible = false;  // it can be taken back once it has committed
  // Of batches whose records are the lease's. Each session gives back what its batch unlinked and
  // did not use, unless Transactions::take_over() comes first.
  std::vector<std::unique_ptr<Session>> leased;
  std::uint64_t leased_operations = 0;
};

}  // namespace perdure
