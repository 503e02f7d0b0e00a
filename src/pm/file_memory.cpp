#include "pm/file_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "base/assert.hpp"
#include "base/own_thread.hpp"
#include "base/process.hpp"
#include "exec/pinning.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

std::string reason(int error) { return std::strerror(error); }

std::string memlock_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                         : std::to_string(limit.rlim_cur / 1024) + " KiB";
}

/// Whether a page of the medium comes at its first touch, by whichever thread. posix_fallocate
/// holds the file's lock meanwhile, so that only one thread has pages at a time.
bool comes_by_touch(Medium medium) { return medium == Medium::tmpfs || medium == Medium::memfd; }

/// Brings the pages of a mapped range into the page table, those that have no backing yet too:
/// 0.27 s a GiB for one thread where pages have 4 KiB, so several share a large range. False: some
/// could not be had, or the kernel is older than this call (5.14).
bool populate(std::byte* at, std::uint64_t bytes, unsigned most_threads) {
  constexpr std::uint64_t kShare = 4u << 20;
  std::uint64_t const pieces = (bytes + kShare - 1) / kShare;
  std::uint64_t const threads = std::clamp<std::uint64_t>(most_threads, 1, pieces);
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> whole{true};
  auto const share = [&] {
    for (std::uint64_t piece = next++; piece < pieces && whole; piece = next++) {
      std::uint64_t const from = piece * kShare;
      if (::madvise(at + from, std::min(kShare, bytes - from), MADV_POPULATE_WRITE) != 0)
        whole = false;
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(threads - 1);
    for (std::uint64_t t = 1; t < threads; ++t) others.push_back(own_thread(share));
  } catch (std::exception const&) {  // those that there are do it
  }
  share();
  for (std::thread& other : others) other.join();
  return whole;
}

/// Reading a hole of a file in memory through a shared mapping takes a page, of which there may be
/// none left. While the file is locked for reading nobody fills the hole, so zeros that take
/// nothing stand in for it.
Status cover_holes(FileMemory const& file, std::uint64_t size) {
  // each is a mapping of its own, of which a process has some 65,000
  constexpr int kMostHoles = 1024;
  auto const page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t at = 0;
  for (int holes = 0; at < size; ++holes) {
    off_t const hole = ::lseek(file.fd, static_cast<off_t>(at), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) >= size) return {};
    off_t const data = ::lseek(file.fd, hole, SEEK_DATA);
    std::uint64_t const begin = aligned_up(static_cast<std::uint64_t>(hole), page);
    at = data < 0 ? size : std::min(size, static_cast<std::uint64_t>(data));
    std::uint64_t const end = at / page * page;
    if (holes == kMostHoles) {
      return {Code::no_space,
              "pool " + file.path + " is a file of more than " + std::to_string(kMostHoles) +
                  " holes: copy it without any (cp --sparse=never), or open it for writing"};
    }
    if (begin >= end) continue;
    void* const zeros = ::mmap(file.data + begin, end - begin, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED)
      return {Code::io_error, "pool " + file.path + ": cannot map its holes: " + reason(errno)};
  }
  return {};
}

Status cannot_back(FileMemory const& file, std::uint64_t bytes, int error) {
  Code const code = error == ENOSPC || error == EFBIG ? Code::no_space : Code::io_error;
  return {code, "pool " + file.path + ": cannot back " + size_text(bytes) + ": " + reason(error) +
                    "; free space on its file system, or ask for fewer records"};
}

Status map_shared(FileMemory const& file, std::uint64_t from, std::uint64_t to, Holes holes) {
  int const protection = file.options.read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(file.data + from, to - from, protection, MAP_SHARED | MAP_FIXED, file.fd,
                          static_cast<off_t>(from));
  if (at == MAP_FAILED)
    return {Code::io_error, "pool " + file.path + ": cannot map it: " + reason(errno)};
  if (holes == Holes::covered) {
    if (Status s = cover_holes(file, to); !s.ok()) return s;
  }
  ::madvise(at, to - from, MADV_HUGEPAGE);  // advice only: tmpfs may be mounted without huge pages
  // A mapping keeps its file open, and so locked.
  if (::madvise(at, to - from, MADV_DONTFORK) != 0)
    return {Code::io_error,
            "pool " + file.path + ": cannot keep it from children: " + reason(errno)};
  return {};
}

Status lock_and_pin(FileMemory const& file, std::uint64_t from, std::uint64_t to) {
  if (file.options.lock_memory && ::mlock(file.data + from, to - from) != 0) {
    return {Code::locked_memory, "pool " + file.path + ": cannot lock " + size_text(to) +
                                     " in memory: " + reason(errno) + "; the memlock limit is " +
                                     memlock_limit() +
                                     " (ulimit -l): raise it, or open without lock_memory"};
  }
  if (!file.options.gpu) return {};
  Status const pinned = exec::pin(file.data + from, to - from, file.options.read_only);
  if (pinned.ok()) return {};
  return {pinned.code(), "pool " + file.path + ": " + pinned.message() + "; the memlock limit is " +
                             memlock_limit() + " (ulimit -l)"};
}

/// The size first where touching brings the pages: all threads have some at a time, and what lacks
/// then is asked for once more in the way that says why.
Status back_and_map(FileMemory const& file, std::uint64_t from, std::uint64_t to,
                    unsigned threads) {
  auto const begin = static_cast<off_t>(from);
  auto const bytes = static_cast<off_t>(to - from);
  bool const by_touch = comes_by_touch(file.medium);
  int error = 0;
  if (!by_touch)
    error = ::posix_fallocate(file.fd, begin, bytes);
  else if (::ftruncate(file.fd, begin + bytes) != 0)
    error = errno;
  if (error != 0) return cannot_back(file, to, error);
  if (Status s = map_shared(file, from, to, Holes::as_they_are); !s.ok()) return s;
  if (file.medium == Medium::file || populate(file.data + from, to - from, threads) || !by_touch)
    return {};
  error = ::posix_fallocate(file.fd, begin, bytes);
  return error == 0 ? Status{} : cannot_back(file, to, error);
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  char text[32];
  bool const small = bytes < (std::uint64_t{1} << 30);
  std::snprintf(text, sizeof text, small ? "%.1f MiB" : "%.2f GiB",
                static_cast<double>(bytes) / (small ? 1u << 20 : 1u << 30));
  return text;
}

std::uint64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string name, unit; in >> name;) {
    std::uint64_t kib = 0;
    if (!(in >> kib)) break;
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return kUnlimited;
}

std::uint64_t free_on_file_system(int fd) {
  struct statfs fs{};
  if (::fstatfs(fd, &fs) != 0 || fs.f_blocks == 0) return kUnlimited;
  return static_cast<std::uint64_t>(fs.f_bavail) * static_cast<std::uint64_t>(fs.f_bsize);
}

unsigned most_growing_threads() { return std::clamp(std::thread::hardware_concurrency(), 1u, 8u); }

Status show(FileMemory const& file, std::uint64_t from, std::uint64_t to, Holes holes) {
  PERDURE_ASSERT(file.data != nullptr && file.fd >= 0 && from < to);
  if (Status s = map_shared(file, from, to, holes); !s.ok()) return s;
  return lock_and_pin(file, from, to);
}

Status extend(FileMemory const& file, std::uint64_t from, std::uint64_t to, unsigned threads) {
  PERDURE_ASSERT(file.data != nullptr && file.fd >= 0 && from < to);
  if (!is_held(file.fd))
    return {Code::io_error, "pool " + file.path +
                                ": its file was closed by others in this process (closefrom?), so "
                                "it cannot grow; close the pool, and open it again"};
  Status s = back_and_map(file, from, to, threads);
  if (s.ok()) s = lock_and_pin(file, from, to);
  if (s.ok()) return s;
  Status const undone = cut(file, from, to);
  return undone.ok() ? s : undone;
}

Status cut(FileMemory const& file, std::uint64_t from, std::uint64_t to) {
  PERDURE_ASSERT(file.data != nullptr && from <= to);
  // Where there is no memory for that either, the addresses stay as they are, and nobody uses them.
  if (from < to) {
    ::mmap(file.data + from, to - from, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  if (!is_held(file.fd) || ::ftruncate(file.fd, static_cast<off_t>(from)) != 0)
    return {Code::io_error, "pool " + file.path + ": cannot cut its file: " + reason(errno)};
  return {};
}

}  // namespace perdure::pm
