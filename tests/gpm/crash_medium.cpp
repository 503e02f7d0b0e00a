#include "gpm/crash_medium.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uintptr_t kPage = 4096;

std::vector<fs::path> files_of(std::string const& beginning) {
  std::vector<fs::path> found;
  std::string const start = beginning + ".";
  for (auto const& entry : fs::directory_iterator(fs::path(beginning).parent_path()))
    if (entry.path().string().starts_with(start)) found.push_back(entry.path());
  return found;
}

std::uint64_t actor() {
  if (exec::sim_actor != 0) return exec::sim_actor << 1;
  return exec::sim_scheduler == nullptr ? 1 : std::uint64_t{exec::sim_scheduler->thread()} << 1 | 1;
}

std::uint64_t inode_of(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/// A test that cannot do what it says ends here.
void require(bool done, char const* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

}  // namespace

void remove_files(std::string const& beginning) {
  for (fs::path const& file : files_of(beginning)) fs::remove(file);
}

void copy_files(std::string const& from, std::string const& to) {
  remove_files(to);
  for (fs::path const& file : files_of(from))
    fs::copy_file(file, to + file.string().substr(from.size()));
}

std::uint64_t CrashMedium::draw() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

// ------------------------------------------------------------------------------------------------
// Where it is

/// Nothing of machine memory, which a crash takes with it.
std::optional<CrashMedium::Place> CrashMedium::place_of(std::uintptr_t at) {
  for (int looked = 0;; ++looked) {
    for (Mapped const& m : mapped_)
      if (m.first <= at && at < m.last) return Place{m.place.file, m.place.at + (at - m.first)};
    if (looked == 1) others_.insert(at / kPage);
    if (others_.contains(at / kPage)) return std::nullopt;
    mapped_.clear();
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long first = 0, last = 0, offset = 0, inode = 0;
      if (line.find(files_ + ".") != std::string::npos &&
          std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu", &first, &last, &offset, &inode) == 4)
        mapped_.push_back({first, last, {inode, offset}});
    }
  }
}

/// act(place, word) for the words of a file that the bytes touch.
template <class F>
void CrashMedium::each_word(void const* at, std::size_t bytes, F act) {
  auto const first = reinterpret_cast<std::uintptr_t>(at) / 8 * 8,
             end = reinterpret_cast<std::uintptr_t>(at) + bytes;
  for (std::uintptr_t word = first; word < end; word += 8)
    if (auto const place = place_of(word))
      act(*place, *reinterpret_cast<std::uint64_t const*>(word));
}

// ------------------------------------------------------------------------------------------------
// What is written, and what makes it durable

void CrashMedium::will_write(void const* at, std::size_t bytes) {
  each_word(at, bytes,
            [&](Place place, std::uint64_t now) { pending_.try_emplace(place, Word{now}); });
}

void CrashMedium::wrote(void const* at, std::size_t bytes) {
  std::uint64_t const who = actor();
  each_word(at, bytes, [&](Place place, std::uint64_t now) {
    pending_.at(place).since.emplace_back(who, now);
    written_by_[who].push_back(place);
  });
}

/// The thread's writes are durable, and those to the same words before them.
void CrashMedium::fence() {
  pass();
  std::uint64_t const who = actor();
  auto const mine = written_by_.find(who);
  if (mine == written_by_.end()) return;
  for (Place const& at : mine->second) {
    auto const found = pending_.find(at);
    if (found == pending_.end()) continue;
    auto& [durable, since, on_the_way] = found->second;
    for (std::size_t i = since.size(); i-- > 0;) {
      if (since[i].first != who) continue;
      durable = since[i].second;
      since.erase(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      on_the_way -= std::min(on_the_way, i + 1);
      break;
    }
    if (since.empty()) pending_.erase(found);
  }
  written_by_.erase(mine);
}

void CrashMedium::order() {
  pass();
  mapped_.clear();
  others_.clear();
  written_by_.clear();
  if (keeps_ == Keeps::what_was_ordered) return pending_.clear();
  for (Place const& at : on_the_way_) {
    auto const found = pending_.find(at);
    if (found == pending_.end() || found->second.on_the_way == 0) continue;
    auto& [durable, since, on_the_way] = found->second;
    durable = since[on_the_way - 1].second;
    since.erase(since.begin(), since.begin() + static_cast<std::ptrdiff_t>(on_the_way));
    on_the_way = 0;
    if (since.empty()) pending_.erase(found);
  }
  on_the_way_.clear();
}

void CrashMedium::writes_back(void const* at, std::size_t bytes) {
  each_word(at, bytes, [&](Place place, std::uint64_t) {
    auto const found = pending_.find(place);
    if (found == pending_.end()) return;
    found->second.on_the_way = found->second.since.size();
    on_the_way_.push_back(place);
  });
}

void CrashMedium::will_write_file(int fd, std::uint64_t from, void const* data, std::size_t bytes) {
  std::uint64_t const first = from / 8 * 8, end = (from + bytes + 7) / 8 * 8, who = actor(),
                      file = inode_of(fd);
  std::vector<std::uint64_t> words((end - first) / 8, 0);
  require(::pread(fd, words.data(), end - first, static_cast<off_t>(first)) >= 0,
          "reading what is overwritten");
  std::vector<std::uint64_t> after = words;
  std::memcpy(reinterpret_cast<char*>(after.data()) + (from - first), data, bytes);
  for (std::size_t i = 0; i < words.size(); ++i)
    pending_.try_emplace(Place{file, first + i * 8}, Word{words[i]})
        .first->second.since.emplace_back(who, after[i]);
}

void CrashMedium::synced(int fd) {
  pass();
  std::uint64_t const file = inode_of(fd);
  pending_.erase(pending_.lower_bound(Place{file, 0}), pending_.lower_bound(Place{file + 1, 0}));
}

// ------------------------------------------------------------------------------------------------
// Crashes

void CrashMedium::pass() {
  if (points_.contains(++passed_)) crash();
}

/// The program goes on as if nothing had been: the copies alone lack what was not durable.
void CrashMedium::crash() {
  std::string const to = snapshot(files_, passed_);
  copy_files(files_, to);
  for (fs::path const& file : files_of(files_)) {
    struct stat st{};
    require(::stat(file.c_str(), &st) == 0, "looking at a file");
    int const copy =
        ::open((to + file.string().substr(files_.size())).c_str(), O_WRONLY | O_CLOEXEC);
    require(copy >= 0, "opening a copy");
    for (auto at = pending_.lower_bound(Place{st.st_ino, 0});
         at != pending_.end() && at->first.file == st.st_ino; ++at) {
      Word const& word = at->second;
      std::uint64_t const arrived = draw() % (word.since.size() + 1);
      std::uint64_t const value = arrived == 0 ? word.durable : word.since[arrived - 1].second;
      require(
          ::pwrite(copy, &value, sizeof value, static_cast<off_t>(at->first.at)) == sizeof value,
          "writing a copy");
    }
    ::close(copy);
  }
}

}  // namespace perdure::test
