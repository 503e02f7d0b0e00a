// How gets of a batch fetch their values from PM: as they come, in the order of their addresses, or by the host's
// threads. Nobody knows beforehand from which size on which pays: it depends on the machine, the link and the
// pool's size. So the first batches of each size class try all of them, and the fastest stays, tried again
// now and then.
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
    if (turn == 0) c.best.fill(kNever);  // what was measured long ago is forgotten
    if (turn < kWays.size() * kTrials) return {kWays[turn % kWays.size()], true};
    auto const fastest = std::min_element(c.best.begin(), c.best.end()) - c.best.begin();
    return {kWays[static_cast<std::size_t>(fastest)], false};
  }

  void noted(Trial trial, std::uint64_t n, double seconds) {
    std::lock_guard const lock(mutex_);
    auto const way = static_cast<std::size_t>(std::find(kWays.begin(), kWays.end(), trial.way) - kWays.begin());
    double& best = classes_[class_of(n)].best[way];
    best = std::min(best, seconds / static_cast<double>(n));
  }

 private:
  static constexpr std::array kWays{Gather::at_once, Gather::in_order, Gather::by_host};
  static constexpr std::uint64_t kFewest = 1u << 10;  // below it a launch costs more than any way could save
  static constexpr std::uint64_t kTrials = 3;         // of each way
  static constexpr std::uint64_t kPeriod = 4096;      // batches
  static constexpr double kNever = 1e30;
  static std::size_t class_of(std::uint64_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }

  struct Class {
    std::uint64_t turns = 0;
    std::array<double, kWays.size()> best{};  // seconds a key
  };
  std::mutex mutex_;
  std::array<Class, 64> classes_;
};

}  // namespace perdure
