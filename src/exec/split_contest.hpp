// A contest between two ways of answering a batch (split.hpp): blocks of the way that stays and of
// its challenger, in turns, each long enough that what counts is how it goes on and not how it
// begins: after another way threads are asleep and caches cold. Invariants: no challenger wins by
// fewer than three pairs of blocks that agree; where they do not, the middle of the ratios of all
// pairs decides. A batch that is never noted is not waited for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace perdure::exec {

enum class SplitWay : std::uint8_t { host, device, both };
inline constexpr std::size_t kSplitWays = 3;

/// Batches that follow each other, as one: a mean tells of slow ones among small batches, where a
/// middle one would not.
class Window {
 public:
  /// Whether it is complete, which takes kSeconds times `stretch`.
  bool add(std::size_t keys, double seconds, double stretch = 1) {
    keys_ += static_cast<double>(keys);
    seconds_ += seconds;
    return seconds_ >= kSeconds * stretch;
  }
  [[nodiscard]] double each() const { return seconds_ / keys_; }

 private:
  static constexpr double kSeconds = 150e-6;
  double keys_ = 0, seconds_ = 0;
};

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
  /// What the batches of one of the two came to.
  struct Sum {
    double seconds = 0;
    double keys = 0;
    double each = 0;  // seconds a key, of the middle block; of all batches where none is complete
  };

  static constexpr double kClear = 1.5;  // a challenger that takes so much longer has lost

  struct Terms {
    double below = 1;  // the challenger wins with a ratio of times below it
    std::uint32_t settling = 1;  // batches of the challenger that come first and do not count
    double hopeless = 0;  // seconds a key; it has lost if all of those take longer; 0 = never
    double most_cost = 0;  // seconds; it has lost if its batches took so much longer; 0 = never
  };
  /// A long one has fewer and longer blocks: some milliseconds pass until caches and cores are as a
  /// way leaves them that stays.
  void begin(SplitWay stays, SplitWay challenger, bool is_long, Terms const& terms);
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] bool is_long() const { return stretch_ > 1; }
  [[nodiscard]] SplitWay challenger() const { return challenger_; }
  /// Of the next batch: the block that it belongs to, and the way it goes.
  [[nodiscard]] std::uint32_t block() const { return block_; }
  [[nodiscard]] SplitWay way() const { return is_of_challenger(block_) ? challenger_ : stays_; }
  Verdict noted(std::uint32_t block, std::size_t keys, double seconds);
  void end() { open_ = false; }
  [[nodiscard]] Sum sum(bool of_challenger) const;

 private:
  // of a block, which do not count: so many batches, and so many seconds at least
  static constexpr std::uint32_t kUncounted = 2;
  static constexpr double kUncountedSeconds = 300e-6;
  static constexpr std::uint32_t kWindows = 4;  // of a block, that count
  static constexpr double kSlow =
      1.5;  // a window that took more than so many others counts as them
  static constexpr std::uint32_t kPairs = 11;
  static constexpr double kStretch = 16;  // of the times above, in a long contest
  static constexpr std::uint32_t kLongPairs = 5;
  static constexpr double kHopeless = 2;  // times the way that stays, in so many windows
  static constexpr std::uint32_t kHopelessWindows = 3;
  static constexpr std::uint32_t kFewPairs = 3;
  static constexpr double kPlain = 1.1;  // ratio that so many pairs decide by, where they agree

  /// Block 0 settles the challenger; then they take turns, the way that stays first.
  static bool is_of_challenger(std::uint32_t block) { return block % 2 == 0; }
  void end_block();
  [[nodiscard]] bool is_hopeless() const;
  [[nodiscard]] bool costs_too_much() const;
  [[nodiscard]] Verdict verdict() const;

  bool open_ = false;
  SplitWay stays_ = SplitWay::host, challenger_ = SplitWay::host;
  Terms terms_;
  bool promising_ = false;  // a batch that settled did not take too long
  double stretch_ = 1;
  std::uint32_t most_pairs_ = kPairs;
  std::uint32_t block_ = 0;
  // of the block under way
  std::uint32_t batches_ = 0;
  double seconds_ = 0;
  Window window_;
  std::array<double, kWindows> windows_{};
  std::uint32_t windows_done_ = 0;
  double least_ = 0;  // of the windows of the block before
  // seconds a key of the blocks that are done, of who stays and of the challenger
  std::array<std::array<double, kPairs>, 2> each_{};
  std::array<std::uint32_t, 2> done_{};
  std::array<Sum, 2> sums_{};
};

}  // namespace perdure::exec
