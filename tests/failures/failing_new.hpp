// An operator new (support/replaced_new.hpp) that fails when it is told to: at the n-th allocation
// of one thread, or of all of them together. Invariant: while nothing is counted down, none fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace perdure::test {

/// Of this thread, until one fails; 0: none does.
extern constinit thread_local std::uint64_t allocations_left;
extern constinit thread_local bool struck;
extern std::atomic<std::uint64_t> all_threads_left;  // the same of all threads together

}  // namespace perdure::test
