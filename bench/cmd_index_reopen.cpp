// `perdure-bench index-reopen`: how long tables take until they answer again after their process
// was killed while it inserted (table 1 of Dash's paper), and how their throughput comes back
// (figure 14): Dash makes segments sound as they are reached.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "cpu_baseline.hpp"
#include "index_keys.hpp"
#include "killed_child.hpp"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> indexes{"dash-eh", "dash-lh", "cceh", "level"};
  std::vector<std::uint64_t> records{250'000, 1'000'000, 4'000'000};
  std::uint32_t threads = 1;
  std::string host = "flushed";
  double seconds = 1;
  std::uint32_t window_ms = 10;
  std::uint32_t repeats = 1;
  std::string pool;
  std::string json;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

cpu_baselines::Options table_options(std::string const& index, std::uint64_t records) {
  cpu_baselines::Options options;
  options.index = index;
  options.reserve_bytes = pool_bytes_for(records, false);
  options.max_bytes = 8 * options.reserve_bytes;
  options.emulated_cache_bytes = emulated_cache_bytes_for(records);
  return options;
}

/// Loads, and goes on inserting until it is killed.
void load_and_go_on(cpu_baselines::Options const& options, std::string const& path,
                    std::uint64_t records) {
  static std::unique_ptr<cpu_baselines::Table> table;  // it ends with its process
  table = require(cpu_baselines::create(path, options), "create " + path);
  static std::unique_ptr<cpu_baselines::Session> session;
  session = table->session(cpu_baselines::HostKind::flushed);
  auto const insert = [](std::uint64_t from, std::uint64_t to) {
    IndexKeys const keys(false);
    for (std::uint64_t n = from; n < to; ++n) {
      session->pin();
      if (session->insert(keys.key(n), IndexKeys::value(n)) != cpu_baselines::Outcome::done)
        throw Failure("insert: " + table->why_full().message());
      session->unpin();
    }
  };
  insert(0, records);
  std::thread([insert, records] { insert(records, 2 * records); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

struct Worker {
  std::vector<std::atomic<std::uint64_t>> done;  // by window
  std::uint64_t checked = 0, faults = 0;
  explicit Worker(std::size_t windows) : done(windows) {}
};

void search_until(Options const& o, cpu_baselines::Table& table, std::uint64_t records,
                  std::uint64_t seed, Clock::time_point begin, Worker& worker) {
  auto const session = table.session(host_named(o.host));
  IndexKeys const keys(false);
  std::uint64_t state = IndexKeys::mixed(seed);
  for (;;) {
    session->pin();
    std::uint64_t const n = IndexKeys::mixed(++state) % records;
    std::uint64_t value = 0;
    worker.faults += session->find(keys.key(n), value) != cpu_baselines::Outcome::done ||
                     value != IndexKeys::value(n);
    session->unpin();
    ++worker.checked;
    auto const window = static_cast<std::size_t>(seconds_since(begin) * 1e3 / o.window_ms);
    if (window >= worker.done.size()) return;
    worker.done[window].fetch_add(1, std::memory_order_relaxed);
  }
}

Json reopen(Options const& o, std::string const& index, std::uint64_t records) {
  PoolFile const file(o.pool);
  cpu_baselines::Options const options = table_options(index, records);
  run_and_kill([&] { load_and_go_on(options, file.path(), records); });
  auto const begin = Clock::now();
  auto const table = require(cpu_baselines::open(file.path(), options), "open " + file.path());
  double const open_seconds = seconds_since(begin);
  cpu_baselines::OpenTimes const times = table->open_times();

  std::vector<std::unique_ptr<Worker>> workers;
  auto const windows = static_cast<std::size_t>(o.seconds * 1e3 / o.window_ms);
  for (std::uint32_t t = 0; t < o.threads; ++t)
    workers.push_back(std::make_unique<Worker>(windows));
  auto const online = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < o.threads; ++t)
      threads.emplace_back(
          [&, t] { search_until(o, *table, records, t + 1, online, *workers[t]); });
  }
  Json curve = Json::array();
  std::uint64_t checked = 0, faults = 0;
  for (std::size_t w = 0; w < windows; ++w) {
    std::uint64_t done = 0;
    for (auto const& worker : workers) done += worker->done[w].load();
    curve.push_back({static_cast<double>((w + 1) * o.window_ms) * 1e-3,
                     static_cast<double>(done) / o.window_ms * 1e-3});
  }
  for (auto const& worker : workers) {
    checked += worker->checked;
    faults += worker->faults;
  }
  return {{"system", index},
          {"records", records},
          {"open_seconds", open_seconds},
          {"map_seconds", times.map_seconds},
          {"recover_seconds", times.recover_seconds},
          {"seconds_mops", curve},
          {"checked", checked},
          {"faults", faults}};
}

int run_reopen(Options const& o) {
  Json systems = Json::array();
  bool good = true;
  for (std::string const& index : o.indexes) {
    for (std::size_t i = 0; i < o.records.size() * o.repeats; ++i) {
      std::uint64_t const records = o.records[i % o.records.size()];
      systems.push_back(reopen(o, index, records));
      Json const& r = systems.back();
      good = good && r["faults"] == 0;
      if (o.json != "-")
        std::printf(
            "%-10s %12llu records: open %8.3f ms, of which mapping %8.3f, recovery %8.3f; %s "
            "answers checked, %s"
            " wrong%s\n",
            index.c_str(), static_cast<unsigned long long>(records),
            1e3 * r["open_seconds"].get<double>(), 1e3 * r["map_seconds"].get<double>(),
            1e3 * r["recover_seconds"].get<double>(), r["checked"].dump().c_str(),
            r["faults"].dump().c_str(), r["faults"] == 0 ? "" : "  FAULT");
    }
  }
  write_json(o.json, {{"command", "index-reopen"},
                      {"version", version()},
                      {"host", o.host},
                      {"emulated", o.host == "emulated"},
                      {"threads", o.threads},
                      {"systems", systems}});
  return good ? kGood : kFaults;
}

}  // namespace

Command add_index_reopen(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "index-reopen", "Dash and its baselines after SIGKILL: until they answer, and then");
  app.add_option("--index", o->indexes, "Tables, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(cpu_baselines::names()));
  app.add_option("--records", o->records, "Sizes, with commas")
      .separated_by(',')
      .shows_default()
      .check(positive());
  app.add_option("--threads", o->threads, "Threads that search afterwards")
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--host", o->host, "ordered, flushed or emulated")
      .shows_default()
      .check(one_of({"ordered", "flushed", "emulated"}));
  app.add_option("--seconds", o->seconds, "How long to search").shows_default().check(positive());
  app.add_option("--window-ms", o->window_ms, "Of a point of the curve")
      .shows_default()
      .check(positive());
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run_reopen(*o); }};
}

}  // namespace perdure::bench
