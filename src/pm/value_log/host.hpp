// How one thread touches the bytes of a value log, over whichever Host (pm/host.hpp) it has: one
// call a record or a piece, so that the log itself is compiled once. Invariant: whatever the log
// reads or writes of records goes through here, so a Host that counts or emulates misses none. The
// word that says what a segment is used for does not: it is stored a few times a segment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pm/host_concept.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

class LogHost {
 public:
  LogHost() = default;
  LogHost(LogHost const&) = delete;
  LogHost& operator=(LogHost const&) = delete;
  virtual ~LogHost() = default;

  /// Will be read before long.
  virtual void prefetch(void const* at) = 0;
  /// Is read now; whole words.
  virtual void read(std::byte const* at, std::size_t bytes) = 0;
  /// Bytes that no reader is led to yet, past the caches where that pays.
  virtual void stream(std::byte* to, std::byte const* from, std::size_t bytes) = 0;
  virtual void store(std::uint64_t* at, std::uint64_t value) = 0;
  /// All of that is durable, for whoever maps the pool.
  virtual void fence() = 0;
  virtual void enters(Part part) = 0;
};

template <class Host>
class LogHostOn final : public LogHost {
 public:
  explicit LogHostOn(Host& host) : host_(host) {}

  void prefetch(void const* at) override { host_.prefetch(at); }
  void read(std::byte const* at, std::size_t bytes) override {
    host_.read(at, bytes);
    static_cast<void>(host_.load(reinterpret_cast<std::uint64_t const*>(at)));
  }
  void stream(std::byte* to, std::byte const* from, std::size_t bytes) override {
    host_.stream(to, from, bytes);
  }
  void store(std::uint64_t* at, std::uint64_t value) override {
    store_word(at, value);
    host_.flush(at, sizeof value);
  }
  void fence() override {
    host_.fence();
    order();
  }
  void enters(Part part) override { host_.enters(part); }

 private:
  Host& host_;
};

}  // namespace perdure::pm
