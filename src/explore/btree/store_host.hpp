// Simulated threads as the Host of a B+-tree's store (pm/host.hpp), and what they do where the
// store's locks would have them wait. Invariant: whatever they read of durable memory is reported
// before they look at it.
#pragma once

#include <cstdint>

#include "exec/sim/sim_scheduler.hpp"
#include "explore/dash/dash_host.hpp"
#include "fault/simulated_threads.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::explore {

/// What the run's memory keeps of what was stored.
enum class Keeps : std::uint8_t {
  order,  // all of it, in the order in which each thread stored it (tmpfs)
  flushed,  // what was flushed and then fenced; of other lines whatever reached memory
  fenced,  // what a thread stored before a fence of its own, before what it stored after that
  ordered,  // all that was there at an ordering point, pm::order(); the index is elsewhere
};

class StoreHost : public SimHost {
 public:
  explicit StoreHost(Keeps keeps) : keeps_(keeps) {}

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
  void fence() const { keeps_ == Keeps::ordered ? exec::sim_point() : SimHost::fence(); }
  void persist(void const* at, std::size_t bytes) const {
    flush(at, bytes);
    fence();
  }
  /// What was stored comes before what other threads store once they have seen it.
  void release() const {
    if (auto* const o = fault::observer; o != nullptr && keeps_ == Keeps::order) o->fence();
  }

 private:
  Keeps keeps_;
};

static_assert(pm::Host<StoreHost>);

/// Locks of a run's threads, as long as this stands. What a thread wrote before it released one
/// comes before what the next one writes, where memory keeps that order.
class LocksOfThreads final : public fault::SimulatedThreads {
 public:
  explicit LocksOfThreads(Keeps keeps) : host_(keeps) { fault::simulated_threads = this; }
  ~LocksOfThreads() override { fault::simulated_threads = nullptr; }

  void give_way() override { StoreHost::pause(); }
  void locks() override { exec::sim_point(); }
  void locked(void const* lock) override { pm::will_read(lock, sizeof(std::uint32_t)); }
  void unlocks(void const* lock) override {
    host_.release();
    pm::wrote(lock, sizeof(std::uint32_t));
  }

 private:
  StoreHost host_;
};

}  // namespace perdure::explore
