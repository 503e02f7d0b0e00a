// Long runs of bytes into the pool past the processor's caches: nobody reads them soon, and lines
// that are written whole need not be fetched first. Host code alone.
#pragma once

#include <cstddef>

#include "base/line_instructions.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

/// As write_bytes(). Seen by others no later than what the caller writes after it.
inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  copy_past_caches(to, from, bytes);
  order_line_instructions();
  wrote(to, bytes);
}

}  // namespace perdure::pm
