// `perdure-bench ycsb`: one YCSB workload on one or more devices.
//
// On a GPU `mops` is measured with keys and values already in GPU memory, `mops_end_to_end` with
// them in host memory, unless --arrays near leaves that out; on a CPU there is one place, one
// measurement, and the two figures are equal.
// Accesses are counted in a pass of their own, so that counting slows nothing that is timed. With a
// record cache, it is loaded after a pass that warms it, and again before the counted pass; of
// workload c the counts are then exact about it: of a mirrored store a get reads PM once, and never
// where its record is cached; of layout in_place it reads the record alone where its bucket is
// cached.
//
// Workload e needs an index that keeps keys in order. A batch of it is one call that puts its
// inserts, then a call a scan, from as many clients at once as there are workers.
#include <cstdio>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::string workload = "c";
  std::uint64_t records = 1'000'000;
  std::uint64_t expected_records = 0;
  std::uint64_t ops = 0;
  std::size_t batch = std::size_t{1} << 16;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  std::vector<std::string> devices{"cpu"};
  std::string index;  // empty: the one for the workload
  std::string layout = "word";
  std::string shape = "2L-2H-8S";
  std::string residency = "automatic";
  double cache = 0;
  std::string cache_policy = "lfu";
  std::string arrays = "both";
  std::uint32_t threads = 0;
  std::string pool;
  bool count_accesses = true;
  std::uint32_t repeats = 5;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  std::string json;
};

/// The counted pass of workloads on a loaded store stops here: averages need no more.
constexpr std::uint64_t kCountedOps = 1 << 20;
constexpr std::size_t kLargeBatch = std::size_t{1} << 16;
constexpr std::uint64_t kWarmUps = 21;  // batches, which decide how gets gather

struct Accesses {
  std::uint64_t ops = 0;
  std::uint64_t batches = 0;
  std::uint64_t gets = 0;  // 0: some are mixed with writes, and their hits not counted
  AccessCounts counts;
};

/// Everything one device gave.
struct Outcome {
  std::vector<Pass> passes;  // arrays where the device has them nearest
  std::vector<Pass> passes_end_to_end;  // arrays in host memory; empty where that is the same, or
                                        // not asked for
  Pass checks;  // untimed: every record read back in the end
  std::optional<Accesses> accesses;
  CacheReport cache;  // of the last load
  Stats stats;
  std::string survives;
};

class Run {
 public:
  Run(Options const& options, Device device)
      : o_(options),
        device_(device),
        workload_(workload_named(options.workload)),
        dataset_(options.seed, options.key_bytes, options.value_bytes),
        pool_(options.pool) {}

  Outcome go() {
    if (workload_ == Workload::load) {
      measure_load();
    } else {
      measure_loaded();
    }
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] MemorySpace near() const {
    return device_ == Device::cuda ? MemorySpace::device : MemorySpace::host;
  }
  [[nodiscard]] RequestStream stream(Workload workload) const {
    return RequestStream(workload, o_.records, o_.theta, mix(o_.seed));
  }
  [[nodiscard]] CreateOptions create_options() const {
    CreateOptions create;
    create.key_bytes = o_.key_bytes;
    create.value_bytes = o_.value_bytes;
    create.expected_records = o_.expected_records == 0 ? o_.records : o_.expected_records;
    create.index = index_named(o_.index);
    create.layout = layout_named(o_.layout);
    create.shape = shape_named(o_.shape);
    return create;
  }
  [[nodiscard]] OpenOptions open_options(bool counting) const {
    OpenOptions open;
    open.device = device_;
    open.threads = o_.threads;
    open.verify_reads = o_.verify_reads;
    open.count_accesses = counting;
    open.memory.residency = residency_named(o_.residency);
    if (o_.cache > 0) open.memory.cache_bytes = cache_bytes(o_.cache, o_.records, create_options());
    open.memory.cache_policy = cache_policy_named(o_.cache_policy);
    // Gathering in order fetches a record that a batch names twice but once, and choosing how to
    // gather takes its time: as they come, counts are a record's.
    if (counting && o_.cache > 0) open.memory.gather = Gather::at_once;
    return open;
  }

  [[nodiscard]] Store create(bool counting) {
    pool_.remove();  // ours, from an earlier repeat
    return require(Store::create(pool_.path(), create_options(), open_options(counting)),
                   "create " + pool_.path());
  }

  void note(Store const& store) {
    outcome_.stats = store.stats();
    outcome_.survives = store.survives().describe();
  }

  void read_back(Store& store, RequestStream const& stream) {
    outcome_.checks.add(Driver(dataset_, large_batch(), MemorySpace::host)
                            .read_back(store, stream, 0, stream.records()));
  }

  /// Each repeat loads a new pool.
  Pass load_once(MemorySpace space) {
    Store store = create(false);
    RequestStream requests = stream(Workload::load);
    Pass pass = Driver(dataset_, o_.batch, space).run(store, requests, o_.records);
    read_back(store, requests);
    note(store);
    require(store.close(), "close");
    return pass;
  }

  void measure_load() {
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      outcome_.passes.push_back(load_once(near()));
      if (near() != MemorySpace::host && o_.arrays == "both")
        outcome_.passes_end_to_end.push_back(load_once(MemorySpace::host));
    }
    if (!o_.count_accesses) return;
    Store store = create(true);
    RequestStream requests = stream(Workload::load);
    count(store, requests, o_.records);
    require(store.close(), "close");
  }

  /// Operations of a batch that is not measured: a GPU would wait for what makes small ones.
  [[nodiscard]] std::size_t large_batch() const {
    return device_ == Device::cuda ? std::max(o_.batch, kLargeBatch) : o_.batch;
  }

  /// All repeats run on one pool, loaded once.
  void measure_loaded() {
    Store store = create(false);
    RequestStream load = stream(Workload::load);
    Driver loading(dataset_, large_batch(), MemorySpace::host);
    outcome_.checks.add(loading.run(store, load, o_.records));
    RequestStream requests = stream(workload_);
    Driver near_driver(dataset_, o_.batch, near(), o_.threads);
    Driver host_driver(dataset_, o_.batch, MemorySpace::host, o_.threads);
    warm(store, near_driver, requests);
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      outcome_.passes.push_back(near_driver.run(store, requests, ops()));
      if (near() != MemorySpace::host && o_.arrays == "both")
        outcome_.passes_end_to_end.push_back(host_driver.run(store, requests, ops()));
    }
    note(store);
    if (o_.count_accesses) {
      require(store.close(), "close");
      store = require(Store::open(pool_.path(), open_options(true)), "open " + pool_.path());
      if (o_.cache > 0) warm(store, host_driver, requests);
      count(store, requests, std::min(ops(), kCountedOps));
    }
    read_back(store, requests);
    require(store.close(), "close");
  }

  /// Warms the processor's caches, and the record cache where there is one: it learns from a few
  /// gets a record.
  void warm(Store& store, Driver& driver, RequestStream& requests) {
    std::uint64_t const some = std::min(ops(), kCountedOps);
    outcome_.checks.add(driver.run(store, requests, some));
    if (o_.cache == 0) return;
    Driver learning(dataset_, large_batch(), MemorySpace::host);
    if (4 * o_.records > some)
      outcome_.checks.add(learning.run(store, requests, 4 * o_.records - some));
    outcome_.cache = require(store.load_cache(), "load the cache");
    if (outcome_.cache.corrupt > 0) throw Failure("the cache found corrupt records");
    // After a load the store tries anew how gets gather. The requests that are measured are not
    // used up for that.
    if (workload_ != Workload::c) return;
    RequestStream others = requests;
    outcome_.checks.add(driver.run(store, others, kWarmUps * o_.batch));
  }

  void count(Store& store, RequestStream& requests, std::uint64_t ops) {
    store.reset_counts();
    Pass const pass =
        Driver(dataset_, o_.batch, MemorySpace::host, o_.threads).run(store, requests, ops);
    std::uint64_t const gets = workload_ == Workload::c ? pass.gets : 0;
    outcome_.accesses = Accesses{pass.ops, pass.batch_us.size(), gets, store.stats().accesses};
    outcome_.checks.add(pass);
  }

  [[nodiscard]] std::uint64_t ops() const { return o_.ops == 0 ? o_.records : o_.ops; }

  Options const& o_;
  Device device_;
  Workload workload_;
  Dataset dataset_;
  PoolFile pool_;
  Outcome outcome_;
};

Json rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 1000 + 0.5)) / 1000;
}

/// `mops`, `p50_us` and `p99_us` of several passes, their names ending in `suffix`.
void put_speed(Json& json, std::vector<Pass> const& passes, std::string const& suffix) {
  std::vector<double> mops;
  std::vector<double> batch_us;
  for (Pass const& pass : passes) {
    mops.push_back(pass.mops());
    batch_us.insert(batch_us.end(), pass.batch_us.begin(), pass.batch_us.end());
  }
  json["mops" + suffix] = rounded(median(mops));
  json["p50_us" + suffix] = rounded(percentile(batch_us, 0.50));
  json["p99_us" + suffix] = rounded(percentile(batch_us, 0.99));
  Json& each = json["mops" + suffix + "_each"];
  for (double const m : mops) each.push_back(rounded(m));
}

/// Ranges' reads are not among those that a store counts: with `scans` there is no figure of them.
void put_accesses(Json& json, std::optional<Accesses> const& accesses, bool scans) {
  if (!accesses) {
    for (char const* key :
         {"pm_reads_per_op", "pm_writes_per_op", "orders_per_batch", "cache_hits_per_get"})
      json[key] = nullptr;
    return;
  }
  auto const per = [](std::uint64_t count, std::uint64_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
  };
  json["pm_reads_per_op"] = scans ? Json() : Json(per(accesses->counts.pm_reads, accesses->ops));
  json["pm_writes_per_op"] = per(accesses->counts.pm_writes, accesses->ops);
  json["orders_per_batch"] = per(accesses->counts.orders, accesses->batches);
  json["cache_hits_per_get"] =
      accesses->gets == 0 ? Json() : Json(per(accesses->counts.cache_hits, accesses->gets));
  json["counted_ops"] = accesses->ops;
}

Pass sum_of(Outcome const& outcome) {
  Pass sum = outcome.checks;
  for (auto const* passes : {&outcome.passes, &outcome.passes_end_to_end}) {
    for (Pass const& pass : *passes) sum.add(pass);
  }
  return sum;
}

Json report(Options const& o, Outcome const& outcome) {
  Json json;
  json["command"] = "ycsb";
  json["version"] = version();
  json["workload"] = o.workload;
  json["records"] = o.records;
  json["ops"] = outcome.passes.front().ops;
  json["batch"] = o.batch;
  json["key_bytes"] = o.key_bytes;
  json["value_bytes"] = o.value_bytes;
  json["theta"] = o.theta;
  json["seed"] = o.seed;
  json["index"] = o.index;
  json["layout"] = name(outcome.stats.layout);
  json["shape"] = name(outcome.stats.shape);
  json["verify_reads"] = o.verify_reads;
  json["residency"] = o.residency;
  json["cache"] = o.cache;
  json["cache_policy"] = o.cache_policy;
  json["cache_records"] = outcome.cache.records;
  json["cache_bytes"] = outcome.cache.bytes;
  json["cache_load_seconds"] = outcome.cache.seconds;
  json["device"] = name(outcome.stats.device);
  json["machine"] = outcome.stats.machine;
  json["medium"] = name(outcome.stats.medium);
  json["survives"] = outcome.survives;
  json["repeats"] = o.repeats;
  json["summary"] = "median of the repeats; latencies are a batch's, over all repeats";
  put_speed(json, outcome.passes, "");
  if (!outcome.passes_end_to_end.empty()) {
    put_speed(json, outcome.passes_end_to_end, "_end_to_end");
  } else if (outcome.stats.device == Device::cpu) {
    put_speed(json, outcome.passes, "_end_to_end");
  } else {
    for (char const* key :
         {"mops_end_to_end", "p50_us_end_to_end", "p99_us_end_to_end", "mops_end_to_end_each"})
      json[key] = nullptr;
  }
  json["load_factor"] = outcome.stats.load_factor;
  json["growths"] = outcome.stats.growths;
  std::uint64_t gets = 0;
  std::uint64_t hits = 0;
  for (Pass const& pass : outcome.passes) {
    gets += pass.gets;
    hits += pass.hits;
  }
  json["hit_rate"] =
      gets == 0 ? Json(nullptr) : Json(static_cast<double>(hits) / static_cast<double>(gets));
  Pass const sum = sum_of(outcome);
  put_accesses(json, outcome.accesses, sum.scans > 0);
  json["records_per_scan"] =
      sum.scans == 0 ? Json()
                     : Json(static_cast<double>(sum.scanned) / static_cast<double>(sum.scans));
  json["checked"] = sum.gets + sum.scans;
  json["faults"] = sum.faults;
  if (sum.faults > 0) json["first_fault"] = sum.first_fault;
  return json;
}

void print(Json const& j) {
  auto const number = [&](char const* key) {
    return j[key].is_null() ? std::string("-") : j[key].dump();
  };
  std::printf("YCSB %s on %s (%s), %s, survives %s\n", j["workload"].get<std::string>().c_str(),
              j["device"].get<std::string>().c_str(), j["machine"].get<std::string>().c_str(),
              j["medium"].get<std::string>().c_str(), j["survives"].get<std::string>().c_str());
  std::printf("  Mops              %s (end to end %s), each %s\n", number("mops").c_str(),
              number("mops_end_to_end").c_str(), j["mops_each"].dump().c_str());
  std::printf("  batch latency     p50 %s us, p99 %s us\n", number("p50_us").c_str(),
              number("p99_us").c_str());
  std::printf("  hit rate          %s, load factor %s\n", number("hit_rate").c_str(),
              number("load_factor").c_str());
  std::printf("  PM reads/op       %s, writes/op %s, orders/batch %s\n",
              number("pm_reads_per_op").c_str(), number("pm_writes_per_op").c_str(),
              number("orders_per_batch").c_str());
  std::printf("  answers checked   %s, wrong %s\n", number("checked").c_str(),
              number("faults").c_str());
  if (!j["records_per_scan"].is_null())
    std::printf("  records a scan    %s\n", number("records_per_scan").c_str());
  if (j.contains("first_fault"))
    std::printf("  FAULT: %s\n", j["first_fault"].get<std::string>().c_str());
}

void check_options(Options const& o) {
  if (o.cache > 0 && workload_named(o.workload) == Workload::load)
    throw Failure(
        "--cache: workload load gets nothing that a cache could learn from; choose another "
        "workload");
  if (workload_named(o.workload) == Workload::e && index_named(o.index) != Index::btree) {
    throw Failure("--index " + o.index +
                  ": workload e scans ranges of keys, and this index keeps no order of keys; "
                  "choose --index btree");
  }
  if (workload_named(o.workload) == Workload::e)
    check_scan_bytes(Dataset(o.seed, o.key_bytes, o.value_bytes));
  if (workload_named(o.workload) == Workload::f && o.value_bytes % 8 != 0) {
    throw Failure("--value-bytes " + std::to_string(o.value_bytes) +
                  ": workload f adds to values as 64-bit integers; give a multiple of 8");
  }
  if (!o.pool.empty() && o.devices.size() > 1)
    throw Failure("--pool: name one device, or leave the path to the benchmark");
}

/// What nobody named is what the workload needs.
Options with_index(Options o) {
  if (o.index.empty()) o.index = workload_named(o.workload) == Workload::e ? "btree" : "gphash";
  return o;
}

int run(Options const& given) {
  Options const o = with_index(given);
  check_options(o);
  Json all = Json::array();
  bool good = true;
  for (std::string const& device : o.devices) {
    all.push_back(report(o, Run(o, device_named(device)).go()));
    if (o.json != "-") print(all.back());
    good = good && all.back()["faults"] == 0;
  }
  write_json(o.json, all.size() == 1 ? all[0] : all);
  return good ? kGood : kFaults;
}

}  // namespace

Command add_ycsb(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand("ycsb", "A YCSB workload: load, a, b, c, d, e or f");
  app.add_option("--workload", o->workload, "load, a, b, c, d, e (ranges) or f").shows_default();
  app.add_option("--records", o->records, "Records in the store before the run (load: put by it)")
      .shows_default()
      .check(positive());
  app.add_option(
      "--expected-records", o->expected_records,
      "Size the table for so many; fewer than --records makes it grow (default: --records)");
  app.add_option("--ops", o->ops,
                 "Operations a repeat (default: --records; load always puts --records)");
  app.add_option("--batch", o->batch, "Operations a batch").shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--theta", o->theta, "Skew of the Zipfian choice; 0 = uniform")
      .shows_default()
      .check(range(0.0, 0.9999));
  app.add_option("--device", o->devices, "cpu, cuda, or both with a comma")
      .separated_by(',')
      .shows_default();
  app.add_option("--index", o->index, "Of workload e btree, which keeps keys in order; else gphash")
      .check(one_of(index_names()));
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--shape", o->shape, "Levels, hash functions, slots").shows_default();
  app.add_option("--residency", o->residency).shows_default().check(one_of(residency_names()));
  app.add_option("--cache", o->cache,
                 "Share of the records (layout in_place: of the buckets) that the cache has room "
                 "for; of word it "
                 "needs a mirror")
      .shows_default()
      .check(range(0.0, 2.0));
  app.add_option("--cache-policy", o->cache_policy)
      .shows_default()
      .check(one_of(cache_policy_names()));
  app.add_option("--arrays", o->arrays,
                 "Where arrays lie: near the device, or both there and in host memory, by turns")
      .shows_default()
      .check(one_of({"near", "both"}));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_flag("--count-accesses,!--no-count-accesses", o->count_accesses,
               "Count PM accesses in a pass of their own (default: yes)");
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag("--verify-reads,!--no-verify-reads", o->verify_reads,
               "Have the store check each record's checksum on get (default: yes)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
