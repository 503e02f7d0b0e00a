// `perdure-bench baselines`: Perdure's two layouts beside the baselines of GPHash's evaluation
// (section 4.1), in one run, over the same records and requests.
//
// Three figures an operation: `kernel` is the kernels alone, as the papers time them; `near` a
// whole call with its arrays where the device has them nearest (GPU memory); `host` a whole call
// with its arrays in host memory. The CPU-assisted have no kernels, and Perdure's calls do not tell
// theirs from the rest.
//
// The baselines take batches of one kind of operation, so a batch of a mixture (YCSB a, b, d, f; a
// trace with writes) goes to every system as two calls, its gets and then its writes, and counts
// as done when both have returned.
//
// Invariant: after every repeat the same records are there: what was inserted is deleted again.
// Values are compared whenever they are read, and statuses of every operation.
#include <algorithm>
#include <cstdio>
#include <map>

#include "baselines_bench.hpp"
#include "commands.hpp"

namespace perdure::bench::beside {
namespace {

double mops(std::uint64_t ops, double seconds) { return static_cast<double>(ops) / seconds * 1e-6; }
Json rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 1000 + 0.5)) / 1000;
}
Json summary(std::vector<double> const& figures) {
  return figures.empty() ? Json(nullptr) : rounded(median(figures));
}

std::unique_ptr<baselines::Baseline> make_system(Options const& o, std::string const& who,
                                                 std::string const& path, std::uint64_t expected,
                                                 bool counting) {
  baselines::BaselineOptions options;
  options.device = device_named(o.device);
  options.key_bytes = o.key_bytes;
  options.value_bytes = o.value_bytes;
  options.expected_records = expected;
  options.threads = o.threads;
  options.count_accesses = counting;
  return bench::make_system(who, path, options, o.verify_reads);
}

std::map<Workload, Figures> measure(Options const& o, Bench& bench, std::size_t batch) {
  bool const device = device_named(o.device) == Device::cuda;
  std::map<Workload, Figures> all;
  for (std::uint32_t repeat = 0; repeat <= o.repeats; ++repeat) {
    for (MemorySpace const space : {MemorySpace::device, MemorySpace::host}) {
      if (space == MemorySpace::device && !device) continue;
      if (device && o.space != "both" && (space == MemorySpace::device) != (o.space == "near"))
        continue;
      for (Workload const workload : workloads_of(o.workloads)) {
        Timed timed = bench.pass(workload, batch, space);
        if (repeat == 0) {  // warms up
          while (timed.batches < kWarmUps && timed.seconds < kWarmSeconds &&
                 may_end_early(workload)) {
            Timed const more = bench.pass(workload, batch, space);
            timed.batches += more.batches;
            timed.seconds += more.seconds;
          }
          continue;
        }
        Figures& figures = all[workload];
        bool const near = !device || space == MemorySpace::device;
        if (near) figures.near.push_back(mops(timed.ops, timed.seconds));
        if (space == MemorySpace::host) figures.host.push_back(mops(timed.ops, timed.seconds));
        if (near && timed.kernel_seconds > 0)
          figures.kernel.push_back(mops(timed.ops, timed.kernel_seconds));
      }
    }
  }
  return all;
}

/// Exact accesses an operation, from one batch of each kind over a smaller table sized by the same
/// rule. Of all workloads but a trace, whose records that table does not have.
std::map<Workload, Json> count(Options const& o, std::string const& who, std::string const& path) {
  std::map<Workload, Json> all;
  std::uint64_t const records = std::min(o.records, kCountedRecords);
  std::uint64_t const ops = std::min(o.ops, records / 4);
  PoolFile file(path);
  auto const system = make_system(o, who, file.path(), records + ops, true);
  Bench bench(o, *system, records, ops, ops, false, {});
  bench.load();
  for (Workload const workload : workloads_of(o.workloads)) {
    if (workload == Workload::trace) continue;
    system->reset_counts();
    bench.once(workload);
    AccessCounts const counts = system->stats().accesses;
    bench.finish(workload, MemorySpace::host);
    auto const per = [&](std::uint64_t n) {
      return static_cast<double>(n) / static_cast<double>(ops);
    };
    all[workload] = {per(counts.pm_reads), per(counts.pm_writes), per(counts.orders)};
  }
  return all;
}

Json measure_system(Options const& o, std::string const& who) {
  PoolFile file(o.pool);
  std::map<Workload, Json> counted;
  if (o.count_accesses) counted = count(o, who, file.path());
  auto const system = make_system(o, who, file.path(), o.records + o.ops, false);
  std::size_t const most = *std::max_element(o.batches.begin(), o.batches.end());
  Bench bench(o, *system, o.records, o.ops, most, device_named(o.device) == Device::cuda,
              read_trace(o));
  bench.load();
  Json rows = Json::array();
  for (std::size_t const batch : o.batches) {
    auto const figures = measure(o, bench, batch);
    for (auto const& [workload, f] : figures) {
      if (std::find(o.workloads.begin(), o.workloads.end(), name(workload)) == o.workloads.end())
        continue;
      Json row{{"workload", name(workload)},       {"batch", batch},
               {"mops_kernel", summary(f.kernel)}, {"mops_near", summary(f.near)},
               {"mops_host", summary(f.host)},     {"mops_near_each", f.near},
               {"mops_host_each", f.host},         {"mops_kernel_each", f.kernel}};
      if (counted.contains(workload)) row["reads_writes_orders_per_op"] = counted[workload];
      rows.push_back(row);
    }
  }
  baselines::BaselineStats const stats = system->stats();
  Json result{
      {"system", who},
      {"machine", stats.machine},
      {"load_factor", static_cast<double>(stats.records) / static_cast<double>(stats.slots)},
      {"checked", bench.checked()},
      {"faults", bench.faults()},
      {"rows", rows}};
  if (bench.faults() > 0) result["first_fault"] = bench.first_fault();
  return result;
}

void print(Options const& o, Json const& r) {
  auto const number = [](Json const& j) { return j.is_null() ? std::string("-") : j.dump(); };
  std::printf("%s on %s: load factor %.3f, %s answers checked, %s wrong\n",
              r["system"].get<std::string>().c_str(), r["machine"].get<std::string>().c_str(),
              r["load_factor"].get<double>(), r["checked"].dump().c_str(),
              r["faults"].dump().c_str());
  if (r.contains("first_fault"))
    std::printf("  FAULT: %s\n", r["first_fault"].get<std::string>().c_str());
  std::printf("  %-9s %9s %10s %10s %10s   %s\n", "workload", "batch", "kernel", "near", "host",
              o.count_accesses ? "PM reads, writes, orders an operation" : "");
  for (Json const& row : r["rows"]) {
    std::printf("  %-9s %9s %10s %10s %10s", row["workload"].get<std::string>().c_str(),
                row["batch"].dump().c_str(), number(row["mops_kernel"]).c_str(),
                number(row["mops_near"]).c_str(), number(row["mops_host"]).c_str());
    if (row.contains("reads_writes_orders_per_op")) {
      std::printf("  ");
      for (Json const& n : row["reads_writes_orders_per_op"])
        std::printf(" %8.4f", n.get<double>());
    }
    std::printf("\n");
  }
}

void check_options(Options const& o) {
  bool const plays =
      std::find(o.workloads.begin(), o.workloads.end(), name(Workload::trace)) != o.workloads.end();
  if (plays != !o.trace.empty())
    throw Failure("--trace FILE and --workload trace: give both or neither");
  std::uint64_t const largest = *std::max_element(o.batches.begin(), o.batches.end());
  if (std::min(largest, o.ops) > o.records) {
    throw Failure("--records " + std::to_string(o.records) +
                  ": a batch updates each record once at most; give " +
                  std::to_string(std::min(largest, o.ops)) + " or more, or smaller batches");
  }
}

int run(Options const& o) {
  check_options(o);
  Json all = Json::array();
  bool good = true;
  if (o.json != "-") {
    std::printf(
        "Mop/s, medians of %u; %llu records, %u-byte keys, %u-byte values, %llu operations a "
        "repeat\n",
        o.repeats, static_cast<unsigned long long>(o.records), o.key_bytes, o.value_bytes,
        static_cast<unsigned long long>(o.ops));
  }
  for (std::string const& who : o.systems) {
    all.push_back(measure_system(o, who));
    if (o.json != "-") print(o, all.back());
    good = good && all.back()["faults"] == 0;
  }
  write_json(o.json, {{"command", "baselines"},
                      {"version", version()},
                      {"device", o.device},
                      {"records", o.records},
                      {"ops", o.ops},
                      {"key_bytes", o.key_bytes},
                      {"value_bytes", o.value_bytes},
                      {"theta", o.theta},
                      {"repeats", o.repeats},
                      {"seconds", o.seconds},
                      {"verify_reads", o.verify_reads},
                      {"systems", all}});
  return good ? kGood : kFaults;
}

}  // namespace
}  // namespace perdure::bench::beside

namespace perdure::bench {

Command add_baselines(CommandLine& program) {
  auto o = std::make_shared<beside::Options>();
  CommandLine& app = program.add_subcommand(
      "baselines", "Perdure beside SlabHash-GPM, Clevel-GPM and indexes of the CPU");
  app.add_option("--records", o->records, "Records in the table").shows_default().check(positive());
  app.add_option("--ops", o->ops, "Operations a repeat of each workload")
      .shows_default()
      .check(positive());
  app.add_option("--batch", o->batches, "Operations a batch; several with commas")
      .separated_by(',')
      .shows_default()
      .check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(one_of({8, 32}));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--workload", o->workloads,
                 "insert, get-hit, get-miss, update, zipf (YCSB c), delete, ycsb-a, ycsb-b, "
                 "ycsb-d, ycsb-f, trace")
      .separated_by(',')
      .shows_default()
      .check(
          one_of(std::vector<std::string>(std::begin(beside::kNames), std::end(beside::kNames))));
  app.add_option("--system", o->systems, "Systems to measure")
      .separated_by(',')
      .shows_default()
      .check(one_of(system_names()));
  app.add_option(
      "--trace", o->trace,
      "Of workload trace: little-endian 64-bit record numbers, with bit 63 set for an update");
  app.add_option("--theta", o->theta, "Skew of zipf and YCSB")
      .shows_default()
      .check(range(0.0, 0.9999));
  app.add_option("--repeat", o->repeats).shows_default().check(positive());
  app.add_option("--seconds", o->seconds,
                 "A repeat of gets, updates or a mixture ends with the first batch after so many; "
                 "0 = after --ops")
      .shows_default()
      .check(non_negative());
  app.add_option("--arrays", o->space, "Where arrays lie: near, host or both")
      .shows_default()
      .check(one_of({"near", "host", "both"}));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag(
      "--verify-reads,!--no-verify-reads", o->verify_reads,
      "Have Perdure check checksums on get, which the baselines do not have (default: yes)");
  app.add_flag("--count-accesses,!--no-count-accesses", o->count_accesses,
               "Count PM accesses, over a smaller table of its own (default: yes)");
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return beside::run(*o); }};
}

}  // namespace perdure::bench
