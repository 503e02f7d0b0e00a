// One pass of a litmus test: its threads go through the same cells in groups, a group at the same
// moment, and each notes what it saw. One source for threads of the host and warps of a GPU.
//
// Invariants: each thread's `met` word is stored by that thread alone, so that meeting needs no
// atomics between devices. Cells are zero before the pass; in round r of the ring a store writes r,
// so a load that sees less is one that came before it. A cell comes up again only after the whole
// ring, when its loads have long returned.
#pragma once

#include <cstdint>

#include "base/annotate.hpp"
#include "exec/lanes.hpp"

namespace perdure::measure {

/// What a thread does with a cell, which has two words, x and y.
enum class Access : std::uint8_t { none, store_x, store_y, load_x, load_y, add, cas, swap };

/// The two accesses of a thread, in the order of its program.
struct Steps {
  Access first = Access::none, second = Access::none;
};

inline constexpr std::uint32_t kMostThreads = 4;  // of a test
inline constexpr std::uint32_t kWordStride = 16;  // words: each has a cache line of its own
inline constexpr std::uint32_t kMetStride = 32;
inline constexpr std::uint32_t kRing = 64;  // groups
inline constexpr std::uint32_t kTries = 64;  // of one CAS

struct LitmusPass {
  std::uint32_t *x = nullptr, *y = nullptr;  // of each cell of each team
  std::uint32_t* seen = nullptr;  // by [thread][run]
  std::uint32_t* met = nullptr;  // by [team][thread], kMetStride apart
  std::uint32_t* stop = nullptr;  // not 0: end at once, the pass has failed
  Steps steps[kMostThreads];
  std::uint32_t threads = 0, teams = 0, groups = 0;
  exec::Order order = exec::Order::relaxed;
  std::uint64_t seed = 0;

  [[nodiscard]] PERDURE_FN std::uint64_t runs() const {
    return std::uint64_t{teams} * groups * exec::kLanes;
  }
};

PERDURE_FN std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ x >> 32;
}

struct CellOfRun {
  std::uint32_t *x, *y;
  std::uint32_t round;  // from 1
  std::uint32_t token;  // of this thread and run, not 0
};

/// 1 where a load saw this round's store, and where a CAS took effect; what a swap found.
template <class Side, exec::Order kOrder>
PERDURE_FN std::uint32_t access(Access what, CellOfRun const& cell) {
  switch (what) {
    case Access::store_x: Side::template store<kOrder>(cell.x, cell.round); return 0;
    case Access::store_y: Side::template store<kOrder>(cell.y, cell.round); return 0;
    case Access::load_x: return Side::template load<kOrder>(cell.x) >= cell.round ? 1 : 0;
    case Access::load_y: return Side::template load<kOrder>(cell.y) >= cell.round ? 1 : 0;
    case Access::add: Side::template add<kOrder>(cell.x, 1); return 1;
    case Access::cas:
      for (std::uint32_t i = 0; i < kTries; ++i) {
        std::uint32_t const now = Side::template load<kOrder>(cell.x);
        if (Side::template cas<kOrder>(cell.x, now, now + 1)) return 1;
      }
      return 0;
    case Access::swap: return Side::template swap<kOrder>(cell.x, cell.token);
    case Access::none: return 0;
  }
  return 0;
}

/// Bit 0: what the first access saw; bit 1: the second.
template <class Side, exec::Order kOrder>
PERDURE_FN std::uint32_t run_cell(Steps steps, CellOfRun const& cell) {
  std::uint32_t const first = access<Side, kOrder>(steps.first, cell);
  if (steps.second == Access::none) return first;
  if constexpr (kOrder == exec::Order::fenced) Side::fence();
  return first | access<Side, kOrder>(steps.second, cell) << 1;
}

/// Until all threads of the team have come to the group, or false: somebody has not.
template <class Meeting>
PERDURE_FN bool meet(LitmusPass const& pass, std::uint32_t team, std::uint32_t thread,
                     std::uint32_t group) {
  using exec::Order;
  std::uint32_t* const met = pass.met + team * kMostThreads * kMetStride;
  Meeting::fence();
  Meeting::template store<Order::sequential>(met + thread * kMetStride, group + 1);
  typename Meeting::Wait wait;
  std::uint32_t looks = 0;
  for (std::uint32_t other = 0; other < pass.threads; ++other) {
    while (Meeting::template load<Order::relaxed>(met + other * kMetStride) <= group) {
      if (++looks % 64 == 0 && Meeting::template load<Order::relaxed>(pass.stop) != 0) return false;
      if (!wait.goes_on()) {
        Meeting::template store<Order::sequential>(pass.stop, 1);
        return false;
      }
    }
  }
  Meeting::fence();
  return true;
}

template <class Side, exec::Order kOrder>
PERDURE_FN void run_in_order(Side const& side, LitmusPass const& pass, std::uint32_t team,
                             std::uint32_t thread) {
  for (std::uint32_t group = 0; group < pass.groups; ++group) {
    if (!side.once([&] { return meet<typename Side::Meeting>(pass, team, thread, group); })) return;
    std::uint64_t const chance = mixed(pass.seed + std::uint64_t{team} * pass.groups + group);
    side.each(static_cast<std::uint32_t>(chance % exec::kLanes), [&](std::uint32_t lane) {
      std::uint64_t const at =
          ((std::uint64_t{team} * kRing + group % kRing) * exec::kLanes + lane) * kWordStride;
      std::uint64_t const run = (std::uint64_t{team} * pass.groups + group) * exec::kLanes + lane;
      CellOfRun const cell{pass.x + at, pass.y + at, group / kRing + 1,
                           static_cast<std::uint32_t>(run * pass.threads + thread + 1)};
      Side::delay(static_cast<std::uint32_t>(mixed(chance + lane * kMostThreads + thread) % 1024));
      pass.seen[thread * pass.runs() + run] = run_cell<Side, kOrder>(pass.steps[thread], cell);
    });
  }
}

/// All of what a thread does in a pass.
template <class Side>
PERDURE_FN void run_thread(Side const& side, LitmusPass const& pass, std::uint32_t team,
                           std::uint32_t thread) {
  using exec::Order;
  switch (pass.order) {
    case Order::relaxed: return run_in_order<Side, Order::relaxed>(side, pass, team, thread);
    case Order::release_acquire:
      return run_in_order<Side, Order::release_acquire>(side, pass, team, thread);
    case Order::fenced: return run_in_order<Side, Order::fenced>(side, pass, team, thread);
    case Order::sequential: return run_in_order<Side, Order::sequential>(side, pass, team, thread);
  }
}

}  // namespace perdure::measure
