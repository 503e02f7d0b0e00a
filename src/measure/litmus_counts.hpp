// What a pass of a litmus test has shown, counted when all of its threads have ended.
#pragma once

#include <cstdint>

#include "measure/litmus_cases.hpp"
#include "measure/litmus_pass.hpp"

namespace perdure::measure {

/// Runs with the test's forbidden outcome; of updates, those that were lost or done twice.
[[nodiscard]] std::uint64_t count_seen(LitmusTest const& test, LitmusPass const& pass);

}  // namespace perdure::measure
