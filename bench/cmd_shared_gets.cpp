// `perdure-bench shared-gets`: gets of a store whose arrays lie in host memory, by its device
// alone, by the host's threads alone, and as OpenOptions::gets_by `measured` has it, by batch size.
// Three stores hold the same records, and take turns.
//
// Invariant: the last batch of every row is checked, value by value.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>

#include "array.hpp"
#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "perdure/store.h"
#include "turns.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 1'000'000;
  std::vector<std::uint32_t> batches{8, 10, 12, 14, 16, 18, 20};
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 8;
  std::vector<std::string> dists{"uniform", "zipf"};
  double theta = 0.99;
  double seconds = 0.2;
  std::string device = "cpu";
  std::string residency = "automatic";
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
  std::string json;
};

char const* name(GetsBy by) {
  switch (by) {
    case GetsBy::host: return "host";
    case GetsBy::both: return "both";
    default: return "device";
  }
}

char const* name(Gather way) {
  switch (way) {
    case Gather::in_order: return "in_order";
    case Gather::by_host: return "by_host";
    case Gather::shared: return "shared";
    default: return "at_once";
  }
}

class Bench {
 public:
  explicit Bench(Options const& o)
      : o_(o),
        largest_(std::size_t{1} << *std::max_element(o.batches.begin(), o.batches.end())),
        drawn_(std::max(4 * largest_, std::size_t{1} << 20)),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        ids_(drawn_),
        keys_(drawn_, o.key_bytes, MemorySpace::host),
        values_(largest_, o.value_bytes, MemorySpace::host) {
    for (GetsBy const by : {GetsBy::host, GetsBy::device, GetsBy::measured}) {
      files_.push_back(std::make_unique<PoolFile>(""));
      stores_.push_back(made(by, files_.back()->path()));
      fill(stores_.back());
    }
  }

  int run() {
    say_what();
    for (std::string const& dist : o_.dists) {
      draw(dist == "zipf" ? o_.theta : 0);
      for (std::uint32_t const log2 : o_.batches) row(dist, std::size_t{1} << log2);
    }
    SharingStats const sharing = stores_[kMeasured].stats().sharing;
    if (!sharing.shared) throw Failure("gets were not shared: " + sharing.note);
    write_json(o_.json, {{"command", "shared-gets"},
                         {"version", version()},
                         {"machine", stores_[kMeasured].stats().machine},
                         {"records", o_.records},
                         {"value_bytes", o_.value_bytes},
                         {"residency", o_.residency},
                         {"faults", faults_},
                         {"rows", rows_}});
    return faults_ == 0 ? kGood : kFaults;
  }

 private:
  static constexpr std::size_t kMeasured = 2;  // of stores_

  Store made(GetsBy by, std::string const& path) {
    CreateOptions make;
    make.key_bytes = o_.key_bytes;
    make.value_bytes = o_.value_bytes;
    make.expected_records = o_.records;
    OpenOptions open;
    open.device = device_named(o_.device);
    open.threads = o_.threads;
    open.gets_by = by;
    open.memory.residency = residency_named(o_.residency);
    return require(Store::create(path, make, open), "create " + path);
  }

  void fill(Store& store) {
    std::size_t const most = std::min(largest_, drawn_);
    for (std::uint64_t first = 0; first < o_.records; first += most) {
      std::size_t const n = std::min<std::uint64_t>(most, o_.records - first);
      on_all_cores(n, [&](std::size_t i) {
        dataset_.write_key(first + i, keys_.host(i));
        dataset_.write_value(first + i, 0, values_.host(i));
      });
      require(store.put(keys_.column(0, n), values_.column(0, n)), "put");
    }
  }

  void draw(double theta) {
    constexpr std::size_t kPart = 1 << 14;
    Zipf const zipf(o_.records, theta);
    Scramble const scramble(o_.records);
    on_all_cores((drawn_ + kPart - 1) / kPart,
                 [&](std::size_t part) {
                   Random random(mix(o_.seed + part));
                   for (std::size_t i = part * kPart; i < std::min(drawn_, (part + 1) * kPart); ++i)
                     ids_[i] = scramble(zipf(random));
                 },
                 2);
    on_all_cores(drawn_, [&](std::size_t i) { dataset_.write_key(ids_[i], keys_.host(i)); });
  }

  void row(std::string const& dist, std::size_t batch) {
    std::size_t at = 0;
    auto const get = [&](std::size_t store, std::span<KeyStatus> statuses) {
      at = at + 2 * batch > drawn_ ? 0 : at + batch;
      require(stores_[store].get(keys_.column(at, batch), values_.output(batch), statuses), "get");
    };
    auto const one = [&](int store) { get(static_cast<std::size_t>(store), {}); };
    for (int const store : {0, 1, 2}) let_settle([&] { one(store); });
    SharedSize const before = size_of(batch);
    Compared const compared = compare_in_turns(batch, o_.seconds, one);
    SharedSize const after = size_of(batch);
    std::atomic<std::uint64_t> faults = 0;
    for (std::size_t store = 0; store < stores_.size(); ++store) {
      std::vector<KeyStatus> statuses(batch, KeyStatus::corrupt);
      get(store, statuses);
      on_all_cores(batch, [&](std::size_t i) {
        if (statuses[i] != KeyStatus::ok || !dataset_.holds(values_.host(i), ids_[at + i], 0))
          ++faults;
      });
    }
    faults_ += faults;
    auto const by_host = [&] { one(0); };
    auto const by_device = [&] { one(1); };
    AfterAnother const host = after_another(by_device, by_host);
    AfterAnother const device = after_another(by_host, by_device);
    Json row = row_of(compared, before, after);
    row["host_first_us"] = host.first * 1e6;
    row["host_later_us"] = host.later * 1e6;
    row["device_first_us"] = device.first * 1e6;
    row["device_later_us"] = device.later * 1e6;
    row["gather"] = gathers(1, batch);
    row["gather_measured"] = gathers(kMeasured, batch);
    add(std::move(row), dist, batch, compared, faults);
  }

  SharedSize size_of(std::size_t batch) {
    SharedSize size;
    for (SharedSize const& one : stores_[kMeasured].stats().sharing.sizes)
      if (one.batch <= batch) size = one;
    return size;
  }

  /// How a store's device fetches values, and what each way took last.
  Json gathers(std::size_t store, std::size_t batch) {
    GatherSize size;
    size.by = Gather::at_once;
    for (GatherSize const& one : stores_[store].stats().gathers)
      if (one.batch <= batch) size = one;
    return {{"by", name(size.by)},
            {"at_once_us", size.at_once_us},
            {"in_order_us", size.in_order_us},
            {"by_host_us", size.by_host_us},
            {"shared_us", size.shared_us},
            {"contests", size.contests}};
  }

  void add(Json row, std::string const& dist, std::size_t batch, Compared const& compared,
           std::uint64_t faults) {
    SharedSize const size = size_of(batch);
    row.update({{"dist", dist},
                {"batch", batch},
                {"by", name(size.by)},
                {"device_share", size.device_share},
                {"host_us", size.host_us},
                {"device_us", size.device_us},
                {"both_us", size.both_us}});
    rows_.push_back(row);
    if (o_.json == "-") return;
    std::printf(
        "%-8s %9zu %9.1f %9.1f %9.1f %7.3f %7.3f  %-6s %.3f  %9.1f %9.1f %9.1f  %.3f  %9.1f %9.1f  "
        "%-8s %-8s%s\n",
        dist.c_str(), batch, compared.alone[0], compared.alone[1], compared.chosen, compared.ratio,
        compared.same, name(size.by), size.device_share, size.host_us, size.device_us, size.both_us,
        row["on_contests"].get<double>(), row["host_first_us"].get<double>(),
        row["host_later_us"].get<double>(), row["gather"]["by"].get<std::string>().c_str(),
        row["gather_measured"]["by"].get<std::string>().c_str(),
        faults > 0 ? "  WRONG ANSWERS" : "");
    std::fflush(stdout);
  }

  void say_what() {
    if (o_.json == "-") return;
    std::printf(
        "%s, %llu records of %u + %u bytes, arrays in host memory; M/s\n%-8s %9s %9s %9s %9s %7s "
        "%7s "
        " "
        "%-6s %s  %9s %9s %9s  %s  %9s %9s  %-8s %s\n",
        stores_[kMeasured].stats().machine.c_str(), static_cast<unsigned long long>(o_.records),
        o_.key_bytes, o_.value_bytes, "dist", "batch", "host", "device", "measured", "ratio",
        "same", "by", "share", "host us", "device us", "both us", "on contests", "host 1st",
        "later", "gather", "measured");
  }

  Options const& o_;
  std::size_t largest_;
  std::size_t drawn_;  // keys that batches take their parts from
  Dataset dataset_;
  std::vector<std::uint64_t> ids_;
  Array keys_, values_;
  std::vector<std::unique_ptr<PoolFile>> files_;
  std::vector<Store> stores_;  // by the host, by the device, as measured
  Json rows_ = Json::array();
  std::uint64_t faults_ = 0;
};

}  // namespace

Command add_shared_gets(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "shared-gets", "Gets by a store's device, by the host's threads, and as measured");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--batches", o->batches, "Keys a batch, as powers of two")
      .separated_by(',')
      .shows_default()
      .check(range(0, 24));
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--dist", o->dists, "uniform, zipf")
      .separated_by(',')
      .shows_default()
      .check(one_of({"uniform", "zipf"}));
  app.add_option("--theta", o->theta, "Skew of zipf").shows_default().check(range(0.0, 0.9999));
  app.add_option("--seconds", o->seconds, "Of each row, by each way")
      .shows_default()
      .check(non_negative());
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--residency", o->residency).shows_default().check(one_of(residency_names()));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return Bench(*o).run(); }};
}

}  // namespace perdure::bench
