// A directory in memory that goes with the test.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace perdure::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<unsigned> next{0};
    path_ = "/dev/shm/perdure-rocks-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
    std::filesystem::create_directories(path_);
  }
  TemporaryDirectory(TemporaryDirectory const&) = delete;
  TemporaryDirectory& operator=(TemporaryDirectory const&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string operator/(std::string const& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace perdure::testing
