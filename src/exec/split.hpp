// Who answers a batch: the host's threads, a device, or both, each a part. Nobody knows beforehand
// which is fastest, so ways are compared while running, of each size class by itself. A way takes
// over only in a contest (split_contest.hpp): some batches of the way that stays and some of its
// challenger, in turns, so that what else the machine does meets both. The device's part begins
// with what the two took alone, and moves until both end at one time (section 4.3.3.2 of the
// thesis on heterogeneous memory: who waits for the device answers meanwhile).
//
// Invariants: a contest that a way lost has cost at most 1/96 of the time that its class takes
// until its next one, half of it when it loses again, down to 1/384; 1/64 while the way that stays
// has changed, or is slower than what is known of the other (l * l / 4 where it is slower by a part
// l of its time, so what is lost until then is 4/l of what the contest before cost); and a long one
// that follows a near loss 1/192 more. A way that has been tried before is given up where its
// batches have cost 20 ms, or what eight of the way that stays take, whichever is more. Hence the
// bound: on a machine that stays as it is, all batches of a class take at most 1/0.97 of the time
// of its better side (1/0.92 of both, who must be 6 % faster to take over), and 0.1 s and 40
// batches of the slowest way, which is what learning costs. A way that won by a slow moment of the
// other is compared again soon, and at once where it is not what it was. Deciding takes some 20 ns,
// beside batches of a few microseconds. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/split_contest.hpp"

namespace perdure::exec {

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
  /// wake, buffers are made, a device finds its own best way. `usual`: the way that stays first.
  explicit Split(std::uint32_t settling = 2, Way usual = Way::host) : settling_(settling) {
    for (Class& c : classes_) c.best = usual;
  }

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
  /// What is known of a way that does not stay.
  struct Rival {
    bool tried = false;
    bool doubted = false;  // the way that stays has changed since
    double excess = 0;  // seconds that its last contest cost
    double since = 0;  // seconds of batches since then
    std::uint32_t batches = 0;  // since then
    std::uint32_t lost = 0;  // contests, one after the other
    bool tried_long = false;  // the same of its last long contest
    double excess_long = 0, since_long = 0;
  };
  struct Class {
    bool came = false;
    std::uint32_t settled = 0;  // batches of the way that stays first
    Way best = Way::host;
    std::array<double, kSplitWays> middle{};  // seconds a key
    // The same at its best: what a contest says counts half where it is slower, for it may have met
    // a slow moment.
    std::array<double, kSplitWays> known{};
    double excess = 0;  // of the contest so far that is under way
    bool won_short = false;  // and why it goes on
    std::uint64_t ended = 0;  // contests
    double spent = 0, on_contests = 0;  // see Report
    double share_then = 0;  // when a contest ended last, where both stay
    std::array<Rival, kSplitWays> rivals{};
    SplitContest contest;
    std::uint32_t contests = 0;  // begun
    std::size_t last_rival = 0;
    double plain_seconds = 0, plain_keys = 0;  // of the way that stays, since its last contest
    Window window;  // of the way that stays, since its last contest
    Middle watched;  // such windows
    std::uint32_t odd = 0;  // middles of them, one after the other, that are of another machine
    Window host_part;  // of the host, while both stay
    Middle host_parts;
    double share = 0.5;
    std::uint32_t moves = 0;  // of the share
  };

  static double budget(Class const& c, std::size_t way);
  static bool is_due(Class const& c, std::size_t way);
  static double most_cost(Class const& c, std::size_t way, std::size_t n);
  void begin_contest(Class& c, std::size_t n) const;
  static double takes_over_below(Way stays, Way challenger);
  static bool goes_on(Class const& c, std::size_t n, bool wins);
  void end_contest(Class& c, std::size_t n, SplitContest::Verdict verdict) const;
  static void watch(Class& c, std::size_t n, double seconds);
  static void host_alone(Class& c, Choice const& was, std::size_t n, Times const& took);
  static void learn(Class& c, Way way, double each);
  static void changed(Class& c, double now, bool parts_otherwise);
  static Choice choice(Class const& c, Way way, std::size_t n);
  static void move_share(Class& c, Choice const& was, std::size_t n, Times const& took);
  static Report report_of(Class const& c, std::size_t k);

  std::uint32_t settling_;
  std::array<Class, 64> classes_;
};

}  // namespace perdure::exec
