// Faults that a store of this kind might have, each in front of a plain RocksDB: a comparison that
// finds none of them is asleep.
#pragma once

#include <span>
#include <string>

#include "rocks/support/openers.hpp"

namespace perdure::test {

enum class Fault {
  drops_tombstones,        // of batches
  reverses_batches,        // two writes of a key in one batch take effect in the other order
  loses_puts,              // every 1000th
  merges_twice,            // when it is reopened: the last batch's operands
  ignores_snapshots,       // in Get and MultiGet
  iterators_see_the_new,   // ignores the snapshot of iterators
  ignores_upper_bounds,    // of iterators
  shifts_duplicates,       // MultiGet: of a key that is asked for twice the second is not found
  forgets_a_family,        // of large batches, what they have for the last family
  delete_range_too_far,    // deletes its end too
  swallows_statuses,       // an absent key is an empty value
  checkpoints_lack_writes, // a checkpoint has what was flushed alone
  drops_empty_keys,        // and keeps all others
  loses_on_ingest,         // an ingested file comes below what is there already
};
struct NamedFault {
  Fault fault;
  char const* name;
};
std::span<NamedFault const> faults();

Opener faulty(NamedFault const& fault);

}  // namespace perdure::test
