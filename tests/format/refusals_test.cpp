// What the machine refuses, as Status: paths that are no pools, a full file system, a memlock
// limit, a missing GPU. Each message names the thing and the way out, and no half-made file stays.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>

#include "../crash/pool_file.hpp"

namespace perdure::test {
namespace {

bool says(Status const& status, std::string const& what) {
  return status.message().find(what) != std::string::npos;
}

TEST(Refusals, NoSuchFile) {
  PoolPath path;
  Status const s = Store::open(path.str()).status();
  EXPECT_EQ(s.code(), Code::not_found);
  EXPECT_TRUE(says(s, path.str()) && says(s, "create")) << s.message();
  EXPECT_FALSE(std::filesystem::exists(path.str()));
  Status const in_no_folder = Store::create("/dev/shm/no-such-folder/pool", {}).status();
  EXPECT_EQ(in_no_folder.code(), Code::not_found) << in_no_folder.message();
}

TEST(Refusals, AFolder) {
  for (bool const read_only : {true, false}) {
    OpenOptions options;
    options.read_only = read_only;
    Status const s = Store::open("/dev/shm", options).status();
    EXPECT_EQ(s.code(), Code::invalid_argument) << s.message();
    EXPECT_TRUE(says(s, "/dev/shm") && says(s, "is a directory")) << s.message();
  }
}

TEST(Refusals, APoolThatExists) {
  PoolPath path;
  CreateOptions small;
  small.value_bytes = 16;
  small.expected_records = 10;
  ASSERT_TRUE(Store::create(path.str(), small).ok());
  Bytes const before = read_file(path.str());
  Status const s = Store::create(path.str(), small).status();
  EXPECT_EQ(s.code(), Code::already_exists);
  EXPECT_TRUE(says(s, "overwrite")) << s.message();
  EXPECT_EQ(read_file(path.str()), before);
}

class FullTmpfs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    if (::mount("perdure-test", folder_.c_str(), "tmpfs", 0, "size=4m") != 0)
      GTEST_SKIP() << "cannot mount a tmpfs of 4 MiB here: " << std::strerror(errno)
                   << " (needs CAP_SYS_ADMIN)";
    mounted_ = true;
  }
  void TearDown() override {
    EXPECT_TRUE(!mounted_ || ::umount(folder_.c_str()) == 0);
    std::filesystem::remove(folder_);
  }
  std::string const folder_ = "/dev/shm/perdure-test-full-" + std::to_string(::getpid());
  std::string const path_ = folder_ + "/pool";
  bool mounted_ = false;
};

TEST_F(FullTmpfs, CreateLeavesNoFile) {
  CreateOptions options;
  options.value_bytes = 100;
  Status const s = Store::create(path_, options).status();
  EXPECT_EQ(s.code(), Code::no_space);
  EXPECT_TRUE(says(s, path_)) << s.message();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FullTmpfs, PutSaysSoAndTheRestStands) {
  CreateOptions options;
  options.value_bytes = 1000;
  options.expected_records = 100;
  Contents kept;
  {
    auto store = Store::create(path_, options);
    ASSERT_TRUE(store.ok()) << store.status().message();
    Status s;
    for (std::uint64_t batch = 0; s.ok() && batch < 100; ++batch) {
      Strings keys(8);
      Strings values(1000);
      for (std::uint64_t i = 0; i < 100; ++i) {
        keys.add(u64_text(batch * 100 + i));
        values.add(std::string(1000, static_cast<char>('a' + i % 26)));
      }
      std::vector<KeyStatus> statuses(keys.count());
      s = store->put(keys.column(), values.column(), statuses);
      for (std::uint64_t i = 0; i < 100; ++i)
        if (statuses[i] == KeyStatus::ok)
          kept[u64_text(batch * 100 + i)] = std::string(1000, static_cast<char>('a' + i % 26));
    }
    EXPECT_EQ(s.code(), Code::no_space) << s.message();
    EXPECT_GE(kept.size(), 100u);
    EXPECT_TRUE(scan_all(*store) == kept);
    ASSERT_TRUE(store->close().ok());
  }
  auto store = Store::open(path_);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(scan_all(*store) == kept);
}

enum Exit : int {
  kRefused = 0,
  kNotRefused = 1,
  kOtherError = 2,
  kFileLeft = 3,
  kNoLimitHere = 77
};

/// In a child: as a user who may lock 64 KiB.
int try_to_lock(std::string const& path) {
  rlimit const limit{64 << 10, 64 << 10};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return kNoLimitHere;
  if (::geteuid() == 0 && ::setuid(65534) != 0) return kNoLimitHere;
  void* const probe =
      ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED || ::mlock(probe, 1 << 20) == 0) return kNoLimitHere;
  CreateOptions small;
  small.value_bytes = 16;
  small.expected_records = 10;
  OpenOptions locked;
  locked.lock_memory = true;
  auto const refused = [&](Status const& s) {
    if (s.ok()) return kNotRefused;
    return s.code() == Code::locked_memory && says(s, "ulimit -l") ? kRefused : kOtherError;
  };
  if (Exit const e = refused(Store::create(path, small, locked).status()); e != kRefused) return e;
  if (std::filesystem::exists(path)) return kFileLeft;
  if (!Store::create(path, small).ok()) return kOtherError;
  Exit const e = refused(Store::open(path, locked).status());
  ::unlink(path.c_str());
  return e;
}

TEST(Refusals, LockingMoreThanTheMemlockLimit) {
  PoolPath path;
  pid_t const child = ::fork();
  if (child == 0) ::_exit(try_to_lock(path.str()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoLimitHere)
    GTEST_SKIP() << "RLIMIT_MEMLOCK binds nobody on this machine";
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

TEST(Refusals, AGpuThatIsNotThere) {
  for (DeviceInfo const& info : devices())
    if (info.device == Device::cuda && info.available)
      GTEST_SKIP() << "this machine has " << info.description;
  PoolPath path;
  OpenOptions cuda;
  cuda.device = Device::cuda;
  CreateOptions small;
  small.value_bytes = 16;
  small.expected_records = 10;
  Status const created = Store::create(path.str(), small, cuda).status();
  EXPECT_EQ(created.code(), Code::unsupported) << created.message();
  EXPECT_TRUE(says(created, "use device cpu")) << created.message();
  EXPECT_FALSE(std::filesystem::exists(path.str()));
  ASSERT_TRUE(Store::create(path.str(), small).ok());
  Bytes const before = read_file(path.str());
  Status const opened = Store::open(path.str(), cuda).status();
  EXPECT_EQ(opened.code(), Code::unsupported) << opened.message();
  EXPECT_TRUE(says(opened, "use device cpu")) << opened.message();
  EXPECT_EQ(read_file(path.str()), before);
}

}  // namespace
}  // namespace perdure::test
