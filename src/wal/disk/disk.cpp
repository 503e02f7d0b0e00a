#include "wal/disk/disk.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace perdure::wal {
namespace {

class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<BlockDevice>> open(std::string const& path, OpenMode mode,
                                            IoOptions const& options) override {
    return open_device(path, mode, options);
  }

  Result<NewDevice> make(std::string const& path, pm::MakeOptions const& make,
                         IoOptions const& options) override {
    return make_device(path, make, options);
  }

  Result<bool> make_directory(std::string const& path, mode_t mode) override {
    if (::mkdir(path.c_str(), mode) == 0) return true;
    if (errno == EEXIST) return false;
    return Status{Code::io_error,
                  "directory " + path + ": cannot make it: " + std::strerror(errno)};
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

  Status sync_directory_of(std::string const& path) override {
    return wal::sync_directory_of(path);
  }
};

std::atomic<Disk*> in_place = nullptr;

}  // namespace

Disk& disk() {
  static SystemDisk system;
  Disk* const other = in_place.load(std::memory_order_acquire);
  return other == nullptr ? system : *other;
}

void use_disk(Disk* instead) { in_place.store(instead, std::memory_order_release); }

}  // namespace perdure::wal
