// `perdure-bench load-factor`: how full the table gets before it must grow. Growth is switched off,
// random unique keys are put until the store says no_space, and the records acknowledged before the
// batch that failed are divided by the slots of all live levels. Batches are at most 1/2048 of the
// slots near the end, so the figure is at most 0.0005 below the true one, and never above it. How
// fast records go in is timed twice, in batches of one size: around a load of one half, and in the
// last tenth of the fill.
#include <chrono>
#include <cstdio>
#include <memory>

#include "array.hpp"
#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "sized_pool.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::string layout = "both";
  std::string shape = "2L-2H-8S";
  std::string top_levels = "14..18";
  std::uint32_t seeds = 3;
  std::uint32_t value_bytes = 8;
  std::string device = "cpu";
  std::uint32_t threads = 0;
  std::string json;
};

struct Variant {
  Layout layout;
  bool displacement;
};

std::vector<Variant> variants_of(std::string const& layout) {
  if (layout == "word") return {{Layout::word, true}, {Layout::word, false}};
  if (layout == "in_place") return {{Layout::in_place, false}};
  if (layout == "both")
    return {{Layout::word, true}, {Layout::word, false}, {Layout::in_place, false}};
  throw Failure("--layout '" + layout + "': choose word, in_place or both");
}

struct Levels {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

Levels levels_named(std::string const& text) {
  Levels levels;
  int used = 0;
  int const read =
      std::sscanf(text.c_str(), "%u%n..%u%n", &levels.first, &used, &levels.last, &used);
  if (read == 1) levels.last = levels.first;
  if (read < 1 || static_cast<std::size_t>(used) != text.size() || levels.first > levels.last ||
      levels.last > 28) {
    throw Failure("--top-levels '" + text + "': give one number or a range, for example 14..22");
  }
  return levels;
}

/// Of one table: how full it got, and how fast records went in at a load of one half and in the
/// last tenth, M/s.
struct Filled {
  double load_factor = 0;
  double mops_half = 0;
  double mops_last = 0;
};

/// Puts records until one is refused.
class Filling {
 public:
  Filling(Store& store, Dataset const& dataset, std::uint64_t slots, MemorySpace space)
      : store_(store),
        dataset_(dataset),
        slots_(slots),
        keys_(most(), dataset.key_bytes(), space),
        values_(most(), dataset.value_bytes(), space) {}

  Filled run() {
    std::vector<Batch> done;
    while (records_ <= slots_) {
      Batch batch{records_, next_size(), 0};
      if (!put(batch)) return filled(done);
      records_ += batch.n;
      done.push_back(batch);
    }
    throw Failure("the table took more records than it has slots: it grew although growth is off");
  }

 private:
  struct Batch {
    std::uint64_t first, n;
    double seconds;
  };

  [[nodiscard]] std::uint64_t most() const { return std::min<std::uint64_t>(slots_ / 32, 1 << 20); }
  [[nodiscard]] double load() const {
    return static_cast<double>(records_) / static_cast<double>(slots_);
  }
  [[nodiscard]] std::uint64_t timed_size() const {
    return std::clamp<std::uint64_t>(slots_ / 2048, 1, most());
  }
  [[nodiscard]] std::uint64_t next_size() const { return load() >= 0.45 ? timed_size() : most(); }

  /// False: some of it was refused.
  bool put(Batch& batch) {
    on_all_cores(batch.n, [&](std::size_t i) {
      dataset_.write_key(batch.first + i, keys_.host(i));
      dataset_.write_value(batch.first + i, 0, values_.host(i));
    });
    keys_.send(batch.n);
    values_.send(batch.n);
    statuses_.assign(batch.n, KeyStatus::ok);
    auto const begin = std::chrono::steady_clock::now();
    Status const status =
        store_.put(keys_.column(0, batch.n), values_.column(0, batch.n), statuses_);
    batch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (status.code() != Code::no_space) {
      require(status, "put");
      return true;
    }
    if (std::find(statuses_.begin(), statuses_.end(), KeyStatus::no_space) == statuses_.end())
      throw Failure("put said no_space, but no key has that status");
    return false;
  }

  [[nodiscard]] Filled filled(std::vector<Batch> const& done) const {
    // The middle batch's: in some of them the pool itself grows.
    auto const rate = [&](double from, double to) {
      std::vector<double> each;
      for (Batch const& batch : done) {
        double const at = static_cast<double>(batch.first) / static_cast<double>(slots_);
        if (at >= from && at < to && batch.n == timed_size())
          each.push_back(static_cast<double>(batch.n) / batch.seconds * 1e-6);
      }
      return each.empty() ? 0.0 : median(each);
    };
    return {load(), rate(0.45, 0.55), rate(0.9 * load(), 1)};
  }

  Store& store_;
  Dataset const& dataset_;
  std::uint64_t slots_;
  std::uint64_t records_ = 0;
  Array keys_, values_;
  std::vector<KeyStatus> statuses_;
};

Filled measure(Options const& o, Variant const& variant, std::uint32_t top_level,
               std::uint64_t seed) {
  Dataset const dataset(seed, 8, o.value_bytes);
  PoolFile const file("");
  CreateOptions create;
  create.key_bytes = dataset.key_bytes();
  create.value_bytes = dataset.value_bytes();
  create.layout = variant.layout;
  create.shape = shape_named(o.shape);
  OpenOptions open;
  open.device = device_named(o.device);
  open.threads = o.threads;
  open.displacement = variant.displacement;
  open.grow = false;
  Store store = create_sized(file.path(), create, open, top_level);
  std::uint64_t const slots = slots_of(create.shape, top_level);
  if (store.stats().slots != slots)
    throw Failure("the store counts other slots than its levels have");
  MemorySpace const space = open.device == Device::cuda ? MemorySpace::device : MemorySpace::host;
  Filled const filled = Filling(store, dataset, slots, space).run();
  require(store.close(), "close");
  return filled;
}

int run(Options const& o) {
  Levels const levels = levels_named(o.top_levels);
  if (o.seeds == 0) throw Failure("--seeds: give at least 1");
  Json rows = Json::array();
  std::printf("load factor before the first forced growth, %s, random 8-byte keys, %u seeds\n",
              o.shape.c_str(), o.seeds);
  std::printf("%-9s %-13s %9s %12s %8s %8s %8s %10s %10s\n", "layout", "displacement", "top level",
              "slots", "mean", "least", "most", "M/s at .5", "last .1");
  for (Variant const& variant : variants_of(o.layout)) {
    for (std::uint32_t top = levels.first; top <= levels.last; ++top) {
      std::vector<double> each, half, last;
      for (std::uint64_t seed = 1; seed <= o.seeds; ++seed) {
        Filled const filled = measure(o, variant, top, seed);
        each.push_back(filled.load_factor);
        half.push_back(filled.mops_half);
        last.push_back(filled.mops_last);
      }
      double sum = 0;
      for (double const load : each) sum += load;
      double const mean = sum / static_cast<double>(each.size());
      auto const [least, most] = std::minmax_element(each.begin(), each.end());
      std::uint64_t const slots = slots_of(shape_named(o.shape), top);
      std::printf("%-9s %-13s %9u %12llu %8.4f %8.4f %8.4f %10.2f %10.2f\n",
                  name(variant.layout).c_str(), variant.displacement ? "yes" : "no", top,
                  static_cast<unsigned long long>(slots), mean, *least, *most, median(half),
                  median(last));
      std::fflush(stdout);
      rows.push_back({{"layout", name(variant.layout)},
                      {"displacement", variant.displacement},
                      {"top_level", top},
                      {"slots", slots},
                      {"load_factor", mean},
                      {"least", *least},
                      {"most", *most},
                      {"each", each},
                      {"mops_at_half", median(half)},
                      {"mops_in_last_tenth", median(last)}});
    }
  }
  write_json(o.json, {{"command", "load-factor"},
                      {"version", version()},
                      {"shape", o.shape},
                      {"seeds", o.seeds},
                      {"rows", rows}});
  return kGood;
}

}  // namespace

Command add_load_factor(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app =
      program.add_subcommand("load-factor", "How full the table gets before it must grow");
  app.add_option("--layout", o->layout, "word, in_place or both").shows_default();
  app.add_option("--shape", o->shape, "Levels, hash functions, slots").shows_default();
  app.add_option("--top-levels", o->top_levels,
                 "log2 of the top level's buckets: one, or a range (22 needs 3 GB of tmpfs)")
      .shows_default();
  app.add_option("--seeds", o->seeds, "Sets of keys a size").shows_default();
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--json", o->json, "Write the results to this file").check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
