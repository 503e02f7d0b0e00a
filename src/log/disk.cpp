#include "log/disk.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace perdure::log {
namespace {

class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<BlockDevice>> open(std::string const& path, OpenMode mode, IoOptions const& options) override {
    return open_device(path, mode, options);
  }

  Result<bool> make_directory(std::string const& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return true;
    if (errno == EEXIST) return false;
    return Status{Code::io_error, "directory " + path + ": cannot make it: " + std::strerror(errno)};
  }

  Result<bool> forgets(std::string const& directory) override {
    struct statfs fs{};
    if (::statfs(directory.c_str(), &fs) != 0) {
      Code const code = errno == ENOENT ? Code::not_found : Code::io_error;
      return Status{code, "directory " + directory + ": " + std::strerror(errno)};
    }
    auto const magic = static_cast<std::uint64_t>(fs.f_type);
    return magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC || magic == RAMFS_MAGIC;
  }

  Result<std::optional<Found>> look(std::string const& path, std::size_t head_bytes) override {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) {
      if (errno == ENOENT) return std::optional<Found>{};
      return Status{Code::io_error, "file " + path + ": " + std::strerror(errno)};
    }
    Found found{S_ISREG(st.st_mode), {}};
    if (!found.regular) return std::optional<Found>{found};
    found.head.resize(head_bytes);
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(found.head.data()), static_cast<std::streamsize>(head_bytes));
    found.head.resize(static_cast<std::size_t>(file.gcount()));
    return std::optional<Found>{found};
  }

  Status rename(std::string const& from, std::string const& to, bool replace) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), replace ? 0 : RENAME_NOREPLACE) == 0) return {};
    if (errno == EEXIST) return {Code::already_exists, "file " + to + " is there already"};
    std::string const why = errno == EINVAL && !replace
                                ? "its file system cannot rename without replacing; pass overwrite"
                                : std::strerror(errno);
    return {Code::io_error, "file " + to + ": " + why};
  }

  Status remove(std::string const& path) override {
    if (::unlink(path.c_str()) == 0) return {};
    return {errno == ENOENT ? Code::not_found : Code::io_error, "file " + path + ": " + std::strerror(errno)};
  }

  Status sync_directory_of(std::string const& path) override { return log::sync_directory_of(path); }
};

std::atomic<Disk*> in_place = nullptr;

}  // namespace

Disk& disk() {
  static SystemDisk system;
  Disk* const other = in_place.load(std::memory_order_acquire);
  return other == nullptr ? system : *other;
}

void use_disk(Disk* instead) { in_place.store(instead, std::memory_order_release); }

}  // namespace perdure::log
