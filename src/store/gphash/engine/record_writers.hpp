// Who writes the records of puts to a device whose values lie in host memory: the device, to which
// they are copied, or the host's threads. What pays depends on the link, on the threads and on the
// host's memory, so it is measured: of each size class one way stays until the other wins a contest
// (exec/ways.hpp). Sessions may ask at the same time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/mutex.hpp"
#include "exec/ways.hpp"

namespace perdure {

class RecordWriters {
 public:
  enum class Way : std::uint8_t { device, host };
  /// How a batch of n puts goes.
  struct Trial {
    Way way = Way::device;
    bool timed = false;  // tell noted() how long it took
    std::uint64_t n = 0;
    exec::Ways::Choice choice;
  };

  Trial next(std::uint64_t n) {
    MutexLock const lock(mutex_);
    exec::Ways::Choice const choice = ways_of(n).next(n);
    return {static_cast<Way>(choice.way), true, n, choice};
  }
  void noted(Trial const& trial, double seconds) {
    MutexLock const lock(mutex_);
    if (trial.way == Way::host) by_host_ += trial.n;
    ways_of(trial.n).noted(trial.choice, trial.n, {seconds});
  }

  /// Operations of batches whose records the host has written.
  [[nodiscard]] std::uint64_t by_host() const {
    MutexLock const lock(mutex_);
    return by_host_;
  }

 private:
  static exec::Ways two_ways() {
    exec::Ways::Rules rules;
    rules.ways = 2;
    rules.takes_over_below = [](std::size_t, std::size_t) { return 0.97; };
    return exec::Ways(rules);
  }
  struct Size {
    exec::Ways ways = two_ways();
  };
  /// Sizes within a factor of two.
  exec::Ways& ways_of(std::uint64_t n) PERDURE_REQUIRES(mutex_) {
    return sizes_[static_cast<std::size_t>(std::bit_width(n))].ways;
  }

  mutable Mutex mutex_;  // guards the rest
  std::uint64_t by_host_ PERDURE_GUARDED_BY(mutex_) = 0;
  std::array<Size, 65> sizes_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace perdure
