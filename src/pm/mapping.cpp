#include "pm/mapping.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/process.hpp"
#include "exec/pinning.hpp"
#include "pm/extension.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record_shape.hpp"

namespace perdure::pm {
namespace {

constexpr std::string_view kMemfdPrefix = "memfd:";
constexpr std::uint64_t kMaxReservation = std::uint64_t{1} << 40;

std::string why(int error) { return std::strerror(error); }

/// Where the hole begins that reaches to the end of a file of `bytes`; not before `least`.
std::uint64_t end_of_data(int fd, std::uint64_t least, std::uint64_t bytes) {
  std::uint64_t end = least;
  while (end < bytes) {
    off_t const data = ::lseek(fd, static_cast<off_t>(end), SEEK_DATA);
    if (data < 0) return errno == ENXIO ? end : bytes;
    off_t const hole = ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return bytes;
    end = static_cast<std::uint64_t>(hole);
  }
  return std::min(end, bytes);
}

}  // namespace

Mapping::Mapping() = default;
Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  close();
  file_.path = std::move(other.file_.path);
  file_.options = other.file_.options;
  file_.medium = other.file_.medium;
  file_.fd = std::exchange(other.file_.fd, -1);
  file_.data = std::exchange(other.file_.data, nullptr);
  new_file_ = std::move(other.new_file_);
  size_ = std::exchange(other.size_, 0);
  reserved_ = std::exchange(other.reserved_, 0);
  pinned_ = std::exchange(other.pinned_, {});
  max_bytes_ = other.max_bytes_;
  granule_ = other.granule_;
  process_ = other.process_;
  extension_ = std::move(other.extension_);
  return *this;
}

Mapping::~Mapping() { close(); }

void Mapping::close() {
  // else a fork brought it here, and nothing but the addresses
  bool const ours = process_ == this_process();
  prepare_no_more();
  if (ours) {
    for (auto const& [from, to] : pinned_) exec::unpin(file_.data + from, to - from);
  }
  // What a child has not of it, others may have mapped there since.
  if (file_.data != nullptr && ours) ::munmap(file_.data, reserved_);
  new_file_ = {};  // before its lock goes
  if (file_.fd >= 0) close_held(file_.fd);
  pinned_.clear();
  file_.data = nullptr;
  file_.fd = -1;
}

Result<std::uint64_t> Mapping::detect_medium() {
  if (file_.path.starts_with(kMemfdPrefix)) {
    file_.medium = Medium::memfd;
    return kMaxReservation;
  }
  struct statfs fs{};
  if (::fstatfs(file_.fd, &fs) != 0)
    return Status{Code::io_error,
                  "pool " + file_.path + ": cannot tell what its file system is: " + why(errno)};
  auto const magic = static_cast<std::uint64_t>(fs.f_type);
  file_.medium = magic == TMPFS_MAGIC       ? Medium::tmpfs
                 : magic == HUGETLBFS_MAGIC ? Medium::hugetlbfs
                                            : Medium::file;
  if (file_.medium == Medium::hugetlbfs) granule_ = static_cast<std::uint64_t>(fs.f_bsize);
  if (file_.medium == Medium::file && file_.options.gpu) {
    return Status{
        Code::unsupported,
        "pool " + file_.path +
            " lies on a disk file system, whose writable mappings the GPU driver refuses to pin; "
            "put it on tmpfs (/dev/shm) or hugetlbfs, or use device cpu"};
  }
  auto const bytes =
      static_cast<std::uint64_t>(fs.f_blocks) * static_cast<std::uint64_t>(fs.f_bsize);
  return bytes == 0 ? kMaxReservation
                    : std::min(bytes, kMaxReservation);  // 0: a tmpfs without a limit
}

Status Mapping::reserve_addresses(std::uint64_t bytes) {
  PERDURE_ASSERT(file_.data == nullptr && bytes > 0);
  reserved_ = aligned_up(bytes, std::max<std::uint64_t>(granule_, 2u << 20));
  void* const at =
      ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    reserved_ = 0;
    return {Code::no_space, "pool " + file_.path + ": no " + size_text(bytes) +
                                " of address space (ulimit -v?): " + why(errno)};
  }
  file_.data = static_cast<std::byte*>(at);
  return {};
}

std::uint64_t Mapping::most() const {
  return max_bytes_ == 0 ? reserved_ : std::min(reserved_, max_bytes_);
}

Status Mapping::grow(std::uint64_t least, std::uint64_t eager) {
  least = aligned_up(least, granule_);
  if (least <= size_) return {};
  PERDURE_ASSERT(file_.fd >= 0 && size_ <= reserved_);
  if (least > most()) {
    return {Code::no_space, "pool " + file_.path + " would need " + size_text(least) +
                                ", more than the " + size_text(most()) +
                                " its file system (or max_bytes) allows"};
  }
  if (extension_ != nullptr && extension_->is_here()) {
    size_ = extension_->take(least, pinned_);
    if (least <= size_) return {};
  }
  prepare_no_more();
  eager = aligned_up(eager, granule_);
  if (eager > least && eager <= most() && grow_here(eager).ok()) return {};
  return grow_here(least);
}

Status Mapping::grow_here(std::uint64_t bytes) {
  PERDURE_ASSERT(size_ < bytes && bytes <= reserved_);
  if (file_.options.gpu) pinned_.reserve(pinned_.size() + 1);
  if (Status s = extend(file_, size_, bytes, most_growing_threads()); !s.ok()) return s;
  if (file_.options.gpu) pinned_.emplace_back(size_, bytes);
  size_ = bytes;
  return {};
}

bool Mapping::prepare(std::uint64_t bytes, std::uint64_t unit) {
  unit = std::max(unit, granule_);
  bool const ours = process_ == this_process();
  if (file_.medium == Medium::file || file_.options.read_only || most() < size_ || !ours)
    return false;
  std::uint64_t const units = std::min(bytes, most() - size_) / unit;
  if (units == 0) return true;
  try {
    if (extension_ == nullptr) extension_ = std::make_unique<Extension>(file_, size_, granule_);
    return extension_->prepare(size_ + units * unit);
  } catch (std::exception const&) {  // no memory, or no thread: growth goes on without
    return false;
  }
}

void Mapping::prepare_no_more() {
  if (extension_ == nullptr) return;
  if (extension_->is_here())
    extension_.reset();
  else
    put_aside(std::move(extension_));
}

Result<Mapping> Mapping::create(std::string const& path, std::uint64_t bytes,
                                std::uint64_t max_bytes, MakeOptions const& make,
                                MapOptions const& options) {
  Mapping m;
  m.file_.path = path;
  m.process_ = this_process();
  m.file_.options = options;
  m.max_bytes_ = max_bytes;
  bool const memfd = path.starts_with(kMemfdPrefix);
  if (memfd) {
    m.file_.fd = memfd_held(path.c_str() + kMemfdPrefix.size());
    if (m.file_.fd < 0) return Status{Code::io_error, "pool " + path + ": " + why(errno)};
  } else {
    auto made = NewFile::make("pool", path, make);
    if (!made) return made.status();
    m.file_.fd = made->first.release();
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
  PERDURE_ASSERT(address >= reinterpret_cast<std::uintptr_t>(file_.data));
  PERDURE_ASSERT(address - reinterpret_cast<std::uintptr_t>(file_.data) + bytes <= size_);
  std::uintptr_t const first = address / granule_ * granule_;
  if (::msync(reinterpret_cast<void*>(first), address + bytes - first, MS_SYNC) != 0)
    return {Code::io_error, "pool " + file_.path + ": cannot sync it: " + why(errno)};
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
  m.file_.path = path;
  m.process_ = this_process();
  m.file_.options = options;
  m.file_.fd = file;
  auto const limit = m.detect_medium();
  m.file_.fd = -1;
  if (!limit) return limit.status();
  m.granule_ = 4096;
  m.file_.fd = memfd_held("perdure-live");
  if (m.file_.fd < 0)
    return Status{Code::io_error, "pool " + path + ": no memory for a copy: " + why(errno)};
  if (Status s = m.reserve_addresses(kMaxReservation); !s.ok()) return s;
  if (Status s = m.grow(bytes); !s.ok()) return s;
  return m;
}

Result<Mapping> Mapping::open(std::string const& path, MapOptions const& options,
                              FileCheck const& check) {
  Mapping m;
  m.file_.path = path;
  m.process_ = this_process();
  m.file_.options = options;
  auto fd =
      open_existing(path, !options.read_only, options.read_only ? Lock::shared : Lock::exclusive);
  if (!fd) return fd.status();
  m.file_.fd = fd->release();
  struct stat st{};
  if (::fstat(m.file_.fd, &st) != 0)
    return Status{Code::io_error, "pool " + path + ": " + why(errno)};
  auto const limit = m.detect_medium();
  if (!limit) return limit.status();
  auto bytes = static_cast<std::uint64_t>(st.st_size);
  std::uint64_t counted = bytes;
  if (check) {
    auto checked = check(m.file_.fd, bytes);
    if (!checked) return checked.status();
    counted = *checked;
  }
  if (bytes < 3 * 4096 || bytes % 4096 != 0) {
    return Status{Code::corrupt, "pool " + path + " is truncated: " + std::to_string(bytes) +
                                     " bytes hold no pool header; restore it from a copy"};
  }
  if (Status s = m.reserve_addresses(std::max(bytes, limit.value())); !s.ok()) return s;
  // A sparse file (copied, say) would raise SIGBUS on a full tmpfs: back its holes now, or leave
  // them out. One without holes is left alone, for looking at each of its pages takes long.
  bool const sparse = static_cast<std::uint64_t>(st.st_blocks) * 512 < bytes;
  bool const in_memory = m.file_.medium != Medium::file;
  if (!options.read_only && sparse) {
    if (in_memory) bytes = end_of_data(m.file_.fd, counted, bytes);
    if (int const error = ::posix_fallocate(m.file_.fd, 0, static_cast<off_t>(bytes)); error != 0) {
      return Status{Code::no_space, "pool " + path + ": its file system cannot back " +
                                        size_text(bytes) + ": " + why(error)};
    }
  }
  bool const holes_take_pages = options.read_only && sparse && in_memory;
  if (options.gpu) m.pinned_.reserve(1);
  if (Status s = show(m.file_, 0, bytes, holes_take_pages ? Holes::covered : Holes::as_they_are);
      !s.ok())
    return s;
  if (options.gpu) m.pinned_.emplace_back(0, bytes);
  m.size_ = bytes;
  return m;
}

}  // namespace perdure::pm
