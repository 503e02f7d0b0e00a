// How gets of a batch fetch their values from PM: as they come, in the order of their addresses, by
// the host's threads, or by both the device and the host at a time. Nobody knows beforehand which
// pays: it depends on the machine, the link, the pool's size, and on how many of the keys lie on
// PM. So two questions are asked by trying: whether a batch of so many keys puts its values aside
// or takes them as they come, and how so many that were put aside are fetched. Of each size class
// the way with the fastest middle trial stays; all are tried again now and then.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/assert.hpp"
#include "perdure/store.h"

namespace perdure {

/// Sizes within a factor of two.
inline std::size_t class_of(std::uint64_t n) {
  PERDURE_ASSERT(n > 0);
  return static_cast<std::size_t>(std::bit_width(n)) - 1;
}

/// Picks one of kWays, by size class, from how long each took.
template <std::size_t kWays>
class Contest {
 public:
  struct Trial {
    std::size_t way = 0;
    bool timed = false;  // tell noted() how long it took
  };

  /// The first `settling` turns go to the last way, untimed: so long it may still be learning
  /// itself.
  explicit Contest(std::uint64_t settling) : settling_(settling) {}

  Trial next(std::uint64_t n) {
    std::lock_guard const lock(mutex_);
    Class& c = classes_[class_of(n)];
    std::uint64_t const turn = c.turns++ % kPeriod;
    if (turn == 0) c.took = {};  // what was measured long ago is forgotten
    if (turn < settling_) return {kWays - 1, false};
    std::uint64_t const trial = turn - settling_;
    // All trials of a way follow each other, for it may need the host's threads awake; the first,
    // which wakes them and makes buffers, is not timed.
    if (trial < kWays * kTrials) return {trial / kTrials, trial % kTrials != 0};
    std::size_t best = 0;
    for (std::size_t way = 1; way < kWays; ++way)
      if (c.took[way].middle() < c.took[best].middle()) best = way;
    return {best, false};
  }

  void noted(Trial trial, std::uint64_t n, double seconds) {
    std::lock_guard const lock(mutex_);
    PERDURE_ASSERT(trial.timed && trial.way < kWays);
    classes_[class_of(n)].took[trial.way].add(seconds / static_cast<double>(n));
  }

  /// Seconds an element by that way; 0 = not known yet.
  double middle(std::size_t way, std::uint64_t n) {
    std::lock_guard const lock(mutex_);
    return classes_[class_of(n)].took[way].middle();
  }

  void forget() {
    std::lock_guard const lock(mutex_);
    classes_ = {};
  }

  static constexpr std::uint64_t kTrials = 4;  // of each way
  static constexpr std::uint64_t kTurns = kWays * kTrials;

 private:
  static constexpr std::uint64_t kPeriod = 4096;  // batches

  class Times {
   public:
    void add(double seconds) {
      if (count_ == kTrials) return;
      PERDURE_ASSERT(count_ < kTrials);
      std::size_t at = count_++;
      for (; at > 0 && seconds_[at - 1] > seconds; --at) seconds_[at] = seconds_[at - 1];
      seconds_[at] = seconds;
    }
    [[nodiscard]] double middle() const { return count_ == 0 ? 0 : seconds_[count_ / 2]; }

   private:
    std::array<double, kTrials> seconds_{};  // ascending
    std::size_t count_ = 0;
  };

  struct Class {
    std::uint64_t turns = 0;
    std::array<Times, kWays> took{};
  };
  std::uint64_t settling_;
  std::mutex mutex_;
  std::array<Class, 64> classes_;
};

class GatherAutotuner {
 public:
  // below it a launch costs more than any way could save
  static constexpr std::uint64_t kFewest = 1u << 10;

  using Values = Contest<2>;
  using Aside = Contest<3>;

  /// For a batch of n keys: way 0 takes values as they come, way 1 puts them aside.
  Values::Trial values(Gather asked, std::uint64_t n) {
    if (asked != Gather::automatic) return {asked == Gather::at_once ? 0u : 1u, false};
    if (n < kFewest) return {};
    return values_.next(n);
  }
  void noted(Values::Trial trial, std::uint64_t n, double seconds) {
    values_.noted(trial, n, seconds);
  }

  static constexpr std::array kAside{Gather::in_order, Gather::by_host, Gather::shared};

  /// For n values that were put aside: kAside[way]. `exact`: entries say where exactly, as the host
  /// must know.
  Aside::Trial aside(Gather asked, std::uint64_t n, bool exact) {
    if (!exact) return {};
    if (asked != Gather::automatic)
      return {
          static_cast<std::size_t>(std::find(kAside.begin(), kAside.end(), asked) - kAside.begin()),
          false};
    return aside_.next(n);
  }
  void noted(Aside::Trial trial, std::uint64_t n, double seconds) {
    aside_.noted(trial, n, seconds);
  }

  /// Everything is tried again.
  void forget() {
    values_.forget();
    aside_.forget();
  }

  /// Where to part what n keys put aside, as a share of the pool: the host fetches what lies below,
  /// the device the rest, which pays for each page that it touches, however little of it.
  double pivot(std::uint64_t n) {
    std::lock_guard const lock(mutex_);
    return pivots_[class_of(n)];
  }
  /// So many lay below it and above. The next batch is parted so that both are done at one time.
  void parted(std::uint64_t n, std::uint64_t below, std::uint64_t above) {
    PERDURE_ASSERT(below + above <= n);
    if (below + above == 0) return;
    double const device = aside_.middle(0, below + above), host = aside_.middle(1, below + above);
    double const target = device > 0 && host > 0 ? device / (device + host) : 0.5;
    double const had = static_cast<double>(below) / static_cast<double>(below + above);
    std::lock_guard const lock(mutex_);
    double& pivot = pivots_[class_of(n)];
    pivot = std::clamp(pivot + (target - had) / 2, 0.01, 1.0);
  }

 private:
  static constexpr std::array<double, 64> even() {
    std::array<double, 64> all{};
    all.fill(0.5);
    return all;
  }
  Values values_{Aside::kTurns};
  Aside aside_{0};
  std::mutex mutex_;
  std::array<double, 64> pivots_ = even();
};

}  // namespace perdure
