#include "measure/pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "exec/pinning.hpp"
#include "exec/workers.hpp"

namespace perdure::measure {

namespace {

void touch(Pages const& pages) {
  constexpr std::size_t kPage = 4096, kPagesOfChunk = 1024;
  std::size_t const n = (pages.bytes() + kPage - 1) / kPage;
  bool const few = n <= kPagesOfChunk;
  exec::Workers workers(few ? 1 : std::max(1u, std::thread::hardware_concurrency()));
  workers.for_chunks(n, kPagesOfChunk, [&](std::size_t i, std::size_t end) {
    for (; i < end; ++i) *pages.as<std::byte volatile>(i * kPage) = std::byte{0};
  });
}

}  // namespace

Result<Pages> Pages::make(std::size_t bytes, Kind kind) {
  Pages made;
  // Pools are shared mappings, and so is what stands for them.
  int const sharing = kind == Kind::pinned ? MAP_SHARED : MAP_PRIVATE;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          sharing | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return Status{Code::no_space,
                  "mapping " + std::to_string(bytes) + " bytes of memory: " + std::strerror(errno)};
  }
  made.data_ = static_cast<std::byte*>(at);
  made.bytes_ = bytes;
  if (kind != Kind::pinned) {
    ::madvise(at, bytes, kind == Kind::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return made;
  }
  touch(made);  // by all threads: pinning would touch them one after the other
  if (Status s = exec::pin(at, bytes, false); !s.ok()) return s;
  made.pinned_ = true;
  return made;
}

Pages::~Pages() {
  if (pinned_) exec::unpin(data_, bytes_);
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

namespace {

/// The number after `name` in a line "NAME   123 kB", or none.
std::size_t kib_after(std::string const& line, std::string_view name) {
  if (!line.starts_with(name)) return 0;
  std::size_t const at = line.find_first_of("0123456789", name.size());
  std::size_t kib = 0;
  if (at != std::string::npos) std::from_chars(line.data() + at, line.data() + line.size(), kib);
  return kib << 10;
}

std::size_t number_in(char const* path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? number : std::numeric_limits<std::size_t>::max();
}

}  // namespace

std::size_t Pages::huge_bytes() const {
  std::ifstream maps("/proc/self/smaps");
  auto const begin = reinterpret_cast<std::uintptr_t>(data_);
  bool here = false;
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    auto const dash = std::from_chars(line.data(), line.data() + line.size(), first, 16);
    bool const heads =
        dash.ec == std::errc{} && *dash.ptr == '-' &&
        std::from_chars(dash.ptr + 1, line.data() + line.size(), last, 16).ec == std::errc{};
    if (heads) here = first < begin + bytes_ && last > begin;
    if (here) found += kib_after(line, "AnonHugePages:");
  }
  return std::min(found, bytes_);
}

std::size_t free_memory() {
  std::size_t free = 0;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) free += kib_after(line, "MemAvailable:");
  std::size_t const most = number_in("/sys/fs/cgroup/memory.max");
  std::size_t const taken = number_in("/sys/fs/cgroup/memory.current");
  if (most == std::numeric_limits<std::size_t>::max() || taken > most) return free;
  return std::min(free, most - taken);
}

}  // namespace perdure::measure
