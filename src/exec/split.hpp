// Who answers a batch: the host's threads, a device, or both, each a part. Of each size class by
// itself, ways are compared while running (ways.hpp). The device's part begins with what the two
// took alone, and moves until both end at one time (section 4.3.3.2 of the thesis on heterogeneous
// memory: who waits for the device answers meanwhile).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/ways.hpp"

namespace perdure::exec {

enum class SplitWay : std::uint8_t { host, device, both };
inline constexpr std::size_t kSplitWays = 3;

class Split {
 public:
  using Way = SplitWay;
  struct Choice {
    Way way = Way::host;
    std::size_t device_n = 0;  // the first keys of the batch are the device's
    std::uint32_t contest = 0;  // that this batch belongs to; 0 = none
    std::uint32_t block = 0;  // of the contest
  };
  /// Of one batch that went as chosen.
  struct Times {
    double seconds = 0;
    // of a batch that both answered: how long the host took for its part, and the device, or 0
    // where that is known only of the later one
    double host_seconds = 0;
    double device_seconds = 0;
    bool device_first = false;
    bool learning = false;  // the device still had a choice of its own to make
  };
  /// How batches of a size are answered.
  struct Report {
    std::uint64_t batch = 0;  // from here to twice as many
    double share = 0;  // of the device, where both answer
    std::array<double, kSplitWays> seconds{};  // a batch of `batch`, by way; 0 = not tried
    Way best = Way::host;
    std::uint64_t contests = 0;  // that have ended
    double spent = 0;  // seconds that all of its batches took
    double on_contests = 0;  // of them, more than the better way of a contest would have taken
  };

  /// `settling`: batches that a way takes the first time until it is as fast as it will be: threads
  /// wake, buffers are made. `usual`: the way that stays first.
  explicit Split(std::uint32_t settling = 2, Way usual = Way::host);

  Choice next(std::size_t n);
  [[nodiscard]] Choice asked(Way way, std::size_t n) const;
  /// A batch went as next() chose.
  void noted(Choice const& was, std::size_t n, Times const& took);
  /// A batch was parted as asked() said, which belongs to no contest.
  void parted(Choice const& was, std::size_t n, Times const& took);

  /// Of batches of n keys; of all sizes that next() was asked for.
  [[nodiscard]] Report report(std::size_t n) const;
  [[nodiscard]] std::vector<Report> reports() const;

 private:
  struct Class {
    bool came = false;
    Ways ways;
    Window host_part;  // of the host, while both stay
    Middle host_parts;
    double share = 0.5;
    double share_then = 0;  // when a contest ended last, or both changed
    std::uint32_t moves = 0;  // of the share
  };

  static double takes_over_below(std::size_t stays, std::size_t challenger);
  static void host_alone(Class& c, Choice const& was, std::size_t n, Times const& took);
  static bool parts_otherwise(Class const& c);
  static Choice choice(Class const& c, Way way, std::size_t n);
  static void move_share(Class& c, Choice const& was, std::size_t n, Times const& took);
  static Report report_of(Class const& c, std::size_t k);

  std::array<Class, 64> classes_;
};

}  // namespace perdure::exec
