// Prefix sum (PS): of many arrays of integers, each element's sum with all before it in its array.
// Blocks of threads sum a tile each, from the tile's beginning (partial sums), and then add what
// the array's tiles before it come to (final sums). Durable: both, and a word a tile for each of
// them. GPM table 1: 1K arrays of 1 M integers; figure 8.
//
// Invariants: a tile's word is durable after its sums; it holds the sum of its last element and a
// bit that says so, for a sum may well be 0. So a tile that has its word is skipped, and any other
// is done again.
#pragma once

#include <algorithm>
#include <atomic>

#include "native.hpp"

namespace perdure::bench::gpm {

struct PrefixShape {
  std::uint32_t arrays;
  std::uint32_t tiles;  // of an array
  std::uint32_t threads;
  std::uint32_t each;  // elements of a thread; a tile has threads * each
  [[nodiscard]] PERDURE_FN std::uint32_t tile() const { return threads * each; }
  [[nodiscard]] std::uint32_t all_tiles() const { return arrays * tiles; }
  [[nodiscard]] std::uint64_t elements() const { return std::uint64_t{arrays} * tiles * tile(); }
};

inline constexpr std::uint32_t kPrefixThreads = 256, kPrefixEach = 8;

[[nodiscard]] inline PrefixShape prefix_shape(AppOptions const& options) {
  PrefixShape shape = options.size == Size::tiny ? PrefixShape{3, 8, 16, 2}
                      : options.size == Size::small
                          ? PrefixShape{64, 32, kPrefixThreads, kPrefixEach}
                          : PrefixShape{1024, 512, kPrefixThreads, kPrefixEach};
  if (options.iterations != 0) shape.arrays = options.iterations;
  return shape;
}

/// From -3 to 3: an array's sums come back to 0 again and again.
PERDURE_FN std::int32_t prefix_input(std::uint64_t seed, std::uint64_t i) {
  return static_cast<std::int32_t>(random_at(seed, i) % 7) - 3;
}

struct PrefixInput {
  static constexpr int kPhases = 1;
  using Shared = NoShared;
  using State = NoState;
  std::int32_t* values;
  std::uint64_t n;
  std::uint64_t seed;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < n; i += thread.total())
      values[i] = prefix_input(seed, i);
  }
};

/// A tile's word: 0, or its last sum, marked.
PERDURE_FN constexpr std::uint64_t tile_word(std::int32_t sum) {
  return std::uint64_t{1} << 32 | static_cast<std::uint32_t>(sum);
}
PERDURE_FN constexpr std::int32_t sum_of(std::uint64_t word) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
}

/// Of a thread: its tile had its word before the launch.
struct PrefixState {
  bool done;
};

/// Where a kernel puts its sums. `known`: the words that were durable before the launch, in machine
/// memory, and then those of all tiles.
struct PrefixTo {
  std::int32_t* sums;  // durable
  std::uint64_t* words;  // durable; null where the host must make the sums durable first
  std::uint64_t* known;

  /// The tile's sums are durable.
  template <class T>
  PERDURE_FN void done(T& thread, std::int32_t sum) const {
    std::uint64_t const word = tile_word(sum);
    known[thread.block()] = word;
    if (words == nullptr) return;
    thread.store(&words[thread.block()], word);
    thread.persist();
  }
};

/// The sums of each tile. Neighbouring threads load and store neighbouring elements; in between
/// each has `each` of its own that follow each other, and threads' totals are summed by groups.
struct PartialSums {
  static constexpr int kPhases = 6;
  static constexpr std::uint32_t kGroup = 16;
  struct Shared {
    std::int32_t values[kPrefixThreads * kPrefixEach];
    std::int32_t
        before[kPrefixThreads];  // of the thread's elements: what its group has before them
    std::int32_t groups[kPrefixThreads / kGroup];
  };
  using State = PrefixState;
  PrefixShape shape;
  std::int32_t const* values;
  std::int32_t* near;  // the partial sums once more, in machine memory
  PrefixTo to;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared& shared, State& state) const {
    std::uint32_t const t = thread.thread(), threads = shape.threads;
    std::uint64_t const first = std::uint64_t{thread.block()} * shape.tile();
    if constexpr (kPhase == 0) state.done = to.known[thread.block()] != 0;
    if (state.done) {
      if (kPhase == 0) fetch(thread, first);
    } else if constexpr (kPhase == 0) {
      for (std::uint32_t i = t; i < shape.tile(); i += threads)
        shared.values[i] = values[first + i];
    } else if constexpr (kPhase == 1) {
      std::int32_t* const mine = &shared.values[t * shape.each];
      for (std::uint32_t i = 1; i < shape.each; ++i) mine[i] += mine[i - 1];
    } else if constexpr (kPhase == 2) {
      if (t % kGroup == 0) sum_group(shared, t);
    } else if constexpr (kPhase == 3) {
      std::int32_t before = shared.before[t];
      for (std::uint32_t g = 0; g < t / kGroup; ++g) before += shared.groups[g];
      for (std::uint32_t i = 0; i < shape.each; ++i) shared.values[t * shape.each + i] += before;
    } else if constexpr (kPhase == 4) {
      for (std::uint32_t i = t; i < shape.tile(); i += threads) {
        near[first + i] = shared.values[i];
        thread.store(&to.sums[first + i], shared.values[i]);
      }
      thread.persist();
    } else if (t + 1 == threads) {
      to.done(thread, shared.values[shape.tile() - 1]);
    }
  }

 private:
  /// Of a tile that was done: for the final sums.
  template <class T>
  PERDURE_FN void fetch(T& thread, std::uint64_t first) const {
    for (std::uint32_t i = thread.thread(); i < shape.tile(); i += shape.threads)
      near[first + i] = thread.load(&to.sums[first + i]);
  }
  PERDURE_FN void sum_group(Shared& shared, std::uint32_t first) const {
    std::int32_t sum = 0;
    for (std::uint32_t t = first; t < first + kGroup && t < shape.threads; ++t) {
      shared.before[t] = sum;
      sum += shared.values[t * shape.each + shape.each - 1];
    }
    shared.groups[first / kGroup] = sum;
  }
};

/// Adds to each tile's partial sums what the tiles before it come to.
struct FinalSums {
  static constexpr int kPhases = 4;
  struct Shared {
    std::int32_t before[kPrefixThreads];  // sums of tiles before, some to each thread
    std::int32_t all_before;
  };
  using State = PrefixState;
  PrefixShape shape;
  std::int32_t const* near;
  std::uint64_t const* partial;  // words of all tiles, in machine memory
  PrefixTo to;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared& shared, State& state) const {
    std::uint32_t const t = thread.thread(), tile = thread.block();
    std::uint64_t const first = std::uint64_t{tile} * shape.tile();
    if constexpr (kPhase == 0) state.done = to.known[tile] != 0;
    if (state.done) return;
    if constexpr (kPhase == 0) {
      shared.before[t] = 0;
      for (std::uint32_t other = tile / shape.tiles * shape.tiles + t; other < tile;
           other += shape.threads)
        shared.before[t] += sum_of(partial[other]);
    } else if constexpr (kPhase == 1) {
      if (t != 0) return;
      shared.all_before = 0;
      for (std::uint32_t other = 0; other < shape.threads; ++other)
        shared.all_before += shared.before[other];
    } else if constexpr (kPhase == 2) {
      for (std::uint32_t i = t; i < shape.tile(); i += shape.threads)
        thread.store(&to.sums[first + i], near[first + i] + shared.all_before);
      thread.persist();
    } else if (t + 1 == shape.threads) {
      to.done(thread, near[first + shape.tile() - 1] + shared.all_before);
    }
  }
};

/// Words from machine memory to durable memory.
struct PrefixMark {
  static constexpr int kPhases = 1;
  using Shared = NoShared;
  using State = NoState;
  std::uint64_t* words;
  std::uint64_t const* known;
  std::uint64_t n;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < n; i += thread.total())
      thread.store(&words[i], known[i]);
    thread.persist();
  }
};

/// What plain loops say, an array each.
[[nodiscard]] inline bool prefix_right(PrefixShape const& shape, std::uint64_t seed,
                                       std::vector<std::int32_t> const& partial,
                                       std::vector<std::int32_t> const& final,
                                       exec::Workers& workers) {
  std::atomic<bool> right = true;
  workers.for_chunks(shape.arrays, 1, [&](std::size_t begin, std::size_t end) {
    std::uint64_t i = std::uint64_t{begin} * shape.tiles * shape.tile();
    for (std::size_t array = begin; array < end; ++array) {
      std::int32_t sum = 0;
      for (std::uint32_t tile = 0; tile < shape.tiles; ++tile) {
        std::int32_t const before = sum;
        for (std::uint32_t e = 0; e < shape.tile(); ++e, ++i) {
          sum += prefix_input(seed, i);
          if (final[i] != sum || partial[i] != sum - before) right = false;
        }
      }
    }
  });
  return right;
}

template <class Grid>
class PrefixSum {
 public:
  PrefixSum(Grid& grid, AppOptions const& options)
      : grid_(grid),
        seed_(options.seed),
        shape_(prefix_shape(options)),
        file_(grid, options, "prefix-sum", layout_, problem()),
        values_(grid, shape_.elements()),
        near_(grid, shape_.elements()),
        known_partial_(grid, shape_.all_tiles()),
        known_final_(grid, shape_.all_tiles()) {
    perdure::gpm::GridShape const all{std::min(shape_.all_tiles(), 4096u), shape_.threads};
    require(grid.launch(all, PrefixInput{values_.data(), shape_.elements(), seed_}), "input");
    require(grid.order(), "input");
  }

  AppReport run() {
    AppReport report;
    Stopwatch watch;
    if (!file_.goes_on()) file_.begin();
    file_.upload(known_partial_, partial_words_, partial_words_.n);
    file_.upload(known_final_, final_words_, final_words_.n);
    report.began_at = done_of(known_partial_) + done_of(known_final_);
    if (file_.goes_on()) report.recovery_s = watch.lap();

    watch.lap();
    sum();
    report.run_s = watch.lap();
    report.steps = 2 * std::uint64_t{shape_.all_tiles()} - report.began_at;
    report.operations = shape_.elements();
    file_.report(report);

    auto const partial = file_.get(partial_);
    auto const final = file_.get(final_);
    report.digest = digest_of(final, digest_of(partial));
    exec::Workers workers(grid_.host_threads());
    report.right = prefix_right(shape_, seed_, partial, final, workers);
    return report;
  }

 private:
  [[nodiscard]] std::uint64_t problem() const {
    return digest_of(std::vector<std::uint64_t>{seed_, shape_.arrays, shape_.tiles, shape_.threads,
                                                shape_.each});
  }

  static std::uint64_t done_of(Array<Grid, std::uint64_t> const& words) {
    std::vector<std::uint64_t> const all = words.get();
    return all.size() - static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 0u));
  }

  void sum() {
    perdure::gpm::GridShape const blocks{shape_.all_tiles(), shape_.threads};
    PartialSums const partial{shape_, values_.data(), near_.data(),
                              to(partial_, partial_words_, known_partial_)};
    require(grid_.launch(blocks, partial, file_.persist()), "partial sums");
    mark(partial_, partial_words_, known_partial_);
    FinalSums const final{shape_, near_.data(), known_partial_.data(),
                          to(final_, final_words_, known_final_)};
    require(grid_.launch(blocks, final, file_.persist()), "final sums");
    mark(final_, final_words_, known_final_);
    require(grid_.order(), "prefix sums");
  }

  PrefixTo to(Region<std::int32_t> sums, Region<std::uint64_t> words,
              Array<Grid, std::uint64_t> const& known) const {
    return {file_.data(sums), file_.kernels_persist() ? file_.data(words) : nullptr, known.data()};
  }

  /// Where kernels do not persist: all sums, then that they are there.
  void mark(Region<std::int32_t> sums, Region<std::uint64_t> words,
            Array<Grid, std::uint64_t> const& known) {
    if (file_.kernels_persist()) return;
    file_.commit(sums);
    perdure::gpm::GridShape const threads = perdure::gpm::grid_of(words.n, shape_.threads);
    require(grid_.launch(threads, PrefixMark{file_.data(words), known.data(), words.n},
                         file_.persist()),
            "marking");
    file_.commit(words);
  }

  Grid& grid_;
  std::uint64_t seed_;
  PrefixShape shape_;
  NativeLayout layout_;
  Region<std::int32_t> partial_ = layout_.add<std::int32_t>(shape_.elements());
  Region<std::int32_t> final_ = layout_.add<std::int32_t>(shape_.elements());
  Region<std::uint64_t> partial_words_ = layout_.add<std::uint64_t>(shape_.all_tiles());
  Region<std::uint64_t> final_words_ = layout_.add<std::uint64_t>(shape_.all_tiles());
  NativeFile<Grid> file_;
  Array<Grid, std::int32_t> values_, near_;
  Array<Grid, std::uint64_t> known_partial_, known_final_;
};

template <class Grid>
AppReport run_prefix_sum(Grid& grid, AppOptions const& options) {
  return PrefixSum<Grid>(grid, options).run();
}

}  // namespace perdure::bench::gpm
