// `perdure-bench calls`: what single calls take, by their size. A mixed batch of YCSB A (apply)
// stands beside the same requests as two calls, their gets and their writes; an atomic put beside a
// plain one.
//
// Invariants: the ways of a row, but for atomic puts, take turns, batch by batch; the clock runs
// from a call to its return; every answer of every batch is checked, and in the end every record.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

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
  std::vector<std::uint64_t> batches{256, 4096, 65536, 1048576};
  std::uint32_t value_bytes = 128;
  double theta = 0.99;
  std::string device = "cpu";
  std::uint32_t threads = 0;
  std::uint32_t repeats = 15;
  std::uint32_t warm_ups = 21;
  std::uint64_t steady = 0;
  std::size_t steady_batch = 4096;
  std::uint64_t seed = 1;
  bool adds = false;
  std::string pool;
  std::string json;
};

constexpr std::uint32_t kKeyBytes = 8;

/// Some of a batch's requests, as arrays.
struct Part {
  Part(std::size_t most, std::uint32_t value_bytes, MemorySpace space)
      : keys(most, kKeyBytes, space),
        values(most, value_bytes, space),
        out(most, value_bytes, space) {}
  Array keys, values, out;
  std::vector<Request> requests;
  std::vector<OpKind> kinds;
  std::vector<KeyStatus> statuses;

  [[nodiscard]] std::size_t n() const { return requests.size(); }
};

class Bench {
 public:
  explicit Bench(Options const& o)
      : o_(o),
        space_(o.device == "cuda" ? MemorySpace::device : MemorySpace::host),
        most_(std::max(*std::ranges::max_element(o.batches),
                       std::uint64_t{o.steady > 0 ? o.steady_batch : 0})),
        dataset_(o.seed, kKeyBytes, o.value_bytes),
        pool_(o.pool),
        stream_(Workload::a, o.records, o.theta, o.seed),
        random_(o.seed),
        all_(most_, o.value_bytes, space_),
        gets_(most_, o.value_bytes, space_),
        writes_(most_, o.value_bytes, space_) {}

  int go() {
    CreateOptions make;
    make.key_bytes = kKeyBytes;
    make.value_bytes = o_.value_bytes;
    make.expected_records = o_.records;
    OpenOptions open;
    open.device = device_named(o_.device);
    open.threads = o_.threads;
    Store store = require(Store::create(pool_.path(), make, open), "create " + pool_.path());
    load(store);
    std::printf("%s, %llu records of 8+%u bytes, medians of %u calls, us\n",
                store.stats().machine.c_str(), static_cast<unsigned long long>(o_.records),
                o_.value_bytes, o_.repeats);
    std::printf("%9s %10s %10s %10s | %10s %10s %10s %6s\n", "batch", "get", "put", "atomic put",
                "A's gets", "its puts", "A mixed", "ratio");
    for (std::uint64_t const n : o_.batches) row(store, n);
    Json const steady = o_.steady > 0 ? steady_mix(store) : Json();
    read_back(store);
    require(store.close(), "close");
    write_json(o_.json, {{"command", "calls"},
                         {"version", version()},
                         {"device", o_.device},
                         {"records", o_.records},
                         {"faults", faults_},
                         {"rows", rows_},
                         {"steady", steady}});
    if (faults_ > 0) std::printf("WRONG ANSWERS: %llu\n", static_cast<unsigned long long>(faults_));
    return faults_ == 0 ? kGood : kFaults;
  }

 private:
  template <class F>
  static double us(F f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  /// A part's arrays, of its requests.
  void make(Part& part) {
    std::size_t const n = part.n();
    part.kinds.resize(n);
    part.statuses.assign(n, KeyStatus::corrupt);
    on_all_cores(n, [&](std::size_t i) {
      Request const& r = part.requests[i];
      part.kinds[i] = r.action == Action::read ? OpKind::get : OpKind::put;
      dataset_.write_key(r.id, part.keys.host(i));
      if (r.action == Action::write) dataset_.write_value(r.id, r.version, part.values.host(i));
    });
    part.keys.send(n);
    part.values.send(n);
  }

  /// Of each request whether it came to what it says.
  void check(Part& part) {
    part.out.fetch(part.n());
    for (std::size_t i = 0; i < part.n(); ++i) {
      Request const& r = part.requests[i];
      bool const good =
          part.statuses[i] == KeyStatus::ok &&
          (r.action != Action::read || dataset_.holds(part.out.host(i), r.id, r.version));
      faults_ += good ? 0 : 1;
    }
  }

  void load(Store& store) {
    for (std::uint64_t done = 0; done < o_.records; done += all_.n()) {
      all_.requests.resize(std::min<std::uint64_t>(most_, o_.records - done));
      for (std::size_t i = 0; i < all_.n(); ++i) all_.requests[i] = {done + i, 0, Action::write};
      make(all_);
      put(store, all_, false);
    }
  }
  void read_back(Store& store) {
    for (std::uint64_t done = 0; done < o_.records; done += all_.n()) {
      all_.requests.resize(std::min<std::uint64_t>(most_, o_.records - done));
      for (std::size_t i = 0; i < all_.n(); ++i)
        all_.requests[i] = {done + i, versions_of(done + i), Action::read};
      make(all_);
      get(store, all_);
      check(all_);
    }
  }

  double get(Store& store, Part& part) {
    std::size_t const n = part.n();
    return us([&] {
      require(store.get(part.keys.column(0, n), part.out.output(n), part.statuses), "get");
    });
  }
  double put(Store& store, Part& part, bool atomic) {
    std::size_t const n = part.n();
    CallOptions how;
    how.atomic = atomic;
    return us([&] {
      require(store.put(part.keys.column(0, n), part.values.column(0, n), part.statuses, how),
              "put");
    });
  }
  double apply(Store& store, Part& part) {
    std::size_t const n = part.n();
    MixedBatch batch;
    batch.keys = part.keys.column(0, n);
    batch.kinds = part.kinds;
    batch.values = part.values.column(0, n);
    batch.out = part.out.output(n);
    if (o_.adds) {
      batch.rmw = Rmw::add;
      batch.element = Element::u64;
    }
    return us([&] { require(store.apply(batch, part.statuses), "apply"); });
  }

  /// Uniform, of records that are there; puts leave the version that the record has.
  void draw_uniform(std::size_t n, Action action) {
    all_.requests.resize(n);
    for (Request& r : all_.requests) {
      r.id = below(random_, o_.records);
      r.version = versions_of(r.id);
      r.action = action;
    }
    make(all_);
  }

  [[nodiscard]] std::uint32_t versions_of(std::uint64_t id) const { return stream_.version(id); }

  /// The next requests of YCSB A, and them apart: gets that come before the writes.
  void draw_mixed(std::size_t n) {
    all_.requests.resize(n);
    stream_.fill(all_.requests);
    std::unordered_map<std::uint64_t, std::uint32_t> before;
    for (Request const& r : all_.requests)
      before.try_emplace(r.id, r.action == Action::read ? r.version : r.version - 1);
    gets_.requests.clear();
    writes_.requests.clear();
    for (Request const& r : all_.requests) {
      if (r.action == Action::read)
        gets_.requests.push_back({r.id, before[r.id], Action::read});
      else
        writes_.requests.push_back(r);
    }
    make(all_);
    make(gets_);
    make(writes_);
  }

  struct Times {
    std::vector<double> get, put, atomic, gets, puts, mixed;
  };

  void row(Store& store, std::size_t n) {
    Times times;
    for (std::uint32_t r = 0; r < o_.warm_ups + o_.repeats; ++r) {
      if (r == o_.warm_ups) times = {};
      uniform(store, n, times);
      mixed(store, n, times);
    }
    // By themselves, so that plain calls do not pay for what these change.
    for (std::uint32_t r = 0; r < o_.warm_ups + o_.repeats; ++r) {
      if (r == o_.warm_ups) times.atomic.clear();
      draw_uniform(n, Action::write);
      times.atomic.push_back(put(store, all_, true));
      check(all_);
    }
    print(n, times);
  }

  void uniform(Store& store, std::size_t n, Times& times) {
    draw_uniform(n, Action::read);
    times.get.push_back(get(store, all_));
    check(all_);
    draw_uniform(n, Action::write);
    times.put.push_back(put(store, all_, false));
    check(all_);
  }

  void mixed(Store& store, std::size_t n, Times& times) {
    draw_mixed(n);
    times.gets.push_back(get(store, gets_));
    times.puts.push_back(put(store, writes_, false));
    check(gets_);
    check(writes_);
    draw_mixed(n);
    times.mixed.push_back(apply(store, all_));
    check(all_);
  }

  /// Mixed batches of one size, one after the other, as long as asked: how long the slowest take.
  Json steady_mix(Store& store) {
    std::vector<double> times;
    for (std::uint64_t i = 0; i < o_.warm_ups + o_.steady; ++i) {
      draw_mixed(o_.steady_batch);
      double const one = apply(store, all_);
      check(all_);
      if (i >= o_.warm_ups) times.push_back(one);
    }
    double const p50 = percentile(times, 0.5), p99 = percentile(times, 0.99),
                 p999 = percentile(times, 0.999), most = percentile(times, 1);
    std::printf(
        "%zu mixed batches of %zu: median %.1f, p99 %.1f, p99.9 %.1f (%.2f medians), max %.1f us\n",
        times.size(), o_.steady_batch, p50, p99, p999, p999 / p50, most);
    return {{"batch", o_.steady_batch}, {"batches", times.size()}, {"p50_us", p50}, {"p99_us", p99},
            {"p999_us", p999},          {"max_us", most}};
  }

  void print(std::size_t n, Times const& times) {
    double const gets = median(times.gets), puts = median(times.puts), mixed = median(times.mixed);
    double const get = median(times.get), put = median(times.put), atomic = median(times.atomic);
    std::printf("%9zu %10.1f %10.1f %10.1f | %10.1f %10.1f %10.1f %6.3f\n", n, get, put, atomic,
                gets, puts, mixed, (gets + puts) / mixed);
    rows_.push_back({{"batch", n},
                     {"get_us", get},
                     {"put_us", put},
                     {"atomic_put_us", atomic},
                     {"a_gets_us", gets},
                     {"a_puts_us", puts},
                     {"a_mixed_us", mixed},
                     {"apart_over_mixed", (gets + puts) / mixed}});
  }

  Options const& o_;
  MemorySpace space_;
  std::size_t most_;
  Dataset dataset_;
  PoolFile pool_;
  RequestStream stream_;
  Random random_;
  Part all_, gets_, writes_;
  std::uint64_t faults_ = 0;
  Json rows_ = Json::array();
};

}  // namespace

Command add_calls(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "calls", "Single calls by their size: gets, puts, atomic puts, and YCSB A mixed and apart");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--batches", o->batches, "Operations a call").separated_by(',').shows_default();
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--theta", o->theta, "Skew of YCSB A").shows_default().check(range(0.0, 0.9999));
  app.add_option("--device", o->device, "cpu or cuda; its memory has the arrays").shows_default();
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--warm-ups", o->warm_ups, "Batches before them").shows_default();
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--steady", o->steady,
                 "Mixed batches of one size, one after the other, behind the rows")
      .shows_default();
  app.add_option("--steady-batch", o->steady_batch, "Operations of each of those")
      .shows_default()
      .check(positive());
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag("--adds", o->adds, "Mixed batches say that updates add, though they have none");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return Bench(*o).go(); }};
}

}  // namespace perdure::bench
