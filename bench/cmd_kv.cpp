// `perdure-bench kv`: the designs of key-value stores of X. Wu's thesis, chapter 2, beside each
// other: values by an allocator or by logs, in bursts and sustained, with dirty lines flushed or
// kept, on this machine, on an emulated medium, or as exact counts.
//
// Invariants: each workload has a store of its own, filled anew, unless stores are asked to be
// shared; every answer is checked; a run that is cut has written the rows that it had.
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "commands.hpp"
#include "common.hpp"
#include "kv_cases.hpp"
#include "output.hpp"

namespace perdure::bench {
namespace {

namespace kv = kv_baselines;

class KvRun {
 public:
  explicit KvRun(KvOptions const& o) : o_(o), stores_(kv_stores(o)), json_(o.json) {
    for (auto const& cases : stores_) require_memory(kv_setting(o, cases.front(), 0), cases.size());
  }

  int run() {
    for (std::uint32_t repeat = 0; repeat < o_.repeats; ++repeat)
      for (auto const& cases : stores_) on_store(cases, repeat);
    std::fprintf(stderr, "\n");
    if (o_.json != "-")
      for (KvCase const& c : left_out_)
        std::printf("left out, for --max-minutes: %s\n", text(c).c_str());
    json_.finish(result().dump(2) + "\n");
    return good_ ? kGood : kFaults;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void on_store(std::vector<KvCase> const& cases, std::uint32_t repeat) {
    if (!in_time(filling_seconds_)) return leave_out(cases, repeat);
    KvBench bench(kv_setting(o_, cases.front(), repeat));
    filling_seconds_ = bench.filling_seconds();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      KvCase const& c = cases[i];
      if (!in_time(0)) return leave_out(std::span(cases).subspan(i), repeat);
      auto& all = measured_[c];
      all.push_back(bench.run({c.workload, zipf(c), c.recovery_threads}));
      std::fprintf(stderr, "\r%zu done", ++done_);
      note(c, all, repeat);
    }
  }
  void note(KvCase const& c, std::vector<KvMeasured> const& all, std::uint32_t repeat) {
    if (repeat == 0) order_.push_back(c);
    checked_ += all.back().ops;
    good_ = good_ && all.back().faults == 0;
    if (repeat + 1 == o_.repeats && o_.json != "-") print_kv_row(o_, kv_row(o_, c, all));
    std::fflush(stdout);
    json_.update(result().dump(2) + "\n");
  }

  [[nodiscard]] bool in_time(double more) const {
    double const took = std::chrono::duration<double>(Clock::now() - begun_).count();
    return o_.max_minutes == 0 || took + more < 60 * o_.max_minutes;
  }
  void leave_out(std::span<KvCase const> cases, std::uint32_t repeat) {
    if (repeat == 0) left_out_.insert(left_out_.end(), cases.begin(), cases.end());
  }
  static std::string text(KvCase const& c) {
    return c.workload + " " + c.keys + " " + c.mode + " " + c.caches + " " +
           std::to_string(c.value_bytes) + " B " + std::to_string(c.threads) + " threads " +
           c.design;
  }

  /// Of all records; null where keys are uniform. Made once: it sums a term a record.
  std::shared_ptr<Zipf const> zipf(KvCase const& c) {
    if (c.keys != "zipf") return nullptr;
    if (zipf_ == nullptr) zipf_ = std::make_shared<Zipf const>(o_.records, o_.theta);
    return zipf_;
  }

  [[nodiscard]] Json result() const {
    Json rows = Json::array(), left_out = Json::array();
    for (KvCase const& c : order_) rows.push_back(kv_row(o_, c, measured_.at(c)));
    for (KvCase const& c : left_out_) left_out.push_back(text(c));
    return {{"command", "kv"},
            {"version", version()},
            {"host", o_.host},
            {"emulated", o_.host == "emulated"},
            {"medium", o_.medium},
            {"emulated_cache_bytes", kv_cache_bytes(o_)},
            {"records", o_.records},
            {"batch", o_.batch},
            {"theta", o_.theta},
            {"collectors", o_.collectors},
            {"most_queued", o_.most_queued},
            {"series_ms", o_.series_ms},
            {"seconds", o_.seconds},
            {"age", o_.age},
            {"shared_stores", o_.share},
            {"filling_seconds", filling_seconds_},
            {"repeats", o_.repeats},
            {"checked", checked_},
            {"cores", std::thread::hardware_concurrency()},
            {"left_out", left_out},
            {"rows", rows}};
  }

  KvOptions const& o_;
  std::vector<std::vector<KvCase>> const stores_;
  RewrittenFile json_;
  Clock::time_point const begun_ = Clock::now();
  std::map<KvCase, std::vector<KvMeasured>> measured_;
  std::vector<KvCase> order_, left_out_;
  std::shared_ptr<Zipf const> zipf_;
  double filling_seconds_ = 0;  // of the last store
  std::size_t done_ = 0;
  std::uint64_t checked_ = 0;
  bool good_ = true;
};

void add_what(CommandLine& app, KvOptions& o) {
  app.add_option("--design", o.designs, "Designs, with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(kv::names()));
  app.add_option(
         "--workload", o.workloads,
         "insert, update, delete, get; a to e of YCSB; recover: opened again after a kill, by "
         "--recovery-threads")
      .separated_by(',')
      .shows_default()
      .check(one_of({"insert", "update", "delete", "get", "a", "b", "c", "d", "e", "recover"}));
  app.add_option("--mode", o.modes,
                 "burst: until the last operation is done; sustained: with a bounded queue of "
                 "segments, until nothing is left to collect")
      .separated_by(',')
      .shows_default()
      .check(one_of({"burst", "sustained"}));
  app.add_option("--caches", o.caches, "flushed, kept")
      .separated_by(',')
      .shows_default()
      .check(one_of({"flushed", "kept"}));
  app.add_option("--keys", o.keys, "uniform, zipf")
      .separated_by(',')
      .shows_default()
      .check(one_of({"uniform", "zipf"}));
  app.add_option("--theta", o.theta, "Of zipf").shows_default().check(range(0.01, 0.999));
  app.add_option("--host", o.host,
                 "flushed: real flushes and fences; emulated: as slow as --medium; counted: exact "
                 "counts in place of times")
      .shows_default()
      .check(one_of({"flushed", "counted", "emulated"}));
  app.add_option("--medium", o.medium, "What is emulated")
      .shows_default()
      .check(one_of(kv_media_names()));
}

void add_how_much(CommandLine& app, KvOptions& o) {
  app.add_option("--value-bytes", o.value_bytes, "Sizes of values, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(8u, 65536u));
  app.add_option("--records", o.records, "Records to begin with").shows_default().check(positive());
  app.add_option(
         "--ops", o.ops,
         "Operations a workload; by default a tenth of the records, sustained twice as many; "
         "delete at most all of them")
      .check(positive());
  app.add_option("--seconds", o.seconds,
                 "A workload ends after so many, if its operations are not done; 0: they all are")
      .shows_default()
      .check(non_negative());
  app.add_option("--max-minutes", o.max_minutes,
                 "What has not begun by then is left out, and said to be; 0: no limit")
      .shows_default()
      .check(non_negative());
  app.add_option("--age", o.age,
                 "Updates of each record, on average, before anything is measured: of a log "
                 "about 1 until it is collected as much as it is written")
      .shows_default()
      .check(non_negative());
  app.add_flag("--share", o.share,
               "Workloads follow each other on one store, which is filled once; deletes last");
  app.add_option("--recovery-threads", o.recovery_threads,
                 "Numbers of threads that open a store again, with commas; several tell no parts")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--batch", o.batch, "Operations of a call").shows_default().check(positive());
  app.add_option("--threads", o.threads, "Numbers of threads, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--collectors", o.collectors, "Threads that collect a log")
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--most-queued", o.most_queued, "Segments that may wait for them, sustained")
      .shows_default()
      .check(positive());
  app.add_option("--series-ms", o.series_ms, "Count operations that often, while they run")
      .check(positive());
  app.add_flag("--parts", o.parts,
               "Tell what the threads' time went to; looking at the clock takes some of it");
  app.add_option("--emulated-cache", o.emulated_cache,
                 "Bytes of the modelled cache; by default 36.75 MiB by 10 million records")
      .check(positive());
  app.add_option("--repeats", o.repeats).shows_default().check(positive());
  app.add_option("--seed", o.seed).shows_default();
  app.add_option("--pool", o.pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o.json, "Write the results to this file; - = standard output")
      .check(new_file());
}

}  // namespace

Command add_kv(CommandLine& program) {
  auto o = std::make_shared<KvOptions>();
  CommandLine& app = program.add_subcommand(
      "kv", "Designs of key-value stores: heap or logs, bursts or sustained, flushed or kept");
  add_what(app, *o);
  add_how_much(app, *o);
  return {&app, [o] { return KvRun(*o).run(); }};
}

}  // namespace perdure::bench
