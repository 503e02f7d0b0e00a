// `perdure-bench kv`: the designs of key-value stores of X. Wu's thesis, chapter 2, beside each
// other: values by an allocator or by logs, in bursts and sustained, with dirty lines flushed or
// kept, on this machine, on an emulated medium, or as exact counts.
//
// Invariants: each workload has a store of its own, filled anew; of designs that are compared,
// repeats follow each other in turn; every answer is checked.
#include <cstdio>
#include <map>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "kv_bench.hpp"

namespace perdure::bench {
namespace {

namespace kv = kv_baselines;

/// Media of the thesis's table 2.2, of the figures that it gives: where it gives a range its
/// middle, and where it gives an order of magnitude that. `near`: of a line beside one just read;
/// of all but Optane nothing is published, and it is taken as far as any other.
struct NamedMedium {
  char const* name;
  kv::Medium medium;
};
NamedMedium const kMedia[] = {
    {"optane", {}},                        // six modules: perdure-bench emulation
    {"optane-module", {6.6, 2.3, 300, 124}},  // one of them
    {"cmm-h", {2, 2, 600, 600}},
    {"cxl-ssd", {3, 3, 1000, 1000}},
    {"cxl-switch", {20, 20, 250, 250}},
};

std::vector<std::string> media_names() {
  std::vector<std::string> names;
  for (NamedMedium const& each : kMedia) names.emplace_back(each.name);
  return names;
}

kv::Medium medium_named(std::string const& name) {
  for (NamedMedium const& each : kMedia)
    if (name == each.name) return each.medium;
  throw Failure("--medium '" + name + "': no such medium");
}

kv::HostKind host_kind(std::string const& name) {
  if (name == "counted") return kv::HostKind::counted;
  return name == "emulated" ? kv::HostKind::emulated : kv::HostKind::flushed;
}

struct Options {
  std::vector<std::string> designs{"heap", "log"};
  std::vector<std::string> workloads{"update", "delete"};
  std::vector<std::string> modes{"burst"};
  std::vector<std::string> caches{"flushed"};
  std::vector<std::string> keys{"uniform"};
  std::vector<std::uint32_t> value_bytes{64, 128, 256, 512, 1024, 2048, 4096};
  std::vector<std::uint32_t> threads{1};
  std::uint64_t records = 10'000'000;
  std::uint64_t ops = 0;  // 0: a tenth of the records, sustained twice as many as those
  std::uint64_t batch = 1;
  double theta = 0.99;
  std::string host = "flushed";
  std::string medium = "optane";
  std::uint64_t emulated_cache = 0;
  std::uint32_t collectors = 1;
  std::uint64_t most_queued = 8;
  std::uint64_t series_ms = 0;
  bool parts = false;
  std::uint32_t repeats = 3;
  std::uint64_t seed = 1;
  std::string pool;
  std::string json;
};

/// The thesis's cache, 36.75 MiB for 10 million records, by as many as there are.
std::uint64_t cache_bytes(Options const& o) {
  if (o.emulated_cache != 0) return o.emulated_cache;
  double const share = static_cast<double>(o.records) / 10e6;
  return std::max<std::uint64_t>(std::uint64_t{64} << 10,
                                 static_cast<std::uint64_t>(36.75 * 1024 * 1024 * share));
}

/// What tells one row from another.
struct Case {
  std::string design, workload, mode, caches, keys;
  std::uint32_t value_bytes = 0, threads = 0;
  friend auto operator<=>(Case const&, Case const&) = default;
};

KvSetting setting_of(Options const& o, Case const& c, std::uint32_t repeat) {
  KvSetting s;
  s.store.design = c.design;
  s.store.host = host_kind(o.host);
  s.store.kept = c.caches == "kept";
  s.store.value_bytes = c.value_bytes;
  s.store.collectors = o.collectors;
  s.store.most_queued = o.most_queued;
  s.store.emulated_cache_bytes = cache_bytes(o);
  s.store.medium = medium_named(o.medium);
  s.store.parts = o.parts;
  s.records = o.records;
  s.sustained = c.mode == "sustained";
  s.ops = std::max<std::uint64_t>(1, s.sustained ? 2 * o.records : o.records / 10);
  if (o.ops != 0) s.ops = o.ops;
  if (c.workload == "delete") s.ops = std::min(s.ops, o.records);
  s.threads = c.threads;
  s.batch = o.batch;
  s.theta = c.keys == "zipf" ? o.theta : 0;
  s.series_ms = o.series_ms;
  s.seed = o.seed + repeat;
  s.pool = o.pool;
  return s;
}

/// Every combination, designs innermost.
std::vector<Case> cases_of(Options const& o) {
  std::vector<Case> all;
  for (std::uint32_t const threads : o.threads)
    for (std::string const& workload : o.workloads)
      for (std::string const& keys : o.keys)
        for (std::string const& mode : o.modes)
          for (std::uint32_t const bytes : o.value_bytes)
            for (std::string const& caches : o.caches)
              for (std::string const& design : o.designs)
                all.push_back({design, workload, mode, caches, keys, bytes, threads});
  return all;
}

double per(double sum, std::uint64_t ops) { return sum / static_cast<double>(ops); }
double per(std::uint64_t sum, std::uint64_t ops) { return per(static_cast<double>(sum), ops); }

void add_counts(Json& row, Options const& o, KvMeasured const& m, std::uint64_t ops) {
  if (o.host == "counted") {
    row["lines_read"] = per(m.counts.lines_read, ops);
    row["lines_written"] = per(m.counts.lines_written, ops);
    row["lines_flushed"] = per(m.counts.lines_flushed, ops);
    row["fences"] = per(m.counts.fences, ops);
  }
  if (o.host == "emulated") {
    row["media_lines"] = per(m.media.lines, ops);
    row["media_bytes"] = per(256 * m.media.internal, ops);
  }
}

/// Medians, in seconds.
void add_recovery(Json& row, std::vector<KvMeasured> const& repeats) {
  std::vector<double> whole, map, index, space, value;
  for (KvMeasured const& m : repeats) {
    whole.push_back(m.seconds);
    map.push_back(m.recovery.map_seconds);
    index.push_back(m.recovery.parts.index);
    space.push_back(m.recovery.parts.space);
    value.push_back(m.recovery.parts.value);
  }
  row["recovery"] = {{"records", repeats.front().recovery.records},
                     {"seconds", median(whole)},
                     {"map_seconds", median(map)},
                     {"read_seconds", median(value)},
                     {"index_seconds", median(index)},
                     {"space_seconds", median(space)}};
}

Json row_of(Options const& o, Case const& c, std::vector<KvMeasured> const& repeats) {
  std::uint64_t const ops = setting_of(o, c, 0).ops;
  std::vector<double> mops, cpu, all_cpu;
  std::uint64_t faults = 0;
  for (KvMeasured const& m : repeats) {
    mops.push_back(static_cast<double>(ops) / m.seconds * 1e-6);
    cpu.push_back(per(m.cpu_seconds * 1e9, ops));
    all_cpu.push_back(per(m.all_cpu_seconds * 1e9, ops));
    faults += m.faults;
  }
  KvMeasured const& first = repeats.front();
  Json row{{"design", c.design},   {"workload", c.workload},
           {"keys", c.keys},       {"mode", c.mode},
           {"caches", c.caches},   {"value_bytes", c.value_bytes},
           {"threads", c.threads}, {"ops", ops},
           {"mops", median(mops)}, {"mops_each", mops},
           {"faults", faults}};
  if (o.host == "flushed") {
    row["cpu_ns"] = median(cpu);
    row["all_cpu_ns"] = median(all_cpu);
  }
  add_counts(row, o, first, ops);
  row["collected_segments"] = first.collected.segments;
  row["moved_bytes"] = per(first.collected.moved_bytes, ops);
  row["waits"] = first.collected.waits;
  row["longest_wait_ms"] = static_cast<double>(first.collected.longest_wait_ns) * 1e-6;
  if (o.parts) {
    row["index_ns"] = per(first.parts.index * 1e9, ops);
    row["space_ns"] = per(first.parts.space * 1e9, ops);
    row["value_ns"] = per(first.parts.value * 1e9, ops);
  }
  if (c.workload == "recover") add_recovery(row, repeats);
  if (o.series_ms != 0) {
    row["longest_call_us"] = first.longest_us;
    row["series"] = first.series;
  }
  return row;
}

void print_recovery(Json const& row) {
  Json const& r = row["recovery"];
  auto const seconds = [&](char const* what) { return r[what].get<double>(); };
  std::printf(
      "recover %-10s %5s B: %s records in %.3f s: map %.3f, read %.3f, index %.3f, space "
      "%.3f%s\n",
      row["design"].get<std::string>().c_str(), row["value_bytes"].dump().c_str(),
      r["records"].dump().c_str(), seconds("seconds"), seconds("map_seconds"),
      seconds("read_seconds"), seconds("index_seconds"), seconds("space_seconds"),
      row["faults"] == 0 ? "" : "  FAULT");
}

void print(Options const& o, Json const& row) {
  if (row.contains("recovery")) return print_recovery(row);
  auto const text = [&](char const* what) { return row[what].get<std::string>(); };
  std::printf("%-7s %-7s %-9s %-7s %5s B %2s threads %-10s %9.4f Mop/s%s", text("workload").c_str(),
              text("keys").c_str(), text("mode").c_str(), text("caches").c_str(),
              row["value_bytes"].dump().c_str(), row["threads"].dump().c_str(),
              text("design").c_str(), row["mops"].get<double>(),
              o.host == "emulated" ? " emulated" : "");
  if (o.host == "flushed")
    std::printf("  cpu %7.0f ns, with collectors %7.0f ns", row["cpu_ns"].get<double>(),
                row["all_cpu_ns"].get<double>());
  if (o.parts)
    std::printf("  index %.0f, space %.0f, value %.0f ns", row["index_ns"].get<double>(),
                row["space_ns"].get<double>(), row["value_ns"].get<double>());
  if (o.host == "counted")
    std::printf("  lines read %.3f, written %.3f, flushed %.3f; fences %.3f",
                row["lines_read"].get<double>(), row["lines_written"].get<double>(),
                row["lines_flushed"].get<double>(), row["fences"].get<double>());
  if (o.host == "emulated")
    std::printf("  media write %.0f bytes an operation", row["media_bytes"].get<double>());
  std::printf("%s\n", row["faults"] == 0 ? "" : "  FAULT");
}

int run(Options const& o) {
  std::vector<Case> const cases = cases_of(o);
  std::map<Case, std::vector<KvMeasured>> measured;
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      KvBench bench(setting_of(o, cases[i], repeat));
      measured[cases[i]].push_back(bench.run(cases[i].workload));
      std::fprintf(stderr, "\r%zu of %zu", repeat * cases.size() + i + 1, o.repeats * cases.size());
    }
  }
  std::fprintf(stderr, "\n");
  Json rows = Json::array();
  bool good = true;
  std::uint64_t checked = 0;
  for (Case const& c : cases) {
    checked += setting_of(o, c, 0).ops * o.repeats;
    rows.push_back(row_of(o, c, measured[c]));
    if (o.json != "-") print(o, rows.back());
    good = good && rows.back()["faults"] == 0;
  }
  write_json(o.json, {{"command", "kv"},
                      {"version", version()},
                      {"host", o.host},
                      {"emulated", o.host == "emulated"},
                      {"medium", o.medium},
                      {"emulated_cache_bytes", cache_bytes(o)},
                      {"records", o.records},
                      {"batch", o.batch},
                      {"theta", o.theta},
                      {"collectors", o.collectors},
                      {"most_queued", o.most_queued},
                      {"series_ms", o.series_ms},
                      {"repeats", o.repeats},
                      {"checked", checked},
                      {"cores", std::thread::hardware_concurrency()},
                      {"rows", rows}});
  return good ? kGood : kFaults;
}

void add_what(CommandLine& app, Options& o) {
  app.add_option("--design", o.designs, "Designs, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(kv::names()));
  app.add_option(
         "--workload", o.workloads,
         "insert, update, delete, get; a to e of YCSB; recover: opened again after a kill, by "
         "one thread")
      .separated_by(',')
      .shows_default()
      .check(one_of({"insert", "update", "delete", "get", "a", "b", "c", "d", "e", "recover"}));
  app.add_option("--mode", o.modes,
                 "burst: until the last operation is done; sustained: with a bounded queue of "
                 "segments, until nothing is left to collect")
      .separated_by(',')
      .shows_default()
      .check(one_of({"burst", "sustained"}));
  app.add_option("--caches", o.caches, "flushed, kept")
      .separated_by(',')
      .shows_default()
      .check(one_of({"flushed", "kept"}));
  app.add_option("--keys", o.keys, "uniform, zipf")
      .separated_by(',')
      .shows_default()
      .check(one_of({"uniform", "zipf"}));
  app.add_option("--theta", o.theta, "Of zipf").shows_default().check(range(0.01, 0.999));
  app.add_option("--host", o.host,
                 "flushed: real flushes and fences; emulated: as slow as --medium; counted: exact "
                 "counts in place of times")
      .shows_default()
      .check(one_of({"flushed", "counted", "emulated"}));
  app.add_option("--medium", o.medium, "What is emulated")
      .shows_default()
      .check(one_of(media_names()));
}

void add_how_much(CommandLine& app, Options& o) {
  app.add_option("--value-bytes", o.value_bytes, "Sizes of values, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(8u, 65536u));
  app.add_option("--records", o.records, "Records to begin with").shows_default().check(positive());
  app.add_option(
         "--ops", o.ops,
         "Operations a workload; by default a tenth of the records, sustained twice as many; "
         "delete at most all of them")
      .check(positive());
  app.add_option("--batch", o.batch, "Operations of a call").shows_default().check(positive());
  app.add_option("--threads", o.threads, "Numbers of threads, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--collectors", o.collectors, "Threads that collect a log")
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--most-queued", o.most_queued, "Segments that may wait for them, sustained")
      .shows_default()
      .check(positive());
  app.add_option("--series-ms", o.series_ms, "Count operations that often, while they run")
      .check(positive());
  app.add_flag("--parts", o.parts,
               "Tell what the threads' time went to; looking at the clock takes some of it");
  app.add_option("--emulated-cache", o.emulated_cache,
                 "Bytes of the modelled cache; by default 36.75 MiB by 10 million records")
      .check(positive());
  app.add_option("--repeats", o.repeats).shows_default().check(positive());
  app.add_option("--seed", o.seed).shows_default();
  app.add_option("--pool", o.pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o.json, "Write the results to this file; - = standard output")
      .check(new_file());
}

}  // namespace

Command add_kv(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "kv", "Designs of key-value stores: heap or logs, bursts or sustained, flushed or kept");
  add_what(app, *o);
  add_how_much(app, *o);
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
