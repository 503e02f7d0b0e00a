// Who may run when: locks on a store's world, shared or alone, that queue fairly. Invariant: a thread
// whose transaction holds the world does not lock it again.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace perdure {

/// A lock on the world, unless this thread's transaction holds it anyway.
template <class Lock>
class World {
 public:
  World(std::mutex& turn, std::shared_mutex& world, std::atomic<std::thread::id> const& transaction)
      : lock_(world, std::defer_lock) {
    if (transaction.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
    std::lock_guard const queue(turn);
    lock_.lock();
  }
  Lock take() { return std::move(lock_); }

 private:
  Lock lock_;
};
using WorldShared = World<std::shared_lock<std::shared_mutex>>;

/// The world for oneself. Writers queue by themselves first: those that wait for a snapshot, which shares
/// the world and holds `writers`, keep no reader waiting behind them.
class WorldAlone {
 public:
  WorldAlone(std::mutex& writers, std::mutex& turn, std::shared_mutex& world,
             std::atomic<std::thread::id> const& transaction)
      : writers_(queue(writers, transaction)), world_(turn, world, transaction) {}
  std::unique_lock<std::shared_mutex> take() { return world_.take(); }

 private:
  static std::unique_lock<std::mutex> queue(std::mutex& writers, std::atomic<std::thread::id> const& transaction) {
    bool const holds_it = transaction.load(std::memory_order_relaxed) == std::this_thread::get_id();
    return holds_it ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(writers);
  }

  std::unique_lock<std::mutex> writers_;
  World<std::unique_lock<std::shared_mutex>> world_;
};

}  // namespace perdure
