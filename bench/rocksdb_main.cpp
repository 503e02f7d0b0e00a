// perdure-bench-rocksdb: Perdure and RocksDB on the same records, requests and cores, turn by turn
// in one run, so that whatever else the machine does falls on both. LOAD, then YCSB C with uniform
// and with Zipfian keys; with --scans then YCSB E, of Perdure by index btree, of RocksDB where its
// configuration keeps keys in order. Every answer of either is checked.
//
// RocksDB is given what helps it: no write-ahead log, no compression, no checksums on reads, files
// on tmpfs, the configurations that were fastest (`--tune all` tries them), and a load that ends
// with the last acknowledged put, flushes and compactions after it not counted. Perdure runs as its
// users get it, checksums on reads included.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "command_line.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "rocksdb_baseline.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 16'000'000;
  std::uint64_t ops = 0;
  std::size_t batch = std::size_t{1} << 16;
  std::size_t baseline_batch = 1000;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  std::uint32_t threads = 2;
  std::uint32_t repeats = 3;
  std::uint64_t seed = 1;
  std::string build;
  std::vector<std::string> configs{"hash-linklist", "hash-linklist-cuckoo", "block-mmap"};
  std::string directory = "/dev/shm";
  std::vector<std::string> tune;
  bool scans = false;
  std::string layout = "word";
  std::string json;
};

/// Requests made before the clock starts for RocksDB; it gets larger pieces than Perdure's batches,
/// so that its threads seldom wait for each other.
constexpr std::size_t kBaselineChunk = std::size_t{1} << 18;

/// Drives RocksDB through a stream of gets or puts, or of scans and puts, as Driver drives a store.
class BaselineDriver {
 public:
  BaselineDriver(Dataset const& dataset, std::uint32_t threads)
      : dataset_(dataset),
        scanner_(dataset, threads),
        requests_(kBaselineChunk),
        keys_(kBaselineChunk * dataset.key_bytes()),
        values_(kBaselineChunk * dataset.value_bytes()),
        found_(kBaselineChunk) {}

  Pass run(Baseline& baseline, RequestStream& stream, std::uint64_t ops) {
    Pass pass;
    while (pass.ops < ops) {
      std::size_t const n = std::min<std::uint64_t>(kBaselineChunk, ops - pass.ops);
      stream.fill({requests_.data(), n});
      std::size_t const scans = stream.scans() ? put_scans_last(n) : n;
      if (scans > 0) call(baseline, pass, scans);
      auto const range = [&](RangeQuery const& query) { return baseline.range(query); };
      scanner_.run(range, stream, std::span(requests_).subspan(scans, n - scans), pass);
      pass.ops += n;
    }
    return pass;
  }

 private:
  /// Answers how many requests stand before them.
  std::size_t put_scans_last(std::size_t n) {
    auto const end = requests_.begin() + static_cast<std::ptrdiff_t>(n);
    auto const scans = std::stable_partition(
        requests_.begin(), end, [](Request const& r) { return r.action != Action::scan; });
    return static_cast<std::size_t>(scans - requests_.begin());
  }

  void call(Baseline& baseline, Pass& pass, std::size_t n) {
    make_arrays(n);
    auto const begin = std::chrono::steady_clock::now();
    if (requests_[0].action == Action::write) {
      baseline.put(keys_, values_, n);
    } else {
      baseline.get(keys_, n, values_, found_);
    }
    pass.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    check(pass, n);
  }

  void make_arrays(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      Request const& r = requests_[i];
      dataset_.write_key(r.id, keys_.data() + i * dataset_.key_bytes());
      std::byte* const value = values_.data() + i * dataset_.value_bytes();
      if (r.action == Action::write) {
        dataset_.write_value(r.id, r.version, value);
      } else {
        std::fill_n(value, dataset_.value_bytes(), std::byte{0});
      }
      found_[i] = 0;
    }
  }

  void check(Pass& pass, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      Request const& r = requests_[i];
      if (r.action == Action::write) continue;
      ++pass.gets;
      pass.hits += found_[i];
      if (found_[i] != 0 &&
          dataset_.holds(values_.data() + i * dataset_.value_bytes(), r.id, r.version))
        continue;
      if (pass.faults++ == 0)
        pass.first_fault = "RocksDB: get of record " + std::to_string(r.id) + " was wrong";
    }
  }

  Dataset dataset_;
  Scanner scanner_;
  std::vector<Request> requests_;
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
  std::vector<unsigned char> found_;
};

std::uint64_t ops_of(Options const& o) { return o.ops == 0 ? o.records : o.ops; }

class Comparison {
 public:
  Comparison(Options const& o, BaselineLibrary const& library)
      : o_(o),
        library_(library),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        baseline_driver_(dataset_, o.threads),
        file_("") {}

  /// One configuration of RocksDB alone: Mops of load, uniform gets and Zipfian gets.
  Json try_config(BaselineConfig const& config) {
    auto baseline = open_baseline(config);
    Pass const load = load_baseline(*baseline, config);
    double const settled = settle(*baseline);
    Json row{{"config", config.name}, {"load_mops", load.mops()}, {"settle_seconds", settled}};
    for (double const theta : {0.0, o_.theta}) {
      RequestStream requests(Workload::c, o_.records, theta, mix(o_.seed));
      note(baseline_driver_.run(*baseline, requests,
                                std::min<std::uint64_t>(ops_of(o_), 1 << 18)));  // warms caches
      Pass const pass = baseline_driver_.run(*baseline, requests, ops_of(o_));
      note(pass);
      row[theta == 0 ? "uniform_mops" : "zipf_mops"] = pass.mops();
    }
    return row;
  }

  /// LOAD and both kinds of C, Perdure and one configuration of RocksDB turn by turn.
  Json compare(BaselineConfig const& config) {
    std::vector<double> ours;
    std::vector<double> theirs;
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      store_.reset();
      baseline_.reset();
      store_ = std::make_unique<Store>(create(Index::gphash));
      RequestStream requests(Workload::load, o_.records, 0, o_.seed);
      Pass const pass =
          Driver(dataset_, o_.batch, MemorySpace::host).run(*store_, requests, o_.records);
      note(pass);
      ours.push_back(pass.mops());
      baseline_ = open_baseline(config);
      theirs.push_back(load_baseline(*baseline_, config).mops());
    }
    Json rows = Json::array();
    rows.push_back(row("LOAD", config, ours, theirs));
    settle(*baseline_);
    for (double const theta : {0.0, o_.theta})
      rows.push_back(compare_runs(config, Workload::c, theta));
    if (o_.scans && config.keeps_order()) rows.push_back(compare_scans(config));
    machine_ = store_->stats().machine;
    store_.reset();
    baseline_.reset();
    return rows;
  }

  [[nodiscard]] std::string const& machine() const { return machine_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::string const& first_fault() const { return first_fault_; }

 private:
  void note(Pass const& pass) {
    if (faults_ == 0) first_fault_ = pass.first_fault;
    faults_ += pass.faults;
  }

  [[nodiscard]] Store create(Index index) {
    CreateOptions create;
    create.key_bytes = o_.key_bytes;
    create.value_bytes = o_.value_bytes;
    create.expected_records = o_.records;
    create.index = index;
    if (index == Index::gphash) create.layout = layout_named(o_.layout);
    OpenOptions open;
    open.threads = o_.threads;
    file_.remove();
    return require(Store::create(file_.path(), create, open), "create " + file_.path());
  }

  [[nodiscard]] std::unique_ptr<Baseline> open_baseline(BaselineConfig const& config) const {
    std::filesystem::path const directory =
        std::filesystem::path(o_.directory) / ("perdure-bench-rocksdb-" + std::to_string(getpid()));
    return std::make_unique<Baseline>(library_, config, directory, o_.records, o_.key_bytes,
                                      o_.value_bytes, o_.threads, o_.baseline_batch);
  }

  Pass load_baseline(Baseline& baseline, BaselineConfig const& config) {
    RequestStream requests(Workload::load, o_.records, 0, o_.seed);
    Pass pass = baseline_driver_.run(baseline, requests, o_.records);
    if (config.load_ends_settled) pass.seconds += settle(baseline);
    return pass;
  }

  static double settle(Baseline& baseline) {
    auto const begin = std::chrono::steady_clock::now();
    baseline.settle();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// RocksDB has its records by now; those of Perdure come into a pool that keeps keys in order.
  Json compare_scans(BaselineConfig const& config) {
    store_.reset();
    store_ = std::make_unique<Store>(create(Index::btree));
    RequestStream load(Workload::load, o_.records, 0, o_.seed);
    note(Driver(dataset_, o_.batch, MemorySpace::host).run(*store_, load, o_.records));
    return compare_runs(config, Workload::e, o_.theta);
  }

  Json compare_runs(BaselineConfig const& config, Workload workload, double theta) {
    std::vector<double> ours;
    std::vector<double> theirs;
    RequestStream our_requests(workload, o_.records, theta, mix(o_.seed));
    RequestStream their_requests(workload, o_.records, theta, mix(o_.seed));
    Driver driver(dataset_, o_.batch, MemorySpace::host, o_.threads);
    for (std::uint32_t i = 0; i < o_.repeats; ++i) {
      Pass const our = driver.run(*store_, our_requests, ops_of(o_));
      Pass const their = baseline_driver_.run(*baseline_, their_requests, ops_of(o_));
      note(our);
      note(their);
      ours.push_back(our.mops());
      theirs.push_back(their.mops());
    }
    std::string const name = workload == Workload::e ? "E" : "C";
    return row(name + (theta == 0 ? " uniform" : " zipf"), config, ours, theirs);
  }

  static Json row(std::string const& workload, BaselineConfig const& config,
                  std::vector<double> const& ours, std::vector<double> const& theirs) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
    return {{"workload", workload},
            {"rocksdb_config", config.name},
            {"perdure_mops", median(ours)},
            {"rocksdb_mops", median(theirs)},
            {"ratio", median(ratios)},
            {"least_ratio", *std::min_element(ratios.begin(), ratios.end())},
            {"perdure_mops_each", ours},
            {"rocksdb_mops_each", theirs}};
  }

  Options const& o_;
  BaselineLibrary const& library_;
  Dataset dataset_;
  BaselineDriver baseline_driver_;
  PoolFile file_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Baseline> baseline_;
  std::string machine_;
  std::uint64_t faults_ = 0;
  std::string first_fault_;
};

Json tune(Options const& o, Comparison& comparison) {
  std::vector<BaselineConfig> configs;
  if (o.tune.front() == "all") {
    configs = baseline_configs();
  } else {
    for (std::string const& each : o.tune) configs.push_back(baseline_config_named(each));
  }
  Json rows = Json::array();
  std::printf("%-22s %10s %12s %10s %10s\n", "configuration", "load Mops", "settle s", "uniform",
              "zipf");
  for (BaselineConfig const& config : configs) {
    Json const row = comparison.try_config(config);
    std::printf("%-22s %10.3f %12.1f %10.3f %10.3f\n", config.name.c_str(),
                row["load_mops"].get<double>(), row["settle_seconds"].get<double>(),
                row["uniform_mops"].get<double>(), row["zipf_mops"].get<double>());
    std::fflush(stdout);
    rows.push_back(row);
  }
  return rows;
}

Json compare(Options const& o, Comparison& comparison) {
  Json all = Json::array();
  std::printf("%-10s %14s %14s %8s %8s   %s\n", "workload", "Perdure Mops", "RocksDB Mops", "ratio",
              "least", "RocksDB set as");
  for (std::string const& name : o.configs) {
    for (Json const& row : comparison.compare(baseline_config_named(name))) {
      std::printf("%-10s %14.3f %14.3f %8.2f %8.2f   %s\n",
                  row["workload"].get<std::string>().c_str(), row["perdure_mops"].get<double>(),
                  row["rocksdb_mops"].get<double>(), row["ratio"].get<double>(),
                  row["least_ratio"].get<double>(), name.c_str());
      std::fflush(stdout);
      all.push_back(row);
    }
    if (o.scans && !baseline_config_named(name).keeps_order())
      std::printf("%-10s not measured: so set, RocksDB keeps no order of keys   %s\n", "E zipf",
                  name.c_str());
  }
  return all;
}

void check_options(Options const& o) {
  if (!o.scans) return;
  if (std::ranges::none_of(o.configs, [](std::string const& name) {
        return baseline_config_named(name).keeps_order();
      }))
    throw Failure(
        "--scans: none of these configurations keeps keys in order; add block-mmap to "
        "--config");
  check_scan_bytes(Dataset(o.seed, o.key_bytes, o.value_bytes));
}

int run(Options o) {
  check_options(o);
  auto const builds = baseline_builds();
  if (builds.empty()) throw Failure("no RocksDB adapter was built in " PERDURE_ROCKSDB_ADAPTER_DIR);
  if (o.build.empty()) o.build = builds.front();
  BaselineLibrary const library(o.build);
  std::printf("%s; %llu records of %u + %u bytes, %u threads, layout %s\n",
              library.description().c_str(), static_cast<unsigned long long>(o.records),
              o.key_bytes, o.value_bytes, o.threads, o.layout.c_str());
  Comparison comparison(o, library);
  Json const rows = !o.tune.empty() ? tune(o, comparison) : compare(o, comparison);
  if (comparison.faults() > 0) std::printf("FAULT: %s\n", comparison.first_fault().c_str());
  write_json(o.json, {{"command", !o.tune.empty() ? "rocksdb-tune" : "rocksdb"},
                      {"version", version()},
                      {"rocksdb", library.description()},
                      {"rocksdb_assertions", library.has_assertions()},
                      {"machine", comparison.machine()},
                      {"records", o.records},
                      {"ops", ops_of(o)},
                      {"batch", o.batch},
                      {"rocksdb_batch", o.baseline_batch},
                      {"key_bytes", o.key_bytes},
                      {"value_bytes", o.value_bytes},
                      {"theta", o.theta},
                      {"threads", o.threads},
                      {"layout", o.layout},
                      {"repeats", o.repeats},
                      {"faults", comparison.faults()},
                      {"rows", rows}});
  return comparison.faults() == 0 ? kGood : kFaults;
}

int start(int argc, char** argv) {
  Options o;
  CommandLine app(
      "Perdure against RocksDB, in one run on the same cores. Every value read is checked.",
      "perdure-bench-rocksdb", std::string(version()));
  app.add_option("--records", o.records).shows_default().check(positive());
  app.add_option("--ops", o.ops, "Gets, or scans and inserts, a repeat (default: --records)");
  app.add_option("--batch", o.batch, "Perdure's operations a batch")
      .shows_default()
      .check(positive());
  app.add_option("--rocksdb-batch", o.baseline_batch,
                 "RocksDB's operations a WriteBatch or MultiGet")
      .shows_default()
      .check(positive());
  app.add_option("--key-bytes", o.key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o.value_bytes).shows_default().check(positive());
  app.add_option("--theta", o.theta).shows_default().check(range(0.0001, 0.9999));
  app.add_option("--threads", o.threads, "Of each").shows_default().check(positive());
  app.add_option("--repeats", o.repeats).shows_default().check(positive());
  app.add_option("--seed", o.seed).shows_default();
  app.add_option("--build", o.build,
                 "release or distribution (default: release where it was built)")
      .check(one_of({"release", "distribution"}));
  app.add_option("--config", o.configs,
                 "RocksDB's configurations to compare with, with commas between")
      .separated_by(',')
      .shows_default();
  app.add_option("--directory", o.directory, "Where RocksDB's files go, on tmpfs").shows_default();
  app.add_option("--tune", o.tune,
                 "Instead, try these configurations of RocksDB, with commas between, or all")
      .separated_by(',');
  app.add_option("--layout", o.layout, "Perdure's: word, in_place or log").shows_default();
  app.add_flag("--scans", o.scans,
               "YCSB E, too: Perdure's index btree beside configurations that keep keys in order");
  app.add_option("--json", o.json, "Write the results to this file").check(new_file());
  int status = kUsage;
  if (!app.parse(argc, argv, status)) return status;
  return run(o);
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  try {
    return perdure::bench::start(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-bench-rocksdb: %s\n", error.what());
    return perdure::bench::kUsage;
  }
}
