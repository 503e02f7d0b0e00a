// Where the soak's pools live: the page that a victim shares with its killer, and the places of a
// pool, of its log and of the copies that are judged. Invariant: nothing here outlives the soak but
// what keep() was called for, and what is kept is as the kill left it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "soak/forgetting_files.hpp"
#include "soak/victim.hpp"

namespace perdure::test {

/// The page that a victim writes and its killer reads.
class SharedPage {
 public:
  SharedPage()
      : at_(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0)) {
    if (at_ == MAP_FAILED)
      throw std::runtime_error("soak: no page to share with the loading process");
    clear();
  }
  SharedPage(SharedPage const&) = delete;
  SharedPage& operator=(SharedPage const&) = delete;
  ~SharedPage() { ::munmap(at_, sizeof(Page)); }
  Page& clear() { return *new (at_) Page; }
  Page& operator*() { return *static_cast<Page*>(at_); }
  Page* operator->() { return static_cast<Page*>(at_); }

 private:
  void* at_;
};

/// Pool and log directory in places of this process's own. Removed at the end, unless they are
/// kept.
class Site {
 public:
  /// `forgets`: the log lies on a disk that forgets, which is made of files in memory.
  Site(std::string const& log_root, bool forgets) {
    std::string const name = "perdure-soak-" + std::to_string(::getpid());
    original_ = {"/dev/shm/" + name, (forgets ? "/dev/shm/log-of-" : log_root + "/") + name};
    copy_ = {original_.path + "-copy", log_root + "/" + name + "-copy"};
    clear();
  }
  Site(Site const&) = delete;
  Site& operator=(Site const&) = delete;
  ~Site() {
    if (!kept_) clear();
  }

  [[nodiscard]] PoolFiles original(bool power) const {
    return {original_.path, power ? original_.log_dir : ""};
  }

  /// What a power loss leaves of a pool of durability power is its log directory alone.
  PoolFiles copy(bool power) {
    remove(copy_);
    std::error_code none;
    if (power) {
      std::filesystem::copy(original_.log_dir, copy_.log_dir, none);
      return copy_;
    }
    std::filesystem::copy_file(original_.path, copy_.path, none);
    return {copy_.path, ""};
  }
  void clear() {
    remove(original_);
    remove(copy_);
  }
  void remove_copy() { remove(copy_); }
  void keep() {
    kept_ = true;
    remove(copy_);  // it has been opened, and is not as the kill left it
  }
  /// What a kill inside create, or inside the making anew of a pool, leaves beside it.
  void sweep() const { ::unlink((original_.path + ".perdure-partial").c_str()); }

 private:
  static void remove(PoolFiles const& files) {
    std::error_code none;
    std::filesystem::remove(files.path, none);
    ForgettingFiles::remove(files.log_dir);
  }
  PoolFiles original_, copy_;
  bool kept_ = false;
};

}  // namespace perdure::test
