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

struct Wanted {
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

void add_options(CLI::App& program, Wanted& wanted) {
  std::map<std::string, Size> const sizes{
      {"tiny", Size::tiny}, {"small", Size::small}, {"paper", Size::paper}};
  std::map<std::string, perdure::gpm::LogKind> const logs{
      {"hcl", perdure::gpm::LogKind::hcl}, {"conventional", perdure::gpm::LogKind::conventional}};
  std::vector<std::string> paths;
  for (auto const& [path, text] : perdure::gpm::kGpmPaths) paths.emplace_back(text);
  program.add_option("app", wanted.app, "The application, or micro-benchmark");
  program.add_flag("--list", wanted.list, "List them");
  program.add_option("--device", wanted.device, "Who computes")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  program.add_option("--path", wanted.path, "How results become durable")
      ->check(CLI::IsMember(paths))
      ->capture_default_str();
  program.add_option("--size", wanted.options.size, "tiny, small, paper: how large a problem")
      ->transform(CLI::CheckedTransformer(sizes, CLI::ignore_case));
  program.add_option("--log", wanted.options.log, "hcl, conventional: how transactions log")
      ->transform(CLI::CheckedTransformer(logs, CLI::ignore_case));
  program
      .add_option("--files", wanted.options.files, "What the names of its durable files begin with")
      ->capture_default_str();
  program.add_option("--data", wanted.options.data,
                     "Folder with real inputs, unpacked; else they are generated");
  program.add_flag("--keep", wanted.keep,
                   "Leave its durable files; else they go when it has ended in order");
  program.add_flag("--resume", wanted.options.resume, "Go on with the files that are there");
  program.add_option("--iterations", wanted.options.iterations,
                     "Iterations, or batches; 0: the application's own number");
  program.add_option("--every", wanted.options.every, "Iterations from checkpoint to checkpoint")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  program.add_option("--threads", wanted.threads, "Threads of device cpu; 0: all");
  program.add_option("--flush-threads", wanted.options.flush_threads,
                     "CPU threads that flush; 0: all");
  program.add_option("--seed", wanted.options.seed, "Of generated inputs")->capture_default_str();
  program.add_flag("--count", wanted.options.count,
                   "On a GPU: count stores and ordering points, which takes time");
  program.add_flag(
      "--check", wanted.options.check,
      "Transactions: against the model at size paper too, which takes minutes and tens of GB");
  program.add_option("--json", wanted.json,
                     "Write the result as JSON to this file; - is standard output");
}

void add_micro_options(CLI::App& program, Wanted& wanted) {
  program
      .add_option("--bytes", wanted.micro.bytes,
                  "Micro-benchmarks: bytes that each measurement moves, about")
      ->check(CLI::Range(std::uint64_t{1} << 16, std::uint64_t{1} << 36))
      ->capture_default_str();
  program
      .add_option("--kernel-threads", wanted.micro.threads,
                  "Micro-benchmarks: the most threads of a kernel")
      ->check(CLI::Range(32u, 1u << 24))
      ->capture_default_str();
  program.add_option("--repeats", wanted.micro.repeats, "Micro-benchmarks: medians of so many")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
#if defined(PERDURE_TRAPS)
  program.add_option("--trap", wanted.trap,
                     "Abort a kernel at the n-th ordering point that its threads pass");
#endif
}

Json to_json(Wanted const& wanted, std::string const& machine, AppReport const& report) {
  Json json{{"app", wanted.app},
            {"machine", machine},
            {"path", wanted.path},
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
std::FILE* people(Wanted const& wanted) { return wanted.json == "-" ? stderr : stdout; }

/// Files that are made anew, and removed in the end.
void check_new(Wanted const& wanted, std::vector<std::string> const& files) {
  for (std::string const& file : files)
    if (std::string const why = why_not_new(file); !why.empty())
      throw Failure("--files " + wanted.options.files + ": " + why +
                    ", or go on with it by --resume");
}

int run_micro(Wanted const& wanted, Machine const& machine) {
  std::string const& beginning = wanted.options.files;
  check_new(wanted, {beginning + ".stream", beginning + ".persist", beginning + ".log",
                     beginning + ".checkpoint"});
  Json rows = Json::array();
  for (MicroRow const& row : machine.run_micro(wanted.app, wanted.micro)) {
    std::string line;
    Json& json = rows.emplace_back(Json::object());
    for (auto const& [name, value] : row) {
      char text[96];
      std::snprintf(text, sizeof text, "  %s %.6g", name.c_str(), value);
      line += text;
      json[name] = value;
    }
    std::fprintf(people(wanted), "%s:%s\n", wanted.app.c_str(), line.c_str());
  }
  write_json(
      wanted.json,
      {{"app", wanted.app}, {"machine", machine.description}, {"checked", 0}, {"rows", rows}});
  return kGood;
}

/// The application's durable files, as file_of() names them.
std::vector<std::string> files_of(Wanted const& wanted) {
  std::vector<std::string> files;
  for (std::string const& what :
       {std::string("checkpoint"), std::string("log"), std::string("table"), wanted.app})
    files.push_back(wanted.options.files + "." + what);
  return files;
}

void remove_files(Wanted const& wanted) {
  for (std::string const& file : files_of(wanted)) std::filesystem::remove(file);
}

int run_app(Wanted const& wanted, Machine const& machine) {
  if (!wanted.options.resume) check_new(wanted, files_of(wanted));
  AppReport const report = machine.run(wanted.app, wanted.options);
  std::fprintf(people(wanted),
               "%s on %s, path %s: %.3f s for %llu steps from %llu; of it %.3f s in making "
               "durable; recovery %.4f s; "
               "digest %016llx; %s\n",
               wanted.app.c_str(), machine.description.c_str(), wanted.path.c_str(), report.run_s,
               static_cast<unsigned long long>(report.steps),
               static_cast<unsigned long long>(report.began_at), report.durable_s,
               report.recovery_s, static_cast<unsigned long long>(report.digest),
               report.right ? "right" : "WRONG");
  write_json(wanted.json, to_json(wanted, machine.description, report));
  if (!wanted.keep) remove_files(wanted);
  return report.right ? kGood : kFaults;
}

int run(Wanted wanted) {
  auto const micros = micro_names();
  if (wanted.list) {
    for (auto const& [name, kind] : app_names())
      std::printf("%-14s %s\n", name.c_str(), kind.c_str());
    for (auto const& [name, what] : micros)
      std::printf("%-14s micro-benchmark: %s\n", name.c_str(), what.c_str());
    return kGood;
  }
  if (wanted.app.empty()) throw Failure("name an application; --list names them");
  if (std::string const why = why_not_new(wanted.json); !why.empty())
    throw Failure("--json " + why);
  wanted.options.path = *perdure::gpm::gpm_path(wanted.path);
  Machine const machine = wanted.device == "cuda" ? open_cuda() : open_cpu(wanted.threads);
#if defined(PERDURE_TRAPS)
  if (wanted.device == "cuda") arm_trap(wanted.trap);
#endif
  bool const micro = std::any_of(micros.begin(), micros.end(),
                                 [&](auto const& known) { return known.first == wanted.app; });
  return micro ? run_micro(wanted, machine) : run_app(wanted, machine);
}

}  // namespace
}  // namespace perdure::bench::gpm

int main(int argc, char** argv) {
  using namespace perdure::bench;
  gpm::Wanted wanted;
  CLI::App program(
      "Runs an application of GPMbench, crash-consistently, and says what durability cost it.",
      "perdure-gpmbench");
  gpm::add_options(program, wanted);
  gpm::add_micro_options(program, wanted);
  try {
    program.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    return program.exit(error) == 0 ? kGood : kUsage;
  }
  try {
    return gpm::run(std::move(wanted));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-gpmbench: %s\n", error.what());
    return kUsage;
  }
}
