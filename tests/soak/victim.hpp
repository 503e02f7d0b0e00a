// The process that is killed. It loads a pool step by step and says on a page it shares with its
// killer what it is about to do and what it has done; a page outlives its writers, so nothing said
// on it is lost. Invariant: `started` is said before a step begins, `acknowledged` after its last
// call has returned.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/hooks.hpp"
#include "soak/workload.hpp"

namespace perdure::test {

/// The last: it has been refused and does nothing more until it is killed.
enum class Phase : std::uint32_t { forked, opening, loading, closing, done };

inline constexpr std::size_t kMostRefused = 256;  // of one victim

struct Page {
  std::atomic<Phase> phase{Phase::forked};
  std::atomic<std::uint32_t> kernel{0};  // device cuda: one is launched and not known to have ended
  std::atomic<std::uint64_t> opens{0};  // begun
  std::atomic<std::uint64_t> opened_in_us{0};  // by the first open; 0 while it has not ended
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<std::uint32_t> open_transaction{0};  // 1: one has begun, and its end has not returned
  std::atomic<std::uint64_t> ending{
      0};  // the last step, counted from 1, of which a commit or abort has been called
  std::atomic<std::uint64_t> closed_at{0};  // steps acknowledged when the last close began
  std::atomic<std::uint64_t> operations{0};  // acknowledged
  std::atomic<std::uint64_t> refused{0};  // steps, named below: nothing of them may show
  std::array<std::atomic<std::uint64_t>, kMostRefused> refused_step{};
  std::atomic<std::uint64_t> failed_for_good{
      0};  // steps that were refused by a store that then refused everything
  std::atomic<std::uint64_t> failures{0};  // that were injected
  std::atomic<std::uint64_t> forked_off{0};  // children
  std::atomic<int> child_wrong{0};  // the status of a child that did not leave in order
};
static_assert(std::atomic<Phase>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// A crash that the process brings about itself: a kernel's trap at the nth pass of a point.
struct Trap {
  fault::TrapPoint point;
  std::uint64_t nth;
};

/// A fault that the soak itself plants, and must find.
enum class Plant : std::uint8_t {
  none,
  early,  // a step is acknowledged before it is run
  transactions,  // the batches of a transaction are run by themselves
  forks,  // a child writes to the pool
  orphans,  // one keeps its parent's lock
  refused,  // a step that was refused is acknowledged
  disks,  // the disk acknowledges some writes that it does not make durable
};

struct Assignment {
  PoolFiles files;
  Kind kind;
  bool fresh = false;  // make the pool
  std::uint64_t seed = 0;
  std::uint64_t kill = 0;
  std::optional<Trap> trap;
  Plant plant = Plant::none;
  bool forks = false;  // it forks children while it loads
  std::uint64_t allocations_fail = 0;  // one in so many, within calls; 0: none
  std::uint64_t disk_fails = 0;  // of the requests to it, one in so many; 0: none
};

inline constexpr int kTrapped = 40;  // exit status: the trap came, and the store said so

/// Forks a victim.
pid_t start_victim(Assignment const& assignment, Page& page);

}  // namespace perdure::test
