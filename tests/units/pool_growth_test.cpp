// Pools that are extended ahead of need: when the thread begins, what it prepares and gives back,
// and what others can do to it: a fork, a kill, a full medium, limits, somebody who closes its
// descriptor or lets nobody begin a thread. Pools have superblocks of 1 MiB, and so begin with 72
// where something is to be prepared.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "base/sanitizer.hpp"
#include "pm/pool.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

#if !defined(__SANITIZE_THREAD__)
namespace {
std::atomic<bool> no_threads{false};
}
/// This program's own, which can refuse, as a system does that has no more threads.
extern "C" int pthread_create(pthread_t* thread, pthread_attr_t const* attributes,
                              void* (*run)(void*), void* argument) {
  if (no_threads) return EAGAIN;
  static auto* const system =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return system(thread, attributes, run, argument);
}
#endif

namespace perdure::pm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using test::ScratchDir;
using test::SmallTmpfs;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMiB = kMinSuperblock;
constexpr std::uint64_t kBegun = 72;

Result<Pool> begin_pool(std::string const& path, std::uint64_t most = 0) {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  shape.max_bytes = most * kMiB;
  shape.max_key_bytes = shape.max_value_bytes = 8;
  shape.levels = shape.hashes = shape.slots = 1;
  auto pool = Pool::create(path, shape, kBegun, {}, {});
  if (!pool) return pool.status();
  if (Status s = pool->keep(); !s.ok()) return s;
  return pool;
}

/// Takes superblocks, each of which is written as a whole, until the file has grown once by need.
Status take(Pool& pool, std::uint64_t superblocks) {
  for (std::uint64_t i = 0; i < superblocks; ++i) {
    auto const at = pool.take_run(1);
    if (!at.ok()) return at.status();
    std::memset(pool.base() + at.value().bytes, 0x5a, kMiB);
  }
  return {};
}
Status take_until_grown(Pool& pool) {
  std::uint64_t const before = pool.superblocks();
  while (pool.superblocks() == before) {
    if (Status s = take(pool, 1); !s.ok()) return s;
  }
  return {};
}

std::uint64_t free_in(Pool& pool) { return pool.superblocks() - pool.superblocks_in_use(); }

std::uint64_t size_of(std::string const& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_size) : 0;
}
std::uint64_t backed(std::string const& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<std::uint64_t>(st.st_blocks) * 512 : 0;
}

bool soon(std::function<bool()> const& happens) {
  for (auto const until = Clock::now() + std::chrono::seconds(20); Clock::now() < until;) {
    if (happens()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}
/// Until the file has at least that many bytes with backing.
bool soon_backed(std::string const& path, std::uint64_t bytes) {
  return soon([&] { return backed(path) >= bytes; });
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
int in_child(std::function<int()> const& f) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(f());
  return status_of(child);
}

class AheadOfNeed : public testing::Test {
 protected:
  void SetUp() override {
    if (!dir_.path().starts_with("/dev/shm")) GTEST_SKIP() << "no tmpfs at /dev/shm";
  }
  ScratchDir dir_;
  std::string const path_ = dir_.file("pool");
};

TEST_F(AheadOfNeed, APoolThatNobodyGrowsPreparesNothing) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take(*pool, kBegun - 2).ok());
  ASSERT_EQ(free_in(*pool), 1u);
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(size_of(path_), kBegun * kMiB);
}

TEST_F(AheadOfNeed, OnceItHasGrownTheNextEighthIsPrepared) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  std::byte* const base = pool->base();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  EXPECT_EQ(pool->superblocks(), kBegun + kBegun / 8);
  ASSERT_TRUE(take(*pool, 1).ok());
  std::uint64_t const next = pool->superblocks() + pool->superblocks() / 8;
  ASSERT_TRUE(soon_backed(path_, next * kMiB));
  EXPECT_EQ(size_of(path_), next * kMiB);
  EXPECT_EQ(pool->bytes(), (kBegun + kBegun / 8) * kMiB) << "the pool's only once it is needed";
  EXPECT_EQ(pool->root().superblocks, pool->superblocks());
  ASSERT_TRUE(take_until_grown(*pool).ok());
  EXPECT_EQ(pool->superblocks(), next);
  EXPECT_EQ(pool->root().superblocks, next);
  EXPECT_EQ(pool->base(), base);
}

TEST_F(AheadOfNeed, ARunThatNeedsMoreThanIsPreparedWaitsForTheRest) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  ASSERT_TRUE(take(*pool, 1).ok());
  auto const run = pool->take_run(150);
  ASSERT_TRUE(run.ok()) << run.status().message();
  std::memset(pool->base() + run.value().bytes, 1, 150 * kMiB);
  EXPECT_EQ(pool->root().superblocks, pool->superblocks());
  EXPECT_GE(backed(path_), run.value().bytes + 150 * kMiB);
}

TEST_F(AheadOfNeed, WhatNobodyTookIsGivenBackByTheClose) {
  for (bool const keeps_mapping : {false, true}) {
    fs::remove(path_);
    auto pool = begin_pool(path_);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    ASSERT_TRUE(take_until_grown(*pool).ok());
    ASSERT_TRUE(take(*pool, 1).ok());
    std::uint64_t const bytes = pool->bytes();
    ASSERT_TRUE(soon([&] { return size_of(path_) > bytes; }));
    if (keeps_mapping) {
      Mapping const kept = pool->close_but_for_mapping();  // for views of values
      EXPECT_EQ(size_of(path_), bytes);
      EXPECT_EQ(kept.data()[bytes - kMiB], std::byte{0});
    } else {
      pool->close();
      EXPECT_EQ(size_of(path_), bytes);
    }
  }
}

TEST_F(AheadOfNeed, NothingIsPreparedPastMaxBytes) {
  auto pool = begin_pool(path_, kBegun + 12);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  ASSERT_TRUE(take(*pool, 1).ok());
  ASSERT_TRUE(soon_backed(path_, (kBegun + 12) * kMiB));
  ASSERT_TRUE(take(*pool, free_in(*pool) + 3).ok());
  std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(size_of(path_), (kBegun + 12) * kMiB);
  EXPECT_EQ(pool->take_run(1).status().code(), Code::no_space);
}

TEST_F(AheadOfNeed, AFullMediumRefusesNothingBeforeItIsNeeded) {
  SmallTmpfs const small(dir_.file("small"), "128m");
  if (!small.holds())
    GTEST_SKIP() << "mounting a tmpfs is not allowed here: " << std::strerror(errno);
  auto pool = begin_pool(small.file("pool"));
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  std::uint64_t taken = 1;
  Status s;
  for (; s.ok(); ++taken) s = take(*pool, 1);
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  EXPECT_NE(s.message().find(small.file("pool")), std::string::npos) << s.message();
  EXPECT_GE(taken, 126u) << "all that the medium has was had";
  EXPECT_LE(size_of(small.file("pool")), 128 * kMiB);
  std::ofstream(small.file("other")) << "there is room for others";
  ASSERT_TRUE(pool->take_run(1).status().code() == Code::no_space);
  fs::remove(small.file("other"));
}

TEST_F(AheadOfNeed, MostOfWhatTheMediumHasIsLeftToOthers) {
  SmallTmpfs const small(dir_.file("small"), "110m");
  if (!small.holds())
    GTEST_SKIP() << "mounting a tmpfs is not allowed here: " << std::strerror(errno);
  auto pool = begin_pool(small.file("pool"));
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take_until_grown(*pool).ok());  // 81: 29 are left, and the next eighth has 10
  ASSERT_TRUE(take(*pool, 1).ok());
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(size_of(small.file("pool")), 81 * kMiB);
  ASSERT_TRUE(take(*pool, 20).ok()) << "and is there for who needs it";
}

/// What a process leaves that is killed while pages are brought: a file whose end is a hole.
TEST_F(AheadOfNeed, AHoleThatAKilledProcessLeftNeedsNoRoomToBeOpened) {
  SmallTmpfs const small(dir_.file("small"), "80m");
  if (!small.holds())
    GTEST_SKIP() << "mounting a tmpfs is not allowed here: " << std::strerror(errno);
  std::string const path = small.file("pool");
  {
    auto pool = begin_pool(path);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    ASSERT_TRUE(take(*pool, kBegun - 1).ok());
  }
  ASSERT_EQ(::truncate(path.c_str(), 96 * kMiB), 0);
  {
    int const fd = ::open(path.c_str(), O_RDWR);
    ASSERT_EQ(::pwrite(fd, "", 1, 75 * kMiB), 1);  // a page of another thread's, behind a hole
    ::close(fd);
  }
  {
    auto reader = Pool::open(path, {.read_only = true});
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(reader->base()[90 * kMiB], std::byte{0});
  }
  auto pool = Pool::open(path, {});
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  EXPECT_EQ(pool->superblocks(), 75u) << "up to the last page that there is";
  EXPECT_EQ(pool->root().superblocks, kBegun);
  pool->claim_run(Offset{kMiB}, kBegun - 1);
  ASSERT_TRUE(take(*pool, 1).ok());
  EXPECT_EQ(pool->root().superblocks, 75u) << "the root counts what is in use";
  ASSERT_TRUE(take(*pool, 3).ok());
  EXPECT_EQ(take(*pool, 6).code(), Code::no_space);
}

TEST_F(AheadOfNeed, AKillInTheMidstLosesNothingThatTheRootCounts) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  for (int const us : {0, 300, 1000, 3000, 10'000, 30'000}) {
    fs::remove(path_);
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    pid_t const child = ::fork();
    if (child == 0) {
      auto pool = begin_pool(path_);
      if (!pool.ok() || !take_until_grown(*pool).ok()) ::_exit(1);
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      for (int i = 0; i < 300 && take(*pool, 1).ok(); ++i) {
      }
      for (;;) ::pause();
    }
    char begun = 0;
    ASSERT_EQ(::read(ready[0], &begun, 1), 1);
    ::usleep(static_cast<useconds_t>(us));
    ::kill(child, SIGKILL);
    EXPECT_EQ(status_of(child), -SIGKILL);
    ::close(ready[0]);
    ::close(ready[1]);
    auto pool = Pool::open(path_, {});
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    EXPECT_GE(pool->root().superblocks, kBegun + kBegun / 8);
    EXPECT_GE(backed(path_), pool->bytes() / kMiB * kMiB);
    EXPECT_EQ(pool->base()[2 * kMiB], std::byte{0x5a});
    // All that is there can be used, and it grows on.
    ASSERT_TRUE(take(*pool, pool->superblocks() + 1).ok());
    EXPECT_EQ(pool->root().superblocks, pool->superblocks());
  }
}

TEST_F(AheadOfNeed, AForkedChildLeavesThreadAndFileAlone) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(take(*pool, 1).ok());
    std::uint64_t const bytes = pool->bytes();
    EXPECT_EQ(in_child([&] {
                ::alarm(20);  // a child that hangs dies of it
                if (pool->take_run(pool->superblocks()).ok()) return 1;
                pool->close();
                return size_of(path_) < bytes ? 2 : 0;
              }),
              0);
  }
  ASSERT_TRUE(take_until_grown(*pool).ok());
  ASSERT_TRUE(take(*pool, free_in(*pool)).ok());
  pool->close();
  EXPECT_TRUE(Pool::open(path_, {}).ok()) << "and no child has its lock";
}

TEST_F(AheadOfNeed, ALimitOfFileSizesEndsNoProcess) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  EXPECT_EQ(in_child([&] {  // dies of SIGXFSZ, if anybody
              auto pool = begin_pool(path_);
              // As far as it grows by need, and no further.
              std::uint64_t const bytes = (kBegun + kBegun / 8) * kMiB;
              rlimit const limit{bytes, bytes};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              if (!pool.ok() || !take_until_grown(*pool).ok() || pool->bytes() != bytes) return 2;
              if (!take(*pool, free_in(*pool)).ok()) return 3;
              ::usleep(50'000);
              if (size_of(path_) != bytes) return 4;
              ::signal(SIGXFSZ, SIG_IGN);  // the caller's own growth tells the caller
              return pool->take_run(1).status().code() == Code::no_space ? 0 : 5;
            }),
            0);
}

TEST_F(AheadOfNeed, AFileOfOthersThatHasItsNumberIsLeftAlone) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  EXPECT_EQ(in_child([&] {
              auto pool = begin_pool(path_);
              if (!pool.ok() || !take_until_grown(*pool).ok() || !take(*pool, 1).ok()) return 1;
              std::uint64_t const prepared = (pool->superblocks() + pool->superblocks() / 8) * kMiB;
              if (!soon_backed(path_, prepared)) return 2;
              for (int fd = 3; fd < 256; ++fd) ::close(fd);  // as daemons do
              std::string const theirs = dir_.file("theirs");
              for (int i = 0; i < 64; ++i) {
                int const fd = ::open(theirs.c_str(), O_RDWR | O_CREAT, 0600);
                if (fd < 0 || ::ftruncate(fd, 5000) != 0) return 3;
              }
              Status s;
              for (int i = 0; i < 100 && s.ok(); ++i) s = take(*pool, 1);
              if (s.code() != Code::io_error || s.message().find("closed") == std::string::npos)
                return 4;
              pool->close();
              return size_of(theirs) == 5000 ? 0 : 5;
            }),
            0);
}

TEST_F(AheadOfNeed, WhereNoThreadCanBeginThePoolGrowsWithoutOne) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "this sanitizer has a pthread_create of its own";
#else
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  no_threads = true;
  Status const s = take(*pool, 2 * kBegun);
  no_threads = false;
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(size_of(path_), pool->bytes());
#endif
}

/// Numbers of this process's threads.
std::set<std::string> tasks() {
  std::set<std::string> all;
  for (auto const& task : fs::directory_iterator("/proc/self/task"))
    all.insert(task.path().filename());
  return all;
}

TEST_F(AheadOfNeed, SignalsAreForTheProgramsOwnThreads) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  auto const before = tasks();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  ASSERT_TRUE(soon([&] { return size_of(path_) > pool->bytes(); }));
  std::uint64_t blocked = 0;
  for (std::string const& task : tasks()) {
    if (before.contains(task)) continue;
    std::ifstream status("/proc/self/task/" + task + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(7), nullptr, 16);
  }
  for (int const signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGXFSZ})
    EXPECT_NE(blocked & (std::uint64_t{1} << (signal - 1)), 0u) << signal;
  // A profiler samples every thread; a fault is the thread's own.
  for (int const signal : {SIGPROF, SIGSEGV})
    EXPECT_EQ(blocked & (std::uint64_t{1} << (signal - 1)), 0u) << signal;
}

TEST_F(AheadOfNeed, ALiveLookMeanwhileSeesThePoolAsItIs) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  ASSERT_TRUE(take_until_grown(*pool).ok());
  ASSERT_TRUE(take(*pool, 1).ok());  // the thread begins
  auto look = Pool::open(path_, {.live = true});
  ASSERT_TRUE(look.ok()) << look.status().message();
  EXPECT_EQ(look->root().superblocks, pool->superblocks());
  EXPECT_EQ(std::memcmp(look->base() + kMiB, pool->base() + kMiB, (kBegun - 1) * kMiB), 0);
  look->close();
  std::thread closes([&] { pool->close(); });  // the file becomes shorter under the next
  look = Pool::open(path_, {.live = true});
  closes.join();
  ASSERT_TRUE(look.ok()) << look.status().message();
  EXPECT_EQ(look->root().superblocks, kBegun + kBegun / 8);
}

TEST_F(AheadOfNeed, ALiveLookDoesNotWaitUntilTheFileKeepsItsSize) {
  auto pool = begin_pool(path_);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  std::atomic<bool> longer{false};
  std::jthread const prepares([&](std::stop_token const& stop) {  // for as long as somebody looks
    for (auto bytes = static_cast<off_t>(pool->bytes()); !stop.stop_requested(); longer = true) {
      EXPECT_EQ(::truncate(path_.c_str(), bytes += 4096), 0);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  ASSERT_TRUE(soon([&] { return longer.load(); }));
  auto const look = Pool::open(path_, {.live = true});
  EXPECT_TRUE(look.ok()) << look.status().message();
}

TEST_F(AheadOfNeed, ACloseInTheMidstGivesAllBack) {
  for (int i = 0; i < 5; ++i) {
    fs::remove(path_);
    auto pool = begin_pool(path_);
    ASSERT_TRUE(pool.ok()) << pool.status().message();
    ASSERT_TRUE(take_until_grown(*pool).ok());
    ASSERT_TRUE(take(*pool, 1).ok());
    std::uint64_t const bytes = pool->bytes();
    std::this_thread::sleep_for(std::chrono::microseconds(200 * i));
    pool->close();
    EXPECT_EQ(size_of(path_), bytes);
    EXPECT_EQ(backed(path_), bytes);
  }
}

}  // namespace
}  // namespace perdure::pm
