// The points at which the explorer can plant a fault in production code, and the GPU soak can make
// a kernel abort. Invariant: outside builds that define PERDURE_EXPLORE or PERDURE_TRAPS each of
// them is nothing at all; what stands behind them there is src/fault, which is not installed.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"

#if defined(PERDURE_EXPLORE)
#include "fault/mutants.hpp"
#else
namespace perdure {
/// Whether the mutant of this name is planted (fault/mutants.hpp).
PERDURE_FN constexpr bool mutated(char const*) { return false; }
}  // namespace perdure
#endif

namespace perdure::fault {
/// Where a kernel can be made to abort.
enum class TrapPoint : std::uint32_t {
  record,         // a record (or a key in its slot) is about to be written
  word,           // a durable word or an entry has been stored, or a word compared and swapped
  ordering,       // an ordering point inside a kernel
  host_ordering,  // one between two kernels
};
}  // namespace perdure::fault

#if defined(PERDURE_TRAPS) && defined(__CUDACC__)
#include "fault/traps.hpp"
#else
namespace perdure::fault {
inline constexpr bool kTraps = false;
/// One thread passes a point, or a whole warp does.
PERDURE_FN void passes(TrapPoint) {}
PERDURE_FN void warp_passes(TrapPoint) {}
PERDURE_FN void kernel_launched() {}
PERDURE_FN void kernels_ended() {}
}  // namespace perdure::fault
#endif
