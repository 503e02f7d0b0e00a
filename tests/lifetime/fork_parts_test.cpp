// What a fork does to the parts by themselves: worker pools, buffers that a disk transfers,
// descriptors and their locks, libGPM's calls. A child leaves, or uses what it has a copy of, and
// neither it nor its parent hangs, crashes, or touches what is not its own. The open() here first
// opens, and then asks a hook of the calling thread: what comes between the opening of a file and
// whatever the library does next happens just there.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <future>
#include <optional>
#include <thread>

#include "base/process.hpp"
#include "base/sanitizer.hpp"
#include "exec/workers.hpp"
#include "lifetime/lifetime_store.hpp"
#include "perdure/gpm.h"
#include "store/gphash/device_access.hpp"
#include "wal/disk/block_file.hpp"

#if defined(__SANITIZE_ADDRESS__)
namespace {
::pid_t const parent = ::getpid();
}
/// Asked at each exit. A child lacks its parent's other threads; what they alone had reached is no
/// leak there.
extern "C" int __lsan_is_turned_off() { return ::getpid() != parent ? 1 : 0; }
#endif

namespace perdure::test {
namespace {
thread_local std::function<void()> after_opening;
}  // namespace
}  // namespace perdure::test

extern "C" int open(char const* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  auto const mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  auto const fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (auto const hook = std::exchange(perdure::test::after_opening, nullptr)) hook();
  return fd;
}

namespace perdure::test {
namespace {

using std::chrono::seconds;

// ------------------------------------------------------------------------------------------------
// Workers

std::optional<exec::Workers> workers;  // destroyed by whoever exits

bool each_index_once(std::size_t n) {
  std::vector<std::atomic<int>> seen(n);
  workers->for_chunks(n, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) ++seen[i];
  });
  return std::all_of(seen.begin(), seen.end(), [](auto const& count) { return count == 1; });
}

TEST(ForkedWorkers, AChildRunsJobsByItselfAndLeaves) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  workers.emplace(3);
  ASSERT_TRUE(each_index_once(1000));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they sleep
  EXPECT_EQ(in_child([] { return 0; }), 0);
  EXPECT_EQ(in_child([] { return each_index_once(1000) && workers->threads() == 3 ? 0 : 1; }), 0);
  EXPECT_TRUE(each_index_once(1000));
  workers.reset();
}

TEST(ForkedWorkers, AChildOfABusyPoolDoesToo) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  workers.emplace(3);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) each_index_once(100);
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(in_child([] { return each_index_once(100) ? 0 : 1; }), 0);
  stop = true;
  busy.join();
  EXPECT_TRUE(each_index_once(1000));
  workers.reset();
}

// ------------------------------------------------------------------------------------------------
// Buffers

bool is_there(std::byte* at) {
  unsigned char resident = 0;
  return ::mincore(at, 4096, &resident) == 0 || errno != ENOMEM;
}

TEST(ForkedBuffers, AChildHasNoneAndUnmapsNothingOfItsOwn) {
  auto buffer = wal::AlignedBuffer::make(1 << 16);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 7, buffer->size());
  ASSERT_TRUE(is_there(buffer->data()));
  EXPECT_EQ(in_child([&] {
              std::byte* const at = buffer->data();
              if (is_there(at) || is_there(at + buffer->size() - 4096)) return 1;
              void* const mine = ::mmap(at, buffer->size(), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (mine != at) return 2;
              {
                wal::AlignedBuffer const gone = std::move(*buffer);
              }
              return is_there(at) ? 0 : 3;
            }),
            0);
  EXPECT_EQ(buffer->data()[buffer->size() - 1], std::byte{7});
}

// ------------------------------------------------------------------------------------------------
// Descriptors

bool locked_elsewhere(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  bool const locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return locked;
}

TEST(ForkedDescriptors, ANumberThatOthersUseSinceIsLeftAlone) {
  ScratchDir const scratch;
  int const ours = open_held(scratch.file("ours").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(ours, 0);
  ::close(ours);  // by somebody who closes every descriptor, as daemons do
  int const theirs = ::open(scratch.file("theirs").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(theirs, ours);
  ASSERT_EQ(::flock(theirs, LOCK_EX), 0);
  EXPECT_EQ(in_child([&] { return ::fcntl(theirs, F_GETFD) >= 0 ? 0 : 1; }), 0);
  close_held(ours);
  EXPECT_GE(::fcntl(theirs, F_GETFD), 0);
  EXPECT_TRUE(locked_elsewhere(scratch.file("theirs")));
  ::close(theirs);
}

TEST(ForkedDescriptors, ANumberThatWeUseAgainIsOurs) {
  ScratchDir const scratch;
  int const first = open_held(scratch.file("first").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ::close(first);
  int const second = open_held(scratch.file("second").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(second, first);
  EXPECT_EQ(in_child([&] { return ::fcntl(second, F_GETFD) < 0 ? 0 : 1; }), 0);
  close_held(second);
  EXPECT_LT(::fcntl(second, F_GETFD), 0);
}

/// A store whose file somebody closed under it releases its memory and nothing else.
TEST(ForkedDescriptors, APoolWhoseFileWasClosedByOthersClosesNoFileOfTheirs) {
  ScratchDir const scratch;
  std::vector<int> before;
  auto const open_numbers = [] {
    std::vector<int> open;
    for (int fd = 0; fd < 200; ++fd)
      if (::fcntl(fd, F_GETFD) >= 0) open.push_back(fd);
    return open;
  };
  before = open_numbers();
  CreateOptions create;
  create.value_bytes = 8;
  auto made = Store::create(scratch.file("pool"), create, PoolHome::options());
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::vector<int> opened;
  for (int const fd : open_numbers())
    if (std::find(before.begin(), before.end(), fd) == before.end()) opened.push_back(fd);
  ASSERT_FALSE(opened.empty());
  for (int const fd : opened) ::close(fd);
  std::vector<int> theirs;
  for (std::size_t i = 0; i < opened.size(); ++i)
    theirs.push_back(::open(scratch.file("theirs").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(made->close().ok());
  for (int const fd : theirs) {
    EXPECT_GE(::fcntl(fd, F_GETFD), 0);
    ::close(fd);
  }
  auto again = Store::open(scratch.file("pool"), PoolHome::options());
  EXPECT_TRUE(again.ok()) << again.status().message();
}

TEST(ForkedDescriptors, AFileThatIsSlowToOpenHoldsUpNobody) {
  ScratchDir const scratch;
  std::string const slow = scratch.file("slow");
  ASSERT_EQ(::mkfifo(slow.c_str(), 0600), 0);
  auto opening =
      std::async(std::launch::async, [&] { return open_held(slow.c_str(), O_RDONLY | O_CLOEXEC); });
  ASSERT_EQ(opening.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  auto others = std::async(std::launch::async, [&] {
    int const fd = open_held(scratch.file("other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    close_held(fd);
    return fd >= 0 && in_child([] { return 0; }) == 0;
  });
  bool const held_up = others.wait_for(seconds(10)) == std::future_status::timeout;
  EXPECT_FALSE(held_up);
  int const writer = ::open(
      slow.c_str(), O_RDWR | O_CLOEXEC);  // for reading too, so that a second opening ends at once
  EXPECT_TRUE(others.get());
  int const fd = opening.get();
  EXPECT_GE(fd, 0);
  EXPECT_EQ(in_child([&] { return ::fcntl(fd, F_GETFD) < 0 ? 0 : 1; }), 0);
  close_held(fd);
  ::close(writer);
}

/// Between the opening of a file and its lock a child is forked, which stays: it does not share the
/// lock.
TEST(ForkedDescriptors, AForkBetweenOpeningAndLockingSharesNoLock) {
  ScratchDir const scratch;
  for (int const flags : {O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL}) {
    std::string const path = scratch.file("file" + std::to_string(flags));
    if ((flags & O_CREAT) == 0) ::close(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    pid_t child = 0;
    pid_t const owner = start_child([&] {
      int go[2];
      if (::pipe(go) != 0) return 1;
      after_opening = [&] {
        child = ::fork();
        if (child == 0) {
          ::alarm(60);
          ::pause();
        }
      };
      int const fd = open_held(path.c_str(), flags | O_CLOEXEC, 0600);
      if (fd < 0 || child == 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) return 2;
      if (!locked_elsewhere(path)) return 3;
      ::close(fd);  // and unlocks nothing: as if it was killed
      bool const shared = locked_elsewhere(path);
      ::kill(child, SIGKILL);
      return shared ? 4 : 0;
    });
    EXPECT_EQ(wait_for(owner), 0) << flags;
  }
}

TEST(ForkedDescriptors, AFileThatIsMadeAndGoneWhenAForkCameBetweenIsMadeAgain) {
  ScratchDir const scratch;
  std::string const path = scratch.file("made");
  for (bool const replaced : {false, true}) {
    after_opening = [&] {
      EXPECT_EQ(in_child([] { return 0; }), 0);
      std::filesystem::rename(path, path + ".gone");
      if (replaced) ::close(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    };
    EXPECT_LT(open_held(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), 0);
    EXPECT_EQ(errno, EEXIST);
    std::filesystem::remove(path);
  }
}

// ------------------------------------------------------------------------------------------------
// libGPM

bool no_gpu() { return std::string(gpm_error()).find("no GPU here") != std::string::npos; }

class ForkedGpm : public testing::Test {
 protected:
  static constexpr std::size_t kWordBytes = 4096;

  void SetUp() override {
    file_ = gpm_map(path("a").c_str(), 1 << 16, true);
    if (file_ == nullptr && no_gpu()) GTEST_SKIP() << "a build for CUDA: " << gpm_error();
    words_ = static_cast<std::uint64_t*>(
        gpm_map(path("words").c_str(), kWordBytes, true));  // which a GPU reaches
    log_ = gpmlog_create_hcl(path("log").c_str(), 1 << 16, 4, 64);
    checkpoint_ = gpmcp_create(path("cp").c_str(), 4096, 1, 1);
    ASSERT_TRUE(file_ != nullptr && words_ != nullptr && log_ != nullptr && checkpoint_ != nullptr)
        << gpm_error();
    words_[0] = 1;
    ASSERT_EQ(gpmcp_register(checkpoint_, words_, kWordBytes, 0), GPM_OK) << gpm_error();
  }
  void TearDown() override {
    if (file_ == nullptr) return;
    EXPECT_EQ(gpm_unmap(path("a").c_str(), file_, 1 << 16), GPM_OK);
    EXPECT_EQ(gpm_unmap(path("words").c_str(), words_, kWordBytes), GPM_OK);
    EXPECT_EQ(gpmlog_close(log_), GPM_OK);
    EXPECT_EQ(gpmcp_close(checkpoint_), GPM_OK);
  }
  [[nodiscard]] std::string path(char const* name) const { return scratch_.file(name); }
  static bool said_process() {
    return std::string(gpm_error()).find("process") != std::string::npos;
  }

  /// 0, or the number of the first call that is not refused as it should be.
  int call_everything() {
    int number = 0, failed = 0;
    auto const refused = [&](bool right) {
      ++number;
      if (!(right && said_process()) && failed == 0) failed = number;
    };
    refused(gpm_write(file_, words_, 8) == GPM_FAILED);
    refused(gpm_fill(file_, 0, 8) == GPM_FAILED);
    refused(gpm_survives(file_) == nullptr);
    refused(gpm_unmap(path("a").c_str(), file_, 1 << 16) == GPM_FAILED);
    refused(gpmlog_clear(log_) == GPM_FAILED);
    refused(gpmlog_size(log_) == GPM_FAILED);
    refused(gpmlog_partitions(log_) == GPM_FAILED);
    refused(gpmlog_overflows(log_) == GPM_FAILED);
    refused(gpmlog_close(log_) == GPM_FAILED);
    refused(gpmcp_register(checkpoint_, words_, 8, 0) == GPM_FAILED);
    refused(gpmcp_checkpoint(checkpoint_, 0) == GPM_FAILED);
    refused(gpmcp_restore(checkpoint_, 0) == GPM_FAILED);
    refused(gpmcp_close(checkpoint_) == GPM_FAILED);
    if (gpm_mapped_bytes(file_) != 0 && failed == 0) failed = 100;
    return failed;
  }
  void check_parent() {
    ++words_[0];
    EXPECT_EQ(gpm_write(file_, words_, kWordBytes), GPM_OK) << gpm_error();
    EXPECT_EQ(std::memcmp(file_, words_, kWordBytes), 0);
    EXPECT_EQ(gpmlog_clear(log_), GPM_OK) << gpm_error();
    EXPECT_EQ(gpmlog_size(log_), 0);
    std::uint64_t const kept = words_[0];
    ASSERT_EQ(gpmcp_checkpoint(checkpoint_, 0), GPM_OK) << gpm_error();
    words_[0] = 0;
    ASSERT_EQ(gpmcp_restore(checkpoint_, 0), GPM_OK) << gpm_error();
    EXPECT_EQ(words_[0], kept);
  }

  ScratchDir scratch_;
  void* file_ = nullptr;
  gpmlog* log_ = nullptr;
  gpmcp* checkpoint_ = nullptr;
  std::uint64_t* words_ = nullptr;
};

TEST_F(ForkedGpm, AChildThatOnlyLeavesChangesNothing) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that its threads sleep
  EXPECT_EQ(in_child([] { return 0; }), 0);
  check_parent();
}

TEST_F(ForkedGpm, AChildIsRefusedByEveryCallAndMapsFilesOfItsOwn) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer lets no thread begin in a child of several";
  EXPECT_EQ(in_child([&] { return call_everything(); }), 0);
  EXPECT_EQ(in_child([&] {
              if (is_there(static_cast<std::byte*>(file_))) return 1;
              if (gpm_map(path("a").c_str(), 1 << 16, false) != nullptr)
                return 2;  // open in the parent
              void* const mine = gpm_map(path("mine").c_str(), 1 << 16, true);
              // Where the parent has used a GPU, its children cannot, and are told so.
              if (mine == nullptr)
                return std::string(gpm_error()).find("GPU") != std::string::npos ? 0 : 3;
              std::memset(mine, 1, 1 << 16);
              return call_everything();  // and leaves with it open
            }),
            0);
  check_parent();
}

TEST_F(ForkedGpm, AChildIsRefusedWhateverTheParentsThreadsAreDoing) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer's own locks stay held in a child";
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      void* const other = gpm_map(path("other").c_str(), 1 << 16, true);
      static_cast<void>(gpm_write(other, words_, 8));
      static_cast<void>(gpm_unmap(path("other").c_str(), other, 1 << 16));
    }
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(in_child([&] { return call_everything(); }), 0);
  stop = true;
  busy.join();
  check_parent();
}

/// Nobody here uses a GPU before the fork, for then the child could not. Of an owner that used one,
/// the driver keeps what it had pinned, and so the locks, until every process has gone that was
/// forked with its descriptors: kernels of the owner may run as long.
class OrphansOfGpm : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Made, OrphansOfGpm, testing::Bool(),
                         [](auto const& clones) { return clones.param ? "ByClone" : "ByFork"; });

TEST_P(OrphansOfGpm, KeepNoLock) {
  if (kThreadSanitizer) GTEST_SKIP() << "this sanitizer lets no thread begin in a child of several";
  bool const clones = GetParam();
  ScratchDir const scratch;
  auto const path = [&](char const* name) { return scratch.file(name); };
  int to_us[2];
  ASSERT_EQ(::pipe(to_us), 0);
  pid_t const owner = start_child([&] {
    if (gpm_map(path("b").c_str(), 1 << 16, true) == nullptr) return no_gpu() ? 77 : 1;
    if (gpmlog_create_hcl(path("log2").c_str(), 1 << 16, 4, 64) == nullptr) return 2;
    if (gpmcp_create(path("cp2").c_str(), 4096, 1, 1) == nullptr) return 3;
    auto const orphan =
        clones
            ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr))
            : ::fork();
    if (orphan == 0) {
      ::alarm(60);
      if (clones) static_cast<void>(gpm_mapped_bytes(nullptr));  // its first question
      pid_t const mine = ::getpid();  // whose fork, or whose question, has let go of all
      static_cast<void>(!::write(to_us[1], &mine, sizeof mine));
      ::close(to_us[1]);
      for (;;) ::pause();
    }
    ::close(to_us[1]);
    ::pause();
    return 4;
  });
  pid_t orphan = 0;
  ::close(to_us[1]);
  if (::read(to_us[0], &orphan, sizeof orphan) != static_cast<ssize_t>(sizeof orphan)) {
    int const ended = wait_for(owner);
    if (ended == 77) GTEST_SKIP() << "a build for CUDA: no GPU here";
    FAIL() << ended;
  }
  ::kill(owner, SIGKILL);
  EXPECT_EQ(wait_for(owner), 1000 + SIGKILL);
  auto const machines = devices();
  bool const driver_keeps = std::any_of(
      machines.begin(), machines.end(),
      [](DeviceInfo const& one) { return one.device == Device::cuda && one.available; });
  if (driver_keeps) {
    EXPECT_EQ(gpm_map(path("b").c_str(), 1 << 16, false), nullptr)
        << "beside kernels that may still run";
    ::kill(orphan, SIGKILL);
  }
  auto const until = std::chrono::steady_clock::now() + seconds(5);
  void* again = nullptr;
  while (again == nullptr && std::chrono::steady_clock::now() < until)
    again = gpm_map(path("b").c_str(), 1 << 16, false);
  EXPECT_NE(again, nullptr) << gpm_error();
  gpmlog* const log = gpmlog_open(path("log2").c_str());
  EXPECT_NE(log, nullptr) << gpm_error();
  gpmcp* const checkpoint = gpmcp_open(path("cp2").c_str());
  EXPECT_NE(checkpoint, nullptr) << gpm_error();
  ::kill(orphan, SIGKILL);
  static_cast<void>(gpm_unmap(path("b").c_str(), again, 1 << 16));
  static_cast<void>(gpmlog_close(log));
  static_cast<void>(gpmcp_close(checkpoint));
  ::close(to_us[0]);
}

}  // namespace
}  // namespace perdure::test
