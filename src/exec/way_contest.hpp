// A contest between two ways of doing the same (ways.hpp): blocks of the way that stays and of its
// challenger, in turns, each long enough that what counts is how it goes on and not how it begins:
// after another way threads are asleep and caches cold. Invariants: no challenger wins by fewer
// than three pairs of blocks that agree; where they do not, the middle of the ratios of all pairs
// decides. A challenger has lost once it has cost what it may. A batch that is never noted is not
// waited for.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace perdure::exec {

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
    auto parted = values_;
    std::uint32_t const n = std::min(count_, kKept);
    auto const middle = parted.begin() + n / 2;
    std::nth_element(parted.begin(), middle, parted.begin() + n);
    value_ = *middle;
  }
  [[nodiscard]] bool is_full() const { return count_ >= kKept; }
  /// 0 of none.
  [[nodiscard]] double value() const { return value_; }

 private:
  std::array<double, kKept> values_{};
  std::uint32_t count_ = 0;
  double value_ = 0;
};

class WayContest {
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
    // seconds a key of the way that stays, as known before; and how much longer it takes with its
    // slow batches among them, which no contest is to blame for
    double stays_each = 0, slow_batches = 1;
    double hopeless = 0;  // seconds a key; it has lost if all that settle take longer; 0 = never
    double most_cost = 0;  // seconds; it has lost if its batches took so much longer; 0 = never
    bool is_long = false;  // fewer and longer blocks: some milliseconds pass until caches and cores
                           // are as a way leaves them that stays
    bool lost_before = false;  // one pair that says so again is enough
    // seconds a key, of its quickest batch that settled the last time; a glance ends with those
    // batches where they are not plainly quicker now; 0 = not a glance
    double glance = 0;
    bool is_new = false;  // its first batch makes buffers, which is no cost of a contest
  };
  void begin(std::size_t stays, std::size_t challenger, Terms const& terms);
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] bool is_long() const { return terms_.is_long; }
  [[nodiscard]] bool is_glance() const { return terms_.glance > 0; }
  [[nodiscard]] std::size_t challenger() const { return challenger_; }
  /// Of the next batch: the block that it belongs to, and the way it goes.
  [[nodiscard]] std::uint32_t block() const { return block_; }
  [[nodiscard]] std::size_t way() const { return is_of_challenger(block_) ? challenger_ : stays_; }
  /// `learning`: its way still has a choice of its own to make, so it does not settle a challenger.
  Verdict noted(std::uint32_t block, std::size_t keys, double seconds, bool learning = false);
  void end() { open_ = false; }
  [[nodiscard]] Sum sum(bool of_challenger) const;
  /// Whether it ended, or is, with the batches that settle the challenger.
  [[nodiscard]] bool only_settled() const { return block_ <= 1 && sums_[0].keys == 0; }
  /// Seconds a key of the quickest of them.
  [[nodiscard]] double quickest() const { return quickest_; }
  /// Whether it still had a choice of its own to make when this was last heard of it.
  [[nodiscard]] bool was_learning(bool challenger) const { return learning_[challenger ? 1 : 0]; }

 private:
  // of a block, which do not count: so many batches, or one that is long by itself, and so many
  // seconds at least
  static constexpr std::uint32_t kUncounted = 2;
  static constexpr double kUncountedSeconds = 300e-6, kUncountedLong = 10e-3;
  static constexpr double kLongBatch = 1e-3;
  static constexpr std::uint32_t kWindows = 4;  // of a block, that count
  // a window that took more than so many others counts as them
  static constexpr double kSlow = 1.5;
  static constexpr std::uint32_t kPairs = 11;
  static constexpr std::uint32_t kPairsAgain = 5;  // of a way that lost before, if it does again
  static constexpr double kStretch = 10;  // of windows, in a long contest
  static constexpr std::uint32_t kLongPairs = 5;
  static constexpr double kQuicker = 0.85;  // times the last time, of a way that has changed
  static constexpr double kHopeless = 2;  // times the way that stays, in so many windows
  static constexpr double kHopelessAgain = 1.3;  // of a way that has lost before
  static constexpr std::uint32_t kHopelessWindows = 3;
  static constexpr std::uint32_t kFewPairs = 3;
  static constexpr double kPlain = 1.1;  // ratio that so many pairs decide by, where they agree

  /// Block 0 settles the challenger; then they take turns, the way that stays first.
  static bool is_of_challenger(std::uint32_t block) { return block % 2 == 0; }
  [[nodiscard]] bool counts() const;
  void end_block();
  [[nodiscard]] bool goes_on_when_settled() const;
  [[nodiscard]] bool is_hopeless() const;
  [[nodiscard]] bool costs_too_much() const;
  [[nodiscard]] Verdict verdict() const;

  bool open_ = false;
  std::size_t stays_ = 0, challenger_ = 0;
  Terms terms_;
  double quickest_ = 0;  // seconds a key, of the batches that settled
  double made_seconds_ = 0, made_keys_ = 0;  // of the first batch of a way that is new
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
  std::array<bool, 2> learning_{};
};

}  // namespace perdure::exec
