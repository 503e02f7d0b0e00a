// `perdure-bench hetero`: a hash table that CPU and GPU share, by every way of sharing that chapter
// 4 of the thesis on heterogeneous memory tries. Keys and values have 8 bytes; batches and answers
// lie in host memory. Without a GPU a second group of CPU warps is the device.
//
//   cpu        host threads alone, by their number (Figure 4.8)
//   gpu        the device alone, by batch size (Figure 4.9): the table in its memory, or in host
//              memory, read over the link
//   alone      so many threads that hand batches to the device, and the other threads, each group
//              by itself (Figure 4.12)
//   approach1  both groups at a time (Figures 4.13, 4.14, 4.16)
//   approach2  and who waits for the device answers gets meanwhile (Figures 4.15, 4.16)
//   ahead      approach 2 with and without prefetching, by batch size (Figure 4.21)
//   prefetch   host threads alone, by how far they look ahead (Figure 4.20)
//   hot-set    host threads on a small table, the device on all keys (Figure 4.19)
//   put-twice  updates of both copies (Listing 11), by batch size
//   split      a batch by the host's threads, by the device, or parted by measured rates: of a
//   table
//              in host memory alone, which both read, and of one that lies twice
//   hot-cold   hot keys with the host, static and dynamic (Figure 4.18)
#include <algorithm>
#include <cstdio>
#include <functional>

#include "commands.hpp"
#include "hetero_bench.hpp"

namespace perdure::bench::shared {
namespace {

std::vector<std::string> const& mode_names() {
  static std::vector<std::string> const names{"all",       "cpu",       "gpu",   "alone",
                                              "approach1", "approach2", "ahead", "prefetch",
                                              "hot-set",   "put-twice", "split", "hot-cold"};
  return names;
}

/// The columns that every row has, then what else it says.
void print(Json const& row, bool wrong) {
  auto const text = [&](char const* name) {
    if (!row.contains(name)) return std::string("-");
    return row[name].is_string() ? row[name].get<std::string>() : row[name].dump();
  };
  std::printf("%-10s %-4s %-8s %-12s %9s %11.3f %11.3f %11.3f ", text("mode").c_str(),
              text("op").c_str(), text("dist").c_str(), text("memory").c_str(),
              text("batch").c_str(), row["mops"].get<double>(), row.value("host_mops", 0.0),
              row.value("device_mops", 0.0));
  for (auto const& [name, value] : row.items()) {
    static std::vector<std::string> const columns{"mode",  "op",   "dist",      "memory",
                                                  "batch", "mops", "host_mops", "device_mops"};
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      std::printf(" %s=%s", name.c_str(), text(name.c_str()).c_str());
  }
  std::printf("%s\n", wrong ? "  WRONG ANSWERS" : "");
  std::fflush(stdout);
}

double rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 1000 + 0.5)) / 1000;
}

}  // namespace

std::unique_ptr<hetero::Table> Bench::loaded(hetero::Where where, std::uint64_t keys) {
  auto table = require(hetero::create_table(sides_, {keys, where}), "a table");
  constexpr std::size_t kBatch = 1 << 20;
  auto const k = require(hetero::shared_words(sides_, kBatch), "keys");
  auto const v = require(hetero::shared_words(sides_, kBatch), "values");
  for (std::uint64_t first = 0; first < keys; first += kBatch) {
    std::size_t const n = std::min<std::uint64_t>(kBatch, keys - first);
    on_all_cores(n, [&](std::size_t i) {
      k->all()[i] = key_of(first + i);
      v->all()[i] = value_of(k->all()[i], 0);
    });
    require(table->put(k->all().first(n), v->all().first(n)), "loading the table");
  }
  return table;
}

void Bench::begin(std::string const& mode) {
  mode_ = mode;
  begun_ = Clock::now();
}

bool Bench::in_time() {
  double const took = std::chrono::duration<double>(Clock::now() - begun_).count();
  if (o_.mode_seconds == 0 || took < o_.mode_seconds) return true;
  if (std::find(cut_short_.begin(), cut_short_.end(), mode_) != cut_short_.end()) return false;
  cut_short_.push_back(mode_);
  if (o_.json != "-")
    std::printf("%s: cut short after %.0f s; --mode-seconds gives it more\n", mode_.c_str(), took);
  return false;
}

void Bench::add(Json row, Rates const& rates) {
  if (!row.contains("mops")) {
    row["mops"] = rates.mops();
    row["host_mops"] = rates.host_mops;
    row["device_mops"] = rates.device_mops;
    if (rates.wait_us > 0) row["wait_us"] = rates.wait_us;
  }
  for (auto& [name, value] : row.items())
    if (value.is_number_float()) value = rounded(value.get<double>());
  checked_ += rates.checked;
  faults_ += rates.faults;
  if (o_.json != "-") print(row, rates.faults > 0);
  rows_.push_back(std::move(row));
}

void Bench::write() const {
  if (o_.json != "-")
    std::printf("%llu answers checked, %llu wrong\n", static_cast<unsigned long long>(checked_),
                static_cast<unsigned long long>(faults_));
  write_json(o_.json, {{"command", "hetero"},
                       {"version", version()},
                       {"device", o_.device},
                       {"machine", sides_->describe()},
                       {"keys", o_.keys},
                       {"threads", threads_},
                       {"seconds", o_.seconds},
                       {"theta", o_.theta},
                       {"cut_short", cut_short_},
                       {"checked", checked_},
                       {"faults", faults_},
                       {"rows", rows_}});
}

int Bench::run() {
  if (o_.json != "-") {
    std::printf(
        "%s\n%llu keys of 8 bytes with values of 8, %.1f MiB a copy; M/s\n"
        "%-10s %-4s %-8s %-12s %9s %11s %11s %11s\n",
        sides_->describe().c_str(), static_cast<unsigned long long>(o_.keys),
        static_cast<double>(hetero::table_bytes(o_.keys)) / (1 << 20), "mode", "op", "dist",
        "memory", "batch", "all", "host", "device");
  }
  if (asked("cpu") || asked("prefetch") || asked("split")) {
    auto const table = loaded(hetero::Where::host, o_.keys);
    if (asked("prefetch")) {
      begin("prefetch");
      prefetch(*table);
    }
    if (asked("cpu")) {
      begin("cpu");
      cpu(*table);
    }
    if (asked("split")) {
      begin("split host");
      split(*table, "host");
    }
  }
  if (asked("gpu")) {
    auto const table = loaded(hetero::Where::device, o_.keys);
    begin("gpu puts");
    gpu_puts(*table);
  }
  std::pair<char const*, std::function<void(Table&)>> const of_both[]{
      {"gpu", [&](Table& t) { gpu_gets(t); }},
      {"alone", [&](Table& t) { handed(t, "alone", Role::device, false); }},
      {"approach1", [&](Table& t) { handed(t, "approach1", Role::device, true); }},
      {"approach2", [&](Table& t) { handed(t, "approach2", Role::overlapped, true); }},
      {"ahead", [&](Table& t) { ahead(t); }},
      {"hot-set", [&](Table& t) { hot_set(t); }},
      {"split", [&](Table& t) { split(t, "twice"); }},
      {"put-twice", [&](Table& t) { put_twice(t); }}};
  if (std::any_of(std::begin(of_both), std::end(of_both),
                  [&](auto const& one) { return asked(one.first); })) {
    auto const table = loaded(hetero::Where::twice, o_.keys);
    for (auto const& [mode, measure] : of_both) {
      if (!asked(mode)) continue;
      begin(mode);
      measure(*table);
    }
  }
  if (asked("hot-cold")) hot_cold();
  write();
  return faults_ == 0 ? kGood : kFaults;
}

}  // namespace perdure::bench::shared

namespace perdure::bench {

Command add_hetero(CommandLine& program) {
  auto o = std::make_shared<shared::Options>();
  CommandLine& app = program.add_subcommand(
      "hetero", "A hash table that CPU and GPU share, by every way of sharing");
  app.add_option("--keys", o->keys, "Keys in the table").shows_default().check(positive());
  app.add_option("--threads", o->threads, "Host threads; 0 = one a core").shows_default();
  app.add_option("--mode", o->modes, "What is measured; several with commas")
      .separated_by(',')
      .shows_default()
      .check(one_of(shared::mode_names()));
  app.add_option("--batch", o->batches, "Keys a batch, where its size varies")
      .separated_by(',')
      .shows_default()
      .check(positive());
  app.add_option("--dist", o->dists, "uniform, zipf; the first where one is enough")
      .separated_by(',')
      .shows_default()
      .check(one_of({"uniform", "zipf"}));
  app.add_option("--theta", o->theta, "Skew of zipf").shows_default().check(range(0.0, 0.9999));
  app.add_option("--seconds", o->seconds, "A measurement ends with the first batch after so many")
      .shows_default()
      .check(non_negative());
  app.add_option("--mode-seconds", o->mode_seconds,
                 "A mode leaves out what it has not measured after so many; 0 = no limit")
      .shows_default()
      .check(non_negative());
  app.add_option("--device", o->device, "cpu (a second group of threads) or cuda").shows_default();
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return shared::Bench(*o).run(); }};
}

}  // namespace perdure::bench
