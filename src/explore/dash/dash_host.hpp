// Simulated threads as a Host (pm/host.hpp): at each access to a word that threads share another
// may go on, and whatever is done to durable memory is reported to the observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "exec/sim/sim_scheduler.hpp"
#include "fault/observer.hpp"
#include "pm/host_concept.hpp"
#include "pm/host_verbs.hpp"
#include "pm/stream.hpp"

namespace perdure::explore {

struct Stuck : std::runtime_error {
  Stuck() : std::runtime_error("a thread waits for itself") {}
};

class SimHost {
 public:
  static constexpr bool kFlushes = true;
  static constexpr bool kNear = false;

  static std::uint64_t load(std::uint64_t const* at) {
    exec::sim_point();
    if (auto* const o = fault::observer) o->will_read(at, sizeof *at);
    return *at;
  }
  static void store(std::uint64_t* at, std::uint64_t value) {
    exec::sim_point();
    change(at, value);
  }
  static bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) {
    exec::sim_point();
    if (auto* const o = fault::observer) o->will_read(at, sizeof *at);
    if (*at != expected) return false;
    change(at, value);
    return true;
  }
  static void read(void const*, std::size_t) {}
  static void write(std::byte* to, void const* from, std::size_t bytes) {
    pm::write_bytes(to, from, bytes);
  }
  static void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    pm::stream_bytes(to, from, bytes);
  }
  static void flush(void const* at, std::size_t bytes) {
    if (auto* const o = fault::observer) o->flush(at, bytes);
  }
  static void fence() {
    exec::sim_point();
    if (auto* const o = fault::observer) o->fence();
  }
  static void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }
  static void prefetch(void const*) {}
  /// Waits for another thread; where there is none, a lock is held that nobody will release.
  static void pause() {
    if (exec::sim_scheduler == nullptr || exec::sim_scheduler->thread() == 0) throw Stuck();
    exec::sim_scheduler->give_way();
  }
  static void begin() {}
  static void enters(pm::Part) {}

 private:
  static void change(std::uint64_t* at, std::uint64_t value) {
    if (auto* const o = fault::observer) o->will_write(at, sizeof *at);
    *at = value;
    if (auto* const o = fault::observer) o->wrote(at, sizeof *at);
  }
};

static_assert(pm::Host<SimHost>);

}  // namespace perdure::explore
