// How the stores that this thread opens simulate their machine.
#pragma once

#include <cstdint>

namespace perdure::explore {

struct Machine {
  std::uint32_t warps = 3;
  bool stage_by_stage = false;
  bool mirrored = false;
  bool cached = false;  // a cache of a few buckets or records, loaded before each batch
  std::uint32_t window_bits = 15;  // of the tables
};
inline thread_local Machine machine;

}  // namespace perdure::explore
