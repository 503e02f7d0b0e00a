// What the host's threads make of random reads and of sorting: what a GPU is measured beside.
#include "exec/sort.hpp"
#include "measure/measuring.hpp"
#include "measure/pages.hpp"
#include "measure/random_reads.hpp"

namespace perdure::measure {
namespace {

void read_randomly(Measuring& measuring, exec::Workers& workers, Pages const& pages) {
  std::size_t const accesses = std::size_t{1} << (measuring.quick() ? 15 : 20);
  std::uint64_t sink = 0;
  for (std::uint32_t const access : {8u, 64u, 128u, 256u, 1024u}) {
    if (!measuring.goes_on()) return;
    RandomReads reads{pages.as<std::uint64_t>(), pages.bytes() / access, access / 8, 1, 0, &sink};
    double const best = best_seconds(measuring.row_seconds(0.02, 5), [&] {
      reads.seed += RandomReads::kApart;
      workers.for_chunks(accesses, 1u << 12, [&](std::size_t i, std::size_t end) {
        for (; i < end; ++i) reads(i);
      });
    });
    measuring.add("random", "the host reads its memory", {workers.threads(), pages.bytes(), access},
                  static_cast<double>(accesses) / best / 1e6, "M/s");
  }
}

void sort_words_of(Measuring& measuring, exec::Workers& workers, std::size_t n) {
  if (!measuring.has_room("sort, by the host", 2 * n * sizeof(std::uint64_t))) return;
  std::vector<std::uint64_t> words(n), spare(n);
  double best = 1e300;
  for (int round = 0; round < 3 && measuring.goes_on(); ++round) {
    for (std::size_t i = 0; i < n; ++i) words[i] = mixed(i + 1);
    auto const began = std::chrono::steady_clock::now();
    exec::sort_words(workers, words, spare, 64);
    best = std::min(best, seconds_since(began));
  }
  if (measuring.stopped()) return;
  measuring.add("sort", "by the host", {workers.threads(), n * sizeof(std::uint64_t), 8},
                static_cast<double>(n) / best / 1e6, "M/s");
}

}  // namespace

void measure_host_access(Measuring& measuring) {
  exec::Workers workers(thread_counts().back());
  std::size_t const span = std::size_t{1} << (measuring.quick() ? 24 : 30);
  if (measuring.has_room("random, by the host", span)) {
    auto pages = Pages::make(span, Pages::Kind::huge);
    if (pages.ok()) {
      workers.for_chunks(span, std::size_t{4} << 20, [&](std::size_t i, std::size_t end) {
        std::fill(pages->as<std::uint64_t>(i), pages->as<std::uint64_t>(end), 1);
      });
      read_randomly(measuring, workers, *pages);
    } else {
      measuring.leave_out("random, by the host", pages.status().message());
    }
  }
  for (std::uint32_t const bits : {16u, 20u, 24u}) {
    if (bits > 16 && measuring.quick()) break;
    if (measuring.goes_on()) sort_words_of(measuring, workers, std::size_t{1} << bits);
  }
}

}  // namespace perdure::measure
