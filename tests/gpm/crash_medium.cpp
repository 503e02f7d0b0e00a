#include "gpm/crash_medium.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(std::string const& beginning) {
  std::vector<fs::path> found;
  std::string const start = beginning + ".";
  for (auto const& entry : fs::directory_iterator(fs::path(beginning).parent_path()))
    if (entry.path().string().starts_with(start)) found.push_back(entry.path());
  return found;
}

/// Where this process has them mapped: [first, last) of each.
std::vector<std::pair<std::uintptr_t, std::uintptr_t>> mappings_of(std::string const& beginning) {
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long first = 0, last = 0;
    if (line.find(beginning + ".") != std::string::npos && std::sscanf(line.c_str(), "%lx-%lx", &first, &last) == 2)
      found.emplace_back(first, last);
  }
  return found;
}

std::uint64_t* word_of(void const* at) {
  return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(at) / 8 * 8);
}

std::uint64_t* end_of(void const* at, std::size_t bytes) { return word_of(static_cast<char const*>(at) + bytes + 7); }

std::uint64_t actor() {
  if (exec::sim_actor != 0) return exec::sim_actor << 1;
  return exec::sim_scheduler == nullptr ? 1 : std::uint64_t{exec::sim_scheduler->thread()} << 1 | 1;
}

}  // namespace

void remove_files(std::string const& beginning) {
  for (fs::path const& file : files_of(beginning)) fs::remove(file);
}

void copy_files(std::string const& from, std::string const& to) {
  remove_files(to);
  for (fs::path const& file : files_of(from)) fs::copy_file(file, to + file.string().substr(from.size()));
}

std::uint64_t CrashMedium::draw() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

void CrashMedium::will_write(void const* at, std::size_t bytes) {
  for (std::uint64_t* word = word_of(at); word < end_of(at, bytes); ++word) pending_.try_emplace(word, Word{*word, {}});
}

void CrashMedium::wrote(void const* at, std::size_t bytes) {
  std::uint64_t const who = actor();
  for (std::uint64_t* word = word_of(at); word < end_of(at, bytes); ++word) {
    pending_.at(word).since.emplace_back(who, *word);
    written_by_[who].push_back(word);
  }
}

/// The thread's writes are durable, and those to the same words before them.
void CrashMedium::fence() {
  pass();
  std::uint64_t const who = actor();
  auto const mine = written_by_.find(who);
  if (mine == written_by_.end()) return;
  for (std::uint64_t* at : mine->second) {
    auto const found = pending_.find(at);
    if (found == pending_.end()) continue;
    auto& [durable, since] = found->second;
    for (std::size_t i = since.size(); i-- > 0;) {
      if (since[i].first != who) continue;
      durable = since[i].second;
      since.erase(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      break;
    }
    if (since.empty()) pending_.erase(found);
  }
  written_by_.erase(mine);
}

void CrashMedium::order() {
  pass();
  pending_.clear();
  written_by_.clear();
}

void CrashMedium::pass() {
  if (points_.contains(++passed_)) crash_here();
}

/// The program goes on as if nothing had been: the words have their values back.
void CrashMedium::crash_here() {
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> now;
  auto const mapped = mappings_of(files_);
  for (auto const& [at, word] : pending_) {
    auto const address = reinterpret_cast<std::uintptr_t>(at);
    bool const durable = std::any_of(mapped.begin(), mapped.end(),
                                     [&](auto const& one) { return one.first <= address && address < one.second; });
    if (!durable) continue;  // machine memory, which may be gone by now
    now.emplace_back(at, *at);
    std::uint64_t const arrived = draw() % (word.since.size() + 1);
    *at = arrived == 0 ? word.durable : word.since[arrived - 1].second;
  }
  copy_files(files_, snapshot(files_, passed_));
  for (auto const& [at, value] : now) *at = value;
}

}  // namespace perdure::test
