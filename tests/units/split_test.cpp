// How batches are parted between host and device (exec/split.hpp), on machines that are made up:
// their rates are given, and their noise is generated. What a policy loses against the better side
// alone is therefore exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "exec/split.hpp"

namespace perdure::exec::test {
namespace {

/// What a batch takes by a choice.
Split::Times took(Split::Choice const& choice, std::size_t n, double host_each, double device_each,
                  double device_fixed) {
  double const host = static_cast<double>(n - choice.device_n) * host_each;
  double const device =
      choice.device_n == 0 ? 0 : device_fixed + static_cast<double>(choice.device_n) * device_each;
  return {std::max(host, device), host, device < host ? 0 : device, device < host};
}

TEST(Split, FindsThePartThatEndsAtOneTimeAndRarelyTriesWhatIsSlower) {
  struct Rates {
    double host, device;  // seconds a key
    double share, seconds;  // where both end at one time
  };
  for (Rates const& r : {Rates{3e-9, 1e-9, 0.725, 82.5e-6}, Rates{1e-9, 5e-9, 0.15, 85e-6},
                         Rates{3e-9, 0.36e-9, 0.863, 41.1e-6}}) {
    Split split;
    constexpr std::size_t kBatch = 100000;
    double total = 0;
    for (int i = 0; i < 3000; ++i) {
      Split::Choice const choice = split.next(kBatch);
      Split::Times const times = took(choice, kBatch, r.host, r.device, 10e-6);
      split.noted(choice, kBatch, times);
      if (i >= 1000) total += times.seconds;
    }
    Split::Report const report = split.report(kBatch);
    EXPECT_EQ(report.best, SplitWay::both);
    EXPECT_NEAR(report.share, r.share, 0.025);
    EXPECT_LT(total, 2000 * r.seconds * 1.08);
  }
}

TEST(Split, LeavesBatchesToTheSideThatIsFasterAlone) {
  Split split;
  for (std::size_t const n : {std::size_t{100}, std::size_t{1} << 20}) {
    double total = 0, best = 0;
    for (int i = 0; i < 200'000; ++i) {
      Split::Choice const choice = split.next(n);
      Split::Times times = took(choice, n, 4e-9, 0.2e-9, 10e-6);
      if (choice.way == SplitWay::both) times.seconds *= 2;  // they get in each other's way
      split.noted(choice, n, times);
      if (i >= 100'000) total += times.seconds;
    }
    best =
        100'000 * std::min(4e-9 * static_cast<double>(n), 10e-6 + 0.2e-9 * static_cast<double>(n));
    EXPECT_EQ(split.report(n).best, n == 100 ? SplitWay::host : SplitWay::device);
    EXPECT_LT(total, best / 0.99) << n;
  }
}

/// Who answers batches of 256 after so many of them, of which the device takes so long for one.
SplitWay way_after(Split& split, int batches, double device) {
  constexpr std::size_t kBatch = 256;
  for (int i = 0; i < batches; ++i) {
    Split::Choice const choice = split.next(kBatch);
    Split::Times times = took(choice, kBatch, 40e-9, 0, device);
    if (choice.way == SplitWay::both) times.seconds *= 2;
    split.noted(choice, kBatch, times);
  }
  return split.report(kBatch).best;
}

TEST(Split, FollowsTheFasterSideWhenTheOtherBecomesSlower) {
  Split split;
  EXPECT_EQ(way_after(split, 20'000, 5e-6), SplitWay::device);
  EXPECT_EQ(way_after(split, 600, 50e-6), SplitWay::host);
}

TEST(Split, ComesBackToASideThatHasBecomeFaster) {
  Split split;
  EXPECT_EQ(way_after(split, 20'000, 50e-6), SplitWay::host);
  EXPECT_EQ(way_after(split, 200'000, 5e-6), SplitWay::device)
      << "nothing told of it but trying again";
}

/// As where parts have been moved to what suits them less.
TEST(Split, LeavesAWayThatHasBecomeALittleSlowerThanAnother) {
  Split split;
  constexpr std::size_t kBatch = 4096;
  auto const slow_batches = [&](int batches, double both) {
    int slow = 0;
    for (int i = 0; i < batches; ++i) {
      Split::Choice const choice = split.next(kBatch);
      double const seconds = choice.way == SplitWay::host     ? 40e-6
                             : choice.way == SplitWay::device ? 90e-6
                                                              : both;
      slow += choice.way == SplitWay::both;
      split.noted(choice, kBatch, {seconds, seconds, seconds, false});
    }
    return slow;
  };
  slow_batches(2000, 36e-6);
  ASSERT_EQ(split.report(kBatch).best, SplitWay::both);
  EXPECT_LT(slow_batches(20'000, 46e-6), 2000);
  EXPECT_EQ(split.report(kBatch).best, SplitWay::host);
}

TEST(Split, LeavesTheUsualWayForAnotherThatIsPlainlyFaster) {
  constexpr std::size_t kBatch = 4096;
  auto const best_where = [&](double host) {
    Split split(24, SplitWay::device);
    for (int i = 0; i < 20'000; ++i) {
      Split::Choice const choice = split.next(kBatch);
      if (i < 24) {
        EXPECT_EQ(choice.way, SplitWay::device) << "it settles first";
      }
      double const seconds = choice.way == SplitWay::device ? 40e-6
                             : choice.way == SplitWay::host ? host
                                                            : 60e-6;
      split.noted(choice, kBatch, {seconds, seconds, seconds, false});
    }
    return split.report(kBatch).best;
  };
  EXPECT_EQ(best_where(39.8e-6), SplitWay::device);
  EXPECT_EQ(best_where(38e-6), SplitWay::host);
}

TEST(Split, GivesUpAContestThatCostsTooMuch) {
  WayContest contest;
  constexpr double kStays = 200e-6, kChallenger = 250e-6, kMost = 5e-3;
  WayContest::Terms terms;
  terms.below = 0.98;
  terms.most_cost = kMost;
  terms.is_long = true;
  contest.begin(0, 1, terms);
  double cost = 0;
  auto verdict = WayContest::Verdict::open;
  while (verdict == WayContest::Verdict::open) {
    bool const challenges = contest.way() == 1;
    cost += challenges ? kChallenger - kStays : 0;
    verdict = contest.noted(contest.block(), 1, challenges ? kChallenger : kStays);
  }
  EXPECT_EQ(verdict, WayContest::Verdict::stays);
  EXPECT_GT(cost, 0.99 * kMost);
  EXPECT_LE(cost, kMost + kChallenger);
}

TEST(Split, TriesEveryWayAlsoAfterBatchesThatWereToBeParted) {
  Split split;
  constexpr std::size_t kBatch = 1000;
  double parted = 0;
  for (int i = 0; i < 200; ++i) {
    Split::Choice const choice = split.asked(SplitWay::both, kBatch);
    Split::Times const times = took(choice, kBatch, 4e-9, 1e-9, 0);
    split.parted(choice, kBatch, times);
    parted = times.seconds;
  }
  EXPECT_LT(parted, 0.9e-6) << "its parts were not moved until both ended at one time";
  int tried[3] = {};
  for (int i = 0; i < 10'000; ++i) {
    Split::Choice const choice = split.next(kBatch);
    ++tried[static_cast<int>(choice.way)];
    Split::Times times = took(choice, kBatch, 4e-9, 1e-9, 0);
    if (choice.way == SplitWay::both) times.seconds *= 3;
    split.noted(choice, kBatch, times);
  }
  for (int const times : tried) EXPECT_GE(times, 5);
  EXPECT_EQ(split.report(kBatch).best, SplitWay::device);
}

/// Batches of several threads end in any order, and one that failed never says how long it took.
TEST(Split, DecidesThoughSomeBatchesOfAContestAreNeverNoted) {
  Split split;
  constexpr std::size_t kBatch = 1000;
  std::mt19937_64 random(20261126);
  std::vector<Split::Choice> running;
  for (int i = 0; i < 200'000; ++i) {
    running.push_back(split.next(kBatch));
    if (running.size() < 8) continue;
    std::swap(running[random() % 8], running.back());
    Split::Choice const choice = running.back();
    running.pop_back();
    if (i % 50 == 0) continue;
    Split::Times times = took(choice, kBatch, 4e-9, 1e-9, 0);
    if (choice.way == SplitWay::both) times.seconds *= 3;
    split.noted(choice, kBatch, times);
  }
  EXPECT_EQ(split.report(kBatch).best, SplitWay::device);
}

/// Rates of batches on an H100 behind PCIe 5 with 16 cores, in millions of keys a second, some of
/// them near each other on purpose.
struct Recorded {
  std::size_t n;
  std::array<double, kSplitWays> rates;  // host, device, both
};
constexpr Recorded kRecorded[] = {
    {256, {34, 9.3, 9}},        {256, {32.5, 19.4, 18}},      {1024, {37.1, 25.8, 30}},
    {1024, {36.9, 75.9, 60}},   {4096, {108, 64.5, 110}},     {4096, {108, 288, 250}},
    {16384, {252, 112, 238}},   {16384, {244, 979, 800}},     {65536, {320, 129, 375}},
    {65536, {323, 2409, 2300}}, {65536, {400, 13, 390}},      {262144, {353, 132, 420}},
    {1048576, {414, 126, 509}}, {1048576, {432, 4552, 4760}}, {1048576, {400, 13, 405}}};

/// Seconds that batches took as the policy chose, and that the better side alone would have taken
/// with the same noise, once it has settled. Times scatter by a tenth, drift, one of a hundred
/// takes ten times as long, and what follows another way's turn takes longer.
struct Played {
  double chosen = 0, alone = 0;
};
Played play(Recorded const& machine, std::uint64_t seed) {
  double const settled = std::max(
      0.6, 600 * static_cast<double>(machine.n) * 1e-6 / *std::ranges::max_element(machine.rates));
  Split split;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.1);
  std::uniform_real_distribution<double> chance(0, 1);
  std::array<double, kSplitWays> seconds{};
  for (std::size_t way = 0; way < kSplitWays; ++way)
    seconds[way] = static_cast<double>(machine.n) * 1e-6 / machine.rates[way];
  Played played;
  double drift = 1;
  int same = 0;
  SplitWay last = SplitWay::host;
  double time = 0, changed = 0;  // now, and when another way's turn began
  double const window = std::max(0.3, 0.5 * settled);
  while (played.chosen < window) {
    Split::Choice const choice = split.next(machine.n);
    same = choice.way == last ? same + 1 : 0;
    if (choice.way != last) changed = time;
    last = choice.way;
    drift = std::clamp(drift * (1 + 0.002 * noise(random)), 0.8, 1.3);
    double const factor = drift * std::exp(noise(random)) * (chance(random) < 0.01 ? 10 : 1);
    double const took = seconds[static_cast<std::size_t>(choice.way)] * factor *
                        (same < 2 || time - changed < 200e-6 ? 1.4 : 1);
    time += took;
    split.noted(choice, machine.n, {took, took, took, false});
    if (time < settled) continue;
    played.chosen += took;
    played.alone += std::min(seconds[0], seconds[1]) * factor;
  }
  return played;
}

/// What one window may lose beside 3 %: a contest of each of two rivals, and the batch of the
/// slowest way, as slow as they come, that a contest ends with.
double most_in_a_window(Recorded const& machine) {
  double const keys = static_cast<double>(machine.n) * 1e-6;
  double const contest = std::max(
      Ways::kMostCost, Ways::kMostBatches * keys / *std::ranges::max_element(machine.rates));
  return 2 * contest + 10 * keys / *std::ranges::min_element(machine.rates);
}

constexpr std::uint64_t kPlays = 20;  // of each machine

/// A single window has its luck, so what all plays of a machine take together is held to 3 %, each
/// to what contests may cost, and one of twenty may be below 0.97.
TEST(Split, LosesThreeHundredthsToTheBetterSideAndInAWindowNoMoreThanTwoContests) {
  std::size_t plays = 0, below = 0;
  for (Recorded const& machine : kRecorded) {
    Played all;
    for (std::uint64_t seed = 1; seed <= kPlays; ++seed) {
      Played const played = play(machine, seed);
      EXPECT_LE(played.chosen, played.alone / 0.97 + most_in_a_window(machine))
          << machine.n << " keys, host " << machine.rates[0] << ", device " << machine.rates[1]
          << ", both " << machine.rates[2] << ", seed " << seed;
      all.chosen += played.chosen;
      all.alone += played.alone;
      ++plays;
      below += played.alone < 0.97 * played.chosen ? 1 : 0;
    }
    EXPECT_GE(all.alone / all.chosen, 0.97) << machine.n << " keys, host " << machine.rates[0];
  }
  EXPECT_LE(below, plays / 20);
}

TEST(Split, GainsWhatBothSidesHaveTogether) {
  for (Recorded const& machine : kRecorded) {
    double const alone = std::max(machine.rates[0], machine.rates[1]);
    if (machine.rates[2] < 1.1 * alone) continue;
    Played const played = play(machine, 1);
    EXPECT_GE(played.alone / played.chosen, 0.94 * machine.rates[2] / alone) << machine.n;
  }
}

/// A machine whose rates change: each row for so many seconds, from the beginning on.
struct Phase {
  double seconds;
  std::array<double, kSplitWays> rates;  // host, device, both; millions a second
  double share;  // of the device, where both end at one time
};

struct Passed {
  double chosen = 0, best = 0;  // seconds that batches took, and by the best way of each phase
  [[nodiscard]] double ratio() const { return best / chosen; }
};

/// What is answered in the last phase, and before, with the noise and the changes of play().
/// `blind`: nothing is known of the parts of a batch but the later one's.
std::array<Passed, 2> pass(std::span<Phase const> phases, std::size_t n, std::uint64_t seed,
                           bool blind) {
  Split split;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.1);
  std::uniform_real_distribution<double> chance(0, 1);
  std::array<Passed, 2> passed;
  SplitWay last = SplitWay::host;
  double changed = 0, time = 0;
  int same = 0;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    Phase const& phase = phases[p];
    Passed& now = passed[p + 1 == phases.size() ? 1 : 0];
    double const keys = static_cast<double>(n) * 1e-6;
    double const best = keys / *std::ranges::max_element(phase.rates);
    for (double const end = time + phase.seconds; time < end;) {
      Split::Choice const choice = split.next(n);
      same = choice.way == last ? same + 1 : 0;
      if (choice.way != last) changed = time;
      last = choice.way;
      double const factor = std::exp(noise(random));
      double const spike = chance(random) < 0.01 ? std::min(9 * best, 5e-3) : 0;
      double const cost = same < 2 || time - changed < 200e-6 ? 1.4 : 1;
      double const seconds =
          keys / phase.rates[static_cast<std::size_t>(choice.way)] * factor * cost + spike;
      double const part = static_cast<double>(choice.device_n) / static_cast<double>(n);
      double const device = std::min(1.0, part / phase.share);
      double const host = std::min(1.0, (1 - part) / (1 - phase.share));
      split.noted(
          choice, n,
          {seconds, seconds * host, blind || device < host ? 0 : seconds * device, device < host});
      time += seconds;
      now.chosen += seconds;
      now.best += best * factor + spike;
    }
  }
  return passed;
}

struct Story {
  char const* what;
  std::size_t n;
  std::vector<Phase> phases;
};

std::vector<Story> stories() {
  return {
      {"the host is slow while ways are compared first",
       256,
       {{0.05, {6, 8.5, 9.5}, 0.5}, {0.9, {29, 8.5, 9.5}, 0.02}, {1.0, {29, 8.5, 9.5}, 0.02}}},
      {"and nearly as slow as both",
       1024,
       {{0.1, {22, 11, 26}, 0.3}, {0.9, {33, 11, 25}, 0.3}, {1.0, {33, 11, 25}, 0.3}}},
      {"other keys, of which the device answers fewer",
       65536,
       {{2, {266, 120, 304}, 0.36}, {1.9, {347, 14, 305}, 0.04}, {1.0, {347, 14, 305}, 0.04}}},
      {"the same, where both are hardly slower than before",
       100000,
       {{2, {307, 131, 366}, 0.33}, {1.9, {356, 14, 325}, 0.04}, {1.0, {356, 14, 325}, 0.04}}},
      {"the way that stays is as it was, and another has become faster",
       4096,
       {{2, {50, 52, 60}, 0.5}, {2.9, {100, 52, 60}, 0.5}, {1.0, {100, 52, 60}, 0.5}}},
      {"other keys, with which both take much longer than the device alone",
       16384,
       {{2, {93, 101, 116}, 0.45}, {0.5, {38, 97, 55}, 0.93}, {0.5, {38, 97, 55}, 0.93}}},
      {"other keys, of which the host answers more, and the device as many as before",
       16384,
       {{2, {37.7, 42.9, 41}, 0.5}, {1, {61.4, 48, 60}, 0.5}, {1, {61.4, 48, 60}, 0.5}}},
      {"the same, of larger batches",
       65536,
       {{2, {48.9, 66.4, 60}, 0.5}, {1, {80.1, 63.5, 75}, 0.5}, {1, {80.1, 63.5, 75}, 0.5}}},
  };
}

TEST(Split, LeavesAWayThatWonByAMomentOfTheMachineWithinSeconds) {
  constexpr std::uint64_t kSeeds = 24;
  for (Story const& story : stories()) {
    Passed all;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Passed const passed = pass(story.phases, story.n, seed, seed % 2 == 0)[1];
      EXPECT_GE(passed.ratio(), 0.9) << story.what << ", seed " << seed;
      all.chosen += passed.chosen;
      all.best += passed.best;
    }
    EXPECT_GE(all.ratio(), 0.97) << story.what;
  }
}

/// The host takes half as long again while its caches are cold, for some milliseconds after another
/// way has answered. Short blocks never see it warm; long ones do.
TEST(Split, FindsASideThatIsFasterOnlyOnceItsCachesAreWarm) {
  constexpr std::size_t kBatch = 16384;
  constexpr double kCold = 0.5, kWarming = 4e-3, kHost = 250e-6, kDevice = 320e-6;
  std::uint32_t found = 0;
  constexpr std::uint64_t kSeeds = 40;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Split split(4, SplitWay::device);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.1);
    double warm = 0;
    for (double time = 0; time < 2;) {
      Split::Choice const choice = split.next(kBatch);
      double seconds = choice.way == SplitWay::host     ? kHost * (1 + kCold * (1 - warm))
                       : choice.way == SplitWay::device ? kDevice
                                                        : 1.2 * kDevice;
      seconds *= std::exp(noise(random));
      bool const warms = choice.way == SplitWay::host;
      warm = warms ? 1 - (1 - warm) * std::exp(-seconds / kWarming)
                   : warm * std::exp(-seconds / kWarming);
      split.noted(choice, kBatch, {seconds, seconds, seconds, false});
      time += seconds;
    }
    found += split.report(kBatch).best == SplitWay::host ? 1 : 0;
  }
  EXPECT_GE(found, kSeeds * 9 / 10);
}

/// A way that is new is given up as any other once it costs too much, and is not forgotten.
TEST(Split, SpendsNoMoreOnAWayThatIsNewThanOnOneItKnows) {
  constexpr std::size_t kBatch = 4096;
  constexpr double kHost = 100e-6, kDevice = 3e-3;
  Split split;
  double lost = 0;
  for (double time = 0; time < 0.3;) {
    Split::Choice const choice = split.next(kBatch);
    double const seconds = choice.way == SplitWay::host ? kHost : kDevice;
    split.noted(choice, kBatch, {seconds, seconds, seconds, false});
    lost += choice.way == SplitWay::host ? 0 : seconds - kHost;
    time += seconds;
  }
  EXPECT_GT(split.report(kBatch).seconds[static_cast<std::size_t>(SplitWay::device)], 0);
  EXPECT_GT(split.report(kBatch).seconds[static_cast<std::size_t>(SplitWay::both)], 0);
  // Each of two: what it may cost, its first batch, which makes buffers, and the one too many.
  EXPECT_LE(lost, 2 * (Ways::kFirst * Ways::kMostCost + 2 * kDevice));
}

/// As a GPU that has four ways of gathering to compare, and needs more batches for that than it
/// gets before it is compared with others itself.
TEST(Split, DoesNotRememberAWayFromBeforeItHadLearnt) {
  constexpr std::size_t kBatch = 262'144;
  constexpr int kLearns = 150;  // batches of the device alone
  constexpr double kHost = 1.5e-3, kBoth = 0.78e-3, kDevice = 0.65e-3;
  for (double const learning_device : {0.84e-3, 1.8e-3}) {
    Split split(24, SplitWay::device);
    int by_device = 0;
    for (double time = 0; time < 2;) {
      Split::Choice const choice = split.next(kBatch);
      Split::Times times;
      if (choice.way == SplitWay::device) {
        times.learning = by_device++ < kLearns;
        times.seconds = times.learning ? learning_device : kDevice;
      } else {
        times.seconds = choice.way == SplitWay::host ? kHost : kBoth;
      }
      times.host_seconds = times.device_seconds = times.seconds;
      split.noted(choice, kBatch, times);
      time += times.seconds;
    }
    EXPECT_EQ(split.report(kBatch).best, SplitWay::device) << learning_device;
  }
}

/// The bound of ways.hpp: beside 1/0.97 of the best way's time (1/0.92 where that is both, who
/// must be 6 % faster to take over), learning costs at most this: long contests, and the first
/// batches of the slowest way.
double learning_cost(std::array<double, kSplitWays> const& rates, std::size_t n) {
  return 0.1 + 40 * static_cast<double>(n) * 1e-6 / *std::ranges::min_element(rates);
}

TEST(Split, LosesNoMoreThanItsBoundOnAnyMachine) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> any(0, 1);
    std::size_t const n = std::size_t{1} << (10 + random() % 11);
    // a batch of the better side takes from 50 us to 5 ms, and others up to twenty times as long
    double const best = static_cast<double>(n) * 1e-6 / (50e-6 * std::pow(100, any(random)));
    std::array<double, kSplitWays> rates{best, best / std::pow(20, any(random)), 0};
    if (random() % 2 == 0) std::swap(rates[0], rates[1]);
    rates[2] = best * (0.3 + any(random));
    std::array const phases{Phase{2, rates, 0.02 + 0.96 * any(random)}};
    Passed const passed = pass(phases, n, seed, random() % 2 == 0)[1];
    double const most = passed.best / (rates[2] > best ? 0.92 : 0.97) + learning_cost(rates, n);
    EXPECT_LE(passed.chosen, most) << "seed " << seed << ", " << n << " keys, " << rates[0] << ' '
                                   << rates[1] << ' ' << rates[2];
  }
}

}  // namespace
}  // namespace perdure::exec::test
