// `perdure-bench fill`: a load that lets the table grow. After each batch it notes how full the
// table is, as GPHash's figure 7 samples it ("after every 16K insertions during the load phase"),
// and how long the batch took: the batch in which the table grew took as much longer than those
// around it as the growth did.
//
// Invariant: the clock runs from a call of the system to its return, with its arrays in GPU memory
// where it is on a GPU; every record is read back in the end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>

#include "array.hpp"
#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "systems.hpp"

namespace perdure::bench {
namespace {

struct Options {
  std::uint64_t records = 1'000'000;
  std::uint64_t expected_records = 0;
  std::size_t batch = std::size_t{1} << 14;
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::string device = "cpu";
  std::vector<std::string> systems = system_names();
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  std::string pool;
  std::string json;
};

// the table is sized for one 64th of the records unless told otherwise
constexpr std::uint64_t kFirstTable = 64;

/// After one batch.
struct Sample {
  std::uint64_t records = 0;
  std::uint64_t slots = 0;
  std::uint64_t growths = 0;
  double seconds = 0;

  [[nodiscard]] double load_factor() const {
    return static_cast<double>(records) / static_cast<double>(slots);
  }
};

class Fill {
 public:
  Fill(Options const& o, std::string const& who)
      : o_(o),
        file_(o.pool),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        keys_(o.batch, o.key_bytes, nearest(o)),
        values_(o.batch, o.value_bytes, nearest(o)),
        statuses_(o.batch) {
    baselines::BaselineOptions options;
    options.device = device_named(o.device);
    options.key_bytes = o.key_bytes;
    options.value_bytes = o.value_bytes;
    options.expected_records = o.expected_records == 0
                                   ? std::max<std::uint64_t>(1, o.records / kFirstTable)
                                   : o.expected_records;
    options.threads = o.threads;
    system_ = make_system(who, file_.path(), options, o.verify_reads);
    note(0);
  }

  void go() {
    for (std::uint64_t done = 0; done < o_.records; done += o_.batch) put(done, count_from(done));
    for (std::uint64_t done = 0; done < o_.records; done += o_.batch)
      read_back(done, count_from(done));
  }

  [[nodiscard]] Json report(std::string const& who) const;
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

 private:
  static MemorySpace nearest(Options const& o) {
    return device_named(o.device) == Device::cuda ? MemorySpace::device : MemorySpace::host;
  }
  [[nodiscard]] std::size_t count_from(std::uint64_t first) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(o_.batch, o_.records - first));
  }

  void note(double seconds) {
    baselines::BaselineStats const stats = system_->stats();
    samples_.push_back({stats.records, stats.slots, stats.growths, seconds});
  }

  void make(std::uint64_t first, std::size_t count) {
    on_all_cores(count, [this, first](std::size_t i) {
      dataset_.write_key(first + i, keys_.host(i));
      dataset_.write_value(first + i, 0, values_.host(i));
    });
    keys_.send(count);
    values_.send(count);
    std::fill(statuses_.begin(), statuses_.end(), KeyStatus::corrupt);
  }

  void put(std::uint64_t first, std::size_t count) {
    make(first, count);
    auto const begin = std::chrono::steady_clock::now();
    Status const status = system_->put(keys_.column(0, count), values_.column(0, count),
                                       std::span(statuses_).first(count));
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    require(status, "put");
    note(took.count());
    for (std::size_t i = 0; i < count; ++i) faults_ += statuses_[i] == KeyStatus::ok ? 0 : 1;
  }

  void read_back(std::uint64_t first, std::size_t count) {
    make(first, count);
    std::fill_n(values_.host(0), count * o_.value_bytes, std::byte{0});
    values_.send(count);
    require(system_->get(keys_.column(0, count), values_.output(count),
                         std::span(statuses_).first(count)),
            "get");
    values_.fetch(count);
    on_all_cores(count, [this, first](std::size_t i) {
      if (!dataset_.holds(values_.host(i), first + i, 0)) statuses_[i] = KeyStatus::corrupt;
    });
    faults_ += static_cast<std::uint64_t>(
        std::count_if(statuses_.begin(), statuses_.begin() + static_cast<std::ptrdiff_t>(count),
                      [](KeyStatus s) { return s != KeyStatus::ok; }));
    checked_ += count;
  }

  Options const& o_;
  PoolFile file_;
  Dataset dataset_;
  Array keys_, values_;
  std::vector<KeyStatus> statuses_;
  std::unique_ptr<baselines::Baseline> system_;
  std::vector<Sample> samples_;  // the first is the empty table
  std::uint64_t checked_ = 0;
  std::uint64_t faults_ = 0;
};

/// Each batch in which the table grew: its time, beyond the median of the batches that grew
/// nothing.
Json growths_of(std::span<Sample const> samples) {
  std::vector<double> quiet;
  for (std::size_t i = 1; i < samples.size(); ++i)
    if (samples[i].growths == samples[i - 1].growths) quiet.push_back(samples[i].seconds);
  Json list = Json::array();
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (samples[i].growths == samples[i - 1].growths) continue;
    list.push_back({{"slots_before", samples[i - 1].slots},
                    {"slots_after", samples[i].slots},
                    {"growths", samples[i].growths - samples[i - 1].growths},
                    {"records", samples[i - 1].records},
                    {"load_factor_before", samples[i - 1].load_factor()},
                    {"seconds", std::max(0.0, samples[i].seconds - median(quiet))}});
  }
  return list;
}

Json Fill::report(std::string const& who) const {
  double seconds = 0;
  double most = 0;
  Json curve = Json::array();
  for (Sample const& sample : std::span(samples_).subspan(1)) {
    seconds += sample.seconds;
    most = std::max(most, sample.load_factor());
    curve.push_back({sample.records, sample.load_factor(), sample.seconds});
  }
  return {{"system", who},
          {"machine", system_->stats().machine},
          {"mops", static_cast<double>(o_.records) / seconds * 1e-6},
          {"load_factor_most", most},
          {"growths", growths_of(samples_)},
          {"records_load_factor_seconds", curve},
          {"checked", checked_},
          {"faults", faults_}};
}

void print(Json const& r) {
  std::printf("%-13s load %.3f Mop/s, most load factor %.4f, %s answers checked, %s wrong\n",
              r["system"].get<std::string>().c_str(), r["mops"].get<double>(),
              r["load_factor_most"].get<double>(), r["checked"].dump().c_str(),
              r["faults"].dump().c_str());
  for (Json const& growth : r["growths"]) {
    std::printf("  grew from %12s to %12s slots at load factor %.4f in %.4f s\n",
                growth["slots_before"].dump().c_str(), growth["slots_after"].dump().c_str(),
                growth["load_factor_before"].get<double>(), growth["seconds"].get<double>());
  }
}

int run(Options const& o) {
  Json all = Json::array();
  bool good = true;
  for (std::string const& who : o.systems) {
    Fill fill(o, who);
    fill.go();
    all.push_back(fill.report(who));
    if (o.json != "-") print(all.back());
    good = good && fill.faults() == 0;
  }
  write_json(o.json, {{"command", "fill"},
                      {"version", version()},
                      {"device", o.device},
                      {"records", o.records},
                      {"batch", o.batch},
                      {"key_bytes", o.key_bytes},
                      {"value_bytes", o.value_bytes},
                      {"systems", all}});
  return good ? kGood : kFaults;
}

}  // namespace

Command add_fill(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "fill", "A load that grows the table: how full it gets, how long it takes");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--expected-records", o->expected_records,
                 "Size the first table for so many (default: a 64th)");
  app.add_option("--batch", o->batch, "Records a put; a sample follows each")
      .shows_default()
      .check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(one_of({8, 32}));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--device", o->device, "cpu or cuda").shows_default();
  app.add_option("--system", o->systems, "Whom to fill")
      .separated_by(',')
      .shows_default()
      .check(one_of(system_names()));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag("--verify-reads,!--no-verify-reads", o->verify_reads,
               "Have Perdure check checksums when records are read back (default: yes)");
  app.add_option("--pool", o->pool,
                 "Where files are made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
