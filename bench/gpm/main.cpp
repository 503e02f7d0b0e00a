// perdure-gpmbench: GPMbench's applications on a machine and a path to durability, and what they
// cost. Exit status 0 when the result was right, 1 when it was not, 2 for wrong usage or a run that
// failed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps.hpp"
#include "output.hpp"

namespace perdure::bench::gpm {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string app;
  std::string device = "cpu";
  std::string path = "gpm";
  std::string json;
  std::uint32_t threads = 0;
  std::uint64_t trap = 0;
  bool list = false;
  bool keep = false;
  AppOptions options;
  MicroOptions micro;
};

void add_options(CLI::App& program, Arguments& arguments) {
  std::map<std::string, Size> const sizes{
      {"tiny", Size::tiny}, {"small", Size::small}, {"paper", Size::paper}};
  std::map<std::string, perdure::gpm::LogKind> const logs{
      {"hcl", perdure::gpm::LogKind::hcl}, {"conventional", perdure::gpm::LogKind::conventional}};
  std::vector<std::string> paths;
  for (auto const& [path, text] : perdure::gpm::kGpmPaths) paths.emplace_back(text);
  program.add_option("app", arguments.app, "The application, or micro-benchmark");
  program.add_flag("--list", arguments.list, "List them");
  program.add_option("--device", arguments.device, "Who computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  program.add_option("--path", arguments.path, "How results become durable")
      ->check(CLI::IsMember(paths))
      ->capture_default_str();
  program.add_option("--size", arguments.options.size, "tiny, small, paper: how large a problem")
      ->transform(CLI::CheckedTransformer(sizes, CLI::ignore_case));
  program.add_option("--log", arguments.options.log, "hcl, conventional: how transactions log")
      ->transform(CLI::CheckedTransformer(logs, CLI::ignore_case));
  program
      .add_option("--files", arguments.options.files,
                  "What the names of its durable files begin with")
      ->capture_default_str();
  program.add_option("--data", arguments.options.data,
                     "Folder with real inputs, unpacked; else they are generated");
  program.add_flag("--keep", arguments.keep,
                   "Leave its durable files; else they go when it has ended in order");
  program.add_flag("--resume", arguments.options.resume, "Go on with the files that are there");
  program.add_option("--iterations", arguments.options.iterations,
                     "Iterations, or batches; 0: the application's own number");
  program
      .add_option("--every", arguments.options.every, "Iterations from checkpoint to checkpoint")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--threads", arguments.threads, "Threads of device cpu; 0: all");
  program.add_option("--flush-threads", arguments.options.flush_threads,
                     "CPU threads that flush; 0: all");
  program.add_option("--seed", arguments.options.seed, "Of generated inputs")
      ->capture_default_str();
  program.add_flag("--count", arguments.options.count,
                   "On a GPU: count stores and ordering points, which takes time");
  program.add_flag(
      "--check", arguments.options.check,
      "Transactions: against the model at size paper too, which takes minutes and tens of GB");
  program.add_option("--json", arguments.json,
                     "Write the result as JSON to this file; - is standard output");
}

void add_micro_options(CLI::App& program, Arguments& arguments) {
  program
      .add_option("--bytes", arguments.micro.bytes,
                  "Micro-benchmarks: bytes that each measurement moves, about")
      ->check(CLI::Range(std::uint64_t{1} << 16, std::uint64_t{1} << 36))
      ->capture_default_str();
  program
      .add_option("--kernel-threads", arguments.micro.threads,
                  "Micro-benchmarks: the most threads of a kernel")
      ->check(CLI::Range(32u, 1u << 24))
      ->capture_default_str();
  program.add_option("--repeats", arguments.micro.repeats, "Micro-benchmarks: medians of so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
#if defined(PERDURE_TRAPS)
  program.add_option("--trap", arguments.trap,
                     "Abort a kernel at the n-th ordering point that its threads pass");
#endif
}

Json to_json(Arguments const& arguments, std::string const& machine, AppReport const& report) {
  Json json{{"app", arguments.app},
            {"machine", machine},
            {"path", arguments.path},
            {"ddio", perdure::gpm::ddio()},
            {"digest", report.digest},
            {"right", report.right},
            {"checked", 1},
            {"began_at", report.began_at},
            {"steps", report.steps},
            {"operations", report.operations},
            {"run_s", report.run_s},
            {"durable_s", report.durable_s},
            {"recovery_s", report.recovery_s},
            {"durable_bytes", report.durable_bytes}};
  for (auto const& [name, value] : report.more) json[name] = value;
  return json;
}

void write_json(std::string const& to, Json const& json) { write_new(to, json.dump(2) + "\n"); }

/// For people: standard output, unless JSON goes there.
std::FILE* people(Arguments const& arguments) { return arguments.json == "-" ? stderr : stdout; }

/// Files that are made anew, and removed in the end.
void check_new(Arguments const& arguments, std::vector<std::string> const& files) {
  for (std::string const& file : files)
    if (std::string const why = why_not_new(file); !why.empty())
      throw Failure("--files " + arguments.options.files + ": " + why +
                    ", or go on with it by --resume");
}

int run_micro(Arguments const& arguments, Machine const& machine) {
  std::string const& beginning = arguments.options.files;
  check_new(arguments, {beginning + ".stream", beginning + ".persist", beginning + ".log",
                        beginning + ".checkpoint"});
  Json rows = Json::array();
  for (MicroRow const& row : machine.run_micro(arguments.app, arguments.micro)) {
    std::string line;
    Json& json = rows.emplace_back(Json::object());
    for (auto const& [name, value] : row) {
      char text[96];
      std::snprintf(text, sizeof text, "  %s %.6g", name.c_str(), value);
      line += text;
      json[name] = value;
    }
    std::fprintf(people(arguments), "%s:%s\n", arguments.app.c_str(), line.c_str());
  }
  write_json(
      arguments.json,
      {{"app", arguments.app}, {"machine", machine.description}, {"checked", 0}, {"rows", rows}});
  return kGood;
}

/// The application's durable files, as file_of() names them.
std::vector<std::string> files_of(Arguments const& arguments) {
  std::vector<std::string> files;
  for (std::string const& what :
       {std::string("checkpoint"), std::string("log"), std::string("table"), arguments.app})
    files.push_back(arguments.options.files + "." + what);
  return files;
}

void remove_files(Arguments const& arguments) {
  for (std::string const& file : files_of(arguments)) std::filesystem::remove(file);
}

int run_app(Arguments const& arguments, Machine const& machine) {
  if (!arguments.options.resume) check_new(arguments, files_of(arguments));
  AppReport const report = machine.run(arguments.app, arguments.options);
  std::fprintf(people(arguments),
               "%s on %s, path %s: %.3f s for %llu steps from %llu; of it %.3f s in making "
               "durable; recovery %.4f s; "
               "digest %016llx; %s\n",
               arguments.app.c_str(), machine.description.c_str(), arguments.path.c_str(),
               report.run_s, static_cast<unsigned long long>(report.steps),
               static_cast<unsigned long long>(report.began_at), report.durable_s,
               report.recovery_s, static_cast<unsigned long long>(report.digest),
               report.right ? "right" : "WRONG");
  write_json(arguments.json, to_json(arguments, machine.description, report));
  if (!arguments.keep) remove_files(arguments);
  return report.right ? kGood : kFaults;
}

int run(Arguments arguments) {
  auto const micros = micro_names();
  if (arguments.list) {
    for (auto const& [name, kind] : app_names())
      std::printf("%-14s %s\n", name.c_str(), kind.c_str());
    for (auto const& [name, what] : micros)
      std::printf("%-14s micro-benchmark: %s\n", name.c_str(), what.c_str());
    return kGood;
  }
  if (arguments.app.empty()) throw Failure("name an application; --list names them");
  if (std::string const why = why_not_new(arguments.json); !why.empty())
    throw Failure("--json " + why);
  arguments.options.path = *perdure::gpm::gpm_path(arguments.path);
  Machine const machine = arguments.device == "cuda" ? open_cuda() : open_cpu(arguments.threads);
#if defined(PERDURE_TRAPS)
  if (arguments.device == "cuda") arm_trap(arguments.trap);
#endif
  bool const micro = std::any_of(micros.begin(), micros.end(),
                                 [&](auto const& known) { return known.first == arguments.app; });
  return micro ? run_micro(arguments, machine) : run_app(arguments, machine);
}

}  // namespace
}  // namespace perdure::bench::gpm

int main(int argc, char** argv) {
  using namespace perdure::bench;
  gpm::Arguments arguments;
  CLI::App program(
      "Runs an application of GPMbench, crash-consistently, and says what durability cost it.",
      "perdure-gpmbench");
  gpm::add_options(program, arguments);
  gpm::add_micro_options(program, arguments);
  try {
    program.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    return program.exit(error) == 0 ? kGood : kUsage;
  }
  try {
    return gpm::run(std::move(arguments));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-gpmbench: %s\n", error.what());
    return kUsage;
  }
}
