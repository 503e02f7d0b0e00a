// Folders on a medium that a test chooses: a disk, or a tmpfs of a few MiB that fills.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

namespace perdure::test {

/// On a disk: /tmp may lie in memory. Not there until somebody makes it; removed with all it holds.
class DiskDir {
 public:
  explicit DiskDir(char const* name)
      : path("/var/tmp/perdure-" + std::to_string(::getpid()) + "-" + name) {
    std::filesystem::remove_all(path);
  }
  ~DiskDir() { std::filesystem::remove_all(path); }
  DiskDir(DiskDir const&) = delete;
  DiskDir& operator=(DiskDir const&) = delete;
  [[nodiscard]] std::string file(char const* name) const { return path + "/" + name; }
  std::string const path;
};

/// A tmpfs of its own, of that size; holds() is false where mounting is not allowed.
class SmallTmpfs {
 public:
  SmallTmpfs(std::string path, std::string const& size) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallTmpfs() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallTmpfs(SmallTmpfs const&) = delete;
  SmallTmpfs& operator=(SmallTmpfs const&) = delete;
  [[nodiscard]] bool holds() const { return mounted_; }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::string file(std::string const& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace perdure::test
