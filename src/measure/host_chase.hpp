// The walk of a pointer chase.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/workers.hpp"

namespace perdure::measure {

/// The first word of each line of 64 bytes says at which word the next line of the walk begins; the
/// walk visits all of the span, a power of two of at least 256 bytes, before it comes back.
void lay_out_walk(exec::Workers& workers, std::uint64_t* lines, std::size_t span);

}  // namespace perdure::measure
