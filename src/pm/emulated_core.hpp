// A processor's core before an emulated medium, in time of its own: what a run of stores, loads,
// cleans and skips takes, and what it makes the medium write. No byte is moved and no clock is
// looked at, so a run gives the same on every machine. Several cores share a cache and a medium;
// interleave() lets the one whose time is earliest go first.
//
// What takes time, and where its figures are from:
//   instructions   four a cycle (Cascade Lake); stores of 32 bytes, one a cycle
//   fills          a line that is missing is read, by one of 12 fill buffers (L1D of Cascade Lake);
//                  a store does not wait for it, but for a free buffer; so does a line that skips
//                  the cache, which fills one
//   loads          wait for nothing until 224 instructions (the reorder buffer) have followed
//   write-backs    32 lines may be leaving at once (the super queue); a full medium holds them up
//   clean, skip    leave the core until the memory controller has them: 62 ns, 90 ns (Yang et al.,
//                  FAST'20, figure 2); a store to a line that is being cleaned, and a load of one
//                  that is being stored past the caches, wait for that
//
// Invariants: `now` never goes back; the lines that are on their way are at most as many as the
// buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "pm/cache_model.hpp"
#include "pm/emulated_medium.hpp"

namespace perdure::pm {

struct CoreShape {
  double ghz = 2.1;  // Xeon Gold 6230
  double instructions_a_cycle = 4;
  std::uint64_t window = 224;  // instructions
  double clean_ns = 62;
  double skip_ns = 90;
  double dram_ns = 101;  // published, of random reads (Yang et al., FAST'20)
};

class EmulatedCore {
 public:
  EmulatedCore(EmulatedMedium& medium, CacheModel& cache, CoreShape const& shape = {})
      : medium_(&medium), cache_(&cache), shape_(shape) {}

  /// Nanoseconds since it was made.
  [[nodiscard]] double now() const { return now_; }

  void compute(std::uint32_t instructions);
  /// A line, whole.
  void store(std::uint64_t line);
  /// Of a line's word.
  void load(std::uint64_t line);
  /// Of a line of DRAM, which the cache has among those of the medium: a page table's. Its number
  /// is above those of the medium.
  void load_near(std::uint64_t line);
  void clean(std::uint64_t line);
  /// Stores a whole line past the cache.
  void skip(std::uint64_t line);
  /// Until all that is on its way has arrived.
  void fence();

 private:
  struct OnItsWay {
    std::uint64_t line = CacheModel::kNone;
    double done = 0;
  };
  template <std::size_t kLines>
  class Buffers {
   public:
    /// When there is a free one, at `now` or later.
    [[nodiscard]] double room(double now) const { return std::max(now, lines_[next_].done); }
    void add(std::uint64_t line, double done) {
      lines_[next_] = {line, done};
      next_ = (next_ + 1) % kLines;
    }
    /// When the line has arrived: in the past where it is not on its way.
    [[nodiscard]] double done(std::uint64_t line) const {
      double latest = 0;
      for (OnItsWay const& one : lines_)
        if (one.line == line) latest = std::max(latest, one.done);
      return latest;
    }
    [[nodiscard]] double all_done() const {
      double latest = 0;
      for (OnItsWay const& one : lines_) latest = std::max(latest, one.done);
      return latest;
    }

   private:
    std::array<OnItsWay, kLines> lines_{};
    std::size_t next_ = 0;
  };
  struct Load {
    std::uint64_t instruction = 0;
    double done = 0;
  };

  void take(std::uint32_t instructions, double cycles);
  /// What a line that the cache missed pushed out leaves.
  void make_room(CacheModel::Touched const& touched);
  /// Answers when the line is there.
  double fill(std::uint64_t line, double from);
  /// The line leaves the core now, or when it has arrived there.
  void leave(std::uint64_t line, double from, double at_least_ns);

  EmulatedMedium* medium_;
  CacheModel* cache_;
  CoreShape const shape_;
  double now_ = 0;
  std::uint64_t instructions_ = 0;
  Buffers<12> fills_;
  Buffers<32> leaving_;
  std::deque<Load> loads_;  // that instructions follow
};

/// Lets each core do step(core's number) until it says false, the earliest core first.
template <class Step>
void interleave(std::span<EmulatedCore> cores, Step step) {
  for (;;) {
    std::size_t earliest = 0;
    for (std::size_t i = 1; i < cores.size(); ++i)
      if (cores[i].now() < cores[earliest].now()) earliest = i;
    if (!step(earliest)) return;
  }
}

}  // namespace perdure::pm
