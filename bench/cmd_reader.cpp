// `perdure-bench reader-revert`: how long the first get of a reader beside the writer takes (layout
// `log`) when a commit that it has read was taken back, so that it builds its index anew: by one
// thread, and by several, in turns.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "driver.hpp"
#include "perdure/pool_reader.h"
#include "ycsb.hpp"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::uint64_t records = 4'000'000;
  std::uint32_t value_bytes = 16;
  std::size_t batch = std::size_t{1} << 16;
  std::uint32_t threads = 2;
  std::uint32_t repeats = 5;
  std::string pool;
  std::uint64_t seed = 1;
  std::string json;
};

Store load(Options const& o, Dataset const& dataset, std::string const& path) {
  CreateOptions create;
  create.value_bytes = o.value_bytes;
  create.expected_records = o.records;
  create.layout = Layout::log;
  Store store = require(Store::create(path, create), "create " + path);
  RequestStream load(Workload::load, o.records, 0, o.seed);
  Pass const pass = Driver(dataset, o.batch, MemorySpace::host).run(store, load, o.records);
  if (pass.faults > 0) throw Failure(pass.first_fault);
  return store;
}

/// A reader, and how long its gets took.
struct Reader {
  Reader(std::string const& path, std::uint32_t threads)
      : reader(require(PoolReader::open(path, {threads}), "read " + path)) {}

  /// Seconds that a get of record 0 takes, which has to have that version.
  double get(Dataset const& dataset, std::uint64_t version) {
    std::vector<std::byte> key(dataset.key_bytes()), value(dataset.value_bytes());
    dataset.write_key(0, key.data());
    PoolReader::Target const target{value.data(), dataset.value_bytes()};
    KeyStatus status = KeyStatus::not_found;
    auto const begin = Clock::now();
    require(reader.get({key.data(), nullptr, dataset.key_bytes(), 1, MemorySpace::host},
                       {&target, 1}, {&status, 1}),
            "a reader's get");
    double const took = std::chrono::duration<double>(Clock::now() - begin).count();
    if (status != KeyStatus::ok || !dataset.holds(value.data(), 0, version))
      throw Failure("a reader has another value of record 0");
    return took;
  }

  PoolReader reader;
  std::vector<double> seconds;
};

/// Commits another value of record 0, so that it can be taken back.
void commit_another(Store& store, Dataset const& dataset) {
  std::vector<std::byte> key(dataset.key_bytes()), value(dataset.value_bytes());
  dataset.write_key(0, key.data());
  dataset.write_value(0, 1, value.data());
  auto transaction = require(store.begin({.max_operations = 1, .revertible = true}), "begin");
  CallOptions how;
  how.transaction = &transaction;
  require(store.put({key.data(), nullptr, dataset.key_bytes(), 1, MemorySpace::host},
                    {value.data(), nullptr, dataset.value_bytes(), 1, MemorySpace::host}, {}, how),
          "put");
  require(transaction.commit(), "commit");
}

int run(Options const& o) {
  PoolFile const file(o.pool);
  Dataset const dataset(o.seed, 8, o.value_bytes);
  Store store = load(o, dataset, file.path());
  std::array<Reader, 2> readers{Reader(file.path(), 1), Reader(file.path(), o.threads)};
  for (std::uint32_t i = 0; i < o.repeats; ++i) {
    commit_another(store, dataset);
    for (Reader& reader : readers) static_cast<void>(reader.get(dataset, 1));
    require(store.revert(), "revert");
    for (Reader& reader : readers) reader.seconds.push_back(reader.get(dataset, 0));
    std::swap(readers[0], readers[1]);
  }
  if (o.repeats % 2 != 0) std::swap(readers[0], readers[1]);
  require(store.close(), "close");
  double const alone = median(readers[0].seconds), together = median(readers[1].seconds);
  std::printf(
      "%llu records: a reader's first get after a revert takes %.3f s by one thread, %.3f s by %u: "
      "%.2f of the time\n",
      static_cast<unsigned long long>(o.records), alone, together, o.threads, together / alone);
  write_json(o.json, Json{{"command", "reader-revert"},
                          {"version", version()},
                          {"records", o.records},
                          {"value_bytes", o.value_bytes},
                          {"threads", o.threads},
                          {"alone_seconds", alone},
                          {"together_seconds", together}});
  return kGood;
}

}  // namespace

Command add_reader_revert(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "reader-revert", "A reader beside the writer builds its index anew, by one thread and more");
  app.add_option("--records", o->records).shows_default().check(positive());
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--batch", o->batch, "Operations a batch").shows_default().check(positive());
  app.add_option("--threads", o->threads, "Of the second reader").shows_default().check(positive());
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_option("--seed", o->seed).shows_default();
  app.add_option("--json", o->json, "Write the results to this file").check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
