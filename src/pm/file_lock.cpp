#include "pm/file_lock.hpp"

#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace perdure::pm {
namespace {

/// As the system's list of locks names the file; empty: it cannot be asked.
std::string name_in_locks(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return {};
  char id[64];
  std::snprintf(id, sizeof id, "%02x:%02x:%ju", ::gnu_dev_major(st.st_dev),
                ::gnu_dev_minor(st.st_dev), static_cast<std::uintmax_t>(st.st_ino));
  return id;
}

bool lives(long process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

/// Whether the list names a process that has this file's and lives. It names none where the process
/// has ended, or is of another namespace.
bool somebody_has(int fd) { return name_in_locks(fd).empty() || lock_holder(fd).has_value(); }

}  // namespace

std::optional<LockHolder> lock_holder(int fd) {
  std::string const id = name_in_locks(fd);
  std::optional<LockHolder> found;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);  // 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
    std::string number, kind, how, access, file;
    long process = 0;
    if (!(words >> number >> kind >> how >> access >> process >> file)) continue;
    if (kind != "FLOCK" || file != id || !lives(process)) continue;
    if (access == "WRITE") return LockHolder{process, true};
    if (!found) found = LockHolder{process, false};
  }
  return found;
}

Status take_lock(std::string const& named, int fd, Lock lock) {
  constexpr std::chrono::milliseconds kPatience(500), kPause(5);
  if (lock == Lock::none) return {};
  int const how = (lock == Lock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (auto left = kPatience; ::flock(fd, how) != 0; left -= kPause) {
    if (errno != EWOULDBLOCK)
      return {Code::io_error, named + ": cannot lock it: " + std::strerror(errno)};
    if (left.count() <= 0 || somebody_has(fd))
      return {Code::busy,
              named + (lock == Lock::shared
                           ? " is open for writing elsewhere; close it there first"
                           : " is open elsewhere; close it there, or open both read-only")};
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

}  // namespace perdure::pm
