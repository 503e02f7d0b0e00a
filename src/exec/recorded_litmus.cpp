#include "exec/recorded_litmus.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "exec/cpu/processor.hpp"

namespace perdure::exec {
namespace {

constexpr std::string_view kHead = "perdure litmus 1";
constexpr std::string_view kCpu = "cpu ", kGpu = "gpu ", kFailed = "failed ";
constexpr std::string_view kBetween = ": ";

std::string variable(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// What nobody has by that name counts for all: an older version may have recorded it.
bool is_of_another(std::string const& failed, Reliance who) {
  for (Reliance const one : {Reliance::host_threads, Reliance::batches, Reliance::sessions})
    if (failed.starts_with(std::string(name(one)).append(kBetween))) return one != who;
  return false;
}

}  // namespace

std::string_view name(Reliance who) {
  switch (who) {
    case Reliance::host_threads: return "indexes of host threads";
    case Reliance::batches: return "batches on a GPU";
    case Reliance::sessions: return "device sessions";
  }
  return "";
}

std::string litmus_record() {
  if (std::string named = variable("PERDURE_LITMUS"); !named.empty()) return named;
  if (std::string const state = variable("XDG_STATE_HOME"); !state.empty())
    return state + "/perdure/litmus";
  std::string const home = variable("HOME");
  return home.empty() ? home : home + "/.local/state/perdure/litmus";
}

Status record_litmus(std::string const& cpu, std::string const& gpu,
                     std::vector<LitmusFailure> const& failed) {
  std::string const path = litmus_record();
  if (path.empty()) {
    return {Code::invalid_argument,
            "recording litmus tests: neither HOME nor XDG_STATE_HOME is set; name the file with "
            "PERDURE_LITMUS"};
  }
  std::error_code error;
  std::filesystem::path const folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::string const unfinished = path + "." + std::to_string(::getpid()) + ".unfinished";
  {
    std::ofstream file(unfinished);
    file << kHead << '\n' << kCpu << cpu << '\n' << kGpu << gpu << '\n';
    for (LitmusFailure const& one : failed)
      file << kFailed << one.who << kBetween << one.what << '\n';
    if (!file.flush()) error = {errno, std::generic_category()};
  }
  if (!error) std::filesystem::rename(unfinished, path, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  return {Code::io_error, "recording litmus tests in " + path + ": " + error.message() +
                              "; name another file with PERDURE_LITMUS"};
}

Status check_recorded(Reliance who, std::string const& gpu) {
  std::string const path = litmus_record();
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kHead) return {};
  while (std::getline(file, line)) {
    if (line.starts_with(kCpu) && line.substr(kCpu.size()) != processor_name()) return {};
    if (line.starts_with(kGpu) && who != Reliance::host_threads && line.substr(kGpu.size()) != gpu)
      return {};
    if (!line.starts_with(kFailed)) continue;
    std::string const failed = line.substr(kFailed.size());
    if (is_of_another(failed, who)) continue;
    return {Code::unsupported, std::string(name(who)) + " rely on what was seen to fail here: " +
                                   failed.substr(failed.find(kBetween) + kBetween.size()) +
                                   " (recorded in " + path +
                                   "; once it holds, `perdure doctor --litmus --record` takes "
                                   "that back)"};
  }
  return {};
}

}  // namespace perdure::exec
