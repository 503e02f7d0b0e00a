// Who answers a batch of gets: the host's threads, the device, or both, each a part. Nobody knows
// beforehand which is fastest, so each way is tried, of each size class, and the one with the
// smallest middle time stays. The part that the device gets begins with what the two took alone,
// and moves until both end at one time: while the host waits, by the two rates; when the device was
// done first, by an eighth of the smaller part.
//
// Invariants: once decided, ways that were slower are tried again for at most 1/256 of the time
// that the class has taken since, so a batch is never much slower than the best way known. And
// deciding takes no time beside the smallest batches, of a few microseconds: middles are found when
// a time is added, and of the way that stays one batch of eight adds its time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hetero.hpp"

namespace perdure::hetero {

/// Of one batch: how long it took; of one that both answered, how long the host took for its part,
/// and whether the device had ended by then.
struct SplitTimes {
  double seconds = 0;
  double host_seconds = 0;
  bool device_first = false;
};

class Split {
 public:
  struct Choice {
    Way way = Way::host;
    std::size_t device_n = 0;  // the first keys of the batch are the device's
  };

  Choice next(std::size_t n) {
    Class& c = classes_[class_of(n)];
    if (c.trials == kTrials * (kWays - 1)) c.share = share_by_times_alone(c);
    return choice(c, c.trials < kTrials * kWays ? trial_way(c.trials) : decided(c), n);
  }
  [[nodiscard]] Choice asked(Way way, std::size_t n) const {
    return choice(classes_[class_of(n)], way, n);
  }

  /// A batch went as next() chose.
  void noted(Choice const& was, std::size_t n, SplitTimes const& took) {
    Class& c = classes_[class_of(n)];
    Times& times = c.times[static_cast<std::size_t>(was.way)];
    bool const begins = c.trials < kTrials * kWays;
    std::uint64_t const trial = c.trials++;
    // The first trial of a way wakes threads and makes buffers.
    bool const counts = begins ? trial % kTrials != 0 : was.way != c.best || trial % kSampled == 0;
    if (counts) {
      times.add(took.seconds / static_cast<double>(n));
      c.best = best(c);
    }
    if (was.way == Way::both) move_share(c, was, n, took);
  }
  /// A batch was parted as asked() said, which is no trial.
  void parted(Choice const& was, std::size_t n, SplitTimes const& took) {
    move_share(classes_[class_of(n)], was, n, took);
  }

  [[nodiscard]] SplitStats stats(std::size_t n) const {
    std::size_t const k = class_of(n);
    Class const& c = classes_[k];
    double const us = static_cast<double>(n) * 1e6;
    auto const of = [&](Way way) { return c.times[static_cast<std::size_t>(way)].middle() * us; };
    return {std::uint64_t{1} << k, c.share, of(Way::host), of(Way::device), of(Way::both), c.best};
  }

 private:
  static constexpr std::size_t kWays = 3;
  static constexpr std::uint64_t kTrials = 12;  // of each way: so many the share needs to settle
  static constexpr std::uint64_t kSampled = 8;
  static constexpr double kRetrialShare = 1.0 / 256;

  class Times {  // the last few
   public:
    void add(double seconds) {
      seconds_[count_++ % kKept] = seconds;
      std::size_t const n = std::min(count_, kKept);
      auto sorted = seconds_;
      std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
      middle_ = sorted[n / 2];
    }
    /// 0 of none.
    [[nodiscard]] double middle() const { return middle_; }

   private:
    static constexpr std::size_t kKept = 7;
    std::array<double, kKept> seconds_{};
    std::size_t count_ = 0;
    double middle_ = 0;
  };

  struct Class {
    std::uint64_t trials = 0;
    double share = 0.5;
    std::array<Times, kWays> times{};
    Way best = Way::host;  // by the middle times
    double batches = 0;  // since a slower way was last tried
    std::size_t next_retrial = 0;
  };

  static std::size_t class_of(std::size_t n) {
    return static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(n, 1))) - 1;
  }
  static Way trial_way(std::uint64_t trial) { return static_cast<Way>(trial / kTrials); }

  /// What the part begins with: each side's rate is what it had alone.
  static double share_by_times_alone(Class const& c) {
    double const host = c.times[static_cast<std::size_t>(Way::host)].middle();
    double const device = c.times[static_cast<std::size_t>(Way::device)].middle();
    return host + device > 0 ? within(host / (host + device)) : 0.5;
  }
  static double within(double share) { return std::clamp(share, 1.0 / 64, 1 - 1.0 / 1024); }

  static Way best(Class const& c) {
    auto const of = [&](Way way) { return c.times[static_cast<std::size_t>(way)].middle(); };
    Way const alone = of(Way::host) <= of(Way::device) ? Way::host : Way::device;
    return of(Way::both) > 0 && of(Way::both) < of(alone) ? Way::both : alone;
  }

  Way decided(Class& c) {
    Way const stays = c.best;
    auto const again = static_cast<Way>(c.next_retrial % kWays);
    double const costs = c.times[static_cast<std::size_t>(again)].middle();
    double const usual = c.times[static_cast<std::size_t>(stays)].middle();
    c.batches += 1;
    if (again == stays) ++c.next_retrial;
    if (again == stays || costs > kRetrialShare * usual * c.batches) return stays;
    ++c.next_retrial;
    c.batches = 0;
    return again;
  }

  static Choice choice(Class const& c, Way way, std::size_t n) {
    if (way == Way::host) return {way, 0};
    if (way == Way::device) return {way, n};
    auto const part = static_cast<std::size_t>(std::lround(c.share * static_cast<double>(n)));
    return {Way::both, std::clamp<std::size_t>(part, 1, std::max<std::size_t>(n, 2) - 1)};
  }

  static void move_share(Class& c, Choice const& was, std::size_t n, SplitTimes const& took) {
    if (took.device_first) {
      c.share += std::min(c.share, 1 - c.share) / 8;
    } else if (took.seconds > 0 && took.host_seconds > 0) {
      double const device = static_cast<double>(was.device_n) / took.seconds;
      double const host = static_cast<double>(n - was.device_n) / took.host_seconds;
      c.share += (device / (device + host) - c.share) / 2;
    }
    c.share = within(c.share);
  }

  std::array<Class, 64> classes_;
};

}  // namespace perdure::hetero
