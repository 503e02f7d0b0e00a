#include "prestore_listings.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "pm/emulated_core.hpp"
#include "pm/far_device.hpp"

namespace perdure::cpu_baselines {
namespace {

constexpr std::uint32_t kChoosing = 30;  // instructions: a random number, a remainder, the loop

/// Half of Machine A's eight modules: threads and their array share a socket.
pm::MediumShape modules_of_a_socket() {
  pm::MediumShape shape;
  double const share = 4.0 / shape.modules;
  shape.read_gb_per_s *= share;
  shape.write_gb_per_s *= share;
  shape.modules = 4;
  return shape;
}

pm::Replacement replacement(Evicts evicts) {
  switch (evicts) {
    case Evicts::lru: return pm::Replacement::lru;
    case Evicts::rotating: return pm::Replacement::rotating;
    case Evicts::random: break;
  }
  return pm::Replacement::random;
}

/// The rounds of Listing 2, a line an action, so that the threads' lines mix as their times have
/// it.
class Elements {
 public:
  explicit Elements(ElementWrites const& how)
      : how_(how),
        medium_(modules_of_a_socket()),
        cache_({.bytes = how.cache_bytes,
                .replacement = replacement(how.evicts),
                .sets_by = how.sets == Sets::slices ? pm::SetsBy::slices : pm::SetsBy::address}),
        lines_(how.element_bytes / pm::kCacheLine),
        elements_(how.array_bytes / how.element_bytes),
        cores_(how.threads, pm::EmulatedCore(medium_, cache_)),
        threads_(how.threads) {
    PERDURE_ASSERT(lines_ > 0 && elements_ > 0);
  }

  ElementsFound run() {
    // What the cache holds first was evicted from an empty one, in order: that is over after some
    // ten times its lines.
    std::uint64_t const cached = how_.cache_bytes / pm::kCacheLine;
    store_lines(10 * cached);
    double const begin = latest();
    std::uint64_t const before = stored_;
    pm::MediumWrites const writes_before = medium_.writes();
    store_lines(3 * cached);
    pm::MediumWrites const writes = medium_.writes() - writes_before;
    double const elements = static_cast<double>(stored_ - before) / static_cast<double>(lines_);
    return {(latest() - begin) / elements, writes.amplification(), stored_ - before, writes.lines,
            writes.internal};
  }

 private:
  struct Thread {
    std::uint64_t element = 0;
    std::uint64_t chosen = 0;  // elements so far
    std::uint64_t action = 0;  // of the element
  };

  void store_lines(std::uint64_t lines) {
    std::uint64_t const end = stored_ + lines;
    pm::interleave(std::span(cores_), [&](std::size_t t) {
      act(cores_[t], threads_[t], t);
      return stored_ < end;
    });
  }

  void act(pm::EmulatedCore& core, Thread& thread, std::size_t number) {
    if (thread.action == 0) choose(core, thread, number);
    std::uint64_t const first = thread.element * lines_;
    std::uint64_t const action = thread.action++;
    if (action < lines_) return write(core, first + action);
    if (how_.prestored == Prestored::clean && action < 2 * lines_)
      return core.clean(first + action - lines_);
    if (how_.read_again) core.load(first);
    thread.action = 0;
  }

  /// The element's page is another one than the last: its table entry, of 8 bytes, is read.
  void choose(pm::EmulatedCore& core, Thread& thread, std::size_t number) {
    thread.element =
        (how_.in_order ? next_++ : nth_hash(thread.chosen++ << 8 | number, 1)) % elements_;
    core.compute(kChoosing);
    constexpr std::uint64_t kPage = 4096, kEntriesOfLine = 8;
    if (how_.small_pages)
      core.load_near(how_.array_bytes / pm::kCacheLine +
                     thread.element * how_.element_bytes / kPage / kEntriesOfLine);
  }

  void write(pm::EmulatedCore& core, std::uint64_t line) {
    ++stored_;
    if (how_.prestored == Prestored::skip) return core.skip(line);
    core.store(line);
  }

  [[nodiscard]] double latest() const {
    double latest = 0;
    for (pm::EmulatedCore const& core : cores_) latest = std::max(latest, core.now());
    return latest;
  }

  ElementWrites const how_;
  pm::EmulatedMedium medium_;
  pm::CacheModel cache_;
  std::uint64_t const lines_, elements_;  // lines of an element; elements of the array
  std::vector<pm::EmulatedCore> cores_;
  std::vector<Thread> threads_;
  std::uint64_t stored_ = 0;
  std::uint64_t next_ = 0;  // of a log
};

}  // namespace

ElementsFound emulated_elements(ElementWrites const& how) { return Elements(how).run(); }

FenceFound emulated_fences(bool slow, Prestored prestored, std::uint32_t reads) {
  // ThunderX-1 issues two instructions a cycle in order: a line of 128 bytes takes eight stores of
  // 16; a random number, its remainder (two divisions) and the loop; a read and its share of the
  // inner loop.
  constexpr double kChoosingCycles = 40, kStoresCycles = 8, kReadCycles = 2;
  constexpr std::uint64_t kRounds = 20000, kLines = std::uint64_t{1} << 23;  // 1 GB
  pm::FarCore core(slow ? pm::far_slow() : pm::far_fast());
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    std::uint64_t const line = nth_hash(i, 1) % kLines;
    core.compute(kChoosingCycles + kStoresCycles);
    if (prestored == Prestored::skip) {
      core.skip(line);
    } else {
      core.store(line);
    }
    if (prestored == Prestored::demote) core.demote(line);
    if (prestored == Prestored::clean) core.clean(line);
    core.compute(kReadCycles * reads);
    core.fence();
  }
  return {core.now() / kRounds, core.counts().acquired, core.counts().waited, kRounds};
}

double emulated_rewrites(Prestored prestored) {
  constexpr std::uint64_t kWrites = 100000;
  pm::EmulatedMedium medium(modules_of_a_socket());
  pm::CacheModel cache({.bytes = std::uint64_t{1} << 20});
  pm::EmulatedCore core(medium, cache);
  for (std::uint64_t i = 0; i < kWrites; ++i) {
    if (prestored == Prestored::skip) {
      core.skip(0);
      continue;
    }
    core.store(0);
    if (prestored == Prestored::clean) core.clean(0);
  }
  core.fence();
  return core.now() / kWrites;
}

}  // namespace perdure::cpu_baselines
