#include "gpm/gpm_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hooks.hpp"
#include "gpm/gpm_format.hpp"
#include "gpm/gpm_log_file.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool_format.hpp"
#include "wal/log_format.hpp"

namespace perdure::gpm {
namespace {

Status failed(std::string const& path, char const* doing) {
  Code const code = errno == ENOENT   ? Code::not_found
                    : errno == ENOSPC ? Code::no_space
                                      : Code::io_error;
  return {code, std::string("file ") + path + ": " + doing + ": " + std::strerror(errno)};
}

Status too_short(std::string const& path, std::uint64_t has, std::uint64_t needed) {
  return {Code::corrupt, "file " + path + " is truncated: " + std::to_string(has) + " of " +
                             std::to_string(needed) +
                             " bytes are there; restore it from a copy, or make it anew"};
}

/// A file of plain bytes is known by nothing, so any may be replaced but those that are known to be
/// something else.
Status no_file_of_ours(std::string const& path, int fd) {
  std::array<char, 8> magic{};
  if (::pread(fd, magic.data(), magic.size(), 0) != static_cast<ssize_t>(magic.size())) return {};
  std::array const ours{pm::kPoolMagic,
                        wal::kLogMagic,
                        wal::kImageMagic,
                        wal::kCheckpointMagic,
                        std::to_array(kGpmLogMagic),
                        std::to_array(kGpmCheckpointMagic)};
  if (std::find(ours.begin(), ours.end(), magic) == ours.end()) return {};
  return {Code::already_exists,
          "file " + path +
              " is a pool, a log or a checkpoint, and is not replaced; name another file, or "
              "remove it first"};
}

pm::MakeOptions plain_file(std::string const& path) {
  return {.overwrite = true, .may_replace = [path](int fd) { return no_file_of_ours(path, fd); }};
}

}  // namespace

GpmFile& GpmFile::operator=(GpmFile&& other) noexcept {
  path_ = std::move(other.path_);
  std::swap(mapping_, other.mapping_);
  std::swap(fd_, other.fd_);
  bytes_ = other.bytes_;
  return *this;
}

GpmFile::~GpmFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<GpmFile> GpmFile::map(std::string const& path, std::uint64_t bytes, bool create, bool gpu) {
  std::uint64_t const file_bytes = gpm_file_bytes(bytes);
  auto mapping =
      create ? pm::Mapping::create(path, file_bytes, file_bytes, plain_file(path), {.gpu = gpu})
             : pm::Mapping::open(path, {.gpu = gpu});
  if (!mapping.ok()) return mapping.status();
  if (create) {
    if (Status s = mapping->keep(); !s.ok()) return s;
  }
  if (mapping->size() < bytes) return too_short(path, mapping->size(), bytes);
  GpmFile file;
  file.path_ = path;
  file.bytes_ = mapping->size();
  file.mapping_ = std::move(mapping.value());
  return file;
}

Result<GpmFile> GpmFile::plain(std::string const& path, std::uint64_t bytes, bool create) {
  GpmFile file;
  file.path_ = path;
  file.bytes_ = gpm_file_bytes(bytes);
  return create ? make_plain(std::move(file)) : open_plain(std::move(file));
}

Result<GpmFile> GpmFile::make_plain(GpmFile file) {
  auto made = pm::NewFile::make("file", file.path_, plain_file(file.path_));
  if (!made) return made.status();
  if (int const error = ::posix_fallocate(made->first.get(), 0, static_cast<off_t>(file.bytes_));
      error != 0) {
    errno = error;
    return failed(file.path_, "cannot back it");
  }
  if (Status s = made->second.keep(); !s.ok()) return s;
  file.fd_ = made->first.release();
  return file;
}

/// Without a lock of its own: a log or checkpoint is mapped, and locked, beside it.
Result<GpmFile> GpmFile::open_plain(GpmFile file) {
  auto fd = pm::open_file("file", file.path_, true, pm::Lock::none);
  if (!fd) return fd.status();
  file.fd_ = fd->release();
  struct stat st{};
  if (::fstat(file.fd_, &st) != 0) return failed(file.path_, "cannot look at it");
  auto const has = static_cast<std::uint64_t>(st.st_size);
  if (has < file.bytes_) return too_short(file.path_, has, file.bytes_);
  file.bytes_ = has;
  return file;
}

Status GpmFile::write_and_sync(std::uint64_t from, std::byte const* data, std::uint64_t bytes) {
  pm::will_write_file(fd_, from, data, bytes);
  for (std::uint64_t done = 0; done < bytes;) {
    ssize_t const n = ::pwrite(fd_, data + done, bytes - done, static_cast<off_t>(from + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(path_, "writing");
    done += static_cast<std::uint64_t>(n);
  }
  return sync();
}

Status GpmFile::sync() {
  if (mutated("gpm_file_not_synced")) return {};
  if (::fsync(fd_) != 0) return failed(path_, "syncing");
  pm::synced(fd_);
  return {};
}

Status GpmFile::read(std::uint64_t from, std::byte* data, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    ssize_t const n = ::pread(fd_, data + done, bytes - done, static_cast<off_t>(from + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(path_, "reading");
    done += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace perdure::gpm
