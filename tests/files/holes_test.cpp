// Files with holes on a tmpfs that is full: reading a hole there takes a page, and the kernel
// answers a lack of pages with SIGBUS. In a child, whose death is a failure, with a tmpfs of its
// own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "files/small_store.hpp"
#include "pm/mapping.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

constexpr int kNoMount = 77;

/// The exit status of `f`, run where a tmpfs of 16 MiB is mounted for it alone; -N: it died of
/// signal N.
int on_small_tmpfs(std::string const& folder, std::function<int(std::string const&)> const& f) {
  pid_t const child = ::fork();
  if (child == 0) {
    bool const own = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!own || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(kNoMount);
    fs::create_directory(folder);
    if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=16m") != 0) ::_exit(kNoMount);
    ::_exit(f(folder));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// Gives the pages of the file back that hold nothing but zeros; how many.
int punch_holes(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDWR);
  std::vector<char> page(4096);
  int holes = 0;
  for (off_t at = 0; ::pread(fd, page.data(), page.size(), at) == 4096; at += 4096) {
    if (std::any_of(page.begin(), page.end(), [](char c) { return c != 0; })) continue;
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 4096) == 0) ++holes;
  }
  ::close(fd);
  return holes;
}

void fill(std::string const& folder) {
  int const fd = ::open((folder + "/filler").c_str(), O_RDWR | O_CREAT, 0600);
  std::vector<char> const bytes(4096, 'x');
  while (::write(fd, bytes.data(), bytes.size()) > 0) {
  }
  ::close(fd);
}

TEST(Holes, OfAPoolOnAFullTmpfsAreReadAsZeros) {
  ScratchDir const dir;
  int const result = on_small_tmpfs(dir.file("small"), [](std::string const& folder) {
    std::string const pool = folder + "/pool";
    if (!make_marked(pool, 12, small_options()).ok()) return 1;
    std::string const before = read_file(pool);
    if (punch_holes(pool) == 0) return 2;
    fill(folder);
    struct stat st{};
    if (::stat(pool.c_str(), &st) != 0) return 3;
    auto const blocks = st.st_blocks;
    {
      auto mapping = pm::Mapping::open(pool, {.read_only = true});
      if (!mapping.ok()) return 4;
      if (std::memcmp(mapping->data(), before.data(), before.size()) != 0) return 5;  // every page
    }
    auto store = open(pool, {}, true);
    if (!store.ok() || mark_of(*store) != 12) return 6;
    auto const verified = store->verify();
    if (!verified.ok() || verified.value().fault_count != 0) return 7;
    if (::stat(pool.c_str(), &st) != 0 || st.st_blocks != blocks) return 8;  // reading took no page
    static_cast<void>(store->close());
    return open(pool).status().code() == Code::no_space
               ? 0
               : 9;  // to write to it, they would have to be backed
  });
  if (result == kNoMount) GTEST_SKIP() << "neither mounting nor a user namespace is allowed here";
  EXPECT_EQ(result, 0) << (result == -SIGBUS ? "died of SIGBUS" : "see the numbers in the test");
}

TEST(Holes, TooManyAreRefused) {
  ScratchDir const dir;
  int const result = on_small_tmpfs(dir.file("small"), [](std::string const& folder) {
    std::string const path = folder + "/many";
    int const fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    for (off_t at = 4096; at < off_t{20} << 20; at += 8192)
      if (::pwrite(fd, "x", 1, at) != 1) return 1;
    if (::ftruncate(fd, off_t{20} << 20) != 0) return 1;
    ::close(fd);
    Status const s = pm::Mapping::open(path, {.read_only = true}).status();
    if (s.code() != Code::no_space || !says(s, "holes")) return 2;
    return 0;
  });
  if (result == kNoMount) GTEST_SKIP() << "neither mounting nor a user namespace is allowed here";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace perdure::test
