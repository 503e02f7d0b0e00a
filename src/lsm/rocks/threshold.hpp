// From how many operations on memtables are faster than RocksDB itself (H-Rocks, section 6:
// threshold). The paper's 10,000 is its machine's; here both sides are measured when a database is
// opened, in about 20 ms.
#pragma once

#include <cstdint>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

/// What was measured, in seconds.
struct ThresholdCosts {
  double table_batch = 0;  // of a batch, however small
  double table_operation = 0;  // of one operation more
  double rocks_operation = 0;
};

inline constexpr std::uint64_t kLeastThreshold = 1'000, kMostThreshold = 1'000'000;

/// Where both cost the same, within these bounds.
[[nodiscard]] std::uint64_t threshold_of(ThresholdCosts const& costs);

/// RocksDB's side is a database in memory of its own.
Result<ThresholdCosts> measure_costs(Engine& engine);

}  // namespace perdure::lsm
