// What the soak asks of a CUDA engine that was built with trap points (fault/traps.hpp); builds
// without CUDA refuse by name.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hooks.hpp"
#include "perdure/status.h"

namespace perdure::test {

/// From now on the nth pass of `point` in this process aborts its kernel. Makes the CUDA context.
Status arm_trap(fault::TrapPoint point, std::uint64_t nth);
/// Whether a kernel of this process has aborted, and its CUDA context with it.
bool context_is_dead();
/// `*flag` is 1 while a kernel is launched and not known to have ended.
void show_kernels(std::atomic<std::uint32_t>* flag);

}  // namespace perdure::test
