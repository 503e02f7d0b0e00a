// perdure-bench-rocks: RocksDB and perdure::rocks on the same data and cores, turn by turn in one
// run, so that whatever else the machine does falls on both. Every answer of either is checked.
//
// RocksDB is given what helps it: WriteBatch and MultiGet of 1,000, memtables of 512 MiB, a block
// cache of 4 GiB, bloom filters, no compression, all cores for flushes and compaction. Its log is
// on, as Perdure's is. Perdure gets calls of the same size, and of larger ones.
//
// Exit status 0 when every answer was right, 1 when one was wrong or a figure failed, 2 for wrong
// usage.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "command_line.hpp"
#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

struct Item {
  char const* name;
  void (*measure)(Context&);
};

constexpr Item kItems[] = {
    {"put", measure_put},         {"get", measure_get},
    {"range", measure_range},     {"delete", measure_delete},
    {"update", measure_update},   {"get-half", measure_get_half},
    {"get-hot", measure_get_hot}, {"transactions", measure_transactions},
    {"ycsb", measure_ycsb},       {"sustained", measure_sustained},
    {"sizes", measure_sizes},     {"memtables", measure_memtables},
    {"values", measure_values},   {"device", measure_device},
    {"rates", measure_rates},     {"single", measure_single},
    {"reopen", measure_reopen},
};

/// A signal that ends the process takes the databases along, which may fill the memory of the
/// machine. It comes to a thread of its own, because a handler could not remove them.
void remove_on_signal(std::string const& directory) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int const each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, directory] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    _exit(128 + signal_number);
  }).detach();
}

bool is_wanted(Options const& o, std::string const& item) {
  return o.only.empty() || std::find(o.only.begin(), o.only.end(), item) != o.only.end();
}

void measure_items(Options const& o, Report& report, std::string const& directory) {
  Context context(o, report, directory);
  for (Item const& item : kItems) {
    if (!is_wanted(o, item.name)) continue;
    try {
      item.measure(context);
    } catch (std::exception const& error) {
      report.fail(item.name, error.what());
    }
  }
}

std::string describe(Library const& library) {
  return "RocksDB " + library.version + " (" + library.file + ", assertions " +
         (library.assertions ? "on: a Release build is 1.3 to 2 times faster" : "off") + ")";
}

Json as_json(Options const& o, Library const& library, Report const& report) {
  return {{"command", "rocks"},
          {"version", version()},
          {"rocksdb", library.version},
          {"rocksdb_library", library.file},
          {"rocksdb_assertions", library.assertions},
          {"system", o.system},
          {"device", o.device},
          {"threads", o.threads},
          {"records", o.records},
          {"repeats", o.repeats},
          {"seconds", o.seconds},
          {"memtable_mib", o.memtable_mib},
          {"path", o.path},
          {"rocksdb_batch", o.rocksdb_batch},
          {"batches", o.batches},
          {"threshold", o.threshold},
          {"memtable_value_bytes", o.memtable_value_bytes},
          {"block_cache_mib", o.block_cache_mib},
          {"block_cache_entry_bytes", o.block_cache_entry_bytes},
          {"flushed_mib", o.flushed_mib},
          {"idle_millis", o.idle_millis},
          {"hand_overs_a_second", o.hand_overs_a_second},
          {"set", o.set},
          {"checked", answers_checked()},
          {"failures", report.failures()},
          {"rows", report.rows()}};
}

int run(Options const& o) {
  Library const library = rocksdb_library();
  std::string const directory = o.path + "/perdure-bench-rocks-" + std::to_string(getpid());
  Report report;
  {
    remove_on_signal(directory);
    WorkDirectory const work(directory);
    measure_items(o, report, work.path());
  }
  std::printf("%s\nPerdure %s on device %s; %s records, %u threads, files in %s\n",
              describe(library).c_str(), std::string(version()).c_str(), o.device.c_str(),
              grouped(o.records).c_str(), o.threads, o.path.c_str());
  report.print();
  write_json(o.json, as_json(o, library, report));
  return report.failed() ? kFaults : kGood;
}

void add_perdure_options(CommandLine& app, Options& o) {
  app.add_option("--device", o.device, "Perdure's")
      .shows_default()
      .check(one_of({"automatic", "cpu", "cuda"}));
  app.add_option("--threshold", o.threshold,
                 "Operations from which Perdure's memtables take a write (0: measured)")
      .shows_default();
  app.add_option("--memtable-value-bytes", o.memtable_value_bytes,
                 "Of the largest values that lie in Perdure's memtables")
      .shows_default()
      .check(range(0u, 1024u));
  app.add_option("--block-cache-mib", o.block_cache_mib,
                 "Perdure's, of values that reads found in RocksDB (0: none)")
      .shows_default();
  app.add_option("--block-cache-entry-bytes", o.block_cache_entry_bytes).shows_default();
  app.add_option("--flushed-mib", o.flushed_mib,
                 "Perdure's, of memtables that RocksDB has by now (0: none)")
      .shows_default();
  app.add_option("--idle-millis", o.idle_millis,
                 "Without a large batch, before Perdure's memtables are flushed")
      .shows_default();
  app.add_option("--hand-overs-a-second", o.hand_overs_a_second, "How often that happens at most")
      .shows_default()
      .check(positive());
}

void add_item_options(CommandLine& app, Options& o) {
  app.add_option("--rates", o.rates, "Of item rates: operations a second")
      .separated_by(',')
      .shows_default();
  app.add_option("--transactions", o.transactions, "Of item transactions: operations each")
      .separated_by(',')
      .shows_default();
  app.add_option("--workloads", o.workloads, "Of item ycsb: which, in their order")
      .separated_by(',')
      .shows_default()
      .check(one_of({"a", "b", "c", "d"}));
  app.add_option("--memtables", o.memtables, "Of item memtables: MiB")
      .separated_by(',')
      .shows_default();
  app.add_option("--value-bytes", o.value_bytes, "Of item values: of a value")
      .separated_by(',')
      .shows_default()
      .check(range(8u, 1024u));
  app.add_option("--logs", o.logs, "Of item reopen: MiB").separated_by(',').shows_default();
}

void add_options(CommandLine& app, Options& o) {
  app.add_option("--path", o.path, "Directory for the databases").shows_default();
  app.add_option("--only", o.only, "Of these items alone, with commas between")
      .separated_by(',')
      .check(one_of(item_names()));
  app.add_option("--system", o.system,
                 "Of this one alone, without a comparison: to profile it; itself: RocksDB beside "
                 "RocksDB, to see what the benchmark makes of equals")
      .check(one_of({"rocksdb", "perdure", "itself"}));
  app.add_option("--records", o.records, "Pairs of a database").shows_default().check(positive());
  app.add_option("--threads", o.threads, "Clients, and each system's own threads")
      .shows_default()
      .check(positive());
  app.add_option("--seconds", o.seconds, "The longest of a single measurement")
      .shows_default()
      .check(positive());
  app.add_option("--repeats", o.repeats).shows_default().check(positive());
  app.add_option("--seed", o.seed).shows_default();
  app.add_option("--batch", o.batches, "Operations a call of Perdure, with commas between")
      .separated_by(',')
      .shows_default()
      .check(positive());
  app.add_option("--rocksdb-batch", o.rocksdb_batch, "Operations a call of RocksDB")
      .shows_default()
      .check(positive());
  app.add_option("--memtable-mib", o.memtable_mib).shows_default().check(positive());
  app.add_option("--cache-mib", o.cache_mib, "RocksDB's block cache").shows_default();
  app.add_option("--set", o.set, "NAME=VALUE: an option of RocksDB, for both systems");
  add_perdure_options(app, o);
  add_item_options(app, o);
  app.add_option("--json", o.json, "Write the results to this file").check(new_file());
  app.add_option("--fill", o.fill, "Fill a database and wait: what item reopen starts and kills");
  app.add_option("--fill-directory", o.fill_directory, "Where");
}

int start(int argc, char** argv) {
  Options o;
  CommandLine app("RocksDB and perdure::rocks side by side. Every answer is checked.",
                  "perdure-bench-rocks", std::string(version()));
  add_options(app, o);
  int status = kUsage;
  if (!app.parse(argc, argv, status)) return status;
  if (!o.fill.empty()) fill_and_wait(o);
  return run(o);
}

}  // namespace

std::vector<std::string> const& item_names() {
  static std::vector<std::string> const names = [] {
    std::vector<std::string> all;
    for (Item const& item : kItems) all.emplace_back(item.name);
    return all;
  }();
  return names;
}

}  // namespace perdure::bench::rocks

int main(int argc, char** argv) {
  try {
    return perdure::bench::rocks::start(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-bench-rocks: %s\n", error.what());
    return perdure::bench::kUsage;
  }
}
