#include "pm/mapping.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/process.hpp"
#include "exec/pinning.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

constexpr std::string_view kMemfdPrefix = "memfd:";
constexpr std::uint64_t kMaxReservation = std::uint64_t{1} << 40;

std::string why(int error) { return std::strerror(error); }

std::string size_text(std::uint64_t bytes) {
  char text[32];
  bool const small = bytes < (std::uint64_t{1} << 30);
  std::snprintf(text, sizeof text, small ? "%.1f MiB" : "%.2f GiB",
                static_cast<double>(bytes) / (small ? 1u << 20 : 1u << 30));
  return text;
}

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

std::string memlock_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited"
                                         : std::to_string(limit.rlim_cur / 1024) + " KiB";
}

/// Brings pages that have backing into the page table: 0.27 s a GiB for one thread where pages have
/// 4 KiB, so several share a large range. Advice only: what it leaves out comes at first touch.
void populate_pages(std::byte* at, std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = 16u << 20;
  constexpr std::uint64_t kMostThreads = 8;
  std::uint64_t const pieces = (bytes + kPiece - 1) / kPiece;
  std::uint64_t const threads = std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1,
                                                          std::min(kMostThreads, pieces));
  auto const share = [&](std::uint64_t first) {
    for (std::uint64_t piece = first; piece < pieces; piece += threads)
      ::madvise(at + piece * kPiece, std::min(kPiece, bytes - piece * kPiece), MADV_POPULATE_WRITE);
  };
  std::vector<std::jthread> others;
  for (std::uint64_t t = 1; t < threads; ++t) others.emplace_back(share, t);
  share(0);
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  options_ = other.options_;
  medium_ = other.medium_;
  new_file_ = std::move(other.new_file_);
  fd_ = std::exchange(other.fd_, -1);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  reserved_ = std::exchange(other.reserved_, 0);
  pinned_ = std::exchange(other.pinned_, {});
  max_bytes_ = other.max_bytes_;
  granule_ = other.granule_;
  process_ = other.process_;
  return *this;
}

Mapping::~Mapping() { close(); }

void Mapping::close() {
  // else a fork brought it here, and nothing but the addresses
  bool const ours = process_ == this_process();
  if (ours) {
    for (auto const& [from, to] : pinned_) exec::unpin(data_ + from, to - from);
  }
  // What a child has not of it, others may have mapped there since.
  if (data_ != nullptr && ours) ::munmap(data_, reserved_);
  new_file_ = {};  // before its lock goes
  if (fd_ >= 0) close_held(fd_);
  pinned_.clear();
  data_ = nullptr;
  fd_ = -1;
}

Result<std::uint64_t> Mapping::detect_medium() {
  if (path_.starts_with(kMemfdPrefix)) {
    medium_ = Medium::memfd;
    return kMaxReservation;
  }
  struct statfs fs{};
  if (::fstatfs(fd_, &fs) != 0)
    return Status{Code::io_error,
                  "pool " + path_ + ": cannot tell what its file system is: " + why(errno)};
  auto const magic = static_cast<std::uint64_t>(fs.f_type);
  medium_ = magic == TMPFS_MAGIC       ? Medium::tmpfs
            : magic == HUGETLBFS_MAGIC ? Medium::hugetlbfs
                                       : Medium::file;
  if (medium_ == Medium::hugetlbfs) granule_ = static_cast<std::uint64_t>(fs.f_bsize);
  if (medium_ == Medium::file && options_.gpu) {
    return Status{
        Code::unsupported,
        "pool " + path_ +
            " lies on a disk file system, whose writable mappings the GPU driver refuses to pin; "
            "put it on tmpfs (/dev/shm) or hugetlbfs, or use device cpu"};
  }
  auto const bytes =
      static_cast<std::uint64_t>(fs.f_blocks) * static_cast<std::uint64_t>(fs.f_bsize);
  return bytes == 0 ? kMaxReservation
                    : std::min(bytes, kMaxReservation);  // 0: a tmpfs without a limit
}

Status Mapping::reserve_addresses(std::uint64_t bytes) {
  PERDURE_ASSERT(data_ == nullptr && bytes > 0);
  reserved_ = round_up(bytes, std::max<std::uint64_t>(granule_, 2u << 20));
  void* const at =
      ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    reserved_ = 0;
    return {Code::no_space, "pool " + path_ + ": no " + size_text(bytes) +
                                " of address space (ulimit -v?): " + why(errno)};
  }
  data_ = static_cast<std::byte*>(at);
  return {};
}

/// Reading a hole of a file in memory through a shared mapping takes a page, of which there may be
/// none left. While the file is locked for reading nobody fills the hole, so zeros that take
/// nothing stand in for it.
Status Mapping::cover_holes(std::uint64_t size) {
  // each is a mapping of its own, of which a process has some 65,000
  constexpr int kMostHoles = 1024;
  auto const page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t at = 0;
  for (int holes = 0; at < size; ++holes) {
    off_t const hole = ::lseek(fd_, static_cast<off_t>(at), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) >= size) return {};
    off_t const data = ::lseek(fd_, hole, SEEK_DATA);
    std::uint64_t const begin = round_up(static_cast<std::uint64_t>(hole), page);
    at = data < 0 ? size : std::min(size, static_cast<std::uint64_t>(data));
    std::uint64_t const end = at / page * page;
    if (holes == kMostHoles) {
      return {Code::no_space,
              "pool " + path_ + " is a file of more than " + std::to_string(kMostHoles) +
                  " holes: copy it without any (cp --sparse=never), or open it for writing"};
    }
    if (begin >= end) continue;
    void* const zeros = ::mmap(data_ + begin, end - begin, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED)
      return {Code::io_error, "pool " + path_ + ": cannot map its holes: " + why(errno)};
  }
  return {};
}

Status Mapping::map(std::uint64_t from, std::uint64_t to, Pages pages) {
  PERDURE_ASSERT(data_ != nullptr && fd_ >= 0);
  PERDURE_ASSERT(from == size_ && from < to && to <= reserved_);
  PERDURE_ASSERT(from % granule_ == 0);
  int const protection = options_.read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(data_ + from, to - from, protection, MAP_SHARED | MAP_FIXED, fd_,
                          static_cast<off_t>(from));
  if (at == MAP_FAILED) return {Code::io_error, "pool " + path_ + ": cannot map it: " + why(errno)};
  if (pages == Pages::around_holes) {
    if (Status s = cover_holes(to); !s.ok()) return s;
  }
  ::madvise(at, to - from, MADV_HUGEPAGE);  // advice only: tmpfs may be mounted without huge pages
  // A mapping keeps its file open, and so locked.
  if (::madvise(at, to - from, MADV_DONTFORK) != 0)
    return {Code::io_error, "pool " + path_ + ": cannot keep it from children: " + why(errno)};
  if (pages == Pages::now) populate_pages(data_ + from, to - from);
  if (options_.lock_memory && ::mlock(at, to - from) != 0) {
    return {Code::locked_memory, "pool " + path_ + ": cannot lock " + size_text(to) +
                                     " in memory: " + why(errno) + "; the memlock limit is " +
                                     memlock_limit() +
                                     " (ulimit -l): raise it, or open without lock_memory"};
  }
  if (options_.gpu) {
    if (Status const pinned = exec::pin(at, to - from, options_.read_only); !pinned.ok()) {
      return {pinned.code(), "pool " + path_ + ": " + pinned.message() + "; the memlock limit is " +
                                 memlock_limit() + " (ulimit -l)"};
    }
    pinned_.emplace_back(from, to);
  }
  size_ = to;
  return {};
}

Status Mapping::grow(std::uint64_t bytes) {
  bytes = round_up(bytes, granule_);
  if (bytes <= size_) return {};
  PERDURE_ASSERT(fd_ >= 0 && size_ <= reserved_);
  std::uint64_t const most = max_bytes_ == 0 ? reserved_ : std::min(reserved_, max_bytes_);
  if (bytes > most) {
    return {Code::no_space, "pool " + path_ + " would need " + size_text(bytes) +
                                ", more than the " + size_text(most) +
                                " its file system (or max_bytes) allows"};
  }
  int const error =
      ::posix_fallocate(fd_, static_cast<off_t>(size_), static_cast<off_t>(bytes - size_));
  if (error != 0) {
    if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0)
      return {Code::io_error, "pool " + path_ + ": " + why(errno)};
    Code const code = error == ENOSPC || error == EFBIG ? Code::no_space : Code::io_error;
    return {code, "pool " + path_ + ": cannot back " + size_text(bytes) + ": " + why(error) +
                      "; free space on its file system, or ask for fewer records"};
  }
  return map(size_, bytes, medium_ != Medium::file ? Pages::now : Pages::as_touched);
}

Result<Mapping> Mapping::create(std::string const& path, std::uint64_t bytes,
                                std::uint64_t max_bytes, MakeOptions const& make,
                                MapOptions const& options) {
  Mapping m;
  m.path_ = path;
  m.process_ = this_process();
  m.options_ = options;
  m.max_bytes_ = max_bytes;
  bool const memfd = path.starts_with(kMemfdPrefix);
  if (memfd) {
    m.fd_ = memfd_held(path.c_str() + kMemfdPrefix.size());
    if (m.fd_ < 0) return Status{Code::io_error, "pool " + path + ": " + why(errno)};
  } else {
    auto made = NewFile::make("pool", path, make);
    if (!made) return made.status();
    m.fd_ = made->first.release();
    m.new_file_ = std::move(made->second);
  }
  auto const limit = m.detect_medium();
  if (!limit) return limit.status();
  if (max_bytes == 0) max_bytes = std::max(limit.value(), bytes);
  if (Status s = m.reserve_addresses(std::min(max_bytes, kMaxReservation)); !s.ok()) return s;
  if (Status s = m.grow(bytes); !s.ok()) return s;
  return m;
}

Status Mapping::keep() { return new_file_.keep(); }

Status Mapping::sync(void const* at, std::size_t bytes) const {
  auto const address = reinterpret_cast<std::uintptr_t>(at);
  PERDURE_ASSERT(address >= reinterpret_cast<std::uintptr_t>(data_));
  PERDURE_ASSERT(address - reinterpret_cast<std::uintptr_t>(data_) + bytes <= size_);
  std::uintptr_t const first = address / granule_ * granule_;
  if (::msync(reinterpret_cast<void*>(first), address + bytes - first, MS_SYNC) != 0)
    return {Code::io_error, "pool " + path_ + ": cannot sync it: " + why(errno)};
  writes_back(at, bytes);
  order();
  return {};
}

Result<Fd> Mapping::open_existing(std::string const& path, bool writing, Lock lock) {
  if (path.starts_with(kMemfdPrefix))
    return Status{Code::not_found,
                  "pool " + path + ": a memfd pool dies with its process; create it"};
  auto fd = open_file("pool", path, writing, lock);
  if (fd.status().code() == Code::not_found)
    return Status{Code::not_found, fd.status().message() + "; make one with create"};
  if (fd.status().code() == Code::busy && lock == Lock::shared)
    return Status{Code::busy,
                  fd.status().message() + ", or look at it live (live=True, perdure's --live)"};
  return fd;
}

Result<Mapping> Mapping::in_memory(std::string const& path, int file, std::uint64_t bytes,
                                   MapOptions const& options) {
  Mapping m;
  m.path_ = path;
  m.process_ = this_process();
  m.options_ = options;
  m.fd_ = file;
  auto const limit = m.detect_medium();
  m.fd_ = -1;
  if (!limit) return limit.status();
  m.granule_ = 4096;
  m.fd_ = memfd_held("perdure-live");
  if (m.fd_ < 0)
    return Status{Code::io_error, "pool " + path + ": no memory for a copy: " + why(errno)};
  if (Status s = m.reserve_addresses(kMaxReservation); !s.ok()) return s;
  if (Status s = m.grow(bytes); !s.ok()) return s;
  return m;
}

Result<Mapping> Mapping::open(std::string const& path, MapOptions const& options,
                              FileCheck const& check) {
  Mapping m;
  m.path_ = path;
  m.process_ = this_process();
  m.options_ = options;
  auto fd =
      open_existing(path, !options.read_only, options.read_only ? Lock::shared : Lock::exclusive);
  if (!fd) return fd.status();
  m.fd_ = fd->release();
  struct stat st{};
  if (::fstat(m.fd_, &st) != 0) return Status{Code::io_error, "pool " + path + ": " + why(errno)};
  auto const limit = m.detect_medium();
  if (!limit) return limit.status();
  auto const bytes = static_cast<std::uint64_t>(st.st_size);
  if (check) {
    if (Status s = check(m.fd_, bytes); !s.ok()) return s;
  }
  if (bytes < 3 * 4096 || bytes % 4096 != 0) {
    return Status{Code::corrupt, "pool " + path + " is truncated: " + std::to_string(bytes) +
                                     " bytes hold no pool header; restore it from a copy"};
  }
  if (Status s = m.reserve_addresses(std::max(bytes, limit.value())); !s.ok()) return s;
  // A sparse file (copied, say) would raise SIGBUS on a full tmpfs: back its holes now, or leave
  // them out. One without holes is left alone, for looking at each of its pages takes long.
  bool const sparse = static_cast<std::uint64_t>(st.st_blocks) * 512 < bytes;
  if (!options.read_only && sparse) {
    if (int const error = ::posix_fallocate(m.fd_, 0, static_cast<off_t>(bytes)); error != 0) {
      return Status{Code::no_space, "pool " + path + ": its file system cannot back " +
                                        size_text(bytes) + ": " + why(error)};
    }
  }
  bool const holes_take_pages = options.read_only && sparse && m.medium_ != Medium::file;
  if (Status s = m.map(0, bytes, holes_take_pages ? Pages::around_holes : Pages::as_touched);
      !s.ok())
    return s;
  return m;
}

}  // namespace perdure::pm
