// perdure_soak: kills a loading process again and again (killing.hpp), and judges what the next
// open finds. Here: its command line and its report. Exit status: 0 nothing lost, 1 something was,
// 2 wrong usage, 77 skipped, for the device is not here.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "soak/killing.hpp"

namespace perdure::test {
namespace {

constexpr int kSkipped = 77;

/// Why the device cannot be used, or an empty string; asked in a process of its own, for CUDA does
/// not outlive a fork.
std::string obstacle(Device device) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  pid_t const asking = ::fork();
  if (asking == 0) {
    std::vector<DeviceInfo> const all = devices();
    auto const it = std::find_if(all.begin(), all.end(),
                                 [&](DeviceInfo const& d) { return d.device == device; });
    bool const here = it != all.end() && it->available;
    std::string const why_not = it == all.end() ? "this build knows no such device" : it->why_not;
    if (!here && ::write(ends[1], why_not.data(), why_not.size()) < 0) ::_exit(2);
    ::_exit(here ? 0 : 1);
  }
  ::close(ends[1]);
  char text[512];
  ssize_t const n = ::read(ends[0], text, sizeof text);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(asking, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : "it does not say why";
}

nlohmann::json as_json(Arguments const& a, Tally const& t) {
  nlohmann::json summary{{"index", a.index},           {"with", a.with},     {"layout", a.layout},
                         {"durability", a.durability}, {"device", a.device}, {"seed", a.seed}};
  for (Counter const& c : kCounters) summary[c.name] = t.*c.value;
  summary["seconds"] = t.seconds;
  return summary;
}

void print(Arguments const& a, Tally const& t) {
  std::string with;
  for (std::string const& trouble : a.with) with += "with " + trouble + ", ";
  std::printf("%s, %s, %s, %s, %sseed %llu: ", a.index.c_str(), a.layout.c_str(),
              a.durability.c_str(), a.device.c_str(), with.c_str(),
              static_cast<unsigned long long>(a.seed));
  for (Counter const& c : kCounters) {
    std::string name = c.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    std::printf("%s %llu, ", name.c_str(), static_cast<unsigned long long>(t.*c.value));
  }
  std::printf("%.1f s\n", t.seconds);
}

void add_options(CLI::App& app, Arguments& a) {
  app.add_option("--kills", a.kills, "how often the process is killed");
  app.add_option("--traps", a.traps,
                 "with --device cuda: how often, after the kills, a kernel aborts itself");
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--layout", a.layout)
      ->check(CLI::IsMember({"word", "in_place", "log", "all"}))
      ->capture_default_str();
  app.add_option("--durability", a.durability)
      ->check(CLI::IsMember({"process", "power"}))
      ->capture_default_str();
  app.add_option("--log-dir", a.log_dir,
                 "with --durability power: a directory on a disk, for one of the soak's own")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--device", a.device)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--index", a.index)
      ->check(CLI::IsMember({"gphash", "dash-eh", "dash-lh"}))
      ->capture_default_str();
  app.add_option("--with", a.with, "what goes wrong beside the kills")
      ->check(CLI::IsMember({"forks", "allocations", "disk"}))
      ->delimiter(',');
  std::vector<std::string> plants;
  for (PlantName const& p : kPlants) plants.emplace_back(p.name);
  app.add_option("--plant", a.plant, "a fault that must be found (docs/soak.md)")
      ->check(CLI::IsMember(plants));
  app.add_flag("--json", a.json, "print the summary as JSON");
}

/// Throws where options do not go together.
void check(Arguments const& a) {
  if (a.kills + a.traps == 0)
    throw CLI::ValidationError("--kills or --traps", "give at least one of them");
  if (a.traps != 0 && a.device != "cuda")
    throw CLI::ValidationError("--traps", "only kernels of a GPU trap: add --device cuda");
  if (a.index != "gphash" && (a.durability != "process" || a.device != "cpu"))
    throw CLI::ValidationError("--index", "a Dash index has durability process, on the CPU");
  bool const disk = std::find(a.with.begin(), a.with.end(), "disk") != a.with.end();
  if (disk && a.durability != "power")
    throw CLI::ValidationError("--with", "a disk comes with --durability power");
  if (a.plant == "disks" && !disk)
    throw CLI::ValidationError("--plant", "disks comes with --with disk");
  if (!a.with.empty() && a.device != "cpu") throw CLI::ValidationError("--with", "on the CPU only");
}

int soak(int argc, char** argv) {
  Arguments a;
  CLI::App app("Kills a loading store at random moments, and checks what the next open finds.");
  add_options(app, a);
  try {
    app.parse(argc, argv);
    check(a);
  } catch (CLI::ParseError const& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (std::string const why_not = obstacle(a.device == "cuda" ? Device::cuda : Device::cpu);
      !why_not.empty()) {
    std::printf("skipped: device %s: %s\n", a.device.c_str(), why_not.c_str());
    return kSkipped;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // victims' children that outlive them become this process's
  Tally tally;
  bool const kept = kill_again_and_again(a, tally);
  if (a.json) {
    std::printf("%s\n", as_json(a, tally).dump(2).c_str());
  } else {
    print(a, tally);
  }
  return kept ? 0 : 1;
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) { return perdure::test::soak(argc, argv); }
