// Lanes (exec/lanes.hpp) on a thread of the host, one after the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "exec/lanes.hpp"

namespace perdure::exec {

class CpuLanes {
 public:
  using Meeting = CpuLanes;

  template <Order kOrder>
  static std::uint32_t load(std::uint32_t* at) {
    return std::atomic_ref(*at).load(order<kOrder>(std::memory_order_acquire));
  }
  template <Order kOrder>
  static void store(std::uint32_t* at, std::uint32_t value) {
    std::atomic_ref(*at).store(value, order<kOrder>(std::memory_order_release));
  }
  template <Order kOrder>
  static void add(std::uint32_t* at, std::uint32_t more) {
    std::atomic_ref(*at).fetch_add(more, order<kOrder>(std::memory_order_acq_rel));
  }
  template <Order kOrder>
  static std::uint32_t swap(std::uint32_t* at, std::uint32_t value) {
    return std::atomic_ref(*at).exchange(value, order<kOrder>(std::memory_order_acq_rel));
  }
  template <Order kOrder>
  static bool cas(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) {
    return std::atomic_ref(*at).compare_exchange_strong(
        expected, value, order<kOrder>(std::memory_order_acq_rel), std::memory_order_relaxed);
  }
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

  /// f(lane) for all lanes, beginning with `first`.
  template <class F>
  void each(std::uint32_t first, F f) const {
    for (std::uint32_t i = 0; i < kLanes; ++i) f((first + i) % kLanes);
  }
  /// What f() returns, which is called once.
  template <class F>
  bool once(F f) const {
    return f();
  }
  /// So many steps of some nanoseconds. The CPU's are a hundredth of a GPU's, for its lanes go one
  /// after the other.
  static void delay(std::uint32_t steps) {
    for (std::uint32_t i = 0; i < steps / 8; ++i) asm volatile("" : : "r"(i) : "memory");
  }

  /// A wait for others: looks at the clock now and then, and lets others run where there are fewer
  /// cores than threads.
  class Wait {
   public:
    bool goes_on() {
      if (++looks_ % kLooks != 0) return true;
      std::this_thread::yield();
      return std::chrono::steady_clock::now() < until_;
    }

   private:
    static constexpr std::uint32_t kLooks = 256;
    std::uint32_t looks_ = 0;
    std::chrono::steady_clock::time_point until_ =
        std::chrono::steady_clock::now() + std::chrono::seconds(5);
  };

 private:
  template <Order kOrder>
  static constexpr std::memory_order order(std::memory_order release_or_acquire) {
    if constexpr (kOrder == Order::release_acquire) return release_or_acquire;
    if constexpr (kOrder == Order::sequential) return std::memory_order_seq_cst;
    return std::memory_order_relaxed;
  }
};

}  // namespace perdure::exec
