// A shared mutex that whoever wants it exclusively gets without being kept out by those who come
// after. Invariant: who waits for the exclusive lock waits only for those who had come before.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "base/assert.hpp"

namespace perdure {

class FairSharedMutex {
 public:
  [[nodiscard]] std::shared_lock<std::shared_mutex> shared() {
    if (exclusive_waits_.load(std::memory_order_relaxed) != 0) std::lock_guard const queue(turn_);
    return std::shared_lock(mutex_);
  }
  [[nodiscard]] std::unique_lock<std::shared_mutex> exclusive() {
    std::lock_guard const queue(turn_);
    PERDURE_ASSERT(exclusive_waits_.load(std::memory_order_relaxed) == 0);  // one has the turn
    exclusive_waits_.store(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    exclusive_waits_.store(0, std::memory_order_relaxed);
    return lock;
  }

 private:
  std::mutex turn_;  // held by who waits for the exclusive lock
  std::atomic<int> exclusive_waits_{0};
  std::shared_mutex mutex_;
};

}  // namespace perdure
