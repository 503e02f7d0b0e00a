// Several ways of doing the same, of which nobody knows beforehand which is fastest: who answers a
// batch (split.hpp), or how a device fetches values (gather_autotuner.hpp). Batches of one size
// class; one way stays. Another takes over only in a contest (way_contest.hpp): some batches of the
// way that stays and some of its challenger, in turns, so that what else the machine does meets
// both.
//
// Invariants: no contest, the first of a way among them, costs more than kMostCost or what
// kMostBatches of the way that stays take, whichever is more (kFirst times that of a way that is
// new), and one batch; the first batch of a way, which makes its buffers, comes on top. A contest
// that a way lost has cost at most 1/96 of the time that its class takes until its next one, half
// of it when it loses again, down to 1/384; 1/64 while the way that stays has changed, or is slower
// than what is known of the other (l * l / 4 where it is slower by a part l of its time); and a
// long one, that follows a near loss, 1/192 more, halved as well. Between contests a way is glanced
// at: two batches, for 1/256 of the time, that are compared with the first two of its last contest,
// caches and threads being as cold then. Where they are plainly quicker, the contest goes on. So on
// a machine that stays as it is, all batches of a class take at most 1/0.97 of the time of its
// fastest way (of one that must be faster by a part to take over, that much more), and 0.1 s and 40
// batches of the slowest way, which is what learning costs; 0.1 s more for each way that has a
// choice of its own to make. What a contest says of such a way before it has chosen is not kept
// unless it is far behind: it is tried again soon, as if it were new, until that time is spent. A
// single window may lose what
// two contests cost. Deciding takes some 20 ns, beside batches of a few microseconds. One thread at
// a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "exec/way_contest.hpp"

namespace perdure::exec {

class Ways {
 public:
  static constexpr std::size_t kMost = 4;
  struct Rules {
    std::size_t ways = kMost;
    std::size_t usual = 0;  // the way that stays first
    std::uint32_t settling = 2;  // batches of it until it is as fast as it will be: threads wake
    // the same of each challenger, in its first contest
    std::array<std::uint32_t, kMost> first{2, 2, 2, 2};
    // No long contest before each has had a short one: where one may be far faster than the others.
    bool all_before_long = false;
    // The ratio of times below which a challenger takes over.
    double (*takes_over_below)(std::size_t stays, std::size_t challenger) = nullptr;
  };
  struct Choice {
    std::size_t way = 0;
    std::uint32_t contest = 0;  // that this batch belongs to; 0 = none
    std::uint32_t block = 0;  // of the contest
  };
  /// Of a batch that went as chosen.
  struct Times {
    double seconds = 0;
    bool learning = false;  // the way still had a choice of its own to make
    bool parts_otherwise = false;  // it has become another way since its last contest
  };

  Ways() = default;
  explicit Ways(Rules const& rules) : rules_(rules), best_(rules.usual) {}

  Choice next(std::size_t n);
  /// Whether what is known of the ways begins anew: a contest has ended, or the way that stays has
  /// changed.
  bool noted(Choice const& was, std::size_t n, Times const& took);
  /// A way is known to take so long at most; says nothing of one that was never tried.
  void known_at_most(std::size_t way, double each);

  [[nodiscard]] std::size_t best() const { return best_; }
  /// Whether each way has had a contest.
  [[nodiscard]] bool all_tried() const;
  /// Seconds a key, as measured last; 0 = not tried.
  [[nodiscard]] double each(std::size_t way) const { return middle_[way]; }
  [[nodiscard]] std::uint64_t contests() const { return ended_; }
  /// Seconds of all batches, and of them more than the better way of a contest would have taken.
  [[nodiscard]] double spent() const { return spent_; }
  [[nodiscard]] double on_contests() const { return on_contests_; }

  /// What a contest may cost, and the part of the time that may go into those of one way: for tests
  /// of the bound.
  static constexpr double kMostCost = 8e-3;
  static constexpr double kMostBatches = 8;
  static constexpr double kFirst = 2;  // times as much, of a way that is new

 private:
  /// What is known of a way that does not stay.
  struct Rival {
    bool tried = false;
    double learnt = 0;  // seconds that its contests cost while it had a choice of its own to make
    bool doubted = false;  // the way that stays has changed since
    double excess = 0;  // seconds that its last contest cost
    double since = 0;  // seconds of batches since then
    std::uint32_t batches = 0;  // since then
    std::uint32_t lost = 0;  // contests, one after the other
    double quickest = 0;  // seconds a key, of the batches that settled it last
    double excess_glance = 0, since_glance = 0;  // the same of the last glance
    std::uint32_t batches_glance = 0;
    bool tried_long = false;  // the same of its last long contest
    double excess_long = 0, since_long = 0;
  };

  [[nodiscard]] double budget(std::size_t way) const;
  [[nodiscard]] bool is_due(std::size_t way) const;
  [[nodiscard]] double most_cost(std::size_t n) const;
  [[nodiscard]] bool is_due_for_a_glance(std::size_t way) const;
  void begin_contest(std::size_t n);
  void glanced(std::size_t way, double excess);
  [[nodiscard]] WayContest::Terms terms(std::size_t challenger, std::size_t n) const;
  [[nodiscard]] bool goes_on(std::size_t n, bool wins) const;
  void end_contest(std::size_t n, WayContest::Verdict verdict);
  [[nodiscard]] bool goes_on_learning(std::size_t way, bool challenger, double excess) const;
  bool watch(std::size_t n, Times const& took);
  void learn(std::size_t way, double each);
  void changed(double now, bool parts_otherwise);

  Rules rules_;
  std::uint32_t settled_ = 0;  // batches of the way that stays first
  double learning_seconds_ = 0;  // that it took while it was learning
  std::uint32_t learning_ = 0;  // such batches
  std::size_t best_ = 0;
  std::array<double, kMost> middle_{};  // seconds a key
  // The same at its best: what a contest says counts half where it is slower, for it may have met a
  // slow moment.
  std::array<double, kMost> known_{};
  double excess_ = 0;  // of the contest so far that is under way
  bool won_short_ = false;  // and why it goes on
  std::uint64_t ended_ = 0;  // contests
  double spent_ = 0, on_contests_ = 0;
  std::array<Rival, kMost> rivals_{};
  WayContest contest_;
  std::uint32_t contests_ = 0;  // begun
  std::size_t last_rival_ = 0;
  double plain_seconds_ = 0, plain_keys_ = 0;  // of the way that stays, since its last contest
  Window window_;  // of the way that stays, since its last contest
  Middle watched_;  // such windows
  std::uint32_t odd_ = 0;  // middles of them, one after the other, that are of another machine
};

}  // namespace perdure::exec
