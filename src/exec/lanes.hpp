// What code that tests the order of memory accesses is written over: lanes, which access shared
// words by a named order. exec/cpu/cpu_lanes.hpp has them on a thread of the host, and
// exec/cuda/cuda_lanes.cuh on a warp of a GPU.
//
// Invariant: an access is one access of the machine, in the order that its name says and no
// stronger one; nothing is cached, joined or left out.
#pragma once

#include <cstdint>

namespace perdure::exec {

/// How accesses of one thread are ordered.
enum class Order : std::uint8_t {
  relaxed,
  release_acquire,  // stores release, loads acquire
  fenced,  // relaxed accesses, and a full fence between them, as the engine orders a record and
           // its word
  sequential,  // sequentially consistent accesses
};

/// Whom a GPU's access is meant for. A thread of the host has the whole system's alone.
enum class Scope : std::uint8_t { system, device };

inline constexpr std::uint32_t kLanes = 32;

}  // namespace perdure::exec
