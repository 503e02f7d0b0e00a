// `perdure-bench replay`: how fast a store of durability power comes back from its log. A child
// process puts records into it and is killed, with no checkpoint since the store was empty; this
// process opens it, which replays everything, and reads every record back. Reading the same log
// file and nothing else is measured before and after: the better of the two is what replay is held
// against.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "killed_child.hpp"
#include "perdure/log_speed.h"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

// The target of replay: this share of reading the log, or this many operations a core,
// whichever is lower.
constexpr double kWantedOfReading = 0.80;
constexpr double kWantedPerCore = 5e6;

struct Options {
  std::string log_dir;
  std::uint64_t operations = 10'000'000;
  std::uint64_t expected_records = 0;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::size_t batch = std::size_t{1} << 14;
  std::string layout = "word";
  std::uint32_t threads = 0;
  std::string pool;
  std::uint64_t seed = 1;
  std::string json;

  [[nodiscard]] std::string log_file() const { return log_dir + "/redo.log"; }
  [[nodiscard]] std::uint32_t cores() const {
    return threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  }
};

OpenOptions open_options(Options const& o) {
  OpenOptions open;
  open.threads = o.threads;
  return open;
}

/// A checkpoint comes once half of the log is used, so this is well over twice what is logged.
std::uint64_t log_bytes(Options const& o) {
  constexpr std::uint64_t kBlock = 4096;
  std::uint64_t const columns = o.operations * (std::uint64_t{o.key_bytes} + o.value_bytes);
  std::uint64_t const around = (o.operations / o.batch + 1) * 4 * kBlock;
  return (columns + columns / 64 + around) * 5 / 2 / kBlock * kBlock + (std::uint64_t{1} << 20);
}

/// The store stays open: it ends with its process.
std::unique_ptr<Store> load(Options const& o, std::string const& path) {
  CreateOptions create;
  create.key_bytes = o.key_bytes;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.expected_records != 0 ? o.expected_records : o.operations;
  create.layout = layout_named(o.layout);
  create.durability = Durability::power;
  create.log.dir = o.log_dir;
  create.log.bytes = log_bytes(o);
  auto store = std::make_unique<Store>(
      require(Store::create(path, create, open_options(o)), "create " + path));
  RequestStream load(Workload::load, o.operations, 0, o.seed);
  Dataset const dataset(o.seed, o.key_bytes, o.value_bytes);
  Pass const pass = Driver(dataset, o.batch, MemorySpace::host).run(*store, load, o.operations);
  if (pass.faults > 0) throw Failure(pass.first_fault);
  if (store->stats().log.checkpoints != 1)
    throw Failure("a checkpoint came in between: not all would be replayed");
  return store;
}

struct Reopened {
  RecoveryReport recovery;
  Stats stats;
  std::string survives;
  double open_seconds = 0;
  double open_cpu_seconds = 0;  // of all threads; what others on the machine take does not count
  Pass checks;
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Reopened reopen_and_check(Options const& o, std::string const& path) {
  OpenOptions open = open_options(o);
  open.log_dir = o.log_dir;
  double const cpu_before = cpu_seconds();
  auto const begin = std::chrono::steady_clock::now();
  Store store = require(Store::open(path, open), "open " + path);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  double const cpu = cpu_seconds() - cpu_before;
  RequestStream const expected(Workload::c, o.operations, 0, o.seed);
  Dataset const dataset(o.seed, o.key_bytes, o.value_bytes);
  Stats const stats = store.stats();
  return {store.recovery(),
          stats,
          store.survives().describe(),
          took.count(),
          cpu,
          Driver(dataset, o.batch, MemorySpace::host).read_back(store, expected, 0, o.operations)};
}

Json report(Options const& o, Reopened const& r, double read_before, double read_after) {
  double const operations = static_cast<double>(o.operations);
  double const cores = o.cores();
  double const reading = std::max(read_before, read_after);
  double const bytes = static_cast<double>(r.stats.log.used_bytes);
  double const speed = bytes / r.recovery.replay_seconds;
  double const target =
      std::min(kWantedOfReading * reading, kWantedPerCore * cores * bytes / operations);
  return {{"command", "replay"},
          {"version", version()},
          {"operations", o.operations},
          {"expected_records", o.expected_records != 0 ? o.expected_records : o.operations},
          {"batch", o.batch},
          {"key_bytes", o.key_bytes},
          {"value_bytes", o.value_bytes},
          {"layout", o.layout},
          {"machine", r.stats.machine},
          {"cores", o.cores()},
          {"log_method", r.stats.log.method},
          {"medium", name(r.stats.medium)},
          {"survives", r.survives},
          {"log_bytes", r.stats.log.used_bytes},
          {"batches_replayed", r.recovery.replayed},
          {"growths", r.stats.growths},
          {"open_seconds", r.open_seconds},
          {"image_seconds", r.recovery.map_seconds},
          {"recover_seconds", r.recovery.recover_seconds},
          {"replay_seconds", r.recovery.replay_seconds},
          {"replay_mops", operations / r.recovery.replay_seconds * 1e-6},
          {"replay_mops_per_core", operations / r.recovery.replay_seconds / cores * 1e-6},
          {"open_cpu_seconds", r.open_cpu_seconds},
          {"open_mops_per_cpu_second", operations / r.open_cpu_seconds * 1e-6},
          {"open_mops", operations / r.open_seconds * 1e-6},
          {"replay_bytes_per_second", speed},
          {"read_bytes_per_second_before", read_before},
          {"read_bytes_per_second_after", read_after},
          {"ratio", speed / reading},
          {"target_bytes_per_second", target},
          {"target_mops", target / bytes * operations * 1e-6},
          {"reached", speed >= target},
          {"log_report", r.recovery.log_report},
          {"checked", r.checks.gets},
          {"faults", r.checks.faults}};
}

void print(Json const& j) {
  constexpr double kGiB = 1u << 30;
  auto const number = [&](char const* name) { return j[name].get<double>(); };
  std::printf("%.0f puts of %.0f + %.0f bytes in batches of %.0f, %s; log: %s\n",
              number("operations"), number("key_bytes"), number("value_bytes"), number("batch"),
              j["machine"].get<std::string>().c_str(), j["log_method"].get<std::string>().c_str());
  std::printf(
      "open %.3f s: image %.3f, recovery %.3f, replay %.3f; CPU %.3f s in all, %.2f Mop/s a core\n",
      number("open_seconds"), number("image_seconds"), number("recover_seconds"),
      number("replay_seconds"), number("open_cpu_seconds"), number("open_mops_per_cpu_second"));
  std::printf("replay %.2f Mop/s, %.2f a core; %.3f GiB/s of log\n", number("replay_mops"),
              number("replay_mops_per_core"), number("replay_bytes_per_second") / kGiB);
  std::printf("reading the log alone: %.3f GiB/s before, %.3f after; ratio %.2f\n",
              number("read_bytes_per_second_before") / kGiB,
              number("read_bytes_per_second_after") / kGiB, number("ratio"));
  std::printf("target %.3f GiB/s, %.2f Mop/s: %s\n", number("target_bytes_per_second") / kGiB,
              number("target_mops"), j["reached"].get<bool>() ? "reached" : "NOT REACHED");
  std::printf("%.0f values read back, %.0f wrong\n", number("checked"), number("faults"));
}

int run(Options const& o) {
  LogDirectory const log_dir(o.log_dir);
  PoolFile const file(o.pool);
  std::unique_ptr<Store> loaded;  // in the child only
  run_and_kill([&] { loaded = load(o, file.path()); });
  std::uint64_t const logged = log_bytes(o) * 2 / 5;
  double const read_before = require(measure_reading(o.log_file(), logged), "reading the log");
  Reopened const reopened = reopen_and_check(o, file.path());
  double const read_after = require(measure_reading(o.log_file(), logged), "reading the log");
  Json const json = report(o, reopened, read_before, read_after);
  if (o.json != "-") print(json);
  if (reopened.checks.faults > 0)
    std::fprintf(stderr, "FAULT: %s\n", reopened.checks.first_fault.c_str());
  write_json(o.json, json);
  return reopened.checks.faults == 0 && reopened.recovery.records == o.operations ? kGood : kFaults;
}

}  // namespace

Command add_replay(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "replay", "Seconds to come back from the log after SIGKILL, all checked");
  app.add_option("--log-dir", o->log_dir, "A new directory on the disk; removed in the end")
      .required();
  app.add_option("--operations", o->operations, "Puts in the log, each of a new record")
      .shows_default()
      .check(positive());
  app.add_option("--expected-records", o->expected_records,
                 "What the store is sized for; 0 = as many as puts")
      .shows_default();
  app.add_option("--batch", o->batch, "Puts a batch").shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
