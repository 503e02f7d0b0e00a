// A lock that many share and one may want alone, without being kept out by those who come after it. Invariant: who
// waits to be alone waits only for those who had come before.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace perdure {

class Gate {
 public:
  [[nodiscard]] std::shared_lock<std::shared_mutex> shared() {
    if (wanted_.load(std::memory_order_relaxed) != 0) std::lock_guard const queue(turn_);
    return std::shared_lock(mutex_);
  }
  [[nodiscard]] std::unique_lock<std::shared_mutex> alone() {
    std::lock_guard const queue(turn_);
    wanted_.store(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    wanted_.store(0, std::memory_order_relaxed);
    return lock;
  }

 private:
  std::mutex turn_;  // held by who waits to be alone
  std::atomic<int> wanted_{0};
  std::shared_mutex mutex_;
};

}  // namespace perdure
