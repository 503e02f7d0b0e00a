// The calls by which files and directories are synced, watched: a program that includes this has
// fdatasync and fsync of its own, which count, fail where they are told to, and pass the others on.
// So include it in one source of a program.
#pragma once

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>

namespace perdure::wal::test {

struct SystemCalls {
  std::atomic<std::uint64_t> data_syncs = 0;
  std::atomic<int> data_sync_error = 0;  // errno that fdatasync ends with; 0: as the system does
  std::mutex mutex;  // guards the rest
  std::set<std::pair<dev_t, ino_t>> synced;  // by fsync

  void forget() {
    std::lock_guard const lock(mutex);
    synced.clear();
    data_syncs = 0;
    data_sync_error = 0;
  }
  [[nodiscard]] bool has_synced(std::string const& path) {
    struct stat st{};
    std::lock_guard const lock(mutex);
    return ::stat(path.c_str(), &st) == 0 && synced.contains({st.st_dev, st.st_ino});
  }
};
inline SystemCalls system_calls;

}  // namespace perdure::wal::test

extern "C" int fdatasync(int fd) {
  auto& calls = perdure::wal::test::system_calls;
  ++calls.data_syncs;
  if (int const error = calls.data_sync_error; error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

extern "C" int fsync(int fd) {
  auto& calls = perdure::wal::test::system_calls;
  struct stat st{};
  if (::fstat(fd, &st) == 0) {
    std::lock_guard const lock(calls.mutex);
    calls.synced.insert({st.st_dev, st.st_ino});
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
