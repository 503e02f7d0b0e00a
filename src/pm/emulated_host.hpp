// A Host that takes as long as one over Optane modules would, emulated: one a thread, all over one
// EmulatedMedium. It flushes as FlushedHost does, and spins until what it waits for would be there.
// What it measures is always labelled "emulated". Invariants:
//
//  * Each thread has a model of the caches before it: sets of 11 lines, as many bytes as it is
//    told. A line that is there costs nothing; so directories and roots cost nothing once they are
//    hot. What counts is how much of the data fits: the paper's machine has 36.75 MB (a core's L2
//    and the L3 that all share) for 200 million records, and whoever measures fewer records scales
//    it down. Flushed lines stay (the paper's clwb); what other threads change stays too, which
//    spares a line that moves between cores its way.
//  * read() and prefetch() ask for lines and do not wait; load() and cas() wait until their line is
//    there. So reads
//  that
//    an algorithm announces together overlap, as those do that a processor finds ahead by itself,
//    and one whose place is only known from another's bytes comes after it. A store waits for
//    nothing, but its line is read too.
//  * now() is the thread's time without what emulating takes; waits are by it, and whoever measures
//    goes by it. Threads that are measured together reset their clocks together. Who waits for a
//    lock waits for what emulating takes its holder, too.
//  * A line that was stored to is written when it is flushed, or when it makes room in the cache.
//    Whoever finds media busy for longer than the buffers take waits: at the fence for flushed
//    lines, at once for others.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "pm/cache_model.hpp"
#include "pm/emulated_medium.hpp"
#include "pm/host.hpp"
#include "pm/lines.hpp"

namespace perdure::pm {

/// Nanoseconds of the time stamp counter since it was first asked for.
double tsc_ns();

class EmulatedHost : public FlushedHost {
 public:
  static constexpr bool kNear = false;

  EmulatedHost(EmulatedMedium& medium, DurableRange durable, std::uint64_t cache_bytes)
      : medium_(&medium), durable_(durable), cache_({.bytes = cache_bytes}) {}

  std::uint64_t load(std::uint64_t const* at) {
    if (durable_.has(at)) wait_for(line_of(at));
    return FlushedHost::load(at);
  }
  void store(std::uint64_t* at, std::uint64_t value) {
    if (durable_.has(at)) stored(line_of(at));
    FlushedHost::store(at, value);
  }
  bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) {
    if (durable_.has(at)) {
      wait_for(line_of(at));
      stored(line_of(at));
    }
    return FlushedHost::cas(at, expected, value);
  }
  void read(void const* at, std::size_t bytes) {
    if (!durable_.has(at)) return;
    LineRange const lines = LineRange::of(at, bytes);
    for (std::uint64_t n = lines.first; n < lines.end; ++n) {
      std::uint64_t const line = n - durable_.first_line();
      if (!waited_.has(line)) ask_for(line);
    }
  }
  void write(std::byte* to, void const* from, std::size_t bytes) {
    if (durable_.has(to)) {
      LineRange const lines = LineRange::of(to, bytes);
      for (std::uint64_t n = lines.first; n < lines.end; ++n) stored(n - durable_.first_line());
    }
    FlushedHost::write(to, from, bytes);
  }
  void stream(std::byte* to, std::byte const* from, std::size_t bytes);
  void prefetch(void const* at) { read(at, 1); }
  void flush(void const* at, std::size_t bytes);
  void fence();
  void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }
  void begin() {
    waited_ = {};
    stored_ = {};
  }

  /// Nanoseconds; starts anywhere, and stands still while the caches and the medium are worked out.
  [[nodiscard]] double now() const { return tsc_ns() - own_; }
  /// What has been left out of it since the clock was reset.
  [[nodiscard]] double own_ns() const { return own_; }
  /// From here on it shows what all clocks do that are reset now.
  void reset_clock() { own_ = 0; }

 private:
  class OwnTime;
  static constexpr std::size_t kInFlight = 16;
  /// The two lines of latest use, for which the caches need not be worked out again: looking at the
  /// clock takes time, too, some of which is not left out.
  struct Latest {
    std::array<std::uint64_t, 2> lines{CacheModel::kNone, CacheModel::kNone};
    [[nodiscard]] bool has(std::uint64_t line) const {
      return line == lines[0] || line == lines[1];
    }
    void add(std::uint64_t line) { lines = {line, lines[0]}; }
    void drop(std::uint64_t line) {
      std::replace(lines.begin(), lines.end(), line, CacheModel::kNone);
    }
  };
  struct Pending {
    std::uint64_t line = CacheModel::kNone;
    double there = 0;
  };

  [[nodiscard]] std::uint64_t line_of(void const* at) const {
    return reinterpret_cast<std::uintptr_t>(at) / kCacheLine - durable_.first_line();
  }
  void wait_for(std::uint64_t line) {
    if (!waited_.has(line)) wait_slowly(line);
  }
  void wait_slowly(std::uint64_t line);
  void ask_for(std::uint64_t line);
  void stored(std::uint64_t line) {
    if (!stored_.has(line)) stored_first(line);
  }
  void stored_first(std::uint64_t line);
  void wait_until(double then) const;

  EmulatedMedium* medium_;
  DurableRange durable_;
  CacheModel cache_;
  Latest waited_;  // so that they are there
  Latest stored_;  // and not flushed since
  std::array<Pending, kInFlight> pending_{};
  std::size_t next_pending_ = 0;
  std::size_t asked_ = 0;  // pending lines that nobody has waited for
  double media_busy_ = 0;  // until when, with lines that this thread flushed
  double own_ = 0;
};

static_assert(Host<EmulatedHost>);

}  // namespace perdure::pm
