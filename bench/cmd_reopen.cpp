// `perdure-bench reopen`: how long the store takes to come back after its process was killed. A
// child process loads the records and says so; it is killed with SIGKILL while it holds the store
// open; this process opens the pool and reads every record back.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "killed_child.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 1'000'000;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::size_t batch = std::size_t{1} << 16;
  std::string layout = "word";
  std::string shape = "2L-2H-8S";
  std::string device = "cpu";
  std::uint32_t threads = 0;
  std::string pool;
  std::uint64_t seed = 1;
  std::string json;
};

constexpr std::uint64_t kFirstGets = 4096;

OpenOptions open_options(Options const& o) {
  OpenOptions open;
  open.device = device_named(o.device);
  open.threads = o.threads;
  return open;
}

/// The store stays open: it ends with its process.
std::unique_ptr<Store> load(Options const& o, std::string const& path) {
  CreateOptions create;
  create.key_bytes = o.key_bytes;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.records;
  create.layout = layout_named(o.layout);
  create.shape = shape_named(o.shape);
  auto store = std::make_unique<Store>(
      require(Store::create(path, create, open_options(o)), "create " + path));
  RequestStream load(Workload::load, o.records, 0, o.seed);
  Dataset const dataset(o.seed, o.key_bytes, o.value_bytes);
  Pass const pass = Driver(dataset, o.batch, MemorySpace::host).run(*store, load, o.records);
  if (pass.faults > 0) throw Failure(pass.first_fault);
  return store;
}

/// Seconds that the first gets of an opened store take: one batch, of records all over the pool.
double first_gets(Options const& o, Store& store, Dataset const& dataset, Pass& checks) {
  std::vector<Request> requests(std::min<std::uint64_t>(kFirstGets, o.records));
  Random random(mix(o.seed));
  for (Request& request : requests) request = {below(random, o.records), 0, Action::read};
  Pass const pass = Driver(dataset, requests.size(), MemorySpace::host).run_batch(store, requests);
  checks.add(pass);
  return pass.seconds;
}

int run(Options const& o) {
  PoolFile const file(o.pool);
  std::unique_ptr<Store> loaded;  // in the child only
  run_and_kill([&] { loaded = load(o, file.path()); });
  auto const begin = std::chrono::steady_clock::now();
  Store store = require(Store::open(file.path(), open_options(o)), "open " + file.path());
  std::chrono::duration<double> const open_took = std::chrono::steady_clock::now() - begin;
  RecoveryReport const recovery = store.recovery();

  RequestStream const expected(Workload::c, o.records, 0, o.seed);
  Dataset const dataset(o.seed, o.key_bytes, o.value_bytes);
  Pass checks;
  double const first_gets_took = first_gets(o, store, dataset, checks);
  checks.add(Driver(dataset, o.batch, MemorySpace::host).read_back(store, expected, 0, o.records));
  bool const good = checks.faults == 0 && recovery.records == o.records && !recovery.clean;
  Json const json{{"command", "reopen"},
                  {"version", version()},
                  {"records", o.records},
                  {"key_bytes", o.key_bytes},
                  {"value_bytes", o.value_bytes},
                  {"layout", o.layout},
                  {"shape", o.shape},
                  {"device", o.device},
                  {"machine", store.stats().machine},
                  {"medium", name(store.stats().medium)},
                  {"survives", store.survives().describe()},
                  {"clean", recovery.clean},
                  {"open_seconds", open_took.count()},
                  {"map_seconds", recovery.map_seconds},
                  {"recover_seconds", recovery.recover_seconds},
                  {"first_gets_seconds", first_gets_took},
                  {"found", recovery.records},
                  {"dropped", recovery.dropped},
                  {"duplicates", recovery.duplicates},
                  {"checked", checks.gets},
                  {"faults", checks.faults}};
  require(store.close(), "close");
  std::printf(
      "%llu records, %s, killed after the last acknowledgement: open %.3f s (map %.3f s, recover "
      "%.3f s), first gets "
      "answered %.4f s later\n",
      static_cast<unsigned long long>(o.records), o.layout.c_str(), open_took.count(),
      recovery.map_seconds, recovery.recover_seconds, first_gets_took);
  std::printf("  found %llu, dropped %llu, duplicates %llu; read back %llu, wrong %llu\n",
              static_cast<unsigned long long>(recovery.records),
              static_cast<unsigned long long>(recovery.dropped),
              static_cast<unsigned long long>(recovery.duplicates),
              static_cast<unsigned long long>(checks.gets),
              static_cast<unsigned long long>(checks.faults));
  if (checks.faults > 0) std::printf("  FAULT: %s\n", checks.first_fault.c_str());
  write_json(o.json, json);
  return good ? kGood : kFaults;
}

}  // namespace

Command add_reopen(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app =
      program.add_subcommand("reopen", "Seconds to come back after SIGKILL, every record checked");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--batch", o->batch, "Operations a batch").shows_default().check(positive());
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--shape", o->shape, "Levels, hash functions, slots").shows_default();
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file").check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
