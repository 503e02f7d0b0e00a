// TPC-H Q1 over lineitem in a pool: makes columns, loads them, and runs the query.
//
//   tpch_q1 generate FOLDER SCALE
//   tpch_q1 load FOLDER POOL columns|rows
//   tpch_q1 run POOL [MODE] [RUNS] [THREADS] [DAY]    MODE: cpu, gpu, both, gpu-memory
//   tpch_q1 check POOL      all modes, over rows that it generates, answer as the host's threads;
//                           77: no GPU here
//
// `run` prints one JSON object: the answer, and the times of a median run. DAY is a number of days
// since 1970: rows shipped later do not count.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "column_files.hpp"
#include "pool.hpp"
#include "runner.hpp"

namespace perdure::q1 {
namespace {

constexpr unsigned kValidationDay = 10471;  // 1998-09-02, 90 days before 1998-12-01

using Arguments = std::span<char const* const>;

Status usage() {
  return {Code::invalid_argument,
          "tpch_q1 generate FOLDER SCALE | load FOLDER POOL columns|rows | "
          "run POOL [MODE] [RUNS] [THREADS] [DAY] | check POOL"};
}

unsigned cores() { return std::max(1u, std::thread::hardware_concurrency()); }

/// The argument at i as a number from 1 to most; `otherwise` if there is none.
Result<unsigned> number(Arguments arguments, std::size_t i, unsigned otherwise, unsigned most) {
  if (i >= arguments.size()) return otherwise;
  std::string_view const text = arguments[i];
  unsigned value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > most)
    return Status{Code::invalid_argument,
                  "'" + std::string(text) + "': give a number from 1 to " + std::to_string(most)};
  return value;
}

Status make_columns(Arguments arguments) {
  if (arguments.size() != 2) return usage();
  double const scale = std::strtod(arguments[1], nullptr);
  if (!(scale > 0 && scale <= 1000))
    return {Code::invalid_argument, std::string(arguments[1]) + ": a scale is above 0, to 1000"};
  Columns const columns = generate(scale, cores());
  if (Status s = write_folder(arguments[0], columns); !s.ok()) return s;
  std::printf("%llu rows\n", static_cast<unsigned long long>(columns.rows));
  return {};
}

Status load_pool(Arguments arguments) {
  if (arguments.size() != 3) return usage();
  std::string const form = arguments[2];
  if (form != "columns" && form != "rows") return usage();
  auto columns = read_folder(arguments[0]);
  if (!columns) return columns.status();
  return load(arguments[1], *columns, form == "rows" ? Form::rows : Form::columns);
}

/// The middle of several runs by their time, after one that is not counted.
Result<Answer> median_run(Runner& runner, Mode mode, Query query, Stage stage, unsigned runs) {
  std::vector<Answer> answers;
  for (unsigned i = 0; i <= runs; ++i) {
    auto answer = runner.run(mode, query, stage);
    if (!answer) return answer;
    if (i > 0) answers.push_back(std::move(*answer));
  }
  std::ranges::sort(answers, {}, &Answer::seconds);
  return std::move(answers[answers.size() / 2]);
}

struct RunOptions {
  Mode mode = Mode::cpu;
  unsigned runs = 5, threads = 1;
  Query query;
};

Result<RunOptions> run_options(Arguments arguments) {
  if (arguments.empty() || arguments.size() > 5) return usage();
  auto mode = mode_of(arguments.size() > 1 ? arguments[1] : "cpu");
  auto runs = number(arguments, 2, 5, 1000);
  auto threads = number(arguments, 3, cores(), 1024);
  auto day = number(arguments, 4, kValidationDay, kNoDay - 1);
  for (Status const& s : {mode.status(), runs.status(), threads.status(), day.status()})
    if (!s.ok()) return s;
  return RunOptions{*mode, *runs, *threads, {static_cast<std::uint16_t>(*day)}};
}

Status run_query(Arguments arguments) {
  auto options = run_options(arguments);
  if (!options) return options.status();
  auto const begin = std::chrono::steady_clock::now();
  auto table =
      open_table(arguments[0], options->mode == Mode::cpu ? Access::reading : Access::pinning);
  if (!table) return table.status();
  double const read =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Runner runner(*table, options->threads);
  auto prepared = runner.prepare(options->mode);
  if (!prepared) return prepared.status();
  auto const& [mode, runs, threads, query] = *options;
  auto filter = median_run(runner, mode, query, Stage::filter, runs);
  if (!filter) return filter.status();
  auto answer = median_run(runner, mode, query, Stage::whole, runs);
  if (!answer) return answer.status();
  std::printf(
      "{\"form\": \"%s\", \"rows\": %llu, \"mode\": \"%s\", \"threads\": %u, \"gpu\": \"%s\",\n"
      " \"read_s\": %.6f, \"prepare_s\": %.6f, \"filter_s\": %.6f, \"merge_s\": %.6f,"
      " \"query_s\": %.6f,\n \"answer\": %s}\n",
      table->form == Form::rows ? "rows" : "columns", static_cast<unsigned long long>(table->rows),
      std::string(name(mode)).c_str(), threads,
      runner.gpu() != nullptr ? runner.gpu()->name().c_str() : "", read, *prepared, filter->seconds,
      answer->merge_seconds, answer->seconds, answer->totals.json().c_str());
  return {};
}

constexpr int kNoGpu = 77;

/// Whether each mode answers as `cpu` does.
Status check_modes(Table& table) {
  Runner runner(table, cores());
  for (Stage const stage : {Stage::filter, Stage::whole}) {
    auto expected = runner.run(Mode::cpu, {kValidationDay}, stage);
    if (!expected) return expected.status();
    for (Mode const mode : {Mode::gpu, Mode::both, Mode::gpu_memory}) {
      if (auto prepared = runner.prepare(mode); !prepared) return prepared.status();
      auto answer = runner.run(mode, {kValidationDay}, stage);
      if (!answer) return answer.status();
      if (answer->totals == expected->totals) continue;
      return {Code::device_error, "mode " + std::string(name(mode)) + " answers\n" +
                                      answer->totals.table() + "and mode cpu\n" +
                                      expected->totals.table()};
    }
  }
  return {};
}

Status check(Arguments arguments) {
  if (arguments.size() != 1) return usage();
  Columns const columns = generate(0.1, cores());
  for (Form const form : {Form::columns, Form::rows}) {
    if (Status s = load(arguments[0], columns, form); !s.ok()) return s;
    auto table = open_table(arguments[0], Access::pinning);
    if (!table) return table.status();
    if (Status s = check_modes(*table); !s.ok()) return s;
  }
  return {};
}

Status command(Arguments arguments) try {
  if (arguments.empty()) return usage();
  std::string const name = arguments[0];
  if (name == "generate") return make_columns(arguments.subspan(1));
  if (name == "load") return load_pool(arguments.subspan(1));
  if (name == "run") return run_query(arguments.subspan(1));
  if (name == "check") return check(arguments.subspan(1));
  return usage();
} catch (std::bad_alloc const&) {
  return {Code::no_space, "too little memory for these rows: take a smaller scale factor"};
}

}  // namespace
}  // namespace perdure::q1

int main(int argc, char** argv) {
  auto const arguments = std::span<char const* const>(argv, static_cast<std::size_t>(argc));
  perdure::Status const s = perdure::q1::command(arguments.subspan(1));
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  if (s.ok()) return 0;
  bool const checks = arguments.size() > 1 && std::string_view(arguments[1]) == "check";
  return checks && s.code() == perdure::Code::unsupported ? perdure::q1::kNoGpu : 1;
}
