// What ranges have, until all of it goes to the caller's arrays: each range's pairs lie where the
// machine answered them or where a worker put them, and are copied once from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/engine/ranges.hpp"
#include "lsm/rocks/found_pairs.hpp"
#include "perdure/rocks.h"

namespace perdure::lsm {

/// The pairs of one range. Of neither: there are none.
struct RangePiece {
  RangePairs const* machine = nullptr;
  FoundPairs const* found = nullptr;
  std::uint64_t first = 0;  // there
  std::uint64_t pairs = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t value_bytes = 0;

  /// All pairs of a range that the machine answered.
  static RangePiece of(RangePairs const& machine, std::size_t range);
  /// What a worker found from a pair on.
  static RangePiece of(FoundPairs const& found, std::uint64_t first);
};

/// Makes room for `times` as much as there is, and a little more.
void reserve(rocks::Ranges& ranges, std::size_t times);

/// Appends ranges to what there is.
void append(exec::Workers& workers, std::span<RangePiece const> pieces, rocks::Ranges& ranges);

}  // namespace perdure::lsm
