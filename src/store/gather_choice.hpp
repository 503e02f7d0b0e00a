// Whether gets of a batch fetch their values in the order of the addresses or as they come. Nobody knows
// beforehand from which size on sorting pays: it depends on the machine, the link and the pool's size. So
// the first batches of each size class try both, and the faster one stays, tried again now and then.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>

#include "perdure/store.h"

namespace perdure {

class GatherChoice {
 public:
  struct Trial {
    bool in_order = false;
    bool timed = false;  // tell noted() how long it took
  };

  /// For a batch of n gets.
  Trial next(Gather wanted, std::uint64_t n) {
    if (wanted != Gather::automatic) return {wanted == Gather::in_order, false};
    if (n < kFewest) return {};
    std::lock_guard const lock(mutex_);
    Class& c = classes_[class_of(n)];
    std::uint64_t const turn = c.turns++ % kPeriod;
    if (turn < 2 * kTrials) return {turn % 2 == 1, true};
    return {c.best[1] < c.best[0], false};
  }

  void noted(Trial trial, std::uint64_t n, double seconds) {
    std::lock_guard const lock(mutex_);
    Class& c = classes_[class_of(n)];
    double const each = seconds / static_cast<double>(n);
    double& best = c.best[trial.in_order ? 1 : 0];
    bool const first = (c.turns - 1) % kPeriod < 2;  // of a period: what was measured long ago is forgotten
    if (first || each < best) best = each;
  }

 private:
  static constexpr std::uint64_t kFewest = 1u << 12;  // below it a launch costs more than sorting could save
  static constexpr std::uint64_t kTrials = 3;         // of each way
  static constexpr std::uint64_t kPeriod = 4096;      // batches
  static std::size_t class_of(std::uint64_t n) { return static_cast<std::size_t>(std::bit_width(n)) - 1; }

  struct Class {
    std::uint64_t turns = 0;
    std::array<double, 2> best{};  // seconds a key
  };
  std::mutex mutex_;
  std::array<Class, 64> classes_;
};

}  // namespace perdure
