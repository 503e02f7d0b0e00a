// How gets of a batch fetch their values from PM: as they come, in the order of their addresses, or by the host's
// threads. Nobody knows beforehand from which size on which pays: it depends on the machine, the link and the
// pool's size. So the first batches of each size class try all of them, and the one whose slowest trial was
// the fastest stays; all are tried again now and then.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>

#include "perdure/store.h"

namespace perdure {

class GatherChoice {
 public:
  struct Trial {
    Gather way = Gather::at_once;
    bool timed = false;  // tell noted() how long it took
  };

  /// For a batch of n gets.
  Trial next(Gather wanted, std::uint64_t n) {
    if (wanted != Gather::automatic) return {wanted, false};
    if (n < kFewest) return {};
    std::lock_guard const lock(mutex_);
    Class& c = classes_[class_of(n)];
    std::uint64_t const turn = c.turns++ % kPeriod;
    if (turn == 0) c.slowest.fill(0);  // what was measured long ago is forgotten
    if (turn < kWays.size() * kTrials) return {kWays[turn % kWays.size()], turn >= kWays.size()};
    auto const best = std::min_element(c.slowest.begin(), c.slowest.end()) - c.slowest.begin();
    return {kWays[static_cast<std::size_t>(best)], false};
  }

  void noted(Trial trial, std::uint64_t n, double seconds) {
    std::lock_guard const lock(mutex_);
    auto const way = static_cast<std::size_t>(std::find(kWays.begin(), kWays.end(), trial.way) - kWays.begin());
    double& slowest = classes_[class_of(n)].slowest[way];
    slowest = std::max(slowest, seconds / static_cast<double>(n));
  }

 private:
  static constexpr std::array kWays{Gather::at_once, Gather::in_order, Gather::by_host};
  static constexpr std::uint64_t kFewest = 1u << 10;  // below it a launch costs more than any way could save
  static constexpr std::uint64_t kTrials = 4;         // of each way; the first, which makes buffers, is not timed
  static constexpr std::uint64_t kPeriod = 4096;      // batches
  static std::size_t class_of(std::uint64_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }

  struct Class {
    std::uint64_t turns = 0;
    std::array<double, kWays.size()> slowest{};  // seconds a key: a way that is fast now and then is not fast
  };
  std::mutex mutex_;
  std::array<Class, 64> classes_;
};

}  // namespace perdure
