// Simulated threads as the Host of a B+-tree's store (pm/host.hpp), and what they do where the
// store's locks would have them wait. Invariants: whatever they read of durable memory is reported
// before they look at it; under model fence a store is a release, as every Host's is.
#pragma once

#include "exec/sim/sim_scheduler.hpp"
#include "explore/dash/dash_host.hpp"
#include "fault/simulated_threads.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::explore {

class StoreHost : public SimHost {
 public:
  /// `keeps_order`: what was stored is there in the order in which it was (tmpfs); else it is in
  /// caches until it is flushed.
  explicit StoreHost(bool keeps_order) : keeps_order_(keeps_order) {}

  void store(std::uint64_t* at, std::uint64_t value) const {
    release();
    SimHost::store(at, value);
  }
  bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) const {
    release();
    return SimHost::cas(at, expected, value);
  }
  static void read(void const* at, std::size_t bytes) {
    exec::sim_point();
    pm::will_read(at, bytes);
  }

 private:
  void release() const {
    if (!keeps_order_) return;
    if (auto* const o = fault::observer) o->fence();
  }

  bool keeps_order_;
};

static_assert(pm::Host<StoreHost>);

/// Locks of a run's threads, as long as this stands. What a thread wrote before it released one
/// comes before what the next one writes.
class LocksOfThreads final : public fault::SimulatedThreads {
 public:
  explicit LocksOfThreads(bool keeps_order) : keeps_order_(keeps_order) {
    fault::simulated_threads = this;
  }
  ~LocksOfThreads() override { fault::simulated_threads = nullptr; }

  void give_way() override { StoreHost::pause(); }
  void locks() override { exec::sim_point(); }
  void locked(void const* lock) override { pm::will_read(lock, sizeof(std::uint32_t)); }
  void unlocks(void const* lock) override {
    if (auto* const o = fault::observer; o != nullptr && keeps_order_) o->fence();
    pm::wrote(lock, sizeof(std::uint32_t));
  }

 private:
  bool keeps_order_;
};

}  // namespace perdure::explore
