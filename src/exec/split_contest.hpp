// A contest between two ways of answering a batch (split.hpp): blocks of the way that stays and of
// its challenger, in turns. The first batches of a block do not count, for they find what the other
// way left behind: threads asleep, caches cold. Invariant: no challenger wins by fewer than three
// pairs of blocks that agree; where they do not, the middle of the ratios of all pairs decides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace perdure::exec {

enum class SplitWay : std::uint8_t { host, device, both };
inline constexpr std::size_t kSplitWays = 3;

/// The middle one of the last few.
class Middle {
 public:
  static constexpr std::uint32_t kKept = 7;

  void add(double value) {
    values_[count_++ % kKept] = value;
    auto sorted = values_;
    std::uint32_t const n = std::min(count_, kKept);
    std::sort(sorted.begin(), sorted.begin() + n);
    value_ = sorted[n / 2];
  }
  [[nodiscard]] bool is_full() const { return count_ >= kKept; }
  /// 0 of none.
  [[nodiscard]] double value() const { return value_; }

 private:
  std::array<double, kKept> values_{};
  std::uint32_t count_ = 0;
  double value_ = 0;
};

class SplitContest {
 public:
  enum class Verdict : std::uint8_t { open, stays, challenger };
  struct Step {
    SplitWay way = SplitWay::host;
    std::uint32_t number = 0;
  };
  /// What the batches of one of the two came to.
  struct Sum {
    double seconds = 0;
    double keys = 0;
    double middle = 0;  // seconds a key, of what counted
  };

  /// `settling` batches of the challenger come first and do not count. It wins with a ratio of
  /// times below `below`.
  void begin(SplitWay stays, SplitWay challenger, std::uint32_t settling, double below);
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] SplitWay challenger() const { return challenger_; }
  /// Whether there is a step that nobody has taken.
  [[nodiscard]] bool has_next() const { return next_ < settling_ + kPairs * 2 * kBlock; }
  Step next();
  /// Batches that began meanwhile, and belong to no step, so that one that failed is not waited
  /// for.
  bool waited_too_long() { return ++waited_ > kMostWaited; }
  Verdict noted(std::uint32_t step, std::size_t keys, double seconds);
  void end() { open_ = false; }
  [[nodiscard]] Sum sum(bool of_challenger) const;

 private:
  static constexpr std::uint32_t kUncounted = 2, kCounted = 3, kBlock = kUncounted + kCounted;
  static constexpr std::uint32_t kPairs = 11;
  static constexpr double kClear = 1.5;  // a challenger that takes so much longer has lost
  static constexpr std::uint32_t kFewPairs = 3;
  static constexpr double kPlain = 1.1;  // ratio that so many pairs decide by, where all agree
  static constexpr std::uint32_t kMostWaited = 64;

  struct Block {
    std::array<double, kCounted> each{};  // seconds a key
    std::uint32_t count = 0;
    [[nodiscard]] double middle() const;
  };

  [[nodiscard]] Verdict verdict() const;

  bool open_ = false;
  SplitWay stays_ = SplitWay::host, challenger_ = SplitWay::host;
  std::uint32_t settling_ = 0, next_ = 0, waited_ = 0;
  double below_ = 1;
  std::array<std::array<Block, 2>, kPairs> blocks_{};  // of who stays, and of the challenger
  std::array<Sum, 2> sums_{};
};

}  // namespace perdure::exec
