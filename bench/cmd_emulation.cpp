// `perdure-bench emulation`: the published figures of Optane modules beside what the timing
// emulation gives for the same patterns, and what one dependent read takes on this machine while it
// emulates.
#include <cstdio>

#include "commands.hpp"
#include "common.hpp"
#include "cpu_baseline.hpp"

namespace perdure::bench {
namespace {

int run_emulation(std::string const& json) {
  Json points = Json::array();
  if (json != "-")
    std::printf("%-56s %10s %10s %9s\n", "emulated", "published", "modelled", "residual");
  for (cpu_baselines::EmulationPoint const& p : cpu_baselines::emulation_points()) {
    double const residual = 100 * (p.modelled / p.published - 1);
    points.push_back({{"what", p.what},
                      {"unit", p.unit},
                      {"published", p.published},
                      {"modelled", p.modelled},
                      {"residual_percent", residual}});
    if (json != "-")
      std::printf("%-50s %5s %10.2f %10.2f %+8.1f%%\n", p.what.c_str(), p.unit.c_str(), p.published,
                  p.modelled, residual);
  }
  double const read_ns = cpu_baselines::emulated_read_ns();
  if (json != "-") std::printf("a dependent read on this machine, emulated: %.0f ns\n", read_ns);
  write_json(
      json,
      {{"command", "emulation"}, {"version", version()}, {"points", points}, {"read_ns", read_ns}});
  return kGood;
}

}  // namespace

Command add_emulation(CommandLine& program) {
  auto json = std::make_shared<std::string>();
  CommandLine& app = program.add_subcommand(
      "emulation", "How far the emulation of Optane is from published figures");
  app.add_option("--json", *json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [json] { return run_emulation(*json); }};
}

}  // namespace perdure::bench
