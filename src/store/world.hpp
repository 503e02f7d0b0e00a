// Who may run when: locks on a store's world, shared or alone, that queue fairly. Invariant: a thread
// whose transaction holds the world does not lock it again.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace perdure {

/// This thread's transaction holds the world already.
inline bool holds_world(std::atomic<std::thread::id> const& transaction) {
  return transaction.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

class WorldShared {
 public:
  WorldShared(std::mutex& turn, std::shared_mutex& world, std::atomic<std::thread::id> const& transaction)
      : lock_(world, std::defer_lock) {
    if (holds_world(transaction)) return;
    std::lock_guard const queue(turn);
    lock_.lock();
  }

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

/// `writers` is what a snapshot or a checkpoint holds: those who wait for it keep no reader waiting behind them.
class WorldAlone {
 public:
  WorldAlone() = default;
  WorldAlone(std::mutex& writers, std::mutex& turn, std::shared_mutex& world,
             std::atomic<std::thread::id> const& transaction)
      : writer_(writers, std::defer_lock), lock_(world, std::defer_lock) {
    if (holds_world(transaction)) return;
    writer_.lock();
    std::lock_guard const queue(turn);
    lock_.lock();
  }

  /// Nothing is written to the world from here on. Writers go on waiting.
  void let_readers_in() {
    if (lock_.owns_lock()) lock_.unlock();
  }

 private:
  std::unique_lock<std::mutex> writer_;
  std::unique_lock<std::shared_mutex> lock_;
};

}  // namespace perdure
