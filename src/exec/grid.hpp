// Kernels in the shape that GPU programs have, blocks of threads, written once for every machine: a
// GPU (grid_cuda.cuh), the host's threads (grid_cpu.hpp), and the simulated one (grid_sim.hpp).
// libGPM's calls, and the applications of its paper, are written against this.
//
// A *kernel* is a value with
//   static constexpr int kPhases      a barrier of the block stands between phases
//   struct Shared                     what a block's threads share; not initialised
//   struct State                      what a thread keeps from phase to phase; zero at first
//   template <int kPhase, class T> PERDURE_FN void run(T& thread, Shared&, State&) const
//
// A *thread* (T) has
//   block(), thread(), blocks(), threads(), global(), total()
//   store(at, value)       to durable memory: a value of 1, 2, 4 or 8 bytes, aligned
//   load(at)               from durable memory that other threads of the launch may be storing to
//   persist()              what the thread stored before is durable before anything it stores
//                          afterwards (GPM section 5.1), unless the launch says Persist::later
//   add, least, greatest, cas, exchange   on volatile memory, by whole words; the value before.
//                                         They order nothing
//   local_fence()          what the thread did before is seen by the machine's threads that see
//                          what it does afterwards
//   pause()                while waiting for another block
// Invariants: durable memory is written through store() alone; a thread waits for no thread of its
// own block inside a phase, and for another block only to release a lock that it holds no longer
// than a phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/annotate.hpp"

namespace perdure::exec {

struct GridShape {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;  // of a block; at most 1024
};

inline constexpr std::uint32_t kMostGridThreads = 1024;

/// Whether persist() does something during a launch: `later` where the host persists what was
/// stored.
enum class Persist : std::uint8_t { here, later };

/// What launches' threads did to durable memory, exactly. On a GPU it costs time, so that is
/// counted only where asked.
struct GridTally {
  std::uint64_t stores = 0;
  std::uint64_t bytes = 0;
  std::uint64_t orders = 0;
  GridTally& operator+=(GridTally const& other) {
    stores += other.stores;
    bytes += other.bytes;
    orders += other.orders;
    return *this;
  }
};

struct NoShared {};
struct NoState {};

/// Where something stands in up to three dimensions, or how far these reach.
struct Extent3 {
  std::uint32_t x, y, z;

  [[nodiscard]] PERDURE_FN std::uint64_t volume() const { return std::uint64_t{x} * y * z; }
  /// The number of a place within this extent, x first: as CUDA numbers the threads of a block for
  /// its warps.
  [[nodiscard]] PERDURE_FN std::uint64_t number_of(Extent3 const& at) const {
    return at.x + x * (at.y + std::uint64_t{y} * at.z);
  }
};

/// Blocks of `threads` for `items` threads, at least.
[[nodiscard]] constexpr GridShape grid_of(std::uint64_t items, std::uint32_t threads) {
  return {static_cast<std::uint32_t>((items + threads - 1) / threads), threads};
}

template <class T>
inline constexpr bool kStorable =
    std::is_trivially_copyable_v<T> &&
    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

}  // namespace perdure::exec
