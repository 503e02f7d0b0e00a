// Where locks meet the threads of a simulation (fault/simulated_threads.hpp), which the explorer
// runs. Invariant: outside builds that define PERDURE_EXPLORE there are none, and each of these is
// nothing at all.
#pragma once

#if defined(PERDURE_EXPLORE)
#include "fault/simulated_threads.hpp"
#else
namespace perdure::fault {
constexpr bool simulated() { return false; }
constexpr void give_way() {}
constexpr void locks() {}
constexpr void locked(void const*) {}
constexpr void unlocks(void const*) {}
}  // namespace perdure::fault
#endif
