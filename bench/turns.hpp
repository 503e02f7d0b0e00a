// Two sides alone and what chooses between them, measured in turns.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "common.hpp"

namespace perdure::bench {

struct Compared {
  double alone[2] = {};  // middle rates, in millions a second
  double chosen = 0;
  double ratio = 0;  // of what was chosen to the better side alone: the middle of all turns
  double same = 0;  // of that side's second turns to its first ones: what the machine alone does
};

/// one(way) runs a batch of n by side 0, by side 1, or (2) as is chosen. Each side has two turns to
/// one of what is chosen: the second tells how far a way is from itself. So that what else the
/// machine does meets all of them, each comes at every place equally often, after either
/// neighbour; the first two batches of a turn find what another way left behind, and do not count.
/// Which side is better the middles of all turns say: of two that are alike the luckier one of each
/// turn is better than either.
template <class F>
Compared compare_in_turns(std::size_t n, double seconds, F one) {
  constexpr int kTurns = 15, kUncounted = 2, kFewest = 2, kPlaces = 5;
  using Clock = std::chrono::steady_clock;
  auto const turn = [&](int way) {
    for (int i = 0; i < kUncounted; ++i) one(way);
    auto const start = Clock::now();
    std::size_t done = 0;
    double took = 0;
    for (int i = 0; i < kFewest || took < seconds / kTurns; ++i) {
      one(way);
      done += n;
      took = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return static_cast<double>(done) / took * 1e-6;
  };
  std::vector<double> mops[kPlaces];  // sides, what is chosen, sides again
  for (int t = 0; t < kTurns; ++t) {
    for (int k = 0; k < kPlaces; ++k) {
      int const place = (t + (t % 2 == 0 ? k : kPlaces - k)) % kPlaces;
      mops[place].push_back(turn(place % 3));
    }
  }
  auto const ratio = [](std::vector<double> of, std::vector<double> const& to) {
    for (std::size_t t = 0; t < of.size(); ++t) of[t] /= to[t];
    return median(std::move(of));
  };
  Compared compared{{median(mops[0]), median(mops[1])}, median(mops[2]), 0, 0};
  std::size_t const better = compared.alone[0] > compared.alone[1] ? 0 : 1;
  compared.ratio = ratio(mops[2], mops[better]);
  compared.same = ratio(mops[better + 3], mops[better]);
  return compared;
}

/// Of the time that what chooses took from `before` to `after`, the part that went into comparing
/// ways; what else a ratio below 1 has lost was the choice.
template <class Stats>
double part_of_contests(Stats const& before, Stats const& after) {
  double const spent = after.spent_seconds - before.spent_seconds;
  return spent > 0 ? (after.contest_seconds - before.contest_seconds) / spent : 0;
}

/// What a batch takes, in seconds, once the other way has answered for a while: at first, when
/// caches and threads are as that one left them, and later, when it has answered for a while
/// itself.
struct AfterAnother {
  double first = 0;  // the mean of a millisecond, after two batches
  double later = 0;  // of the last ten milliseconds
};

/// The middle of some times; other() and one() each run a batch.
template <class Other, class F>
AfterAnother after_another(Other other, F one) {
  constexpr int kTimes = 5, kUncounted = 2;
  constexpr double kOther = 30e-3, kFirst = 1e-3, kUntil = 40e-3, kLater = 10e-3;
  using Clock = std::chrono::steady_clock;
  auto const mean_of = [](double seconds, auto run) {
    auto const start = Clock::now();
    double took = 0;
    int batches = 0;
    for (; batches == 0 || took < seconds; ++batches) {
      run();
      took = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return took / batches;
  };
  std::vector<double> first, later;
  for (int time = 0; time < kTimes; ++time) {
    mean_of(kOther, other);
    for (int i = 0; i < kUncounted; ++i) one();
    first.push_back(mean_of(kFirst, one));
    mean_of(kUntil, one);
    later.push_back(mean_of(kLater, one));
  }
  return {median(std::move(first)), median(std::move(later))};
}

/// What a row says of it: sides are the host and a device, and `before` and `after` what chooses
/// counted around it.
template <class Stats>
Json row_of(Compared const& compared, Stats const& before, Stats const& after) {
  return {{"host_mops", compared.alone[0]},
          {"device_mops", compared.alone[1]},
          {"mops", compared.chosen},
          {"ratio", compared.ratio},
          {"same", compared.same},
          {"contests", after.contests - before.contests},
          {"on_contests", part_of_contests(before, after)}};
}

/// Until what chooses has chosen: one() runs a batch.
template <class F>
void let_settle(F one) {
  using Clock = std::chrono::steady_clock;
  constexpr int kFewest = 400;  // batches
  constexpr std::chrono::milliseconds kLeast{1000}, kMost{6000};
  auto const start = Clock::now();
  auto const took = [&] { return Clock::now() - start; };
  for (int i = 0; (i < kFewest || took() < kLeast) && took() < kMost; ++i) one();
}

}  // namespace perdure::bench
