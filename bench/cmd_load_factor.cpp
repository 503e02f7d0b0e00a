// `perdure-bench load-factor`: how full the table gets before it must grow. Growth is switched off,
// random unique keys are put until the store says no_space, and the records acknowledged before the
// batch that failed are divided by the slots of all live levels. Batches are at most 1/2048 of the
// slots near the end, so the figure is at most 0.0005 below the true one, and never above it.
#include <cstdio>
#include <memory>

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
  if (layout == "both") return {{Layout::word, true}, {Layout::word, false}, {Layout::in_place, false}};
  throw Failure("--layout '" + layout + "': choose word, in_place or both");
}

struct Levels {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

Levels levels_named(std::string const& text) {
  Levels levels;
  int used = 0;
  int const read = std::sscanf(text.c_str(), "%u%n..%u%n", &levels.first, &used, &levels.last, &used);
  if (read == 1) levels.last = levels.first;
  if (read < 1 || static_cast<std::size_t>(used) != text.size() || levels.first > levels.last || levels.last > 28) {
    throw Failure("--top-levels '" + text + "': give one number or a range, for example 14..22");
  }
  return levels;
}

/// Puts records until one is refused. Returns those acknowledged before the batch that failed.
std::uint64_t fill(Store& store, Dataset const& dataset, std::uint64_t slots) {
  std::uint64_t const small = std::max<std::uint64_t>(slots / 2048, 1);
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  std::vector<KeyStatus> statuses;
  std::uint64_t records = 0;
  while (records <= slots) {
    bool const far = static_cast<double>(records) < 0.75 * static_cast<double>(slots);
    std::size_t const n = far ? std::min<std::uint64_t>(slots / 32, 1 << 16) : std::min<std::uint64_t>(small, 1 << 16);
    keys.resize(n * dataset.key_bytes());
    values.resize(n * dataset.value_bytes());
    for (std::size_t i = 0; i < n; ++i) {
      dataset.write_key(records + i, keys.data() + i * dataset.key_bytes());
      dataset.write_value(records + i, 0, values.data() + i * dataset.value_bytes());
    }
    statuses.assign(n, KeyStatus::ok);
    Status const status = store.put({keys.data(), nullptr, dataset.key_bytes(), n, Place::host},
                                    {values.data(), nullptr, dataset.value_bytes(), n, Place::host}, statuses);
    if (status.code() == Code::no_space) {
      if (std::find(statuses.begin(), statuses.end(), KeyStatus::no_space) == statuses.end()) {
        throw Failure("put said no_space, but no key has that status");
      }
      return records;
    }
    require(status, "put");
    records += n;
  }
  throw Failure("the table took more records than it has slots: it grew although growth is off");
}

double measure(Options const& o, Variant const& variant, std::uint32_t top_level, std::uint64_t seed) {
  Dataset const dataset(seed, 8, 8);
  PoolFile const file("");
  CreateOptions create;
  create.key_bytes = dataset.key_bytes();
  create.value_bytes = dataset.value_bytes();
  create.layout = variant.layout;
  create.shape = shape_named(o.shape);
  OpenOptions open;
  open.threads = o.threads;
  open.displacement = variant.displacement;
  open.grow = false;
  Store store = create_sized(file.path(), create, open, top_level);
  std::uint64_t const slots = slots_of(create.shape, top_level);
  if (store.stats().slots != slots) throw Failure("the store counts other slots than its levels have");
  std::uint64_t const records = fill(store, dataset, slots);
  require(store.close(), "close");
  return static_cast<double>(records) / static_cast<double>(slots);
}

int run(Options const& o) {
  Levels const levels = levels_named(o.top_levels);
  if (o.seeds == 0) throw Failure("--seeds: give at least 1");
  Json rows = Json::array();
  std::printf("load factor before the first forced growth, %s, random 8-byte keys, %u seeds\n", o.shape.c_str(),
              o.seeds);
  std::printf("%-9s %-13s %9s %12s %8s %8s %8s\n", "layout", "displacement", "top level", "slots", "mean", "least",
              "most");
  for (Variant const& variant : variants_of(o.layout)) {
    for (std::uint32_t top = levels.first; top <= levels.last; ++top) {
      std::vector<double> each;
      for (std::uint64_t seed = 1; seed <= o.seeds; ++seed) each.push_back(measure(o, variant, top, seed));
      double sum = 0;
      for (double const load : each) sum += load;
      double const mean = sum / static_cast<double>(each.size());
      auto const [least, most] = std::minmax_element(each.begin(), each.end());
      std::uint64_t const slots = slots_of(shape_named(o.shape), top);
      std::printf("%-9s %-13s %9u %12llu %8.4f %8.4f %8.4f\n", name(variant.layout).c_str(),
                  variant.displacement ? "yes" : "no", top, static_cast<unsigned long long>(slots), mean, *least,
                  *most);
      std::fflush(stdout);
      rows.push_back({{"layout", name(variant.layout)},
                      {"displacement", variant.displacement},
                      {"top_level", top},
                      {"slots", slots},
                      {"load_factor", mean},
                      {"least", *least},
                      {"most", *most},
                      {"each", each}});
    }
  }
  write_json(
      o.json,
      {{"command", "load-factor"}, {"version", version()}, {"shape", o.shape}, {"seeds", o.seeds}, {"rows", rows}});
  return kGood;
}

}  // namespace

Command add_load_factor(CLI::App& program) {
  auto o = std::make_shared<Options>();
  CLI::App* const app = program.add_subcommand("load-factor", "How full the table gets before it must grow");
  app->add_option("--layout", o->layout, "word, in_place or both")->capture_default_str();
  app->add_option("--shape", o->shape, "Levels, hash functions, slots")->capture_default_str();
  app->add_option("--top-levels", o->top_levels,
                  "log2 of the top level's buckets: one, or a range (22 needs 3 GB of tmpfs)")
      ->capture_default_str();
  app->add_option("--seeds", o->seeds, "Sets of keys a size")->capture_default_str();
  app->add_option("--threads", o->threads, "CPU workers; 0 = one a core")->capture_default_str();
  app->add_option("--json", o->json, "Write the results to this file");
  return {app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
