// Opens what a kill has left and compares every key with the reference. Invariant judged: every
// acknowledged step is there in full; of the one in flight each key has its old value or its new
// one (of an atomic batch, of a transaction, and with durability power: all of them the old or all
// the new); nothing else is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "soak/workload.hpp"

namespace perdure::test {

struct Expected {
  Model before;                      // all acknowledged steps applied
  std::optional<Step> in_flight;
  bool unclean = false;              // the pool was in use: it must not say that it was closed
};

struct Verdict {
  std::string wrong;  // empty = nothing
  Status open;        // why the pool does not open
  Model found;
  RecoveryReport recovery;
  std::uint32_t top_level = 0;
  std::uint64_t keys = 0;  // compared
};

[[nodiscard]] Verdict judge(PoolFiles const& files, Kind const& kind, Device device,
                            Expected const& expected);

}  // namespace perdure::test
