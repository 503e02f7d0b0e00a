// A thread's Host for engines that make theirs themselves, or copy them. Invariant: whoever uses a
// Current has a WithCurrent on its thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pm/host_concept.hpp"

namespace perdure::kv_baselines {

template <class Host>
class WithCurrent;

template <class Host>
class Current {
 public:
  static constexpr bool kFlushes = Host::kFlushes;
  static constexpr bool kNear = Host::kNear;

  static std::uint64_t load(std::uint64_t const* at) { return host->load(at); }
  static void store(std::uint64_t* at, std::uint64_t value) { host->store(at, value); }
  static bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) {
    return host->cas(at, expected, value);
  }
  static void read(void const* at, std::size_t bytes) { host->read(at, bytes); }
  static void write(std::byte* to, void const* from, std::size_t bytes) {
    host->write(to, from, bytes);
  }
  static void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    host->stream(to, from, bytes);
  }
  static void flush(void const* at, std::size_t bytes) { host->flush(at, bytes); }
  static void fence() { host->fence(); }
  static void persist(void const* at, std::size_t bytes) { host->persist(at, bytes); }
  static void prefetch(void const* at) { host->prefetch(at); }
  static void pause() { host->pause(); }
  static void begin() { host->begin(); }
  static void enters(pm::Part part) { host->enters(part); }

 private:
  friend class WithCurrent<Host>;
  static inline thread_local Host* host = nullptr;
};

template <class Host>
class WithCurrent {
 public:
  explicit WithCurrent(Host& host) { Current<Host>::host = &host; }
  WithCurrent(WithCurrent const&) = delete;
  WithCurrent& operator=(WithCurrent const&) = delete;
  ~WithCurrent() { Current<Host>::host = nullptr; }
};

}  // namespace perdure::kv_baselines
