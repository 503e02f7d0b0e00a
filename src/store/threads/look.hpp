// How stores of host threads look over all that they have, for verify(). Invariant: a report counts
// all faults, and names threads::Faults::kMost at most, in an order that does not depend on who
// found them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "exec/workers.hpp"
#include "perdure/store.h"
#include "store/threads/engine.hpp"

namespace perdure::threads {

/// Faults of something that was looked at as a whole.
void add_faults(Faults&& faults, VerifyReport& report);
/// check(first, end, faults) of n things, by all workers, `each` at a time, until `stop` says so.
void look_at_all(exec::Workers& workers, std::size_t n, std::size_t each,
                 std::atomic<bool> const* stop, VerifyReport& report,
                 std::function<void(std::size_t, std::size_t, Faults&)> const& check);
/// Where nothing else is wrong: as many as were counted?
void expect_count(std::uint64_t found, std::uint64_t counted, std::string const& what,
                  VerifyReport& report);

}  // namespace perdure::threads
