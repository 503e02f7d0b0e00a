// The simulated warp: 32 lanes in an array, one loop for all. The verbs are those of cpu_warp.hpp.
// Invariant: every access to memory that other warps share is a point of the scheduler, and every
// access to the pool is reported to the observer. Records are written as on a GPU, piece by piece,
// for these are the finer steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.hpp"
#include "exec/sim/sim_scheduler.hpp"
#include "exec/warp_concept.hpp"
#include "fault/observer.hpp"

namespace perdure::exec {

class SimWarp {
 public:
  static constexpr std::uint32_t kLanes = 32;
  static constexpr bool kJoinsEach = false;  // else see cuda_warp.cuh
  static constexpr bool kReadsBackCheaply = false;
  static constexpr bool kPrefetches = false;

  struct Lanes {
    std::uint64_t word[kLanes] = {};
  };

  /// A point before each row: a warp's loads need not happen at one time.
  template <class RowOf>
  Lanes rows(std::uint32_t groups, std::uint32_t slots, RowOf row_of) const {
    Lanes lanes;
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::uint64_t const* const row = row_of(g);
      sim_point();
      reading(row, slots * sizeof(std::uint64_t));
      std::memcpy(lanes.word + g * slots, row, slots * sizeof(std::uint64_t));
    }
    return lanes;
  }

  std::uint32_t match(Lanes const& lanes, std::uint64_t mask, std::uint64_t want) const {
    std::uint32_t found = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i)
      found |= std::uint32_t{(lanes.word[i] & mask) == want} << i;
    return found;
  }

  template <class FirstOf>
  std::uint32_t bits(std::uint32_t groups, std::uint32_t slots, std::uint32_t const* map,
                     FirstOf first) const {
    std::uint32_t const row_mask = slots == 32 ? ~0u : (1u << slots) - 1;
    std::uint32_t found = 0;
    for (std::uint32_t g = 0; g < groups; ++g) {
      std::uint64_t const at = first(g);
      found |= (load(map + at / 32) >> (at % 32) & row_mask) << (g * slots);
    }
    return found;
  }

  std::uint64_t broadcast(Lanes const& lanes, std::uint32_t lane) const { return lanes.word[lane]; }

  template <class T>
  struct Each {
    T value[kLanes] = {};
    T& operator[](std::uint32_t lane) { return value[lane]; }
    T const& operator[](std::uint32_t lane) const { return value[lane]; }
  };

  template <class T>
  T broadcast(Each<T> const& each, std::uint32_t lane) const {
    return each[lane];
  }

  template <class F>
  void each(F f) const {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) f(lane);
  }

  template <class F>
  std::uint32_t ballot(F f) const {
    std::uint32_t said = 0;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) said |= std::uint32_t{f(lane)} << lane;
    return said;
  }

  template <class T>
  Each<T> shuffle(Each<T> const& each, Each<std::uint32_t> const& from) const {
    Each<T> shuffled;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) shuffled[lane] = each[from[lane]];
    return shuffled;
  }

  template <class To, class From>
  void copy_each(std::uint32_t mask, std::size_t bytes, To to, From from,
                 Each<std::uint32_t>* sums) const {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      copy(to(lane), from(lane), bytes);
      if (sums != nullptr) (*sums)[lane] = crc32c(0, from(lane), bytes);
    }
  }

  template <class F>
  void strided(std::size_t n, F f) const {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  std::uint64_t elect(F f) const {
    return f();
  }

  bool equal(std::byte const* a, std::byte const* b, std::size_t bytes) const {
    reading(a, bytes);
    reading(b, bytes);
    return std::memcmp(a, b, bytes) == 0;
  }

  void copy(std::byte* to, std::byte const* from, std::size_t bytes) const {
    sim_point();
    reading(from, bytes);
    std::memcpy(to, from, bytes);
    writing(to, bytes);
  }

  /// Never at once: the pieces one after the other are the finer steps.
  template <class Header>
  bool join(std::byte*, Header const&, std::byte const*, std::size_t, std::byte const*,
            std::size_t) const {
    return false;
  }

  void stream(std::byte* to, std::byte const* from, std::size_t bytes) const {
    copy(to, from, bytes);
  }

  std::uint32_t crc32c(std::uint32_t crc, std::byte const* data, std::size_t bytes) const {
    reading(data, bytes);
    return perdure::crc32c(crc, data, bytes);
  }

  void prefetch(void const*, std::size_t) const {}
  void prefetch_to_write(void const*, std::size_t) const {}

  void fence() const {
    sim_point();
    if (fault::observer != nullptr) fault::observer->fence();
  }

  void local_fence() const { sim_point(); }

  static void pause() {
    if (sim_scheduler != nullptr) sim_scheduler->give_way();
  }

  static std::uint64_t load(std::uint64_t const* at) { return loaded(at); }
  static std::uint32_t load(std::uint32_t const* at) { return loaded(at); }
  static std::uint8_t load(std::uint8_t const* at) { return loaded(at); }
  static void store(std::uint8_t* at, std::uint8_t value) {
    sim_point();
    *at = value;
  }
  static void store(std::uint32_t* at, std::uint32_t value) {
    sim_point();
    *at = value;
    writing(at, sizeof value);
  }
  static void store(std::uint64_t* at, std::uint64_t value) {
    sim_point();
    *at = value;
    writing(at, sizeof value);
  }
  /// Beside what other lanes store: see cuda_warp.cuh.
  static void store_cell(std::uint32_t* at, std::uint32_t value) { store(at, value); }
  /// Two words side by side, of which others may see one.
  static void store_pair(std::uint64_t* at, std::uint64_t first, std::uint64_t second) {
    store(at, first);
    store(at + 1, second);
  }
  static std::uint64_t cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t desired) {
    sim_point();
    reading(at, sizeof *at);
    std::uint64_t const found = *at;
    if (found == expected) {
      *at = desired;
      writing(at, sizeof *at);
    }
    return found;
  }
  static std::uint32_t fetch_or(std::uint32_t* at, std::uint32_t bits) {
    return changed(at, [=](std::uint32_t found) { return found | bits; });
  }
  static std::uint64_t fetch_add(std::uint64_t* at, std::uint64_t more) {
    return changed(at, [=](std::uint64_t found) { return found + more; });
  }
  static std::uint32_t fetch_add(std::uint32_t* at, std::uint32_t more) {
    return changed(at, [=](std::uint32_t found) { return found + more; });
  }
  static std::uint32_t fetch_and(std::uint32_t* at, std::uint32_t bits) {
    return changed(at, [=](std::uint32_t found) { return found & bits; });
  }

 private:
  static void reading(void const* at, std::size_t bytes) {
    if (fault::observer != nullptr) fault::observer->will_read(at, bytes);
  }
  static void writing(void const* at, std::size_t bytes) {
    if (fault::observer != nullptr) fault::observer->wrote(at, bytes);
  }
  template <class T, class F>
  static T changed(T* at, F f) {
    sim_point();
    reading(at, sizeof(T));
    T const found = *at;
    *at = f(found);
    writing(at, sizeof(T));
    return found;
  }
  template <class T>
  static T loaded(T const* at) {
    sim_point();
    reading(at, sizeof(T));
    return *at;
  }
};

static_assert(Warp<SimWarp>);

}  // namespace perdure::exec
