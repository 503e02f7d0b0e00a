// `perdure-bench index-load`: how full tables are while they grow (figure 12 of Dash's paper), and
// `index-segments`: how full one segment of Dash gets, part by part (figure 11). Both follow from
// keys and seeds alone, on any machine.
#include <cstdio>

#include "commands.hpp"
#include "common.hpp"
#include "cpu_baseline.hpp"
#include "index_keys.hpp"

namespace perdure::bench {
namespace {

struct LoadOptions {
  std::vector<std::string> indexes{"dash-eh", "dash-eh-stash4", "dash-lh", "cceh", "level"};
  std::uint64_t records = 1'000'000;
  std::uint64_t samples = 200;
  std::string pool;
  std::string json;
};

Json load(LoadOptions const& o, std::string const& index) {
  PoolFile const file(o.pool);
  cpu_baselines::Options options;
  options.index = index;
  options.reserve_bytes = pool_bytes_for(o.records, false);
  options.max_bytes = 8 * options.reserve_bytes;
  auto const table = require(cpu_baselines::create(file.path(), options), "create " + file.path());
  auto const session = table->session(cpu_baselines::HostKind::flushed);
  IndexKeys const keys(false);
  Json points = Json::array();
  double most = 0;
  std::uint64_t faults = 0;
  for (std::uint64_t n = 0; n < o.records;) {
    session->pin();
    for (std::uint64_t const end =
             std::min(o.records, n + std::max<std::uint64_t>(1, o.records / o.samples));
         n < end; ++n)
      faults += session->insert(keys.key(n), IndexKeys::value(n)) != cpu_baselines::Outcome::done;
    session->unpin();
    double const slots = static_cast<double>(table->stats(false).slots);
    double const full = slots == 0 ? 0 : static_cast<double>(n) / slots;
    most = std::max(most, full);
    points.push_back({n, full});
  }
  for (std::uint64_t n = 0; n < o.records; ++n) {
    std::uint64_t value = 0;
    faults += session->find(keys.key(n), value) != cpu_baselines::Outcome::done ||
              value != IndexKeys::value(n);
  }
  return {{"system", index},
          {"load_factor_most", most},
          {"records_load_factor", points},
          {"checked", 2 * o.records},
          {"faults", faults}};
}

int run_load(LoadOptions const& o) {
  Json systems = Json::array();
  bool good = true;
  for (std::string const& index : o.indexes) {
    systems.push_back(load(o, index));
    Json const& r = systems.back();
    good = good && r["faults"] == 0;
    if (o.json != "-")
      std::printf("%-16s highest load factor %.3f; %s answers checked, %s wrong%s\n", index.c_str(),
                  r["load_factor_most"].get<double>(), r["checked"].dump().c_str(),
                  r["faults"].dump().c_str(), r["faults"] == 0 ? "" : "  FAULT");
  }
  write_json(o.json, {{"command", "index-load"},
                      {"version", version()},
                      {"records", o.records},
                      {"systems", systems}});
  return good ? kGood : kFaults;
}

struct SegmentOptions {
  std::vector<std::uint32_t> kib{1, 2, 4, 8, 16, 32, 64, 128};
  std::uint32_t seeds = 9;
  std::string json;
};

int run_segments(SegmentOptions const& o) {
  Json rows = Json::array();
  for (std::string const& technique : cpu_baselines::segment_techniques()) {
    for (std::uint32_t const kib : o.kib) {
      std::vector<double> fills;
      for (std::uint32_t seed = 1; seed <= o.seeds; ++seed)
        fills.push_back(cpu_baselines::segment_fill(technique, kib << 10, seed));
      rows.push_back({{"technique", technique}, {"kib", kib}, {"load_factor", median(fills)}});
      if (o.json != "-")
        std::printf("%-12s %4u KiB  %.3f\n", technique.c_str(), kib, median(fills));
    }
  }
  write_json(
      o.json,
      {{"command", "index-segments"}, {"version", version()}, {"seeds", o.seeds}, {"rows", rows}});
  return kGood;
}

}  // namespace

Command add_index_load(CommandLine& program) {
  auto o = std::make_shared<LoadOptions>();
  CommandLine& app =
      program.add_subcommand("index-load", "How full Dash and its baselines are while they grow");
  app.add_option("--index", o->indexes, "Tables, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(cpu_baselines::names()));
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--samples", o->samples, "How often to look").shows_default().check(positive());
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run_load(*o); }};
}

Command add_index_segments(CommandLine& program) {
  auto o = std::make_shared<SegmentOptions>();
  CommandLine& app =
      program.add_subcommand("index-segments", "How full one segment of Dash gets, part by part");
  app.add_option("--kib", o->kib, "Sizes of its buckets without the stash; powers of two")
      .separated_by(',')
      .shows_default()
      .check(one_of({1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u}));
  app.add_option("--seeds", o->seeds, "Fillings, of which the median counts")
      .shows_default()
      .check(positive());
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run_segments(*o); }};
}

}  // namespace perdure::bench
