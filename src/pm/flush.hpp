// Writing cache lines back to memory from the CPU, by the best instruction it has (clwb,
// clflushopt, clflush), a range by several threads. Invariant: when flush() returns, what was
// written to the range before it is in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/workers.hpp"

namespace perdure::pm {

inline constexpr std::size_t kCacheLine = 64;

/// By the workers' threads.
void flush(exec::Workers& workers, void const* at, std::size_t bytes);

/// By this thread alone, in two parts: the lines are on their way, and all that were on their way
/// have arrived. order() ends it as well.
void start_flush(void const* at, std::size_t bytes);
void finish_flushes();

}  // namespace perdure::pm
