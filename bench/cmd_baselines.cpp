// `perdure-bench baselines`: Perdure's two layouts beside the baselines of GPHash's evaluation
// (section 4.1), in one run, over the same records and requests.
//
// Three figures an operation: `kernel` is the kernels alone, as the papers time them; `near` a
// whole call with its arrays where the device has them nearest (GPU memory); `host` a whole call
// with its arrays in host memory. The CPU-assisted have no kernels, and Perdure's calls do not tell
// theirs from the rest.
//
// The baselines take batches of one kind of operation, so a batch of a mixture (YCSB a, b, d, f; a
// trace with writes) goes to every subject as two calls, its gets and then its writes, and counts
// as done when both have returned.
//
// Invariant: after every repeat the same records are there: what was inserted is deleted again.
// Values are compared whenever they are read, and statuses of every operation.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "device_arrays.hpp"
#include "subject.hpp"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 2'000'000;
  std::uint64_t ops = 1 << 20;
  std::vector<std::size_t> batches{std::size_t{1} << 12, std::size_t{1} << 16,
                                   std::size_t{1} << 20};
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::string device = "cpu";
  std::vector<std::string> workloads{"insert", "get-hit", "get-miss", "update", "zipf", "delete"};
  std::vector<std::string> subjects = subject_names();
  std::string trace;
  double theta = 0.99;
  std::uint32_t repeats = 5;
  double seconds = 0;
  std::string place = "both";
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  bool count_accesses = true;
  std::string pool;
  std::string json;
};

constexpr std::uint64_t kCountedRecords = 1 << 18;
constexpr std::size_t kLoadBatch = std::size_t{1} << 18;
// batches, which settle how gets gather; fewer where they take
constexpr std::uint64_t kWarmUps = 21;
constexpr double kWarmSeconds = 1;  // so long

enum class Action : std::uint8_t {
  insert,
  get_hit,
  get_miss,
  update,
  zipf,
  erase,
  ycsb_a,
  ycsb_b,
  ycsb_d,
  ycsb_f,
  trace
};
constexpr char const* kNames[] = {"insert", "get-hit", "get-miss", "update", "zipf", "delete",
                                  "ycsb-a", "ycsb-b",  "ycsb-d",   "ycsb-f", "trace"};
constexpr std::size_t kActions = std::size(kNames);
constexpr std::uint64_t kTraceWrite = std::uint64_t{1}
                                      << 63;  // an update in a trace; the rest is the record

char const* name(Action action) { return kNames[static_cast<std::size_t>(action)]; }
bool reads(Action action) {
  return action == Action::get_hit || action == Action::get_miss || action == Action::zipf;
}
bool is_mixture(Action action) { return action >= Action::ycsb_a; }
/// What is inserted must be deleted again, whatever time it takes.
bool may_end_early(Action action) { return action != Action::insert && action != Action::erase; }
double share_of_writes(Action mixture) {
  return mixture == Action::ycsb_b || mixture == Action::ycsb_d ? 0.05 : 0.5;
}

/// The workloads asked for, in an order in which each finds the records that it needs. What is
/// inserted must be deleted again, so each of those two brings the other.
std::vector<Action> actions_of(std::vector<std::string> const& names) {
  auto const wanted = [&](Action action) {
    return std::find(names.begin(), names.end(), name(action)) != names.end();
  };
  std::vector<Action> actions;
  for (std::size_t i = 0; i < kActions; ++i) {
    auto const action = static_cast<Action>(i);
    bool const pair = action == Action::insert || action == Action::erase;
    if (wanted(action) || (pair && (wanted(Action::insert) || wanted(Action::erase))))
      actions.push_back(action);
  }
  return actions;
}

std::vector<std::uint64_t> read_trace(Options const& o) {
  if (o.trace.empty()) return {};
  std::ifstream file(o.trace, std::ios::binary | std::ios::ate);
  auto const bytes = file ? static_cast<std::size_t>(file.tellg()) : 0;
  if (!file || bytes == 0 || bytes % sizeof(std::uint64_t) != 0)
    throw Failure("--trace " + o.trace + ": cannot be read, or is not whole 8-byte numbers");
  std::vector<std::uint64_t> trace(bytes / sizeof(std::uint64_t));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(trace.data()), static_cast<std::streamsize>(bytes));
  for (std::uint64_t const each : trace) {
    if ((each & ~kTraceWrite) >= o.records)
      throw Failure("--trace " + o.trace + ": names record " + std::to_string(each & ~kTraceWrite) +
                    ", but --records is " + std::to_string(o.records));
  }
  return trace;
}

/// One batch's arrays, in host memory and, for `near` calls on a GPU, there too.
class Arrays {
 public:
  Arrays(Dataset const& dataset, std::size_t batch, bool device)
      : dataset_(dataset),
        keys_(batch * dataset.key_bytes()),
        values_(batch * dataset.value_bytes()),
        out_(values_) {
    if (!device) return;
    for (auto* const array : {&keys_, &values_, &out_})
      there_.push_back(std::make_unique<DeviceArray>(array->size()));
  }

  void fill(std::vector<std::uint64_t> const& ids, std::vector<std::uint32_t> const& versions,
            Place place) {
    count_ = ids.size();
    place_ = place;
    on_all_cores(count_, [&](std::size_t i) {
      dataset_.write_key(ids[i], keys_.data() + i * dataset_.key_bytes());
      dataset_.write_value(ids[i], versions[i], values_.data() + i * dataset_.value_bytes());
    });
    std::fill_n(out_.begin(), count_ * dataset_.value_bytes(), std::byte{0});
    if (place == Place::host) return;
    there_[0]->upload({keys_.data(), count_ * dataset_.key_bytes()});
    there_[1]->upload({values_.data(), count_ * dataset_.value_bytes()});
    there_[2]->upload({out_.data(), count_ * dataset_.value_bytes()});
  }
  std::byte const* fetch_out() {
    if (place_ == Place::device)
      there_[2]->download({out_.data(), count_ * dataset_.value_bytes()});
    return out_.data();
  }

  [[nodiscard]] Column keys() {
    return {at(0, keys_), nullptr, dataset_.key_bytes(), count_, place_};
  }
  [[nodiscard]] Column values() {
    return {at(1, values_), nullptr, dataset_.value_bytes(), count_, place_};
  }
  [[nodiscard]] MutableColumn out() {
    return {at(2, out_), dataset_.value_bytes(), count_, place_};
  }

 private:
  std::byte* at(std::size_t which, std::vector<std::byte>& host) {
    return place_ == Place::host ? host.data() : there_[which]->data();
  }

  Dataset dataset_;
  std::vector<std::byte> keys_, values_, out_;
  std::vector<std::unique_ptr<DeviceArray>> there_;
  std::size_t count_ = 0;
  Place place_ = Place::host;
};

struct Timed {
  std::uint64_t ops = 0;
  std::uint64_t batches = 0;
  double seconds = 0;
  double kernel_seconds = 0;  // 0: not told apart from the rest of a call
};

struct Figures {
  std::vector<double> near, host, kernel;  // Mop/s, one a repeat
};

/// One subject with the records in it, and what it must hold.
class Bench {
 public:
  Bench(Options const& o, baselines::Baseline& subject, std::uint64_t records, std::uint64_t ops,
        std::size_t batch, bool device, std::vector<std::uint64_t> trace)
      : subject_(subject),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        arrays_(dataset_, std::max(batch, kLoadBatch), device),
        records_(records),
        ops_(ops),
        limit_(o.seconds),
        zipf_(records, o.theta),
        scramble_(records),
        random_(o.seed),
        versions_(records, 0),
        trace_(std::move(trace)) {}

  void load() {
    for (std::uint64_t done = 0; done < records_; done += ids_.size()) {
      ids_.resize(std::min<std::uint64_t>(kLoadBatch, records_ - done));
      std::iota(ids_.begin(), ids_.end(), done);
      Timed unused;
      batch(Action::insert, Place::host, unused);
    }
  }

  Timed pass(Action action, std::size_t size, Place place) {
    Timed timed;
    subject_.reset_counts();
    while (timed.ops < ops_ && !(limit_ > 0 && timed.seconds >= limit_ && may_end_early(action))) {
      std::uint64_t const count = std::min<std::uint64_t>(size, ops_ - timed.ops);
      step(action, timed.ops, count, place, timed);
      timed.ops += count;
      ++timed.batches;
    }
    timed.kernel_seconds = subject_.stats().kernel_seconds;
    settle(action, place);
    return timed;
  }

  /// All operations as one batch, and nothing else.
  void once(Action action) {
    Timed unused;
    step(action, 0, ops_, Place::host, unused);
  }

  /// After a workload: reads its last writes back, and deletes what a mixture inserted.
  void settle(Action action, Place place) {
    Timed unused;
    if (is_mixture(action)) ids_ = writes_;
    if (action == Action::erase) batch(Action::get_miss, place, unused);
    if ((action == Action::update || is_mixture(action)) && !ids_.empty())
      batch(Action::get_hit, place, unused);
    for (std::uint64_t gone = 0; gone < inserted_; gone += ids_.size()) {
      ids_.resize(std::min<std::uint64_t>(kLoadBatch, inserted_ - gone));
      std::iota(ids_.begin(), ids_.end(), records_ + gone);
      batch(Action::erase, Place::host, unused);
    }
    inserted_ = 0;
  }

  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::string const& first_fault() const { return first_fault_; }

 private:
  void step(Action action, std::uint64_t done, std::uint64_t count, Place place, Timed& timed) {
    if (is_mixture(action)) return mixture(action, count, place, timed);
    choose(action, done, count);
    batch(action, place, timed);
  }

  /// Writes of a mixture may name a record twice: both write the same value, so what they leave is
  /// certain.
  void mixture(Action action, std::uint64_t count, Place place, Timed& timed) {
    gets_.clear();
    writes_.clear();
    for (std::uint64_t i = 0; i < count; ++i) draw(action);
    ids_ = gets_;
    if (!ids_.empty()) batch(Action::get_hit, place, timed);
    ids_ = writes_;
    if (!ids_.empty())
      batch(action == Action::ycsb_d ? Action::insert : Action::update, place, timed);
    if (action == Action::ycsb_d) inserted_ += writes_.size();
  }

  /// The next operation of a mixture. A read-modify-write is a get and an update, and counts as one
  /// operation.
  void draw(Action action) {
    if (action == Action::trace) {
      std::uint64_t const next = trace_[trace_at_++ % trace_.size()];
      ((next & kTraceWrite) != 0 ? writes_ : gets_).push_back(next & ~kTraceWrite);
      return;
    }
    bool const write = unit(random_) < share_of_writes(action);
    if (action == Action::ycsb_d) {
      std::uint64_t const there = records_ + inserted_;
      if (write) writes_.push_back(there + writes_.size());
      if (!write) gets_.push_back(there - 1 - zipf_(random_));
      return;
    }
    std::uint64_t const id = scramble_(zipf_(random_));
    if (!write || action == Action::ycsb_f) gets_.push_back(id);
    if (write) writes_.push_back(id);
  }

  /// The next batch's records. Writes never name one twice, so that what they leave is certain.
  void choose(Action action, std::uint64_t done, std::uint64_t count) {
    ids_.resize(count);
    std::uint64_t const start = below(random_, records_);
    for (std::uint64_t i = 0; i < count; ++i) {
      switch (action) {
        case Action::insert:
        case Action::erase: ids_[i] = records_ + done + i; break;
        case Action::get_hit: ids_[i] = below(random_, records_); break;
        case Action::get_miss: ids_[i] = records_ + ops_ + below(random_, records_); break;
        case Action::update: ids_[i] = scramble_((start + i) % records_); break;
        default: ids_[i] = scramble_(zipf_(random_)); break;
      }
    }
    if (action == Action::erase) std::shuffle(ids_.begin(), ids_.end(), random_);
  }

  void batch(Action action, Place place, Timed& timed) {
    batch_versions_.resize(ids_.size());
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::uint32_t const stored = ids_[i] < records_ ? versions_[ids_[i]] : 0;
      batch_versions_[i] = action == Action::update ? stored + 1 : stored;
    }
    arrays_.fill(ids_, batch_versions_, place);
    statuses_.assign(ids_.size(), KeyStatus::corrupt);
    auto const begin = std::chrono::steady_clock::now();
    Status const status = call(action);
    timed.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    require(status, name(action));
    check(action);
  }

  Status call(Action action) {
    switch (action) {
      case Action::insert: return subject_.put(arrays_.keys(), arrays_.values(), statuses_);
      case Action::update: return subject_.update(arrays_.keys(), arrays_.values(), statuses_);
      case Action::erase: return subject_.erase(arrays_.keys(), statuses_);
      default: return subject_.get(arrays_.keys(), arrays_.out(), statuses_);
    }
  }

  void check(Action action) {
    KeyStatus const want = action == Action::get_miss ? KeyStatus::not_found : KeyStatus::ok;
    std::byte const* const out = reads(action) ? arrays_.fetch_out() : nullptr;
    good_.resize(ids_.size());
    on_all_cores(ids_.size(), [&](std::size_t i) {
      good_[i] = statuses_[i] == want ? 1 : 0;
      if (good_[i] != 0 && out != nullptr && want == KeyStatus::ok)
        good_[i] =
            dataset_.holds(out + i * dataset_.value_bytes(), ids_[i], batch_versions_[i]) ? 1 : 0;
    });
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (good_[i] == 0 && faults_++ == 0)
        first_fault_ =
            std::string(name(action)) + " of record " + std::to_string(ids_[i]) + ": wrong answer";
      if (action == Action::update) versions_[ids_[i]] = batch_versions_[i];
    }
    checked_ += ids_.size();
  }

  baselines::Baseline& subject_;
  Dataset dataset_;
  Arrays arrays_;
  std::uint64_t records_;
  std::uint64_t ops_;
  double limit_;  // seconds of a pass; 0 = none
  Zipf zipf_;
  Scramble scramble_;
  Random random_;
  std::vector<std::uint32_t> versions_;
  std::vector<std::uint64_t> trace_;
  std::size_t trace_at_ = 0;
  std::vector<std::uint64_t> ids_;  // of the batch under way
  std::vector<std::uint64_t> gets_, writes_;  // of a mixture's batch
  std::uint64_t inserted_ = 0;  // by a mixture, from record records_ on
  std::vector<std::uint32_t> batch_versions_;
  std::vector<KeyStatus> statuses_;
  std::vector<std::uint8_t> good_;  // answers, 1 or 0
  std::uint64_t checked_ = 0;
  std::uint64_t faults_ = 0;
  std::string first_fault_;
};

double mops(std::uint64_t ops, double seconds) { return static_cast<double>(ops) / seconds * 1e-6; }
Json rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 1000 + 0.5)) / 1000;
}
Json summary(std::vector<double> const& figures) {
  return figures.empty() ? Json(nullptr) : rounded(median(figures));
}

std::unique_ptr<baselines::Baseline> make_subject(Options const& o, std::string const& who,
                                                  std::string const& path, std::uint64_t expected,
                                                  bool counting) {
  baselines::BaselineOptions options;
  options.device = device_named(o.device);
  options.key_bytes = o.key_bytes;
  options.value_bytes = o.value_bytes;
  options.expected_records = expected;
  options.threads = o.threads;
  options.count_accesses = counting;
  return bench::make_subject(who, path, options, o.verify_reads);
}

std::map<Action, Figures> measure(Options const& o, Bench& bench, std::size_t batch) {
  bool const device = device_named(o.device) == Device::cuda;
  std::map<Action, Figures> all;
  for (std::uint32_t repeat = 0; repeat <= o.repeats; ++repeat) {
    for (Place const place : {Place::device, Place::host}) {
      if (place == Place::device && !device) continue;
      if (device && o.place != "both" && (place == Place::device) != (o.place == "near")) continue;
      for (Action const action : actions_of(o.workloads)) {
        Timed timed = bench.pass(action, batch, place);
        if (repeat == 0) {  // warms up
          while (timed.batches < kWarmUps && timed.seconds < kWarmSeconds &&
                 may_end_early(action)) {
            Timed const more = bench.pass(action, batch, place);
            timed.batches += more.batches;
            timed.seconds += more.seconds;
          }
          continue;
        }
        Figures& figures = all[action];
        bool const near = !device || place == Place::device;
        if (near) figures.near.push_back(mops(timed.ops, timed.seconds));
        if (place == Place::host) figures.host.push_back(mops(timed.ops, timed.seconds));
        if (near && timed.kernel_seconds > 0)
          figures.kernel.push_back(mops(timed.ops, timed.kernel_seconds));
      }
    }
  }
  return all;
}

/// Exact accesses an operation, from one batch of each kind over a smaller table sized by the same
/// rule. Of all workloads but a trace, whose records that table does not have.
std::map<Action, Json> count(Options const& o, std::string const& who, std::string const& path) {
  std::map<Action, Json> all;
  std::uint64_t const records = std::min(o.records, kCountedRecords);
  std::uint64_t const ops = std::min(o.ops, records / 4);
  PoolFile file(path);
  auto const subject = make_subject(o, who, file.path(), records + ops, true);
  Bench bench(o, *subject, records, ops, ops, false, {});
  bench.load();
  for (Action const action : actions_of(o.workloads)) {
    if (action == Action::trace) continue;
    subject->reset_counts();
    bench.once(action);
    AccessCounts const counts = subject->stats().accesses;
    bench.settle(action, Place::host);
    auto const per = [&](std::uint64_t n) {
      return static_cast<double>(n) / static_cast<double>(ops);
    };
    all[action] = {per(counts.pm_reads), per(counts.pm_writes), per(counts.orders)};
  }
  return all;
}

Json measure_subject(Options const& o, std::string const& who) {
  PoolFile file(o.pool);
  std::map<Action, Json> counted;
  if (o.count_accesses) counted = count(o, who, file.path());
  auto const subject = make_subject(o, who, file.path(), o.records + o.ops, false);
  std::size_t const most = *std::max_element(o.batches.begin(), o.batches.end());
  Bench bench(o, *subject, o.records, o.ops, most, device_named(o.device) == Device::cuda,
              read_trace(o));
  bench.load();
  Json rows = Json::array();
  for (std::size_t const batch : o.batches) {
    auto const figures = measure(o, bench, batch);
    for (auto const& [action, f] : figures) {
      if (std::find(o.workloads.begin(), o.workloads.end(), name(action)) == o.workloads.end())
        continue;
      Json row{{"workload", name(action)},         {"batch", batch},
               {"mops_kernel", summary(f.kernel)}, {"mops_near", summary(f.near)},
               {"mops_host", summary(f.host)},     {"mops_near_each", f.near},
               {"mops_host_each", f.host},         {"mops_kernel_each", f.kernel}};
      if (counted.contains(action)) row["reads_writes_orders_per_op"] = counted[action];
      rows.push_back(row);
    }
  }
  baselines::BaselineStats const stats = subject->stats();
  Json result{
      {"subject", who},
      {"machine", stats.machine},
      {"load_factor", static_cast<double>(stats.records) / static_cast<double>(stats.slots)},
      {"checked", bench.checked()},
      {"faults", bench.faults()},
      {"rows", rows}};
  if (bench.faults() > 0) result["first_fault"] = bench.first_fault();
  return result;
}

void print(Options const& o, Json const& r) {
  auto const number = [](Json const& j) { return j.is_null() ? std::string("-") : j.dump(); };
  std::printf("%s on %s: load factor %.3f, %s answers checked, %s wrong\n",
              r["subject"].get<std::string>().c_str(), r["machine"].get<std::string>().c_str(),
              r["load_factor"].get<double>(), r["checked"].dump().c_str(),
              r["faults"].dump().c_str());
  if (r.contains("first_fault"))
    std::printf("  FAULT: %s\n", r["first_fault"].get<std::string>().c_str());
  std::printf("  %-9s %9s %10s %10s %10s   %s\n", "workload", "batch", "kernel", "near", "host",
              o.count_accesses ? "PM reads, writes, orders an operation" : "");
  for (Json const& row : r["rows"]) {
    std::printf("  %-9s %9s %10s %10s %10s", row["workload"].get<std::string>().c_str(),
                row["batch"].dump().c_str(), number(row["mops_kernel"]).c_str(),
                number(row["mops_near"]).c_str(), number(row["mops_host"]).c_str());
    if (row.contains("reads_writes_orders_per_op")) {
      std::printf("  ");
      for (Json const& n : row["reads_writes_orders_per_op"])
        std::printf(" %8.4f", n.get<double>());
    }
    std::printf("\n");
  }
}

void check_options(Options const& o) {
  bool const plays =
      std::find(o.workloads.begin(), o.workloads.end(), name(Action::trace)) != o.workloads.end();
  if (plays != !o.trace.empty())
    throw Failure("--trace FILE and --workload trace: give both or neither");
  std::uint64_t const largest = *std::max_element(o.batches.begin(), o.batches.end());
  if (std::min(largest, o.ops) > o.records) {
    throw Failure("--records " + std::to_string(o.records) +
                  ": a batch updates each record once at most; give " +
                  std::to_string(std::min(largest, o.ops)) + " or more, or smaller batches");
  }
}

int run(Options const& o) {
  check_options(o);
  Json all = Json::array();
  bool good = true;
  if (o.json != "-") {
    std::printf(
        "Mop/s, medians of %u; %llu records, %u-byte keys, %u-byte values, %llu operations a "
        "repeat\n",
        o.repeats, static_cast<unsigned long long>(o.records), o.key_bytes, o.value_bytes,
        static_cast<unsigned long long>(o.ops));
  }
  for (std::string const& who : o.subjects) {
    all.push_back(measure_subject(o, who));
    if (o.json != "-") print(o, all.back());
    good = good && all.back()["faults"] == 0;
  }
  write_json(o.json, {{"command", "baselines"},
                      {"version", version()},
                      {"device", o.device},
                      {"records", o.records},
                      {"ops", o.ops},
                      {"key_bytes", o.key_bytes},
                      {"value_bytes", o.value_bytes},
                      {"theta", o.theta},
                      {"repeats", o.repeats},
                      {"seconds", o.seconds},
                      {"verify_reads", o.verify_reads},
                      {"subjects", all}});
  return good ? kGood : kFaults;
}

}  // namespace

Command add_baselines(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "baselines", "Perdure beside SlabHash-GPM, Clevel-GPM and indexes of the CPU");
  app.add_option("--records", o->records, "Records in the table").shows_default().check(positive());
  app.add_option("--ops", o->ops, "Operations a repeat of each workload")
      .shows_default()
      .check(positive());
  app.add_option("--batch", o->batches, "Operations a batch; several with commas")
      .separated_by(',')
      .shows_default()
      .check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(one_of({8, 32}));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--workload", o->workloads,
                 "insert, get-hit, get-miss, update, zipf (YCSB c), delete, ycsb-a, ycsb-b, "
                 "ycsb-d, ycsb-f, trace")
      .separated_by(',')
      .shows_default()
      .check(one_of(std::vector<std::string>(std::begin(kNames), std::end(kNames))));
  app.add_option("--subject", o->subjects, "Whom to measure")
      .separated_by(',')
      .shows_default()
      .check(one_of(subject_names()));
  app.add_option(
      "--trace", o->trace,
      "Of workload trace: little-endian 64-bit record numbers, with bit 63 set for an update");
  app.add_option("--theta", o->theta, "Skew of zipf and YCSB")
      .shows_default()
      .check(range(0.0, 0.9999));
  app.add_option("--repeat", o->repeats).shows_default().check(positive());
  app.add_option("--seconds", o->seconds,
                 "A repeat of gets, updates or a mixture ends with the first batch after so many; "
                 "0 = after --ops")
      .shows_default()
      .check(non_negative());
  app.add_option("--place", o->place, "Where arrays lie: near, host or both")
      .shows_default()
      .check(one_of({"near", "host", "both"}));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag(
      "--verify-reads,!--no-verify-reads", o->verify_reads,
      "Have Perdure check checksums on get, which the baselines do not have (default: yes)");
  app.add_flag("--count-accesses,!--no-count-accesses", o->count_accesses,
               "Count PM accesses, over a smaller table of its own (default: yes)");
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
