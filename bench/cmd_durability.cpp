// `perdure-bench durability`: what a put costs when it must outlive a power loss, beside one that
// must outlive its process only. Two stores take the same batches by turns, so that whatever else
// the machine does meets both.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "common.hpp"
#include "driver.hpp"
#include "perdure/log_speed.h"

namespace perdure::bench {
namespace {

struct Options {
  std::string log_dir;
  std::string pool;
  std::uint64_t records = 1u << 20;
  std::uint64_t batches = 200;
  std::size_t batch = 1u << 14;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::uint64_t log_bytes = CreateOptions{}.log.bytes;
  std::string layout = "word";
  std::string device = "cpu";
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
  std::string json;
};

/// One of the two stores, and what its batches took.
struct Contender {
  Store store;
  Driver driver;
  Pass measured;
  std::uint64_t faults = 0;
  std::string first_fault;

  void note(Pass const& pass) {
    if (faults == 0) first_fault = pass.first_fault;
    faults += pass.faults;
  }
};

Contender contender(Options const& o, Durability durability, std::string const& pool) {
  CreateOptions create;
  create.key_bytes = o.key_bytes;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.records;
  create.layout = layout_named(o.layout);
  create.durability = durability;
  if (durability == Durability::power) {
    create.log.dir = o.log_dir;
    create.log.bytes = o.log_bytes;
  }
  OpenOptions open;
  open.threads = o.threads;
  open.device = device_named(o.device);
  MemorySpace const arrays = o.device == "cuda" ? MemorySpace::device : MemorySpace::host;
  return {require(Store::create(pool, create, open), "create " + pool),
          Driver(Dataset(o.seed, o.key_bytes, o.value_bytes), o.batch, arrays),
          {},
          0,
          {}};
}

/// Random records, each at the version after its last.
std::vector<Request> next_puts(Random& random, std::vector<std::uint32_t>& versions,
                               std::size_t n) {
  std::vector<Request> puts(n);
  for (Request& put : puts) {
    put.id = below(random, versions.size());
    put.version = ++versions[put.id];
    put.action = Action::write;
  }
  return puts;
}

template <class Each>
void in_batches(Options const& o, Action action, std::vector<std::uint32_t> const& versions,
                Each const& each) {
  std::vector<Request> requests;
  for (std::uint64_t first = 0; first < o.records; first += o.batch) {
    requests.clear();
    for (std::uint64_t id = first; id < std::min<std::uint64_t>(o.records, first + o.batch); ++id)
      requests.push_back({id, versions[id], action});
    each(requests);
  }
}

Json speed(Contender const& c, Options const& o) {
  double const p50 = percentile(c.measured.batch_us, 0.50);
  Stats const stats = c.store.stats();
  return {{"mops", static_cast<double>(o.batch) / p50},
          {"mops_overall", c.measured.mops()},
          {"p50_us", p50},
          {"p99_us", percentile(c.measured.batch_us, 0.99)},
          {"max_us", percentile(c.measured.batch_us, 1)},
          {"survives", c.store.survives().describe()},
          {"checkpoints", stats.log.checkpoints},
          {"log_method", stats.log.method},
          {"pool_bytes", stats.space.pool_bytes},
          {"medium", name(stats.medium)},
          {"machine", stats.machine},
          {"faults", c.faults}};
}

void print(char const* level, Json const& j) {
  std::printf("%-8s %10.3f %10.3f %10.0f %10.0f %10.0f %12llu  %s\n", level,
              j["mops"].get<double>(), j["mops_overall"].get<double>(), j["p50_us"].get<double>(),
              j["p99_us"].get<double>(), j["max_us"].get<double>(),
              static_cast<unsigned long long>(j["checkpoints"].get<std::uint64_t>()),
              j["survives"].get<std::string>().c_str());
}

/// What the disk takes of such batches without a store, in a file as large as the log: how long a
/// batch is on its way at least, be it one of many or waited for.
Json disk_alone(Options const& o) {
  LogSpeedOptions log;
  log.path = o.log_dir + ".alone";
  log.log_bytes = o.log_bytes;
  log.key_bytes = o.key_bytes;
  log.value_bytes = o.value_bytes;
  log.batch_operations = o.batch;
  log.seconds = 1;
  LogSpeed const speed = require(measure_log(log), "log " + log.path);
  unlink(log.path.c_str());
  return {{"bytes_per_second", speed.stream_bytes_per_second},
          {"mops", speed.stream_operations_per_second / 1e6},
          {"batch_bytes", speed.batch_bytes},
          {"batch_us", 1e6 * static_cast<double>(o.batch) / speed.stream_operations_per_second},
          {"waited_p50_us", speed.latency_p50_us},
          {"waited_p99_us", speed.latency_p99_us}};
}

/// What the disk takes for the measured batches and the images of their checkpoints, one after the
/// other: less than that no put can take, whatever the store does.
double disk_us(Options const& o, Json const& disk, Json const& power) {
  double const images = power["checkpoints"].get<double>() * power["pool_bytes"].get<double>();
  double const all_batches = static_cast<double>(o.batches) +
                             static_cast<double>(o.records) / static_cast<double>(o.batch);
  double const of_a_batch = images / all_batches / disk["bytes_per_second"].get<double>() * 1e6;
  return disk["batch_us"].get<double>() + of_a_batch;
}

Json report(Options const& o, Contender const& process, Contender const& power, Json const& disk) {
  Json json{{"command", "durability"},
            {"version", version()},
            {"records", o.records},
            {"batches", o.batches},
            {"batch", o.batch},
            {"key_bytes", o.key_bytes},
            {"value_bytes", o.value_bytes},
            {"layout", o.layout},
            {"device", o.device},
            {"seed", o.seed},
            {"log_dir", o.log_dir},
            {"log_bytes", o.log_bytes},
            {"summary",
             "puts of random records by one client that waits for each batch; the stores by turns; "
             "mops is "
             "that of the median batch, mops_overall of all, checkpoints included"},
            {"process", speed(process, o)},
            {"power", speed(power, o)},
            {"disk", disk}};
  json["disk"]["batch_with_images_us"] = disk_us(o, disk, json["power"]);
  json["p50_of_disk"] =
      json["disk"]["batch_us"].get<double>() / json["power"]["p50_us"].get<double>();
  json["p50_ratio"] =
      json["power"]["p50_us"].get<double>() / json["process"]["p50_us"].get<double>();
  json["checked"] = 2 * o.records;
  json["faults"] = process.faults + power.faults;
  return json;
}

int run(Options const& o) {
  LogDirectory const log_dir(o.log_dir);
  std::string const base = o.pool.empty() ? PoolFile("").path() : o.pool;
  PoolFile const process_pool(base + ".process"), power_pool(base + ".power");
  Contender process = contender(o, Durability::process, process_pool.path());
  Contender power = contender(o, Durability::power, power_pool.path());
  Contender* const both[] = {&process, &power};

  std::vector<std::uint32_t> versions(o.records, 0);
  auto const with_both = [&](std::vector<Request> const& requests) {
    for (Contender* const c : both) c->note(c->driver.run_batch(c->store, requests));
  };
  in_batches(o, Action::write, versions, with_both);
  Random random(o.seed);
  for (std::uint64_t i = 0; i < o.batches; ++i) {
    auto const puts = next_puts(random, versions, o.batch);
    for (std::size_t turn = 0; turn < 2; ++turn) {
      Contender& c = *both[(i + turn) % 2];  // neither always follows the other
      Pass const pass = c.driver.run_batch(c.store, puts);
      c.measured.add(pass);
      c.note(pass);
    }
  }
  in_batches(o, Action::read, versions, with_both);

  Json const json = report(o, process, power, disk_alone(o));
  for (Contender* const c : both) require(c->store.close(), "close");
  std::FILE* const to = o.json == "-" ? stderr : stdout;
  if (to == stdout) {
    std::printf("%-8s %10s %10s %10s %10s %10s %12s  survives\n", "", "Mop/s", "overall", "p50 us",
                "p99 us", "max us", "checkpoints");
    print("process", json["process"]);
    print("power", json["power"]);
    std::printf("puts of %zu records of %u + %u bytes, %s; log: %s\n", o.batch, o.key_bytes,
                o.value_bytes, json["power"]["machine"].get<std::string>().c_str(),
                json["power"]["log_method"].get<std::string>().c_str());
    Json const& disk = json["disk"];
    std::printf(
        "the disk alone: %.2f GiB/s; a batch %.0f us of many, %.0f us waited for (p99 %.0f), %.0f "
        "us "
        "with its share of images of %.0f MiB\n",
        disk["bytes_per_second"].get<double>() / (1u << 30), disk["batch_us"].get<double>(),
        disk["waited_p50_us"].get<double>(), disk["waited_p99_us"].get<double>(),
        disk["batch_with_images_us"].get<double>(),
        json["power"]["pool_bytes"].get<double>() / (1u << 20));
    std::printf("power: %.2f of the rate of process, %.2f of the disk's\n",
                1 / json["p50_ratio"].get<double>(), json["p50_of_disk"].get<double>());
    std::printf("%llu values read back, %llu wrong\n",
                static_cast<unsigned long long>(2 * o.records),
                static_cast<unsigned long long>(json["faults"].get<std::uint64_t>()));
  }
  for (Contender const* const c : both)
    if (c->faults > 0) std::fprintf(to, "FAULT: %s\n", c->first_fault.c_str());
  write_json(o.json, json);
  return json["faults"] == 0 ? kGood : kFaults;
}

}  // namespace

Command add_durability(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "durability", "Puts that outlive a power loss beside puts that outlive their process");
  app.add_option("--log-dir", o->log_dir, "A new directory on the disk; removed in the end")
      .required();
  app.add_option("--records", o->records, "Records in the stores")
      .shows_default()
      .check(positive());
  app.add_option("--batches", o->batches, "Measured, of each store")
      .shows_default()
      .check(positive());
  app.add_option("--batch", o->batch, "Puts a batch").shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--log-bytes", o->log_bytes, "Size of the log").shows_default().check(positive());
  app.add_option("--device", o->device, "cpu or cuda; its memory has the arrays").shows_default();
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option(
      "--pool", o->pool,
      "Where the pools are made, with .process and .power behind (default: in /dev/shm)");
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
