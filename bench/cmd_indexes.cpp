// `perdure-bench indexes`: Dash beside the tables of its evaluation, one operation at a time, by
// threads. Each repeat makes a table anew, fills it, and then inserts, searches for what is there
// and for what is not, mixes, and deletes.
//
// Invariants: the clock runs from when all threads may begin to when the last has ended, less what
// emulating takes; every answer is checked; of tables that are compared, repeats follow each other
// in turn.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "cores.hpp"
#include "cpu_baseline.hpp"
#include "index_keys.hpp"

namespace perdure::bench {
namespace {

using cpu_baselines::Outcome;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> indexes{"dash-eh", "dash-lh", "cceh", "level"};
  std::uint64_t records = 1'000'000;
  std::uint64_t ops = 500'000;
  std::vector<std::uint32_t> threads{1};
  std::string keys = "inline";
  std::string host = "flushed";
  std::vector<std::string> workloads{"insert", "search", "negative", "mixed", "delete"};
  std::uint32_t repeats = 3;
  bool reserve = true;
  bool pin = false;
  std::uint64_t seed = 1;
  std::uint64_t emulated_cache = 0;
  std::string pool;
  std::string json;

  [[nodiscard]] bool variable() const { return keys == "variable"; }
  [[nodiscard]] bool counts() const { return host == "counted"; }
};

std::uint64_t cache_bytes(Options const& o) {
  return o.emulated_cache != 0 ? o.emulated_cache : emulated_cache_bytes_for(o.records + o.ops);
}

char const* const kWorkloads[] = {"insert", "search", "negative", "mixed", "delete"};

/// What one workload gave in one repeat.
struct Measured {
  double mops = 0;
  cpu_baselines::Counts counts;
  std::uint64_t most_lines_read = 0;
};

/// One thread's part of a workload.
struct Part {
  std::uint64_t faults = 0;
  std::uint64_t most_lines_read = 0;
  Clock::time_point end;
  double emulating_seconds = 0;
  bool pinned = true;
};

std::uint64_t below(std::uint64_t& state, std::uint64_t n) {
  state += 0x9e3779b97f4a7c15u;
  return IndexKeys::mixed(state) % n;
}

/// One table, with as many sessions as threads.
class System {
 public:
  System(Options const& o, std::string const& index, std::uint32_t threads, std::uint64_t seed)
      : o_(o), file_(o.pool), keys_(o.variable()), seed_(seed) {
    cpu_baselines::Options options;
    options.index = index;
    options.key_bytes = o.variable() ? 0 : 8;
    if (o.reserve) options.reserve_bytes = pool_bytes_for(o.records + 2 * o.ops, o.variable());
    options.max_bytes = 8 * pool_bytes_for(o.records + 2 * o.ops, o.variable());
    options.emulated_cache_bytes = cache_bytes(o);
    table_ = require(cpu_baselines::create(file_.path(), options), "create " + file_.path());
    for (std::uint32_t t = 0; t < threads; ++t)
      sessions_.push_back(table_->session(host_named(o.host)));
  }

  /// By real flushes, however the workloads run.
  void load() {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < sessions_.size(); ++t) {
      threads.emplace_back([&, t] {
        auto const session = table_->session(cpu_baselines::HostKind::flushed);
        std::uint64_t faults = 0;
        in_pinned_runs(*session, o_.records * t / sessions_.size(),
                       o_.records * (t + 1) / sessions_.size(),
                       [&](std::uint64_t n) { faults += insert(*session, n); });
        faults_ += faults;
      });
    }
  }

  Measured run(std::string const& workload) {
    std::vector<Part> parts(sessions_.size());
    for (auto const& session : sessions_) session->reset_counts();
    Clock::time_point begin;
    std::barrier ready(static_cast<std::ptrdiff_t>(sessions_.size()),
                       [&]() noexcept { begin = Clock::now(); });
    {
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < sessions_.size(); ++t) {
        threads.emplace_back([&, t] {
          parts[t].pinned = !o_.pin || pin_to(cores_[t % cores_.size()]);
          ready.arrive_and_wait();
          double const before = sessions_[t]->emulating_seconds();
          work(workload, t, parts[t]);
          parts[t].end = Clock::now();
          parts[t].emulating_seconds = sessions_[t]->emulating_seconds() - before;
        });
      }
    }
    return finish(parts, begin);
  }

  [[nodiscard]] cpu_baselines::TableStats stats() { return table_->stats(false); }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::uint64_t checked() const { return checked_; }

 private:
  static bool pin_to(std::size_t hardware_thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(hardware_thread, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
  }
  template <class F>
  static void in_pinned_runs(cpu_baselines::Session& session, std::uint64_t from, std::uint64_t to,
                             F f) {
    for (std::uint64_t at = from; at < to;) {
      session.pin();
      for (std::uint64_t const end = std::min(to, at + kPinned); at < end; ++at) f(at);
      session.unpin();
    }
  }
  /// 1 for a wrong answer, as all of these.
  [[nodiscard]] std::uint64_t insert(cpu_baselines::Session& session, std::uint64_t n) const {
    return session.insert(keys_.key(n), IndexKeys::value(n)) != Outcome::done;
  }
  [[nodiscard]] std::uint64_t search(cpu_baselines::Session& session, std::uint64_t n) const {
    std::uint64_t value = 0;
    return session.find(keys_.key(n), value) != Outcome::done || value != IndexKeys::value(n);
  }
  [[nodiscard]] std::uint64_t search_absent(cpu_baselines::Session& session,
                                            std::uint64_t n) const {
    std::uint64_t value = 0;
    return session.find(keys_.key(n), value) != Outcome::absent;
  }
  [[nodiscard]] std::uint64_t erase(cpu_baselines::Session& session, std::uint64_t n) const {
    return session.erase(keys_.key(n)) != Outcome::done;
  }

  void work(std::string const& workload, std::size_t t, Part& part) {
    cpu_baselines::Session& session = *sessions_[t];
    std::uint64_t const from = o_.ops * t / sessions_.size(),
                        to = o_.ops * (t + 1) / sessions_.size();
    std::uint64_t random = IndexKeys::mixed(seed_ * 64 + t + 1);
    auto const go = [&](auto operation) {
      in_pinned_runs(session, from, to, [&](std::uint64_t i) {
        if (!o_.counts()) {
          part.faults += operation(i);
          return;
        }
        std::uint64_t const before = session.counts().lines_read;
        part.faults += operation(i);
        part.most_lines_read = std::max(part.most_lines_read, session.counts().lines_read - before);
      });
    };
    if (workload == "insert") go([&](std::uint64_t i) { return insert(session, o_.records + i); });
    if (workload == "search")
      go([&](std::uint64_t) { return search(session, below(random, o_.records)); });
    if (workload == "negative")
      go([&](std::uint64_t) {
        return search_absent(session, kAbsentKeys + below(random, kAbsentKeys));
      });
    if (workload == "delete") go([&](std::uint64_t i) { return erase(session, i); });
    if (workload == "mixed") {
      go([&](std::uint64_t i) {
        return i % 5 == 0 ? insert(session, o_.records + o_.ops + i)
                          : search(session, below(random, o_.records));
      });
    }
  }

  Measured finish(std::vector<Part> const& parts, Clock::time_point begin) {
    double longest = 0;
    Measured measured;
    for (Part const& part : parts) {
      if (!part.pinned)
        throw Failure("--pin: the system does not let threads be pinned; measure without");
      longest = std::max(longest, std::chrono::duration<double>(part.end - begin).count() -
                                      part.emulating_seconds);
      faults_ += part.faults;
      measured.most_lines_read = std::max(measured.most_lines_read, part.most_lines_read);
    }
    for (auto const& session : sessions_) {
      cpu_baselines::Counts const more = session->counts();
      measured.counts.operations += more.operations;
      measured.counts.lines_read += more.lines_read;
      measured.counts.lines_written += more.lines_written;
      measured.counts.lines_flushed += more.lines_flushed;
      measured.counts.fences += more.fences;
    }
    checked_ += o_.ops;
    measured.mops = static_cast<double>(o_.ops) / longest * 1e-6;
    return measured;
  }

  Options const& o_;
  PoolFile file_;
  IndexKeys keys_;
  std::uint64_t seed_;
  std::vector<std::size_t> const cores_ = one_of_each_core_first();
  std::unique_ptr<cpu_baselines::Table> table_;
  std::vector<std::unique_ptr<cpu_baselines::Session>> sessions_;
  std::atomic<std::uint64_t> faults_{0};
  std::uint64_t checked_ = 0;
};

/// All repeats of one table.
struct Figures {
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Measured>>
      measured;  // by workload and threads
  std::uint64_t checked = 0, faults = 0;
};

Json counts_json(Measured const& m) {
  auto const per = [&](std::uint64_t n) {
    return static_cast<double>(n) /
           static_cast<double>(std::max<std::uint64_t>(1, m.counts.operations));
  };
  return {{"lines_read", per(m.counts.lines_read)},
          {"lines_read_most", m.most_lines_read},
          {"lines_written", per(m.counts.lines_written)},
          {"lines_flushed", per(m.counts.lines_flushed)},
          {"fences", per(m.counts.fences)}};
}

Json report(Options const& o, std::string const& index, Figures const& figures) {
  Json rows = Json::array();
  for (auto const& [what, repeats] : figures.measured) {
    std::vector<double> each;
    for (Measured const& one : repeats) each.push_back(one.mops);
    Json row{{"workload", what.first},
             {"threads", what.second},
             {"mops", median(each)},
             {"mops_each", each}};
    if (o.counts()) row.update(counts_json(repeats.front()));
    rows.push_back(row);
  }
  return {
      {"system", index}, {"checked", figures.checked}, {"faults", figures.faults}, {"rows", rows}};
}

void print(Options const& o, Json const& r) {
  std::printf("%s: %s answers checked, %s wrong%s\n", r["system"].get<std::string>().c_str(),
              r["checked"].dump().c_str(), r["faults"].dump().c_str(),
              r["faults"] == 0 ? "" : "  FAULT");
  for (Json const& row : r["rows"]) {
    std::printf("  %-9s %3s threads", row["workload"].get<std::string>().c_str(),
                row["threads"].dump().c_str());
    if (!o.counts())
      std::printf("  %8.3f Mop/s%s\n", row["mops"].get<double>(),
                  o.host == "emulated" ? " emulated" : "");
    if (o.counts()) {
      std::printf("  lines read %.3f (most %s), written %.3f, flushed %.3f; fences %.3f\n",
                  row["lines_read"].get<double>(), row["lines_read_most"].dump().c_str(),
                  row["lines_written"].get<double>(), row["lines_flushed"].get<double>(),
                  row["fences"].get<double>());
    }
  }
}

int run(Options const& o) {
  std::map<std::string, Figures> all;
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat) {
    for (std::uint32_t const threads : o.threads) {
      for (std::string const& index : o.indexes) {
        System system(o, index, threads, o.seed + repeat);
        system.load();
        for (char const* workload :
             kWorkloads) {  // in this order, whatever the order they were named in
          if (std::find(o.workloads.begin(), o.workloads.end(), workload) == o.workloads.end())
            continue;
          all[index].measured[{workload, threads}].push_back(system.run(workload));
        }
        all[index].checked += system.checked();
        all[index].faults += system.faults();
      }
    }
  }
  Json systems = Json::array();
  bool good = true;
  for (std::string const& index : o.indexes) {
    systems.push_back(report(o, index, all[index]));
    if (o.json != "-") print(o, systems.back());
    good = good && all[index].faults == 0;
  }
  write_json(o.json, {{"command", "indexes"},
                      {"version", version()},
                      {"host", o.host},
                      {"emulated", o.host == "emulated"},
                      {"emulated_cache_bytes", cache_bytes(o)},
                      {"keys", o.keys},
                      {"records", o.records},
                      {"ops", o.ops},
                      {"repeats", o.repeats},
                      {"reserved", o.reserve},
                      {"pinned", o.pin},
                      {"cores", std::thread::hardware_concurrency()},
                      {"systems", systems}});
  return good ? kGood : kFaults;
}

}  // namespace

Command add_indexes(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app =
      program.add_subcommand("indexes", "Dash beside CCEH, Level hashing and others, by threads");
  app.add_option("--index", o->indexes, "Tables, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(cpu_baselines::names()));
  app.add_option("--records", o->records, "Records to begin with")
      .shows_default()
      .check(positive());
  app.add_option("--ops", o->ops,
                 "Operations a workload; delete takes the first records, so no more than those")
      .shows_default()
      .check(positive());
  app.add_option("--threads", o->threads, "Numbers of threads, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--keys", o->keys, "inline: 8 bytes; variable: 16, in records of their own")
      .shows_default()
      .check(one_of({"inline", "variable"}));
  app.add_option("--host", o->host,
                 "ordered: stores alone; flushed: real flushes and fences; emulated: and as slow "
                 "as Optane; counted: exact"
                 " counts in place of times")
      .shows_default()
      .check(one_of({"ordered", "flushed", "counted", "emulated"}));
  app.add_option("--workload", o->workloads, "insert, search, negative, mixed, delete")
      .separated_by(',')
      .shows_default()
      .check(one_of(std::vector<std::string>(std::begin(kWorkloads), std::end(kWorkloads))));
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_flag("--reserve,!--no-reserve", o->reserve,
               "Back the pool's memory beforehand (default: yes)");
  app.add_flag("--pin", o->pin,
               "Keep each thread where it is, on a core of its own while there are enough");
  app.add_option(
         "--emulated-cache", o->emulated_cache,
         "Bytes of the modelled cache; by default the paper's 36.75 MiB by its 200 million records")
      .check(positive());
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] {
            if (o->ops > o->records)
              throw Failure("--ops " + std::to_string(o->ops) +
                            ": more than there are records; give " + std::to_string(o->records) +
                            " at most");
            return run(*o);
          }};
}

}  // namespace perdure::bench
