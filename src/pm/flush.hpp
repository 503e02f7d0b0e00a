// Writing cache lines back to memory from the CPU, by the best instruction it has (clwb, clflushopt, clflush), a range
// by several threads. Invariant: when flush() returns, what was written to the range before it is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "exec/workers.hpp"

namespace perdure::pm {

inline constexpr std::size_t kCacheLine = 64;

/// By the workers' threads.
void flush(exec::Workers& workers, void const* at, std::size_t bytes);
/// The instruction that flush() uses here.
[[nodiscard]] std::string flush_instruction();

}  // namespace perdure::pm
