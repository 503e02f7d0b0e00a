// Latencies, counted in intervals that grow with them: any number of them in 16 KiB.
//
// Invariant: a value that percentile() gives is at most 1/32 above the exact one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace perdure::bench::rocks {

class Histogram {
 public:
  void add(std::uint64_t nanoseconds) {
    ++counts_[interval(nanoseconds)];
    ++count_;
    if (nanoseconds > largest_) largest_ = nanoseconds;
  }
  void add(Histogram const& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    if (other.largest_ > largest_) largest_ = other.largest_;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// In microseconds, as what follows.
  [[nodiscard]] double largest() const { return static_cast<double>(largest_) * 1e-3; }
  [[nodiscard]] double percentile(double share) const {
    auto const rank = static_cast<std::uint64_t>(share * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank) return static_cast<double>(end(i)) * 1e-3;
    }
    return largest();
  }

 private:
  static constexpr unsigned kBits = 5;  // each power of two has 2^kBits intervals
  static constexpr std::uint64_t kParts = std::uint64_t{1} << kBits;

  static std::size_t interval(std::uint64_t value) {
    if (value < kParts) return value;
    auto const shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return (shift + 1) * kParts + ((value >> shift) - kParts);
  }
  /// The largest value of an interval.
  static std::uint64_t end(std::size_t interval) {
    if (interval < kParts) return interval;
    std::uint64_t const shift = interval / kParts - 1;
    return ((interval % kParts + kParts + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - kBits + 1) * kParts> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace perdure::bench::rocks
