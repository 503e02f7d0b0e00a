// What the bodies of batches count, behind what every machine counts (exec/counts.hpp). Invariant:
// each counts what one pass of one batch came to; whoever wants more adds them up.
#pragma once

#include <cstdint>

#include "exec/counts.hpp"

namespace perdure {

struct BatchCounts {
  enum Name : std::uint32_t {
    pending = exec::Counts::kOfMachine,  // groups that wait for the next pass
    full,  // of them, those that found no room
    used,  // reserved records
    inserted,
    erased,
    unlinked,  // records
    displaced,  // words that made room
    corrupt,  // records
    left,  // positions that lane_per_key_plan.hpp leaves to a warp
    entries,  // of the log, that say something
    entry_sum,  // of all of them (wal/entries.hpp)
    cached,  // gets that a cache answered; of a load, what came in
    kEnd
  };
};
static_assert(BatchCounts::kEnd == exec::Counts::kNames);

}  // namespace perdure
