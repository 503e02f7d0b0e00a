// What a GPU makes of its own memory, of the host's, and of the link between them.
//
// The law that Perdure's design rests on shows in `random`: over a span that its address
// translation does not reach, an access to host memory costs the whole GPU the same, whatever its
// size (docs/design.md).
#include <memory>

#include "measure/gpu_meter.hpp"
#include "measure/measuring.hpp"
#include "measure/pages.hpp"

namespace perdure::measure {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

/// Device or managed memory that goes back at the end.
class OnGpu {
 public:
  OnGpu(GpuMeter& gpu, GpuMemoryKind kind, std::size_t bytes)
      : gpu_(&gpu), data_(gpu.allocate(kind, bytes)) {}
  OnGpu(OnGpu const&) = delete;
  OnGpu& operator=(OnGpu const&) = delete;
  ~OnGpu() {
    if (data_.ok()) gpu_->free(*data_);
  }
  [[nodiscard]] Status status() const { return data_.status(); }
  [[nodiscard]] std::uint64_t* words() { return static_cast<std::uint64_t*>(*data_); }

 private:
  GpuMeter* gpu_;
  Result<void*> data_;
};

/// The shortest of `times` runs, after one unseen; a failure ends them.
template <class F>
Result<double> best_of(int times, F f) {
  Result<double> best = f();
  for (int i = 0; i < times && best.ok(); ++i) {
    Result<double> now = f();
    if (!now.ok()) return now;
    best = i == 0 ? *now : std::min(*best, *now);
  }
  return best;
}

class GpuRows {
 public:
  GpuRows(Measuring& measuring, GpuMeter& gpu) : measuring_(measuring), gpu_(gpu) {}

  void launches() {
    auto word = Pages::make(4096, Pages::Kind::pinned);
    if (!word.ok()) return measuring_.leave_out("launch", word.status().message());
    auto times = gpu_.launch(word->as<std::uint32_t>(), measuring_.quick() ? 100 : 2000);
    if (!times.ok()) return measuring_.leave_out("launch", times.status().message());
    auto const add = [&](char const* how, double seconds) {
      measuring_.add("launch", how, {1, 0, 0}, seconds * 1e6, "us");
    };
    add("many in a row, each", times->back_to_back);
    add("until the host sees what it stores", times->begun);
    add("until the host has waited for it", times->ended);
  }

  void link() {
    std::size_t const most = measuring_.quick() ? 16 * kMiB : 256 * kMiB;
    if (!measuring_.has_room("link", most)) return;
    auto pages = Pages::make(most, Pages::Kind::pinned);
    if (!pages.ok()) return measuring_.leave_out("link", pages.status().message());
    OnGpu device(gpu_, GpuMemoryKind::device, most);
    if (!device.status().ok()) return measuring_.leave_out("link", device.status().message());
    auto* const host = pages->as<std::uint64_t>();
    for (std::size_t bytes = 64 * 1024; bytes <= most && measuring_.goes_on(); bytes *= 16) {
      rate("host to GPU, copy engine", bytes,
           [&] { return gpu_.copy(device.words(), host, bytes); });
      rate("GPU to host, copy engine", bytes,
           [&] { return gpu_.copy(host, device.words(), bytes); });
    }
    rate("GPU reads host memory", most, [&] { return gpu_.stream(host, most / 8, false); });
    rate("GPU writes host memory", most, [&] { return gpu_.stream(host, most / 8, true); });
    rate("GPU reads its memory", most,
         [&] { return gpu_.stream(device.words(), most / 8, false); });
    rate("GPU writes its memory", most,
         [&] { return gpu_.stream(device.words(), most / 8, true); });
  }

  /// Of spans of host memory up to what there is; above kMost it would take too long to pin.
  void random() {
    std::size_t const most = measuring_.quick() ? 64 * kMiB : kMost;
    std::size_t largest = most;
    while (largest > measuring_.memory_bytes() && largest > 64 * kMiB) largest /= 2;
    if (!measuring_.has_room("random, over the link", largest)) return;
    auto pages = Pages::make(largest, Pages::Kind::pinned);
    if (!pages.ok()) return measuring_.leave_out("random, over the link", pages.status().message());
    for (std::size_t span = 64 * kMiB; span <= largest; span *= 2) {
      for (std::uint32_t const access : {8u, 32u, 128u, 512u, 1024u}) {
        if (!measuring_.goes_on()) return;
        one_random("GPU reads host memory", pages->as<std::uint64_t>(), span, access);
      }
    }
    if (largest < most) {
      measuring_.leave_out(
          "random, over the link, above " + std::to_string(largest >> 30) + " GiB",
          "arrays may take " + std::to_string(measuring_.memory_bytes() >> 30) + " GiB here");
    } else if (!measuring_.quick()) {
      measuring_.leave_out("random, over the link, above 16 GiB",
                           "pinning more takes longer than all else");
    }
  }

  void sorts() {
    for (std::size_t n : {std::size_t{1} << 20, std::size_t{1} << 24, std::size_t{1} << 27}) {
      if (!measuring_.goes_on() || (measuring_.quick() && n > 1u << 20)) return;
      sort_there(n);
    }
    sort_managed(std::size_t{1} << 24);
    sort_from_host(std::size_t{1} << 22);
    sort_oversubscribed();
  }

 private:
  static constexpr std::size_t kMost = 16 * kGiB;

  template <class F>
  void rate(char const* how, std::size_t bytes, F f) {
    auto took = best_of(5, f);
    if (!took.ok()) return measuring_.leave_out("link", how, took.status());
    measuring_.add("link", how, {0, bytes, 0}, static_cast<double>(bytes) / *took / 1e9, "GB/s");
  }

  void one_random(char const* how, std::uint64_t const* words, std::size_t span,
                  std::uint32_t access) {
    constexpr std::size_t kAccesses = std::size_t{1} << 20;
    RandomReads reads{words, span / access, access / 8, std::min(access / 8, 32u), 0, nullptr};
    auto took = best_of(2, [&] {
      reads.seed += RandomReads::kApart;
      return gpu_.read_randomly(reads, kAccesses);
    });
    if (!took.ok()) return measuring_.leave_out("random, over the link", took.status().message());
    measuring_.add("random", how, {0, span, access}, *took * 1e9 / kAccesses, "ns");
  }

  void add_sort(char const* how, std::size_t n, double seconds) {
    measuring_.add("sort", how, {0, n * 8, 8}, static_cast<double>(n) / seconds / 1e6, "M/s");
  }
  static void fill(std::uint64_t* words, std::size_t n) {
    exec::Workers workers(thread_counts().back());
    workers.for_chunks(n, 1u << 16, [&](std::size_t i, std::size_t end) {
      for (; i < end; ++i) words[i] = mixed(i + 1);
    });
  }

  /// In the GPU's memory: the sort alone, and with the way there and back.
  void sort_there(std::size_t n) {
    std::string const what = "sort, in the GPU's memory, " + std::to_string(n * 8 >> 20) + " MiB";
    if (!measuring_.has_room(what, n * 8)) return;
    auto pages = Pages::make(n * 8, Pages::Kind::pinned);
    if (!pages.ok()) return measuring_.leave_out(what, pages.status().message());
    OnGpu words(gpu_, GpuMemoryKind::device, n * 8), spare(gpu_, GpuMemoryKind::device, n * 8);
    for (OnGpu const* one : {&words, &spare})
      if (!one->status().ok()) return measuring_.leave_out(what, one->status().message());
    fill(pages->as<std::uint64_t>(), n);
    double upload = 0, download = 0;
    auto const sorted = best_of(1, [&]() -> Result<double> {
      auto up = gpu_.copy(words.words(), pages->as<std::byte>(), n * 8);
      if (!up.ok()) return up;
      auto took = gpu_.sort(words.words(), spare.words(), n);
      auto down = gpu_.copy(pages->as<std::byte>(), spare.words(), n * 8);
      if (!down.ok()) return down;
      upload = *up, download = *down;
      fill(pages->as<std::uint64_t>(), n);
      return took;
    });
    if (!sorted.ok()) return measuring_.leave_out(what, sorted.status().message());
    Result<double> alone = sorted;
    add_sort("in the GPU's memory", n, *alone);
    add_sort("in the GPU's memory, with upload and download", n, *alone + upload + download);
  }

  /// Memory that moves to the GPU as it is touched; there is room for all of it.
  void sort_managed(std::size_t n) {
    if (measuring_.quick() || !measuring_.goes_on()) return;
    if (4 * n * 8 > gpu_.free_bytes())
      return measuring_.leave_out("sort, managed memory", "the GPU has too little memory free");
    sort_in("managed memory", GpuMemoryKind::managed, n);
  }

  /// More than the GPU has room for.
  void sort_oversubscribed() {
    char const* const what = "sort, more managed memory than the GPU has free";
    if (!measuring_.oversubscribes())
      return measuring_.leave_out(what,
                                  "may hang the GPU on some drivers; ask for --oversubscribe");
    constexpr std::size_t kLeft = 512 * kMiB, kEach = kGiB;
    if (!measuring_.goes_on() || !measuring_.has_room(what, 2 * kEach)) return;
    std::size_t const free = gpu_.free_bytes();
    if (free <= kLeft) return measuring_.leave_out(what, "the GPU has too little memory free");
    OnGpu ballast(gpu_, GpuMemoryKind::device, free - kLeft);
    if (!ballast.status().ok()) return measuring_.leave_out(what, ballast.status().message());
    sort_in("managed memory, 512 MiB of the GPU's free", GpuMemoryKind::managed, kEach / 8);
  }

  void sort_in(char const* how, GpuMemoryKind kind, std::size_t n) {
    OnGpu words(gpu_, kind, n * 8), spare(gpu_, kind, n * 8);
    for (OnGpu const* one : {&words, &spare})
      if (!one->status().ok()) return measuring_.leave_out("sort", how, one->status());
    fill(words.words(), n);
    auto took = gpu_.sort(words.words(), spare.words(), n);
    if (!took.ok()) return measuring_.leave_out("sort", how, took.status());
    add_sort(how, n, *took);
  }

  /// The words stay in host memory, and each pass of the sort crosses the link: what may be larger
  /// than the GPU's memory.
  void sort_from_host(std::size_t n) {
    char const* const what = "sort, the words stay in host memory";
    if (measuring_.quick() || !measuring_.goes_on()) return;
    if (!measuring_.has_room(what, 2 * n * 8)) return;
    auto pages = Pages::make(2 * n * 8, Pages::Kind::pinned);
    if (!pages.ok()) return measuring_.leave_out(what, pages.status().message());
    auto* const words = pages->as<std::uint64_t>();
    fill(words, n);
    auto took = gpu_.sort(words, words + n, n);
    if (!took.ok()) return measuring_.leave_out(what, took.status().message());
    add_sort("the words stay in host memory", n, *took);
  }

  Measuring& measuring_;
  GpuMeter& gpu_;
};

}  // namespace

void measure_gpu(Measuring& measuring) {
  auto gpu = make_gpu_meter();
  if (!gpu.ok()) {
    for (char const* const what : {"launch", "link", "random, over the link", "sort, by a GPU"})
      measuring.leave_out(what, gpu.status().message());
    return;
  }
  measuring.report().gpu = (*gpu)->describe();
  GpuRows rows(measuring, **gpu);
  if (measuring.goes_on()) rows.launches();
  if (measuring.goes_on()) rows.link();
  if (measuring.goes_on() && measuring.has_time("random, over the link")) rows.random();
  if (measuring.goes_on() && measuring.has_time("sort, by a GPU")) rows.sorts();
}

}  // namespace perdure::measure
