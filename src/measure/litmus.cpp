// All litmus tests of this machine, in a table: see perdure/litmus.h.
#include "perdure/litmus.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "exec/cpu/processor.hpp"
#include "exec/cuda/cuda_info.hpp"
#include "measure/litmus_cases.hpp"
#include "measure/litmus_runner.hpp"

namespace perdure {

namespace {

using measure::Counted;
using measure::LitmusCase;
using measure::LitmusGpu;
using measure::LitmusRunner;
using measure::SideOf;

LitmusVerdict verdict_of(bool allowed, std::uint64_t seen) {
  if (allowed) return seen == 0 ? LitmusVerdict::not_seen : LitmusVerdict::weak;
  return seen == 0 ? LitmusVerdict::holds : LitmusVerdict::broken;
}

LitmusLine line_of(LitmusCase const& one, Counted const& counted, bool shares_atomics) {
  LitmusLine line;
  line.test = one.test->name;
  line.sides = one.shown_sides();
  line.order = one.test->is_update() ? "relaxed" : std::string(measure::name(one.order));
  line.scope = one.has(SideOf::gpu) ? std::string(measure::name(one.scope)) : "-";
  line.allowed = one.allowed(shares_atomics);
  if (auto const who = one.relied_on()) line.relied_on = exec::name(*who);
  line.runs = counted.runs;
  line.seen = counted.seen;
  line.seconds = counted.seconds;
  return line;
}

LitmusLine handed_over(Counted const& counted) {
  LitmusLine line;
  line.test = "handover";
  line.sides = "cpu -> gpu -> cpu";
  line.order = "kernel begins, ends";
  line.scope = "system";
  line.relied_on = exec::name(exec::Reliance::batches);
  line.runs = counted.runs;
  line.seen = counted.seen;
  line.seconds = counted.seconds;
  return line;
}

void add(LitmusReport& report, LitmusLine line, std::string_view memory) {
  line.memory = memory;
  line.verdict = verdict_of(line.allowed, line.seen);
  if (line.verdict == LitmusVerdict::broken && !line.relied_on.empty()) report.sound = false;
  report.lines.push_back(std::move(line));
}

std::string_view shown_memory(LitmusGpu const* gpu, LitmusMemory memory) {
  if (gpu == nullptr) return "host";
  switch (memory) {
    case LitmusMemory::pinned: return "pinned";
    case LitmusMemory::managed: return "managed";
    case LitmusMemory::system: return "system";
  }
  return "";
}

/// Why these options cannot be had; empty: they can.
std::string refusal(LitmusOptions const& options, LitmusGpu* gpu) {
  if (options.runs == 0) return "runs must be at least 1";
  if (options.memory == LitmusMemory::pinned) return "";
  if (gpu == nullptr) return "memory other than the host's needs a GPU; use memory pinned";
  char const* const why = gpu->why_not_shared(options.memory);
  return why == nullptr ? "" : std::string("on this machine ") + why + "; use memory pinned";
}

}  // namespace

std::string_view name(LitmusVerdict verdict) {
  switch (verdict) {
    case LitmusVerdict::holds: return "holds";
    case LitmusVerdict::not_seen: return "not seen";
    case LitmusVerdict::weak: return "weak";
    case LitmusVerdict::broken: return "BROKEN";
  }
  return "";
}

namespace {

using measure::Counted;
using measure::LitmusCase;
using measure::LitmusGpu;
using measure::LitmusRunner;
using measure::SideOf;

/// Runs what there is and adds it to the report, sharing out the seconds among what is left.
Status run_all(LitmusGpu* gpu, LitmusRunner& runner, LitmusOptions const& options,
               GoOn const& go_on, LitmusReport& report) {
  std::vector<LitmusCase> const cases = measure::litmus_cases(gpu != nullptr);
  std::string_view const memory = shown_memory(gpu, options.memory);
  bool const shares_atomics = gpu != nullptr && gpu->shares_atomics(options.memory);
  std::size_t const all = cases.size() + (gpu == nullptr ? 0 : 1);
  double left = options.seconds;
  while (report.lines.size() < all) {
    std::size_t const done = report.lines.size();
    if (go_on && !go_on(static_cast<double>(done) / static_cast<double>(all)))
      return {Code::stopped, "litmus: stopped between two tests"};
    double const share = left / static_cast<double>(all - done);
    auto counted = done < cases.size() ? runner.run(cases[done], options.runs, share)
                                       : runner.hand_over(options.runs, share);
    if (!counted.ok()) return counted.status();
    left = std::max(0.0, left - counted->seconds);
    add(report,
        done < cases.size() ? line_of(cases[done], *counted, shares_atomics)
                            : handed_over(*counted),
        memory);
  }
  return {};
}

}  // namespace

Result<LitmusReport> litmus(LitmusOptions const& options, GoOn const& go_on) {
  LitmusReport report;
  report.cpu = exec::processor_name();
  std::unique_ptr<LitmusGpu> gpu;
  if (auto made = measure::make_litmus_gpu(); made.ok()) {
    gpu = std::move(*made);
    report.gpu = exec::gpu_info().description;
  } else {
    report.why_no_gpu = made.status().message();
  }
  if (std::string const why = refusal(options, gpu.get()); !why.empty())
    return Status{Code::invalid_argument, "litmus: " + why};
  auto runner = LitmusRunner::make(gpu.get(), options.memory);
  if (!runner.ok()) return runner.status();
  if (Status s = run_all(gpu.get(), **runner, options, go_on, report); !s.ok()) return s;
  return report;
}

Result<std::string> record_litmus(LitmusReport const& report) {
  std::vector<exec::LitmusFailure> failed;
  for (LitmusLine const& line : report.lines) {
    if (line.relied_on.empty() || line.verdict != LitmusVerdict::broken) continue;
    failed.push_back({line.relied_on, line.test + " " + line.sides + " " + line.order + ", " +
                                          std::to_string(line.seen) + " of " +
                                          std::to_string(line.runs) + " runs"});
  }
  if (Status s = exec::record_litmus(report.cpu, report.gpu, failed); !s.ok()) return s;
  return exec::litmus_record();
}

}  // namespace perdure
