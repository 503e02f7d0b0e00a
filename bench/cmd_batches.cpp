// `perdure-bench batches`: gets, misses, skewed gets, inserts, updates and erasures at several
// batch sizes on one store, with arrays where the device has them nearest or in host memory. Of
// each, the median of several samples.
//
// Invariant: the clock runs from a call of the store to its return; keys and values are made and
// moved before, and the last batch of every row is checked, value by value, after.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "array.hpp"
#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "perdure/store.h"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 1'000'000;
  std::vector<std::uint32_t> batches{12, 16, 20};
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  std::string device = "cpu";
  std::string space;
  std::string layout = "word";
  std::string residency = "automatic";
  std::string gather = "automatic";
  std::uint64_t memory_budget = 0;
  double cache = 0;
  std::string cache_policy = "lfu";
  std::uint32_t threads = 0;
  std::uint32_t write_batch = 20;
  std::uint32_t in_flight = 1;
  std::uint32_t repeats = 5;
  std::uint64_t steady = 0;
  double fill = 1;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  std::string pool;
  std::string json;
};

constexpr std::size_t kOpsOfSample = std::size_t{1}
                                     << 22;  // small batches: so many a sample, at most
constexpr std::size_t kWarmUps = 21;  // batches at least
// And until it is decided how gets gather; but no more than so many, and seconds.
constexpr std::size_t kMostWarmUps = 400;
constexpr double kMostWarmUpSeconds = 4;
constexpr std::size_t kDrawn = std::size_t{1} << 14;  // records that one generator draws
constexpr std::size_t kMostChecked = std::size_t{1} << 20;

constexpr std::array<std::pair<char const*, Gather>, 5> kGathers{{{"automatic", Gather::automatic},
                                                                  {"at_once", Gather::at_once},
                                                                  {"in_order", Gather::in_order},
                                                                  {"by_host", Gather::by_host},
                                                                  {"shared", Gather::shared}}};

Gather gather_named(std::string const& text) {
  for (auto const& [called, way] : kGathers)
    if (text == called) return way;
  throw Failure("no way of gathering is called " + text);
}

std::string gather_name(Gather way) {
  for (auto const& [called, other] : kGathers)
    if (way == other) return called;
  throw Failure("a way of gathering has no name");
}

struct Row {
  std::string what;
  std::uint64_t batch = 0;
  std::vector<double> mops;
  std::uint64_t faults = 0;
  std::string gather{};  // how its values were fetched; empty for what has none to fetch
};

class Bench {
 public:
  explicit Bench(Options const& o)
      : o_(o),
        space_((o.space.empty() ? o.device == "cuda" : o.space == "device") ? MemorySpace::device
                                                                            : MemorySpace::host),
        most_(std::size_t{1} << std::max(o.write_batch,
                                         *std::max_element(o.batches.begin(), o.batches.end()))),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        pool_(o.pool),
        ids_(most_),
        keys_(most_, o.key_bytes, space_),
        values_(std::size_t{1} << o.write_batch, o.value_bytes, space_),
        out_(most_, o.value_bytes, space_) {
    for (std::uint32_t t = 1; t < o.in_flight; ++t)
      more_outs_.push_back(std::make_unique<Array>(most_, o.value_bytes, space_));
  }

  int go() {
    Store store = create();
    insert(store);
    auto const uniform = [&](Random& random) { return below(random, o_.records); };
    gets(store, "get, all hit, uniform", uniform, true);
    gets(
        store, "get, all miss",
        [&](Random& random) { return o_.records + below(random, o_.records); }, false);
    Zipf const zipf(o_.records, o_.theta);
    Scramble const scramble(o_.records);
    gets(store, "get, Zipf", [&](Random& random) { return scramble(zipf(random)); }, true);
    updates(store, uniform);
    if (o_.steady > 0) steady_updates(store, uniform);
    erases(store);
    Stats const stats = store.stats();
    require(store.close(), "close");
    print(stats);
    std::uint64_t faults = 0;
    for (Row const& row : rows_) faults += row.faults;
    return faults == 0 ? kGood : kFaults;
  }

 private:
  [[nodiscard]] Store create() {
    CreateOptions make;
    make.key_bytes = o_.key_bytes;
    make.value_bytes = o_.value_bytes;
    make.expected_records = static_cast<std::uint64_t>(static_cast<double>(o_.records) / o_.fill);
    make.layout = layout_named(o_.layout);
    OpenOptions open;
    open.device = device_named(o_.device);
    open.threads = o_.threads;
    open.verify_reads = o_.verify_reads;
    open.memory.residency = residency_named(o_.residency);
    open.memory.gather = gather_named(o_.gather);
    open.memory.budget_bytes = o_.memory_budget;
    if (o_.cache > 0) open.memory.cache_bytes = cache_bytes(o_.cache, o_.records, make);
    open.memory.cache_policy = cache_policy_named(o_.cache_policy);
    return require(Store::create(pool_.path(), make, open), "create " + pool_.path());
  }

  template <class F>
  double timed(F f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// Each generator draws a fixed number, so that they do not depend on how many cores there are.
  template <class Choose>
  void draw_ids(std::size_t n, Choose const& choose) {
    std::size_t const generators = (n + kDrawn - 1) / kDrawn;
    on_all_cores(
        generators,
        [&](std::size_t g) {
          Random random(mix(o_.seed + mix(generators_ + g)));
          for (std::size_t i = g * kDrawn; i < std::min(n, (g + 1) * kDrawn); ++i)
            ids_[i] = choose(random);
        },
        2);
    generators_ += generators;
  }

  void make_keys(std::size_t n) {
    on_all_cores(n, [this](std::size_t i) { dataset_.write_key(ids_[i], keys_.host(i)); });
    keys_.send(n);
  }
  void make_values(std::size_t n, std::uint64_t version) {
    on_all_cores(n, [this, version](std::size_t i) {
      dataset_.write_value(ids_[i], version, values_.host(i));
    });
    values_.send(n);
  }

  double put(Store& store, std::size_t n) {
    return timed([&] { require(store.put(keys_.column(0, n), values_.column(0, n)), "put"); });
  }

  /// Every sample is one fifth (of five repeats) of the records.
  void insert(Store& store) {
    Row row{"insert", std::uint64_t{1} << o_.write_batch, {}, 0};
    std::uint64_t done = 0;
    for (std::uint32_t r = 1; r <= o_.repeats; ++r) {
      std::uint64_t const first = done, end = o_.records * r / o_.repeats;
      double seconds = 0;
      while (done < end) {
        auto const n = static_cast<std::size_t>(std::min(row.batch, end - done));
        for (std::size_t i = 0; i < n; ++i) ids_[i] = done + i;
        make_keys(n);
        make_values(n, 0);
        seconds += put(store, n);
        done += n;
      }
      row.mops.push_back(static_cast<double>(end - first) / seconds * 1e-6);
    }
    rows_.push_back(row);
  }

  template <class Choose>
  void gets(Store& store, std::string const& what, Choose choose, bool hit) {
    auto const draw = [&] {
      draw_ids(most_, choose);
      make_keys(most_);
    };
    if (o_.cache > 0 && hit) load_cache(store, draw);
    draw();
    for (std::uint32_t const log2 : o_.batches) get(store, what, std::size_t{1} << log2, hit);
  }

  /// What the cache learns from: gets drawn like those that will be measured, but not the same
  /// ones.
  template <class Draw>
  void load_cache(Store& store, Draw draw) {
    // This load forgets what other rows got.
    static_cast<void>(require(store.load_cache(), "load the cache"));
    std::size_t const n = std::min(most_, std::size_t{1} << 18);
    for (std::uint64_t done = 0; done < 4 * o_.records;) {
      draw();
      for (std::size_t at = 0; at + n <= most_; at += n, done += n)
        require(store.get(keys_.column(at, n), out_.output(n), {}), "get");
    }
    CacheReport const report = require(store.load_cache(), "load the cache");
    std::printf("  cache: %llu records, %.1f MB, loaded in %.4f s\n",
                static_cast<unsigned long long>(report.records),
                static_cast<double>(report.bytes) * 1e-6, report.seconds);
    if (report.corrupt > 0) throw Failure("the cache found corrupt records");
  }

  static std::optional<GatherSize> gathers_of(Store& store, std::size_t n) {
    for (GatherSize const& one : store.stats().gathers)
      if (n / 2 < one.batch && n >= one.batch) return one;
    return std::nullopt;
  }

  /// Which way stays for batches of n keys, and what each took that was tried.
  static std::string gather_of(Store& store, std::size_t n) {
    auto const one = gathers_of(store, n);
    if (!one) return "";
    std::string text = gather_name(one->by);
    for (auto const& [way, us] : {std::pair{Gather::at_once, one->at_once_us},
                                  {Gather::in_order, one->in_order_us},
                                  {Gather::by_host, one->by_host_us},
                                  {Gather::shared, one->shared_us}})
      if (us > 0) text += " " + gather_name(way) + "=" + std::to_string(std::llround(us));
    return one->learning ? text + " (not decided yet)" : text;
  }

  /// Batches go until it is decided how their values are gathered, as a program's would that has
  /// run for a while.
  template <class One>
  void warm_up(Store& store, std::size_t n, One one) {
    auto const begin = std::chrono::steady_clock::now();
    auto const late = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >
             kMostWarmUpSeconds;
    };
    auto const is_learning = [&] {
      auto const gathers = gathers_of(store, n);
      return gathers && gathers->learning;
    };
    for (std::size_t k = 0; k < kWarmUps || (k < kMostWarmUps && !late() && is_learning()); ++k)
      one(k);
  }

  void get(Store& store, std::string const& what, std::size_t n, bool hit) {
    std::size_t const slices = most_ / n;
    auto const one = [&](Array& out, std::size_t k, std::span<KeyStatus> statuses) {
      require(store.get(keys_.column(k % slices * n, n), out.output(n), statuses), "get");
    };
    warm_up(store, n, [&](std::size_t k) { one(out_, k, {}); });
    Row row{what, n, {}, 0};
    std::size_t const calls =
        std::max<std::size_t>(o_.in_flight, std::min(kOpsOfSample, most_) / n);
    for (std::uint32_t r = 0; r < o_.repeats; ++r) {
      double const seconds = timed([&] {
        std::vector<std::jthread> others;
        auto const share = [&](Array& out, std::size_t first) {
          for (std::size_t k = first; k < calls; k += o_.in_flight) one(out, k, {});
        };
        for (std::size_t t = 1; t < o_.in_flight; ++t)
          others.emplace_back([&, t] { share(*more_outs_[t - 1], t); });
        share(out_, 0);
      });
      row.mops.push_back(static_cast<double>(calls * n) / seconds * 1e-6);
    }
    row.gather = gather_of(store, n);
    std::vector<KeyStatus> statuses(n, KeyStatus::corrupt);
    one(out_, slices - 1, statuses);
    check(row, statuses, (slices - 1) * n, hit);
    rows_.push_back(row);
  }

  void check(Row& row, std::vector<KeyStatus> const& statuses, std::size_t first, bool hit,
             std::uint64_t version = 0) {
    out_.fetch(statuses.size());
    std::size_t const step = std::max<std::size_t>(1, statuses.size() / kMostChecked);
    std::atomic<std::uint64_t> faults = 0;
    on_all_cores(statuses.size() / step, [&](std::size_t k) {
      std::size_t const i = k * step;
      bool const good = hit ? statuses[i] == KeyStatus::ok &&
                                  dataset_.holds(out_.host(i), ids_[first + i], version)
                            : statuses[i] == KeyStatus::not_found;
      if (!good) ++faults;
    });
    row.faults += faults;
  }

  template <class Choose>
  void updates(Store& store, Choose choose) {
    std::size_t const n = std::size_t{1} << o_.write_batch;
    Row row{"update", n, {}, 0};
    for (std::uint32_t r = 0; r <= o_.repeats; ++r) {
      draw_ids(n, choose);
      make_keys(n);
      make_values(n, 0);
      double const seconds = put(store, n);
      if (r > 0) row.mops.push_back(static_cast<double>(n) / seconds * 1e-6);
    }
    std::vector<KeyStatus> statuses(n, KeyStatus::corrupt);
    require(store.get(keys_.column(0, n), out_.output(n), statuses), "get");
    check(row, statuses, 0, true);
    rows_.push_back(row);
  }

  /// All records are written anew, many times over, by batches that were made before: later ones
  /// take what earlier ones freed. A sample is a tenth of the operations.
  template <class Choose>
  void steady_updates(Store& store, Choose choose) {
    std::size_t const n = std::size_t{1} << o_.write_batch;
    std::uint64_t const batches = std::max<std::uint64_t>(1, o_.records / n);
    std::vector<std::pair<Array, Array>> made;
    for (std::uint64_t version = 1; version <= batches; ++version) {
      draw_ids(n, choose);
      auto& [keys, values] =
          made.emplace_back(Array(n, o_.key_bytes, space_), Array(n, o_.value_bytes, space_));
      on_all_cores(n, [&](std::size_t i) {
        dataset_.write_key(ids_[i], keys.host(i));
        dataset_.write_value(ids_[i], version, values.host(i));
      });
      keys.send(n);
      values.send(n);
    }
    Row row{"update, steady", n, {}, 0};
    constexpr std::uint64_t kSamples = 10;
    for (std::uint64_t r = 0; r < kSamples; ++r) {
      std::uint64_t done = 0;
      double const seconds = timed([&] {
        for (; done < o_.steady / kSamples; done += batches * n)
          for (auto& [keys, values] : made)
            require(store.put(keys.column(0, n), values.column(0, n)), "put");
      });
      row.mops.push_back(static_cast<double>(done) / seconds * 1e-6);
    }
    std::vector<KeyStatus> statuses(n, KeyStatus::corrupt);
    require(store.get(made.back().first.column(0, n), out_.output(n), statuses), "get");
    check(row, statuses, 0, true, batches);
    rows_.push_back(row);
  }

  /// The last thing done: every batch takes other records away, until half of them are gone.
  void erases(Store& store) {
    std::size_t const n = std::min<std::uint64_t>(std::uint64_t{1} << o_.write_batch,
                                                  std::max<std::uint64_t>(1, o_.records / 2));
    Row row{"erase", n, {}, 0};
    for (std::uint64_t done = 0; done + n <= o_.records / 2 + 1 && row.mops.size() < o_.repeats;
         done += n) {
      for (std::size_t i = 0; i < n; ++i) ids_[i] = done + i;
      make_keys(n);
      double const seconds = timed([&] { require(store.erase(keys_.column(0, n)), "erase"); });
      row.mops.push_back(static_cast<double>(n) / seconds * 1e-6);
    }
    std::vector<KeyStatus> statuses(n, KeyStatus::corrupt);
    require(store.get(keys_.column(0, n), out_.output(n), statuses), "get");
    check(row, statuses, 0, false);
    rows_.push_back(row);
  }

  void print(Stats const& stats) const {
    std::printf(
        "%s, %llu records of %u+%u bytes, arrays in %s memory, layout %s, mirror %.1f MB%s%s\n",
        stats.machine.c_str(), static_cast<unsigned long long>(o_.records), o_.key_bytes,
        o_.value_bytes, space_ == MemorySpace::device ? "GPU" : "host", o_.layout.c_str(),
        static_cast<double>(stats.memory.mirror_bytes) * 1e-6,
        stats.memory.note.empty() ? "" : ", without ", stats.memory.note.c_str());
    Json list = Json::array();
    for (Row const& row : rows_) {
      double const middle = median(row.mops);
      std::printf("  %-22s 2^%-2d %9.1f M/s%s%s%s\n", row.what.c_str(),
                  static_cast<int>(std::bit_width(row.batch)) - 1, middle,
                  row.faults > 0 ? "  WRONG ANSWERS" : "", row.gather.empty() ? "" : "  by ",
                  row.gather.c_str());
      list.push_back({{"what", row.what},
                      {"batch", row.batch},
                      {"mops", middle},
                      {"samples", row.mops},
                      {"faults", row.faults},
                      {"gather", row.gather}});
    }
    write_json(o_.json, {{"command", "batches"},
                         {"version", version()},
                         {"machine", stats.machine},
                         {"records", o_.records},
                         {"layout", o_.layout},
                         {"residency", o_.residency},
                         {"gather", o_.gather},
                         {"in_flight", o_.in_flight},
                         {"fill", o_.fill},
                         {"cache", o_.cache},
                         {"cache_records", stats.memory.cache_records},
                         {"space", space_ == MemorySpace::device ? "device" : "host"},
                         {"mirror_bytes", stats.memory.mirror_bytes},
                         {"load_factor", stats.load_factor},
                         {"rows", list}});
  }

  Options const& o_;
  MemorySpace space_;
  std::size_t most_;
  Dataset dataset_;
  PoolFile pool_;
  std::vector<std::uint64_t> ids_;
  Array keys_, values_, out_;
  std::vector<std::unique_ptr<Array>> more_outs_;
  std::uint64_t generators_ = 0;  // that drew records so far
  std::vector<Row> rows_;
};

}  // namespace

Command add_batches(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "batches", "Gets, misses, inserts, updates and erasures at several batch sizes");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--batches", o->batches, "Operations a batch of gets, as powers of two")
      .separated_by(',')
      .shows_default()
      .check(range(0, 28));
  app.add_option("--write-batch", o->write_batch, "Of inserts, updates and erasures, likewise")
      .shows_default()
      .check(range(0, 28));
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--theta", o->theta, "Skew of the Zipfian gets")
      .shows_default()
      .check(range(0.0, 0.9999));
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--arrays", o->space,
                 "Where keys and values lie: host or device (default: device with cuda)")
      .check(one_of({"host", "device"}));
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--residency", o->residency).shows_default().check(one_of(residency_names()));
  app.add_option("--gather", o->gather)
      .shows_default()
      .check(one_of({"automatic", "at_once", "in_order", "by_host", "shared"}));
  app.add_option("--memory-budget", o->memory_budget,
                 "Bytes of the device's memory; 0 = most of what is free");
  app.add_option(
         "--cache", o->cache,
         "Share of the records (layout in_place: of the buckets) that the cache has room for")
      .shows_default()
      .check(range(0.0, 2.0));
  app.add_option("--cache-policy", o->cache_policy)
      .shows_default()
      .check(one_of(cache_policy_names()));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--in-flight", o->in_flight,
                 "Batches of gets at a time, each from a thread of its own")
      .shows_default()
      .check(range(1, 16));
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_flag("--verify-reads,!--no-verify-reads", o->verify_reads,
               "Check each record's checksum (default: yes)");
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--steady", o->steady,
                 "So many updates more, of all records over and over; 0 = none");
  app.add_option("--fill", o->fill, "Share of the pool's room that the records take")
      .shows_default()
      .check(range(0.1, 1.0));
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return Bench(*o).go(); }};
}

}  // namespace perdure::bench
