// Micro-benchmarks of libGPM (GPM figures 3, 11b and 12): what a machine's stores, persists, logs
// and checkpoints reach, with the limits measured in the same run. Rates are medians of `repeats`
// in bytes a second.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app.hpp"

namespace perdure::bench::gpm {

struct MicroOptions {
  std::string files = "/dev/shm/perdure-gpm-micro";
  std::uint64_t bytes = std::uint64_t{64} << 20;  // moved by each measurement, about
  std::uint32_t threads = 1u << 14;               // the most that run a kernel
  std::uint32_t repeats = 5;
};

/// Named numbers; several rows a benchmark.
using MicroRow = std::vector<std::pair<std::string, double>>;

template <class Grid>
struct Micro {
  char const* name;
  char const* what;
  std::vector<MicroRow> (*run)(Grid&, MicroOptions const&);
};

namespace micro {

inline constexpr std::uint32_t kBlock = 256;

/// Threads store words side by side, in turn; each persists once, or after every word.
struct StreamKernel {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  std::uint64_t* to;
  std::uint64_t words;
  std::uint64_t value;
  bool each;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < words; i += thread.total()) {
      thread.store(&to[i], value + i);
      if (each) thread.persist();
    }
    if (!each) thread.persist();
  }
};

struct Entry16 {
  std::uint64_t place, old;
};

/// Every thread appends `entries` entries of 16 bytes.
struct AppendKernel {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  perdure::gpm::LogView log;
  std::uint32_t entries;
  std::uint32_t threads;  // that append
  std::uint32_t spread;   // conventional: partitions

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    std::uint64_t const me = thread.global();
    if (me >= threads) return;
    std::int64_t const partition = spread == 0 ? -1 : static_cast<std::int64_t>(me / 32 % spread);
    for (std::uint32_t i = 0; i < entries; ++i) {
      Entry16 const entry{me, random_at(i, me)};
      perdure::gpm::insert(thread, log, &entry, sizeof entry, partition);
    }
  }
};

/// Median seconds of act(), after one that does not count.
template <class F>
double median_s(std::uint32_t repeats, F act) {
  std::vector<double> took;
  act();
  for (std::uint32_t i = 0; i < repeats; ++i) {
    Stopwatch watch;
    act();
    took.push_back(watch.lap());
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

/// Deletes a benchmark's file when it is done with.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() { std::remove(path_.c_str()); }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Seconds of a kernel that streams `bytes` to durable memory: what the link and the memory allow.
template <class Grid>
double stream_s(Grid& grid, MicroOptions const& options, perdure::gpm::Memory<Grid>& memory,
                std::uint32_t threads, bool each) {
  StreamKernel kernel{reinterpret_cast<std::uint64_t*>(memory.data()), options.bytes / 8, 0, each};
  std::uint32_t const block = std::min(threads, kBlock);
  return median_s(options.repeats, [&] {
    ++kernel.value;
    require(grid.launch(perdure::gpm::grid_of(threads, block), kernel), "stream");
    require(grid.order(), "stream");
  });
}

/// Threads that fill the machine with streaming stores.
inline std::uint32_t streaming_threads(MicroOptions const& options) {
  return std::min(options.threads, 1u << 18);
}

template <class Grid>
std::vector<MicroRow> stream(Grid& grid, MicroOptions const& options) {
  Scratch const file(options.files + ".stream");
  auto memory =
      require(perdure::gpm::Memory<Grid>::open(grid, file.path(), options.bytes, {}), "stream");
  Array<Grid, std::byte> near(grid, options.bytes);
  double const write = stream_s(grid, options, memory, streaming_threads(options), false);
  double const read = median_s(options.repeats, [&] {
    require(grid.copy(near.data(), static_cast<std::byte const*>(memory.data()), options.bytes),
            "copying");
    require(grid.order(), "copying");
  });
  auto const bytes = static_cast<double>(options.bytes);
  return {{{"write_bytes_per_s", bytes / write}, {"dma_read_bytes_per_s", bytes / read}}};
}

/// From a warp to the most threads.
inline std::vector<std::uint32_t> thread_counts(MicroOptions const& options) {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t threads = 32; threads < options.threads; threads *= 4)
    counts.push_back(threads);
  counts.push_back(options.threads);
  return counts;
}

/// Figure 3: 8-byte persists by more and more threads; and by the CPU's threads after the fact
/// (cap-mm).
template <class Grid>
std::vector<MicroRow> persist(Grid& grid, MicroOptions const& options) {
  Scratch const file(options.files + ".persist");
  std::vector<MicroRow> rows;
  auto const bytes = static_cast<double>(options.bytes);
  {
    auto memory =
        require(perdure::gpm::Memory<Grid>::open(grid, file.path(), options.bytes, {}), "persist");
    double const limit = bytes / stream_s(grid, options, memory, streaming_threads(options), false);
    for (std::uint32_t const threads : thread_counts(options)) {
      MicroOptions some = options;  // few threads take long
      some.bytes = std::min<std::uint64_t>(options.bytes, std::uint64_t{threads} * 8 * 2048);
      some.repeats = threads < 4096 ? 1 : options.repeats;
      double const took = stream_s(grid, some, memory, threads, true);
      double const rate = static_cast<double>(some.bytes) / took;
      rows.push_back(
          {{"gpm_threads", threads}, {"bytes_per_s", rate}, {"of_streaming", rate / limit}});
    }
  }
  for (std::uint32_t threads = 1; threads <= grid.host_threads(); threads *= 2) {
    using Memory = perdure::gpm::Memory<Grid>;
    auto memory = require(
        Memory::open(grid, file.path(), options.bytes, {Path::cap_mm, true, threads}), "persist");
    StreamKernel kernel{reinterpret_cast<std::uint64_t*>(memory.data()), options.bytes / 8, 0,
                        false};
    double const took = median_s(options.repeats, [&] {
      ++kernel.value;
      require(grid.launch(perdure::gpm::grid_of(streaming_threads(options), kBlock), kernel,
                          memory.persist()),
              "cap");
      require(memory.commit(0, options.bytes), "cap");
    });
    rows.push_back({{"cap_mm_threads", threads}, {"bytes_per_s", bytes / took}});
  }
  return rows;
}

/// Seconds to append; the log is cleared in between.
template <class Grid>
double append_s(Grid& grid, MicroOptions const& options, perdure::gpm::LogKind kind,
                std::uint32_t threads, std::uint32_t entries) {
  Scratch const file(options.files + ".log");
  std::uint32_t const block = std::min(threads, kBlock);
  GridShape const shape = perdure::gpm::grid_of(threads, block);
  bool const hcl = kind == perdure::gpm::LogKind::hcl;
  // Partitions of a conventional log: one for each warp of up to 1,024, so that threads of a warp
  // meet.
  std::uint32_t const spread = hcl ? 0 : std::clamp(threads / 32, 1u, 1024u);
  std::uint64_t const bytes =
      std::uint64_t{threads} * entries * 16 + (std::uint64_t{spread} + threads) * 64;
  auto log = require(perdure::gpm::Log<Grid>::create(grid, file.path(), bytes,
                                                     {kind, shape.blocks, block, spread}),
                     "log");
  std::vector<double> took;
  for (std::uint32_t i = 0; i <= options.repeats; ++i) {
    require(log.clear(), "log");
    require(grid.order(), "log");
    Stopwatch watch;
    require(grid.launch(shape, AppendKernel{log.view(), entries, threads, spread}), "log");
    require(grid.order(), "log");
    if (i > 0) took.push_back(watch.lap());
  }
  if (require(log.overflows(), "log") != 0) throw Failure("log: entries found no room");
  std::sort(took.begin(), took.end());
  return took[took.size() / 2];
}

template <class Grid>
std::vector<MicroRow> log_append(Grid& grid, MicroOptions const& options) {
  double const limit = stream(grid, options)[0][0].second;
  auto const entries =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(options.bytes / 16 / options.threads, 1));
  double const took = append_s(grid, options, perdure::gpm::LogKind::hcl, options.threads, entries);
  double const all = static_cast<double>(options.threads) * entries;
  return {{{"threads", options.threads},
           {"entries_per_s", all / took},
           {"payload_bytes_per_s", all * 16 / took},
           {"log_bytes_per_s", all * 20 / took},  // with the checks
           {"streaming_bytes_per_s", limit},
           {"payload_of_streaming", all * 16 / took / limit},
           {"log_of_streaming", all * 20 / took / limit}}};
}

/// Figure 11b: the time that one entry of each thread takes.
template <class Grid>
std::vector<MicroRow> log_scaling(Grid& grid, MicroOptions const& options) {
  std::vector<MicroRow> rows;
  for (std::uint32_t const threads : thread_counts(options)) {
    double const hcl = append_s(grid, options, perdure::gpm::LogKind::hcl, threads, 1);
    double const conventional =
        append_s(grid, options, perdure::gpm::LogKind::conventional, threads, 1);
    rows.push_back({{"threads", threads},
                    {"hcl_us", hcl * 1e6},
                    {"conventional_us", conventional * 1e6},
                    {"ratio", conventional / hcl}});
  }
  return rows;
}

template <class Grid>
std::vector<MicroRow> checkpoint(Grid& grid, MicroOptions const& options) {
  MicroRow const limits = stream(grid, options)[0];
  Scratch const file(options.files + ".checkpoint");
  Array<Grid, std::byte> near(grid, options.bytes);
  near.fill(1);
  auto made = require(
      perdure::gpm::Checkpoint<Grid>::create(grid, file.path(), options.bytes, 1, 1), "checkpoint");
  require(made.add(near.data(), options.bytes, 0), "checkpoint");
  std::uint64_t word = 0;
  double const out =
      median_s(options.repeats, [&] { require(made.checkpoint(0, ++word), "checkpoint"); });
  double const back =
      median_s(options.repeats, [&] { require(made.restore(0).status(), "checkpoint"); });
  auto const bytes = static_cast<double>(options.bytes);
  return {{{"bytes", bytes},
           {"checkpoint_bytes_per_s", bytes / out},
           {"checkpoint_of_streaming", bytes / out / limits[0].second},
           {"restore_bytes_per_s", bytes / back},
           {"restore_of_dma", bytes / back / limits[1].second}}};
}

}  // namespace micro

template <class Grid>
inline constexpr std::array kMicros{
    Micro<Grid>{"stream", "streaming stores of a kernel, and copies back: the limits of the others",
                &micro::stream<Grid>},
    Micro<Grid>{"persist", "8-byte persists by more and more threads, and by the CPU (figure 3)",
                &micro::persist<Grid>},
    Micro<Grid>{"log-append", "entries of 16 bytes appended to an HCL", &micro::log_append<Grid>},
    Micro<Grid>{"log-scaling", "one entry of each thread, HCL and conventional (figure 11b)",
                &micro::log_scaling<Grid>},
    Micro<Grid>{"checkpoint", "a checkpoint and its restore", &micro::checkpoint<Grid>},
};

template <class Grid>
[[nodiscard]] std::vector<MicroRow> run_micro(Grid& grid, std::string const& name,
                                              MicroOptions const& options) {
  for (Micro<Grid> const& micro : kMicros<Grid>) {
    if (name == micro.name) return micro.run(grid, options);
  }
  throw Failure("no micro-benchmark " + name + "; --list names them");
}

}  // namespace perdure::bench::gpm
