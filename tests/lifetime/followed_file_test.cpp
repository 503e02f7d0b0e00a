// A file that is followed (pm/followed_file.hpp) where address space is short.
#include "pm/followed_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr off_t kGiB = off_t{1} << 30;

/// What a process answers that may have so many bytes of addresses.
int in_a_process_with(off_t bytes, int (*f)(std::string const&), std::string const& path) {
  pid_t const child = ::fork();
  if (child == 0) {
    rlimit const limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(100);
    std::_Exit(f(path));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

class FollowedFiles : public testing::Test {
 protected:
  void SetUp() override {
    int const fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
    ::close(fd);
  }
  ScratchDir scratch_;
  std::string path_ = scratch_.file("file");
};

TEST_F(FollowedFiles, AreFollowedAsFarAsAddressesGo) {
  EXPECT_EQ(in_a_process_with(
                40 * kGiB,
                [](std::string const& path) {
                  auto file = pm::FollowedFile::open(path);
                  if (!file.ok()) return 1;
                  if (::truncate(path.c_str(), 2 << 20) != 0) return 2;
                  if (!file->follow().ok() || file->size() != 2 << 20) return 3;
                  if (::truncate(path.c_str(), 20 * kGiB) != 0) return 4;
                  Status const s = file->follow();
                  bool const says = s.message().find("open it again") != std::string::npos;
                  return s.code() == Code::no_space && says && file->size() == 2 << 20 ? 0 : 5;
                },
                path_),
            0);
}

TEST_F(FollowedFiles, AreRefusedWithoutAddresses) {
  EXPECT_EQ(in_a_process_with(
                8 * kGiB,
                [](std::string const& path) {
                  auto const file = pm::FollowedFile::open(path);
                  return file.status().message().find("ulimit -v") != std::string::npos ? 0 : 1;
                },
                path_),
            0);
}

}  // namespace
}  // namespace perdure::test
