// `perdure-bench ordered`: Perdure's B+-tree beside other ordered maps in DRAM, by threads. Each
// repeat fills a map anew, and then puts new keys, gets keys that are there, one by one and many in
// a call, and scans.
//
// Invariants: the clock runs from when all threads may begin to when the last has ended; a value
// follows from its key, so every answer is checked; of maps that are compared, repeats follow each
// other in turn.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "index_keys.hpp"
#include "ordered_baseline.hpp"

namespace perdure::bench {
namespace {

namespace ob = ordered_baselines;
using Clock = std::chrono::steady_clock;

char const* const kWorkloads[] = {"put", "get", "get-many", "scan"};  // in this order

struct Options {
  std::vector<std::string> maps = ob::names();
  std::uint64_t records = 1'000'000;
  std::uint64_t ops = 500'000;
  std::uint64_t scanned = 100;
  std::vector<std::uint32_t> threads{1, 2};
  std::vector<std::string> workloads{std::begin(kWorkloads), std::end(kWorkloads)};
  std::uint32_t repeats = 3;
  std::uint64_t seed = 1;
  std::string json;
};

/// Keys that a thread gives to a map in one call.
constexpr std::size_t kChunk = 256;

std::uint64_t key_of(std::uint64_t number) { return IndexKeys::mixed(number + 1); }
std::uint64_t value_of(std::uint64_t key) { return IndexKeys::value(key); }
/// Of so many keys whose sum this is.
std::uint64_t sum_of_values(std::uint64_t count, std::uint64_t keys) {
  return value_of(keys) + count - 1;  // value_of is linear, and adds 1
}

/// One map, filled.
class Filled {
 public:
  Filled(Options const& o, std::string const& name, std::uint32_t threads, std::uint64_t seed)
      : o_(o), threads_(threads), seed_(seed) {
    auto made = ob::create(name, o.records + o.ops, threads);
    require(made.status(), name);
    map_ = std::move(*made);
    static_cast<void>(side_by_side([&](std::uint64_t from, std::uint64_t to, std::uint64_t&) {
      return put(0, o_.records, from, to);
    }));
  }

  /// Million operations a second.
  double run(std::string const& workload) {
    std::uint64_t const operations = workload == "scan" ? o_.ops / 20 : o_.ops;
    double const seconds =
        side_by_side([&](std::uint64_t thread, std::uint64_t of, std::uint64_t& random) {
          if (workload == "put") return put(o_.records, o_.ops, thread, of);
          std::uint64_t const n = operations * (thread + 1) / of - operations * thread / of;
          return workload == "scan" ? scan(n, random) : get(n, random, workload == "get-many");
        });
    checked_ += operations;
    return static_cast<double>(operations) / seconds * 1e-6;
  }
  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

 private:
  /// work(thread, threads, random) answers how many faults it saw. Seconds.
  template <class Work>
  double side_by_side(Work work) {
    std::vector<Clock::time_point> ends(threads_);
    Clock::time_point begin;
    std::barrier ready(static_cast<std::ptrdiff_t>(threads_),
                       [&]() noexcept { begin = Clock::now(); });
    {
      std::vector<std::jthread> all;
      for (std::uint32_t t = 0; t < threads_; ++t) {
        all.emplace_back([&, t] {
          std::uint64_t random = IndexKeys::mixed(seed_ * 64 + t + 1);
          ready.arrive_and_wait();
          faults_ += work(t, threads_, random);
          ends[t] = Clock::now();
        });
      }
    }
    auto const last = *std::max_element(ends.begin(), ends.end());
    return std::chrono::duration<double>(last - begin).count();
  }

  /// This thread's part of keys first .. first + count - 1.
  std::uint64_t put(std::uint64_t first, std::uint64_t count, std::uint64_t thread,
                    std::uint64_t of) {
    std::vector<std::uint64_t> keys, values;
    std::uint64_t faults = 0;
    for (std::uint64_t n = count * thread / of, end = count * (thread + 1) / of; n < end; ++n) {
      keys.push_back(key_of(first + n));
      values.push_back(value_of(keys.back()));
      if (keys.size() < kChunk && n + 1 < end) continue;
      faults += !map_->put(keys, values);
      keys.clear();
      values.clear();
    }
    return faults;
  }
  std::uint64_t some_key(std::uint64_t& random) const {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return key_of((random >> 20) % o_.records);
  }
  std::uint64_t get(std::uint64_t n, std::uint64_t& random, bool many) {
    std::vector<std::uint64_t> keys(kChunk), values(kChunk);
    std::uint64_t faults = 0;
    while (n > 0) {
      keys.resize(std::min<std::uint64_t>(n, kChunk));
      values.resize(keys.size());
      n -= keys.size();
      for (std::uint64_t& key : keys) key = some_key(random);
      faults += keys.size() - (many ? map_->get_many(keys, values) : map_->get(keys, values));
      for (std::size_t i = 0; i < keys.size(); ++i) faults += values[i] != value_of(keys[i]);
    }
    return faults;
  }
  std::uint64_t scan(std::uint64_t n, std::uint64_t& random) {
    std::uint64_t faults = 0;
    for (; n > 0; --n) {
      ob::Scanned const seen = map_->scan(some_key(random), o_.scanned);
      faults += seen.count == 0 || seen.values != sum_of_values(seen.count, seen.keys);
    }
    return faults;
  }

  Options const& o_;
  std::uint32_t threads_;
  std::uint64_t seed_;
  std::unique_ptr<ob::Map> map_;
  std::uint64_t checked_ = 0;
  std::atomic<std::uint64_t> faults_{0};
};

/// All repeats of one map.
struct Figures {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<double>> mops;
  std::uint64_t checked = 0, faults = 0;
};

Json report(std::string const& name, Figures const& figures) {
  Json rows = Json::array();
  for (auto const& [what, each] : figures.mops)
    rows.push_back({{"workload", what.first},
                    {"threads", what.second},
                    {"mops", median(each)},
                    {"mops_each", each}});
  return {{"system", name},
          {"remark", ob::remark(name)},
          {"checked", figures.checked},
          {"faults", figures.faults},
          {"rows", rows}};
}

void print(Json const& r) {
  std::string const remark = r["remark"].get<std::string>();
  std::printf("%s%s%s%s: %s answers checked, %s wrong%s\n", r["system"].get<std::string>().c_str(),
              remark.empty() ? "" : " (", remark.c_str(), remark.empty() ? "" : ")",
              r["checked"].dump().c_str(), r["faults"].dump().c_str(),
              r["faults"] == 0 ? "" : "  FAULT");
  for (Json const& row : r["rows"])
    std::printf("  %-9s %3s threads  %8.3f Mop/s\n", row["workload"].get<std::string>().c_str(),
                row["threads"].dump().c_str(), row["mops"].get<double>());
}

int run(Options const& o) {
  std::map<std::string, Figures> all;
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat) {
    for (std::uint32_t const threads : o.threads) {
      for (std::string const& name : o.maps) {
        Filled map(o, name, threads, o.seed + repeat);
        for (char const* workload : kWorkloads)
          if (std::find(o.workloads.begin(), o.workloads.end(), workload) != o.workloads.end())
            all[name].mops[{workload, threads}].push_back(map.run(workload));
        all[name].checked += map.checked();
        all[name].faults += map.faults();
      }
    }
  }
  Json systems = Json::array();
  bool good = true;
  for (std::string const& name : o.maps) {
    systems.push_back(report(name, all[name]));
    if (o.json != "-") print(systems.back());
    good = good && all[name].faults == 0;
  }
  write_json(o.json, {{"command", "ordered"},
                      {"version", version()},
                      {"records", o.records},
                      {"ops", o.ops},
                      {"scanned", o.scanned},
                      {"repeats", o.repeats},
                      {"cores", std::thread::hardware_concurrency()},
                      {"systems", systems}});
  return good ? kGood : kFaults;
}

}  // namespace

Command add_ordered(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "ordered", "The B+-tree beside other ordered maps in DRAM, by threads");
  app.add_option("--map", o->maps, "Maps, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(ob::names()));
  app.add_option("--records", o->records, "Keys to begin with").shows_default().check(positive());
  app.add_option("--ops", o->ops, "Operations a workload; scans are a twentieth of it")
      .shows_default()
      .check(positive());
  app.add_option("--scanned", o->scanned, "Keys that a scan visits")
      .shows_default()
      .check(positive());
  app.add_option("--threads", o->threads, "Numbers of threads, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--workload", o->workloads, "put, get, get-many, scan")
      .separated_by(',')
      .shows_default()
      .check(one_of(std::vector<std::string>(std::begin(kWorkloads), std::end(kWorkloads))));
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
