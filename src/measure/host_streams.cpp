// Sequential bandwidth of the host's memory, by the number of threads (thesis, figures 4.4, 4.6).
#include <cstring>
#include <thread>

#include "measure/measuring.hpp"
#include "measure/pages.hpp"

namespace perdure::measure {

std::vector<std::uint32_t> thread_counts() {
  std::uint32_t const cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::uint32_t> counts;
  for (std::uint32_t n = 1; n < cores; n *= 2) counts.push_back(n);
  counts.push_back(cores);
  return counts;
}

namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20;  // bytes

/// The compiler may not leave out what leads to it.
void keep(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

void read(std::byte const* from, std::size_t bytes) {
  std::uint64_t sum = 0;
  auto const* const words = reinterpret_cast<std::uint64_t const*>(from);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) sum += words[i];
  keep(sum);
}

void write(std::byte* to, std::size_t bytes, std::uint64_t value) {
  auto* const words = reinterpret_cast<std::uint64_t*>(to);
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) words[i] = value;
  keep(value);
}

/// pass(begin, end) over all bytes, by so many threads; GB/s.
template <class Pass>
double rate(exec::Workers& workers, std::size_t bytes, double seconds, Pass pass) {
  double const best = best_seconds(seconds, [&] { workers.for_chunks(bytes, kChunk, pass); });
  return static_cast<double>(bytes) / best / 1e9;
}

template <class Pass>
bool measure_by_threads(Measuring& measuring, char const* what, std::size_t bytes, Pass pass) {
  auto const counts = thread_counts();
  for (std::uint32_t const threads : counts) {
    if (!measuring.goes_on()) return false;
    exec::Workers workers(threads);
    double const value = rate(workers, bytes, measuring.row_seconds(0.06, counts.size()), pass);
    measuring.add(what, "", {threads, bytes, 0}, value, "GB/s");
  }
  return true;
}

}  // namespace

void measure_streams(Measuring& measuring) {
  std::size_t const bytes = std::size_t{1} << (measuring.quick() ? 24 : 30);
  if (!measuring.has_room("read, write, copy", 2 * bytes)) return;
  auto from = Pages::make(bytes, Pages::Kind::huge), to = Pages::make(bytes, Pages::Kind::huge);
  if (!from.ok() || !to.ok()) {
    return measuring.leave_out("read, write, copy",
                               (from.ok() ? to.status() : from.status()).message());
  }
  auto* const a = from->as<std::byte>();
  auto* const b = to->as<std::byte>();
  {
    exec::Workers all(thread_counts().back());
    all.for_chunks(bytes, kChunk, [&](std::size_t i, std::size_t end) {
      write(a + i, end - i, 1);
      write(b + i, end - i, 1);
    });
  }
  if (!measure_by_threads(measuring, "read", bytes,
                          [&](std::size_t i, std::size_t end) { read(a + i, end - i); }))
    return;
  if (!measure_by_threads(measuring, "write", bytes,
                          [&](std::size_t i, std::size_t end) { write(b + i, end - i, i); }))
    return;
  measure_by_threads(measuring, "copy", bytes,
                     [&](std::size_t i, std::size_t end) { std::memcpy(b + i, a + i, end - i); });
}

}  // namespace perdure::measure
