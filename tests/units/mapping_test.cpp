// Mapped pool files: growth in place, exclusive use, and every way in which the system may refuse.
// What needs another process's limits happens in a child.
#include "pm/mapping.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "base/sanitizer.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace {

/// What this program's fstatfs does instead of what the system's does.
struct {
  int fail_at = 0;         // the call that fails, from now on; 0: none
  bool without_limit = false;  // of a file system that gives no size
} asked_of_fstatfs;

/// Called once, by the next flock() that finds the file locked.
std::function<void()> once_locked_out;

}  // namespace

extern "C" int fstatfs(int fd, struct statfs* into) noexcept {
  if (asked_of_fstatfs.fail_at != 0 && --asked_of_fstatfs.fail_at == 0) {
    errno = ENOMEM;
    return -1;
  }
  auto const result = static_cast<int>(::syscall(SYS_fstatfs, fd, into));
  if (asked_of_fstatfs.without_limit) into->f_blocks = 0;
  return result;
}

extern "C" int flock(int fd, int operation) noexcept {
  auto const result = static_cast<int>(::syscall(SYS_flock, fd, operation));
  int const error = errno;
  if (result != 0 && error == EWOULDBLOCK) {
    if (auto const hook = std::exchange(once_locked_out, nullptr)) hook();
  }
  errno = error;
  return result;
}

namespace perdure::pm {
namespace {

namespace fs = std::filesystem;
using test::ScratchDir;
using test::SmallTmpfs;

constexpr std::uint64_t kMiB = 1u << 20;

/// Runs f in a child process and returns its code; the child's limits die with it.
int in_child(std::function<int()> const& f) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Mapping, GrowsInPlaceAndKeepsItsBytes) {
  ScratchDir dir;
  auto m = Mapping::create(dir.file("pool"), 2 * kMiB, 0, {}, {});
  ASSERT_TRUE(m.ok()) << m.status().message();
  std::byte* const where = m->data();
  std::memset(where, 7, 2 * kMiB);
  ASSERT_TRUE(m->grow(9 * kMiB).ok());
  EXPECT_EQ(m->data(), where);
  EXPECT_EQ(m->size(), 9 * kMiB);
  EXPECT_EQ(where[2 * kMiB - 1], std::byte{7});
  EXPECT_EQ(where[2 * kMiB], std::byte{0});
  where[9 * kMiB - 1] = std::byte{1};
  ASSERT_TRUE(m->grow(3 * kMiB).ok()) << "less than it has: nothing to do";
  EXPECT_EQ(m->size(), 9 * kMiB);
}

TEST(Mapping, IsThereForGoodOnlyOnceKept) {
  ScratchDir dir;
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
  }
  EXPECT_FALSE(fs::exists(dir.file("pool")));
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
    ASSERT_TRUE(m->keep().ok());
  }
  EXPECT_TRUE(fs::exists(dir.file("pool")));
  EXPECT_EQ(Mapping::create(dir.file("pool"), kMiB, 0, {}, {}).status().code(),
            Code::already_exists);
}

TEST(Mapping, WhatItReplacesStaysUntilKept) {
  ScratchDir dir;
  std::ofstream(dir.file("pool")) << "older";
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {.overwrite = true}, {});
  }
  EXPECT_EQ(fs::file_size(dir.file("pool")), 5u);
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {.overwrite = true}, {});
    ASSERT_TRUE(m->keep().ok());
  }
  EXPECT_EQ(fs::file_size(dir.file("pool")), kMiB);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1)
      << "no leftovers";
}

TEST(Mapping, RefusesToGrowPastItsLimit) {
  ScratchDir dir;
  auto m = Mapping::create(dir.file("pool"), 2 * kMiB, 4 * kMiB, {}, {});
  ASSERT_TRUE(m.ok());
  EXPECT_TRUE(m->grow(4 * kMiB).ok());
  Status const s = m->grow(5 * kMiB);
  EXPECT_EQ(s.code(), Code::no_space);
  EXPECT_NE(s.message().find(dir.file("pool")), std::string::npos) << s.message();
  EXPECT_EQ(m->size(), 4 * kMiB);
}

TEST(Mapping, OneWriterOrManyReaders) {
  ScratchDir dir;
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
    ASSERT_TRUE(m->keep().ok());
    EXPECT_EQ(Mapping::open(dir.file("pool"), {}).status().code(), Code::busy);
    EXPECT_EQ(Mapping::open(dir.file("pool"), {.read_only = true}).status().code(), Code::busy);
    EXPECT_EQ(in_child([&] {
                return static_cast<int>(Mapping::open(dir.file("pool"), {}).status().code());
              }),
              static_cast<int>(Code::busy))
        << "from another process, too";
  }
  auto const first = Mapping::open(dir.file("pool"), {.read_only = true});
  auto const second = Mapping::open(dir.file("pool"), {.read_only = true});
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Mapping::open(dir.file("pool"), {}).status().code(), Code::busy);
}

/// A GPU's driver lets go of what it had pinned only after the process is gone; here another
/// process has the open file until the first try to lock it was refused.
TEST(Mapping, ALockThatOutlivesItsProcessIsWaitedFor) {
  ScratchDir dir;
  {
    auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
    ASSERT_TRUE(m->keep().ok());
  }
  std::array<int, 2> go{}, gone{};
  ASSERT_EQ(::pipe(go.data()), 0);
  ASSERT_EQ(::pipe(gone.data()), 0);
  pid_t const locker = ::fork();
  if (locker == 0) {
    ::close(go[1]);
    int const fd = ::open(dir.file("pool").c_str(), O_RDWR | O_CLOEXEC);
    bool const locked = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (::fork() == 0) {
      char end = 0;
      if (::read(go[0], &end, 1) < 0) ::_exit(1);
      ::close(fd);
    }
    ::_exit(locked ? 0 : 1);
  }
  ::close(go[0]);
  ::close(gone[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(locker, &status, 0), locker);
  ASSERT_EQ(status, 0);
  bool refused = false;
  once_locked_out = [&] {
    refused = true;
    ::close(go[1]);
    char end = 0;
    EXPECT_EQ(::read(gone[0], &end, 1), 0);
  };
  Status const s = Mapping::open(dir.file("pool"), {}).status();
  EXPECT_TRUE(refused) << "nobody had the lock";
  EXPECT_TRUE(s.ok()) << s.message();
  ::close(gone[0]);
}

TEST(Mapping, ClosingLetsGoOfFileAndLock) {
  ScratchDir dir;
  auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
  ASSERT_TRUE(m->keep().ok());
  m->close();
  m->close();
  EXPECT_TRUE(Mapping::open(dir.file("pool"), {}).ok());
}

TEST(Mapping, NamesWhatIsNoPool) {
  ScratchDir dir;
  EXPECT_EQ(Mapping::open(dir.file("absent"), {}).status().code(), Code::not_found);
  EXPECT_EQ(Mapping::create(dir.file("absent/pool"), kMiB, 0, {}, {}).status().code(),
            Code::not_found);
  EXPECT_FALSE(Mapping::open(dir.path(), {}).ok()) << "a directory";
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(Mapping::open(dir.file("fifo"), {}).status().code(), Code::invalid_argument);
  std::ofstream(dir.file("short")) << "not a pool";
  EXPECT_EQ(Mapping::open(dir.file("short"), {}).status().code(), Code::corrupt);
  std::ofstream(dir.file("empty"));
  EXPECT_EQ(Mapping::open(dir.file("empty"), {}).status().code(), Code::corrupt);
}

TEST(Mapping, KnowsItsMedium) {
  ScratchDir dir;
  auto const here = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
  ASSERT_TRUE(here.ok());
  bool const on_tmpfs = dir.path().starts_with("/dev/shm");
  EXPECT_EQ(here.value().medium() == Medium::tmpfs, on_tmpfs);
  auto const anonymous = Mapping::create("memfd:x", kMiB, 0, {}, {});
  ASSERT_TRUE(anonymous.ok()) << anonymous.status().message();
  EXPECT_EQ(anonymous.value().medium(), Medium::memfd);
}

TEST(Mapping, ADiskFileServesTheCpuAndNotTheGpu) {
  std::string const path = fs::current_path() / ("mapping-test-" + std::to_string(::getpid()));
  {
    auto m = Mapping::create(path, kMiB, 0, {}, {});
    ASSERT_TRUE(m.ok()) << m.status().message();
    if (m->medium() != Medium::file) GTEST_SKIP() << "the build lies on no disk file system";
    m->data()[5] = std::byte{1};
    EXPECT_TRUE(m->grow(3 * kMiB).ok());
  }
  Status const gpu = Mapping::create(path, kMiB, 0, {}, {.gpu = true}).status();
  EXPECT_EQ(gpu.code(), Code::unsupported);
  EXPECT_NE(gpu.message().find("/dev/shm"), std::string::npos) << "the way out: " << gpu.message();
  EXPECT_FALSE(fs::exists(path));
}

TEST(Mapping, AFullTmpfsIsAnErrorAndNoSignal) {
  ScratchDir dir;
  SmallTmpfs const small(dir.file("small"), "8m");
  if (!small.holds())
    GTEST_SKIP() << "mounting a tmpfs is not allowed here: " << std::strerror(errno);
  Status const s = Mapping::create(small.file("pool"), 9 * kMiB, 64 * kMiB, {}, {}).status();
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  EXPECT_FALSE(fs::exists(small.file("pool")));
  auto m = Mapping::create(small.file("pool"), 2 * kMiB, 64 * kMiB, {}, {});
  ASSERT_TRUE(m.ok()) << m.status().message();
  ASSERT_TRUE(m->keep().ok());
  EXPECT_TRUE(m->grow(7 * kMiB).ok());
  EXPECT_EQ(m->grow(9 * kMiB).code(), Code::no_space);
  EXPECT_EQ(m->size(), 7 * kMiB);
  EXPECT_EQ(fs::file_size(small.file("pool")), 7 * kMiB) << "the refused part is given back";
  std::memset(m->data(), 1, m->size());
}

TEST(Mapping, ACopyWithHolesIsBackedBeforeItIsUsed) {
  ScratchDir dir;
  SmallTmpfs const small(dir.file("small"), "8m");
  if (!small.holds())
    GTEST_SKIP() << "mounting a tmpfs is not allowed here: " << std::strerror(errno);
  int const fd = ::open(small.file("sparse").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::ftruncate(fd, 16 * kMiB), 0);
  EXPECT_EQ(Mapping::open(small.file("sparse"), {}).status().code(), Code::no_space);
  ASSERT_EQ(::ftruncate(fd, 4 * kMiB), 0);
  auto m = Mapping::open(small.file("sparse"), {});
  ASSERT_TRUE(m.ok()) << m.status().message();
  struct stat st{};
  ASSERT_EQ(::fstat(fd, &st), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_blocks) * 512, 4 * kMiB);
  ::close(fd);
}

TEST(Mapping, TooLittleMemlockIsAnErrorThatNamesTheLimit) {
  if (kThreadSanitizer || kAddressSanitizer) GTEST_SKIP() << "sanitizers make mlock do nothing";
  ScratchDir dir;
  fs::permissions(dir.path(), fs::perms::all);
  int const result = in_child([&] {
    rlimit const little{64 << 10, 64 << 10};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) return 100;
    if (::getuid() == 0 && ::setuid(65534) != 0) return 101;  // root may lock anything
    Status const s =
        Mapping::create(dir.file("pool"), 4 * kMiB, 0, {}, {.lock_memory = true}).status();
    if (s.code() != Code::locked_memory) return 102;
    if (s.message().find("64 KiB") == std::string::npos ||
        s.message().find("ulimit -l") == std::string::npos)
      return 103;
    return fs::exists(dir.file("pool")) ? 104 : 0;
  });
  if (result == 101) GTEST_SKIP() << "this root may not become another user";
  EXPECT_EQ(result, 0);
}

TEST(Mapping, LocksMemoryWhereItMay) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (::getuid() != 0 && limit.rlim_cur < 8 * kMiB)
    GTEST_SKIP() << "the memlock limit is below 8 MiB";
  ScratchDir dir;
  auto const m = Mapping::create(dir.file("pool"), 2 * kMiB, 0, {}, {.lock_memory = true});
  if (m.status().code() == Code::locked_memory) GTEST_SKIP() << m.status().message();
  EXPECT_TRUE(m.ok()) << m.status().message();
}

TEST(Mapping, AFileSizeLimitIsNoSpace) {
  ScratchDir dir;
  EXPECT_EQ(in_child([&] {
              rlimit const limit{4 * kMiB, 4 * kMiB};
              ::signal(SIGXFSZ, SIG_IGN);
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 100;
              auto m = Mapping::create(dir.file("pool"), 2 * kMiB, 0, {}, {});
              if (!m.ok()) return 101;
              if (m->grow(8 * kMiB).code() != Code::no_space) return 102;
              return m->size() == 2 * kMiB ? 0 : 103;
            }),
            0);
}

// What could not be asked is no size: a pool would be refused its growth, much later.
TEST(Mapping, AFileSystemThatDoesNotAnswerIsAnError) {
  ScratchDir dir;
  for (bool const opening : {false, true}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 10);
      std::string const path = dir.file("pool" + std::to_string(n));
      if (opening) {
        auto made = Mapping::create(path, kMiB, 0, {}, {});
        ASSERT_TRUE(made.ok() && made->keep().ok());
      }
      asked_of_fstatfs.fail_at = n;
      auto m = opening ? Mapping::open(path, {}) : Mapping::create(path, kMiB, 0, {}, {});
      bool const failed = asked_of_fstatfs.fail_at == 0;
      asked_of_fstatfs.fail_at = 0;
      EXPECT_EQ(m.ok(), !failed) << opening << ", call " << n;
      EXPECT_TRUE(!failed || m.status().code() == Code::io_error) << m.status().message();
      if (!failed) break;
      EXPECT_FALSE(!opening && fs::exists(path));
    }
  }
}

TEST(Mapping, GrowsWhereAFileSystemHasNoLimit) {
  ScratchDir dir;
  asked_of_fstatfs.without_limit = true;
  auto m = Mapping::create(dir.file("pool"), kMiB, 0, {}, {});
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_TRUE(m->grow(3 * kMiB).ok());
  ASSERT_TRUE(m->keep().ok());
  m->close();
  m = Mapping::open(dir.file("pool"), {});
  asked_of_fstatfs.without_limit = false;
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_TRUE(m->grow(9 * kMiB).ok()) << "opened anew";
}

}  // namespace
}  // namespace perdure::pm
