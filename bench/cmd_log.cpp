// `perdure-bench log`: what the redo log makes of a disk. scripts/bench_log.sh sets it beside fio.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "commands.hpp"
#include "common.hpp"
#include "perdure/log_speed.h"

namespace perdure::bench {
namespace {

struct Options {
  LogSpeedOptions log;
  std::vector<std::uint64_t> batches{1, 64, 1024, 4096, 65536};
  bool plain = false;
  bool cached = false;
  bool keep = false;
  std::string json;
};

Json one_size(Options const& o, std::uint64_t operations) {
  LogSpeedOptions log = o.log;
  log.batch_operations = operations;
  log.io_uring = !o.plain;
  log.direct = !o.cached;
  unlink(log.path.c_str());
  LogSpeed const speed = require(measure_log(log), "log " + log.path);
  constexpr double kGiB = 1u << 30;
  std::printf("%9llu %12llu %10.3f %10.2f %10.1f %10.1f %10.3f %10.3f %10.2f\n",
              static_cast<unsigned long long>(operations),
              static_cast<unsigned long long>(speed.batch_bytes),
              speed.stream_bytes_per_second / kGiB, speed.stream_operations_per_second / 1e6,
              speed.latency_p50_us, speed.latency_p99_us, speed.waited_bytes_per_second / kGiB,
              speed.replay_bytes_per_second / kGiB, speed.replay_operations_per_second / 1e6);
  std::fflush(stdout);
  return {{"batch_operations", operations},
          {"batch_bytes", speed.batch_bytes},
          {"method", speed.method},
          {"stream_bytes_per_second", speed.stream_bytes_per_second},
          {"stream_operations_per_second", speed.stream_operations_per_second},
          {"acknowledged", speed.acknowledged},
          {"latency_p50_us", speed.latency_p50_us},
          {"latency_p99_us", speed.latency_p99_us},
          {"waited_bytes_per_second", speed.waited_bytes_per_second},
          {"replay_bytes_per_second", speed.replay_bytes_per_second},
          {"replay_operations_per_second", speed.replay_operations_per_second}};
}

int run(Options const& o) {
  if (access(o.log.path.c_str(), F_OK) == 0)
    throw Failure(
        "--file " + o.log.path +
        ": there is a file already, and the benchmark would replace it: name another path");
  std::printf("%9s %12s %10s %10s %10s %10s %10s %10s %10s\n", "ops/batch", "bytes/batch", "GiB/s",
              "Mop/s", "p50 us", "p99 us", "waited", "replay", "Mop/s");
  Json sizes = Json::array();
  for (std::uint64_t const operations : o.batches) sizes.push_back(one_size(o, operations));
  if (!o.keep) unlink(o.log.path.c_str());
  std::printf(
      "GiB/s and Mop/s: appended without waiting; p50, p99, waited (GiB/s): one client that waits "
      "for each\n%s\n",
      sizes[0]["method"].get<std::string>().c_str());
  write_json(o.json, {{"command", "log"},
                      {"version", version()},
                      {"file", o.log.path},
                      {"log_bytes", o.log.log_bytes},
                      {"depth", o.log.depth},
                      {"group_bytes", o.log.group_bytes},
                      {"key_bytes", o.log.key_bytes},
                      {"value_bytes", o.log.value_bytes},
                      {"sizes", sizes}});
  return kGood;
}

}  // namespace

Command add_log(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app = program.add_subcommand(
      "log", "The redo log on a disk: bandwidth, latency to durable, replay");
  app.add_option("--file", o->log.path, "Where the log is made; removed in the end").required();
  app.add_option("--bytes", o->log.log_bytes, "Size of the log").shows_default().check(positive());
  app.add_option("--batch", o->batches, "Operations a batch, comma-separated")
      .shows_default()
      .separated_by(',');
  app.add_option("--key-bytes", o->log.key_bytes).shows_default().check(positive());
  app.add_option("--value-bytes", o->log.value_bytes).shows_default().check(positive());
  app.add_option("--seconds", o->log.seconds, "Of each write measurement").shows_default();
  app.add_option("--depth", o->log.depth, "Writes in flight").shows_default();
  app.add_option("--group-bytes", o->log.group_bytes, "Most bytes of one group").shows_default();
  app.add_flag("--plain", o->plain, "pwrite and fdatasync instead of io_uring");
  app.add_flag("--cached", o->cached, "Through the page cache instead of O_DIRECT");
  app.add_flag("--keep", o->keep, "Leave the file there");
  app.add_option("--json", o->json, "Write the results to this file").check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
