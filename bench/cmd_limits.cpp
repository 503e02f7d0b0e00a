// `perdure-bench limits`: what this machine's memory, its GPU and the link between them reach at
// most (perdure/measure.h), over spans that do not take long to pin, so that a run of figures has
// its limits beside it.
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "common.hpp"
#include "perdure/measure.h"

namespace perdure::bench {
namespace {

struct Options {
  double seconds = 12;
  std::uint64_t memory = std::uint64_t{2} << 30;
  std::string json;
};

int run(Options const& o) {
  MeasureReport const found =
      require(measure_machine({.seconds = o.seconds, .memory_bytes = o.memory}), "measure");
  Json rows = Json::array();
  for (MeasuredRow const& row : found.rows) {
    std::printf("%-8s %-28s %3u threads, over %11llu bytes, each %5llu: %9.2f %s\n",
                row.what.c_str(), row.how.c_str(), row.threads,
                static_cast<unsigned long long>(row.span_bytes),
                static_cast<unsigned long long>(row.access_bytes), row.value, row.unit.c_str());
    rows.push_back({{"what", row.what},
                    {"how", row.how},
                    {"threads", row.threads},
                    {"span_bytes", row.span_bytes},
                    {"access_bytes", row.access_bytes},
                    {"value", row.value},
                    {"unit", row.unit}});
  }
  for (LeftOut const& left : found.left_out)
    std::printf("not measured: %s (%s)\n", left.what.c_str(), left.why.c_str());
  write_json(o.json, {{"command", "limits"},
                      {"version", version()},
                      {"cpu", found.cpu},
                      {"gpu", found.gpu},
                      {"rows", rows}});
  return kGood;
}

}  // namespace

Command add_limits(CommandLine& program) {
  auto o = std::make_shared<Options>();
  CommandLine& app =
      program.add_subcommand("limits", "What memory, a GPU and its link reach here at most");
  app.add_option("--seconds", o->seconds, "Of all measurements, about")
      .shows_default()
      .check(range(0.1, 600.0));
  app.add_option("--memory", o->memory, "Bytes that arrays may take")
      .shows_default()
      .check(positive());
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
