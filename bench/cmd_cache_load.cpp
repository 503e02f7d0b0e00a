// `perdure-bench cache-load`: gets that go on while the cache is loaded anew (GPHash's figure 15):
// of records, or of buckets in layout in_place. One thread gets batch after batch; another loads
// the cache a few times. Of each batch it notes when it ended, how long it took, and whether a load
// was under way.
//
// Invariant: a batch's time runs from the call to its return, and every value is compared after it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 1'000'000;
  std::size_t batch = std::size_t{1} << 12;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  double cache = 0.2;
  std::string cache_policy = "lfu";
  std::string layout = "word";
  std::string device = "cpu";
  std::uint32_t threads = 0;
  std::uint32_t loads = 3;
  double pause = 0.2;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  std::string pool;
  std::string json;
};

using Clock = std::chrono::steady_clock;

struct Batch {
  double end = 0;  // seconds since the first
  double seconds = 0;  // of the call
  bool loading = false;
};

struct Load {
  double begin = 0, end = 0;
  CacheReport report;
};

Store create(Options const& o, std::string const& path) {
  CreateOptions create;
  create.key_bytes = o.key_bytes;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.records;
  create.layout = layout_named(o.layout);
  OpenOptions open;
  open.device = device_named(o.device);
  open.threads = o.threads;
  open.verify_reads = o.verify_reads;
  bool const of_records = create.layout == Layout::word;  // which stand beside a mirror alone
  open.memory.residency = of_records ? Residency::mirrored : Residency::pm;
  open.memory.cache_bytes = cache_bytes(o.cache, o.records, create);
  open.memory.cache_policy = cache_policy_named(o.cache_policy);
  return require(Store::create(path, create, open), "create " + path);
}

class Bench {
 public:
  explicit Bench(Options const& o)
      : o_(o),
        file_(o.pool),
        store_(create(o, file_.path())),
        dataset_(o.seed, o.key_bytes, o.value_bytes) {
    RequestStream load(Workload::load, o.records, 0, o.seed);
    add(Driver(dataset_, std::max(o.batch, std::size_t{1} << 16), MemorySpace::host)
            .run(store_, load, o.records));
  }

  int go() {
    MemorySpace const near =
        device_named(o_.device) == Device::cuda ? MemorySpace::device : MemorySpace::host;
    Driver driver(dataset_, o_.batch, near);
    RequestStream requests(Workload::c, o_.records, o_.theta, mix(o_.seed));
    add(driver.run(store_, requests, 4 * o_.records));  // what the first load learns from
    begin_ = Clock::now();
    std::jthread const loader([&] { load_a_few_times(); });
    while (!done_.load()) {
      std::uint32_t const ended = loads_ended_.load();
      Pass const pass = driver.run(store_, requests, o_.batch);
      batches_.push_back({seconds_since_begin(), pass.seconds, loads_begun_.load() > ended});
      add(pass);
    }
    if (!failed_.ok()) require(failed_, "load the cache");
    report();
    return faults_ == 0 ? kGood : kFaults;
  }

 private:
  [[nodiscard]] double seconds_since_begin() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  void add(Pass const& pass) {
    checked_ += pass.gets;
    faults_ += pass.faults;
  }

  void load_a_few_times() {
    auto const pause = std::chrono::duration<double>(o_.pause);
    for (std::uint32_t i = 0; i < o_.loads && failed_.ok(); ++i) {
      std::this_thread::sleep_for(pause);
      Load load{seconds_since_begin(), 0, {}};
      ++loads_begun_;
      Result<CacheReport> result = store_.load_cache();
      ++loads_ended_;
      load.end = seconds_since_begin();
      failed_ = result.status();
      if (failed_.ok()) load.report = std::move(result).value();
      loads_.push_back(load);
    }
    std::this_thread::sleep_for(pause);
    done_.store(true);
  }

  /// Throughput of the calls that a load was beside, or of those before the first load, or of all
  /// other later ones.
  template <class Take>
  [[nodiscard]] double mops(Take take) const {
    double seconds = 0;
    std::uint64_t ops = 0;
    for (Batch const& batch : batches_) {
      if (!take(batch)) continue;
      seconds += batch.seconds;
      ops += o_.batch;
    }
    return seconds > 0 ? static_cast<double>(ops) / seconds * 1e-6 : 0;
  }

  void report() const {
    double const first = loads_.front().begin;
    double const before = mops([&](Batch const& b) { return !b.loading && b.end < first; });
    double const during = mops([](Batch const& b) { return b.loading; });
    double const after = mops([&](Batch const& b) { return !b.loading && b.end > first; });
    std::vector<double> seconds;
    Json loads = Json::array();
    for (Load const& load : loads_) {
      seconds.push_back(load.report.seconds);
      loads.push_back({{"begin", load.begin},
                       {"end", load.end},
                       {"seconds", load.report.seconds},
                       {"records", load.report.records},
                       {"bytes", load.report.bytes}});
      if (load.report.corrupt > 0) throw Failure("the cache found corrupt records");
    }
    Json timeline = Json::array();
    for (Batch const& batch : batches_)
      timeline.push_back({batch.end, batch.seconds, batch.loading});
    std::printf(
        "%s: gets %.3f Mop/s before, %.3f beside a load, %.3f between loads; %zu loads, median "
        "%.4f s\n",
        store_.stats().machine.c_str(), before, during, after, loads_.size(), median(seconds));
    std::printf("  answers checked %llu, wrong %llu\n", static_cast<unsigned long long>(checked_),
                static_cast<unsigned long long>(faults_));
    write_json(o_.json, {{"command", "cache-load"},
                         {"version", version()},
                         {"device", o_.device},
                         {"machine", store_.stats().machine},
                         {"records", o_.records},
                         {"batch", o_.batch},
                         {"layout", o_.layout},
                         {"cache", o_.cache},
                         {"cache_policy", o_.cache_policy},
                         {"mops_before", before},
                         {"mops_during", during},
                         {"mops_after", after},
                         {"load_seconds", median(seconds)},
                         {"loads", loads},
                         {"end_seconds_loading", timeline},
                         {"checked", checked_},
                         {"faults", faults_}});
  }

  Options const& o_;
  PoolFile file_;
  Store store_;
  Dataset dataset_;
  Clock::time_point begin_;
  std::atomic<std::uint32_t> loads_begun_{0};
  std::atomic<std::uint32_t> loads_ended_{0};
  std::atomic<bool> done_{false};
  Status failed_;  // the loader's, until done_
  std::vector<Load> loads_;  // likewise
  std::vector<Batch> batches_;
  std::uint64_t checked_ = 0;
  std::uint64_t faults_ = 0;
};

}  // namespace

Command add_cache_load(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand("cache-load", "Gets beside loads of the cache");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--batch", o->batch, "Gets a batch").shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--theta", o->theta, "Skew of the gets").shows_default().check(range(0.0, 0.9999));
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--cache", o->cache,
                 "Share of the records (layout in_place: of the buckets) that it has room for")
      .shows_default()
      .check(range(0.001, 2.0));
  app.add_option("--cache-policy", o->cache_policy)
      .shows_default()
      .check(one_of(cache_policy_names()));
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--loads", o->loads, "Loads of the cache").shows_default().check(positive());
  app.add_option("--pause", o->pause, "Seconds before, between and after the loads")
      .shows_default()
      .check(range(0.01, 60.0));
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag("--verify-reads,!--no-verify-reads", o->verify_reads,
               "Check each record's checksum (default: yes)");
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return Bench(*o).go(); }};
}

}  // namespace perdure::bench
