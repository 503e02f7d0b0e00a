// Latency of the host's memory: how long a load takes whose address is what the last one found, by
// the size of what is walked through (thesis, figure 4.5).
//
// Invariant: the walk visits each line of the span once before it comes back, in an order that no
// prefetcher guesses: that of a bijection of the line's number.
#include <bit>
#include <mutex>

#include "measure/host_chase.hpp"
#include "measure/measuring.hpp"
#include "measure/pages.hpp"

namespace perdure::measure {
namespace {

constexpr std::size_t kLine = 64;  // bytes
constexpr std::size_t kWords = kLine / sizeof(std::uint64_t);

/// A bijection of the numbers below 2^bits.
std::uint64_t scattered(std::uint64_t i, std::uint32_t bits) {
  std::uint64_t const mask = (std::uint64_t{1} << bits) - 1;
  for (int round = 0; round < 3; ++round) {
    i = (i * 0xd6e8feb86659fd93ull + 0x9e3779b97f4a7c15ull) & mask;
    i ^= i >> (bits / 2 + 1);
  }
  return i;
}

}  // namespace

void lay_out_walk(exec::Workers& workers, std::uint64_t* lines, std::size_t span) {
  std::uint64_t const n = span / kLine;
  auto const bits = static_cast<std::uint32_t>(std::countr_zero(n));
  workers.for_chunks(n, 1u << 14, [&](std::size_t i, std::size_t end) {
    for (; i < end; ++i)
      lines[scattered(i, bits) * kWords] = scattered((i + 1) & (n - 1), bits) * kWords;
  });
}

namespace {

/// Nanoseconds a step, from line `first` on, in the best of the stretches that the seconds allow.
double chase(std::uint64_t const* lines, std::uint64_t first, double seconds) {
  constexpr std::uint64_t kSteps = 1u << 13;
  std::uint64_t at = first;
  double const best = best_seconds(seconds, [&] {
    for (std::uint64_t i = 0; i < kSteps; ++i) at = lines[at];
  });
  asm volatile("" : : "r"(at));
  return best * 1e9 / kSteps;
}

/// The mean over threads that walk at the same time, each from a place of its own.
double chase_together(std::uint32_t threads, std::uint64_t const* lines, std::size_t span,
                      double seconds) {
  exec::Workers workers(threads);
  std::mutex mutex;
  double sum = 0;
  workers.for_chunks(threads, 1, [&](std::size_t i, std::size_t) {
    double const mine = chase(lines, span / kLine / threads * i * kWords, seconds);
    std::lock_guard const lock(mutex);
    sum += mine;
  });
  return sum / threads;
}

void chase_in(Measuring& measuring, Pages& pages, std::size_t most, std::string const& how) {
  exec::Workers workers(thread_counts().back());
  double const seconds = measuring.row_seconds(0.05, 12);
  auto* const lines = pages.as<std::uint64_t>();
  for (std::size_t span = std::size_t{16} << 10; span <= most; span *= 4) {
    if (!measuring.goes_on()) return;
    lay_out_walk(workers, lines, span);
    chase(lines, 0, seconds / 4);  // brings near what can be
    measuring.add("chase", how, {1, span, kLine}, chase(lines, 0, seconds), "ns");
  }
  for (std::uint32_t const threads : thread_counts()) {
    if (threads == 1 || !measuring.goes_on()) continue;
    measuring.add("chase", how, {threads, most, kLine},
                  chase_together(threads, lines, most, seconds), "ns");
  }
}

}  // namespace

void measure_chases(Measuring& measuring) {
  std::size_t most = std::size_t{measuring.quick() ? 16u : 4096u} << 20;
  while (most > measuring.memory_bytes() && most > std::size_t{16} << 10) most /= 4;
  if (!measuring.has_room("chase", most)) return;
  for (bool const huge : {false, true}) {
    char const* const how = huge ? "huge pages" : "pages of 4 KiB";
    auto pages = Pages::make(most, huge ? Pages::Kind::huge : Pages::Kind::plain);
    if (!pages.ok()) {
      measuring.leave_out("chase", how, pages.status());
      continue;
    }
    pages->as<std::uint64_t>()[0] = 1;
    if (huge && pages->huge_bytes() == 0) {
      measuring.leave_out("chase, huge pages",
                          "the kernel gave none (see /sys/kernel/mm/transparent_hugepage/enabled)");
      continue;
    }
    chase_in(measuring, *pages, most, how);
  }
}

}  // namespace perdure::measure
