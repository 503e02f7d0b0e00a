// What all measurements share: the report that they fill, and what they may take of time and
// memory.
// Invariant: each measurement either has rows or is left out with its reason.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/workers.hpp"
#include "perdure/measure.h"
#include "perdure/status.h"

namespace perdure::measure {

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

class Measuring {
 public:
  Measuring(MeasureOptions const& options, std::uint64_t memory_bytes, GoOn const& go_on)
      : options_(options), memory_bytes_(memory_bytes), go_on_(go_on) {}

  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] bool quick() const { return options_.quick; }
  [[nodiscard]] bool oversubscribes() const { return options_.oversubscribe; }
  /// Of one row of so many, in a part that gets such a share of the time.
  [[nodiscard]] double row_seconds(double share, std::size_t rows) const {
    return options_.seconds * share / static_cast<double>(std::max<std::size_t>(rows, 1));
  }
  /// Asked before each row: false ends the measurement.
  bool goes_on() {
    stopped_ =
        stopped_ || (go_on_ && !go_on_(std::min(0.99, seconds_since(began_) / options_.seconds)));
    return !stopped_;
  }
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Asked before a part: false leaves it out, for those before it took far too long.
  bool has_time(std::string_view what);

  /// What was accessed, for the row: see MeasuredRow.
  struct Accessed {
    std::uint32_t threads = 0;
    std::uint64_t span_bytes = 0, access_bytes = 0;
  };
  void add(std::string_view what, std::string_view how, Accessed const& accessed, double value,
           std::string_view unit);
  void leave_out(std::string_view what, std::string_view why);
  /// One kind of it, for what has failed.
  void leave_out(std::string_view what, std::string_view how, Status const& failed);
  /// Whether arrays of so many bytes may be made; if not, it is left out.
  bool has_room(std::string_view what, std::uint64_t bytes);

  MeasureReport& report() { return report_; }
  [[nodiscard]] double seconds() const { return seconds_since(began_); }

 private:
  MeasureOptions options_;
  std::uint64_t memory_bytes_;
  GoOn const& go_on_;
  MeasureReport report_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool stopped_ = false;
};

/// The shortest time of f(), which is called once unseen and then until the seconds are over.
template <class F>
double best_seconds(double seconds, F f) {
  f();
  auto const began = std::chrono::steady_clock::now();
  double best = 1e300;
  do {
    auto const now = std::chrono::steady_clock::now();
    f();
    best = std::min(best, seconds_since(now));
  } while (seconds_since(began) < seconds);
  return best;
}

/// 1, 2, 4, ... and all cores.
std::vector<std::uint32_t> thread_counts();

void measure_streams(Measuring& measuring);  // read, write, copy
void measure_chases(Measuring& measuring);
void measure_host_access(Measuring& measuring);  // random, sort
void measure_gpu(Measuring& measuring);  // link, random, sort, launch

}  // namespace perdure::measure
