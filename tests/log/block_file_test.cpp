// The ways to a real file: all of them write and read back; what is refused is said.
#include "wal/disk/block_file.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "log_on_disk.hpp"

namespace perdure::wal::test {
namespace {

struct Way {
  char const* directory;
  IoOptions options;
};

std::string name_of(testing::TestParamInfo<Way> const& info) {
  std::string text = std::string(info.param.directory) == "/tmp" ? "Disk" : "Shm";
  text += info.param.options.io_uring ? "Uring" : "Plain";
  return text + (info.param.options.direct ? "Direct" : "Cached");
}

class ScratchFile {
 public:
  explicit ScratchFile(std::string const& directory)
      : path(directory + "/perdure-log-test-" + std::to_string(::getpid())) {
    ::unlink(path.c_str());
  }
  ~ScratchFile() { ::unlink(path.c_str()); }
  std::string const path;
};

class BlockFileWays : public testing::TestWithParam<Way> {};

TEST_P(BlockFileWays, ASyncIsARequestWhereThereIsIoUring) {
  ScratchFile const scratch(GetParam().directory);
  auto file = BlockFile::open(scratch.path, OpenMode::create, GetParam().options);
  auto block = AlignedBuffer::make(kBlock);
  ASSERT_TRUE(file.ok() && block.ok());
  std::vector<Done> done;
  ASSERT_TRUE((*file)->start({Verb::write, 0, block->data(), kBlock, 7}).ok());
  while (done.empty()) ASSERT_TRUE((*file)->wait(done).ok());
  EXPECT_EQ(done[0].tag, 7u);
  done.clear();
  ASSERT_TRUE((*file)->poll(done).ok());
  EXPECT_TRUE(done.empty()) << "nothing is under way";
  auto const begun = (*file)->start_sync(9);
  ASSERT_TRUE(begun.ok()) << begun.status().message();
  EXPECT_EQ(begun.value(), (*file)->method().io_uring);
  while (begun.value() && done.empty()) ASSERT_TRUE((*file)->wait(done).ok());
  if (begun.value()) {
    EXPECT_EQ(done[0].tag, 9u);
    EXPECT_TRUE(done[0].status.ok()) << done[0].status.message();
  }
}

TEST_P(BlockFileWays, BatchesRoundTrip) {
  ScratchFile const scratch(GetParam().directory);
  std::vector<Batch> written;
  {
    auto file = BlockFile::open(scratch.path, OpenMode::create, GetParam().options);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(format_log(**file, kPool, 8u << 20).ok());
    EXPECT_EQ((*file)->bytes(), kRingOffset + (8u << 20));
    auto log = RedoLog::start(std::move(*file), {}, 0);
    ASSERT_TRUE(log.ok()) << log.status().message();
    for (std::uint64_t i = 0; i < 30; ++i) {
      written.push_back(batch_of(i, i % 3 == 0 ? 900'000 : 700 * i));
      if (i == 7) written.back() = batch_of(i, 0);
      if ((*log)->room().used_bytes > (7u << 20)) break;
      commit(**log, written.back());
    }
    IoMethod const& method = (*log)->method();
    EXPECT_EQ(method.io_uring && method.direct,
              method.why_not.empty() && GetParam().options.io_uring && GetParam().options.direct)
        << method.describe();
  }
  auto file = BlockFile::open(scratch.path, OpenMode::read_only, GetParam().options);
  ASSERT_TRUE(file.ok()) << file.status().message();
  Replayed const r = replay_all(**file);
  ASSERT_GT(r.batches.size(), 5u);
  for (std::size_t i = 0; i < r.batches.size(); ++i) ASSERT_EQ(r.batches[i], written[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(All, BlockFileWays,
                         testing::Values(Way{"/tmp", {true, true}}, Way{"/tmp", {true, false}},
                                         Way{"/tmp", {false, true}}, Way{"/tmp", {false, false}},
                                         Way{"/dev/shm", {true, true}},
                                         Way{"/dev/shm", {true, false}},
                                         Way{"/dev/shm", {false, true}},
                                         Way{"/dev/shm", {false, false}}),
                         name_of);

/// Makes io_uring_setup fail with EPERM from now on, as container runtimes do.
bool refuse_io_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(BlockFile, RefusedIoUringIsSaidAndDoneWithout) {
  ScratchFile const scratch("/tmp");
  pid_t const child = ::fork();
  if (child == 0) {  // the filter stays with this process
    if (!refuse_io_uring()) ::_exit(3);
    auto file = BlockFile::open(scratch.path, OpenMode::create);
    if (!file.ok()) ::_exit(4);
    IoMethod const& m = (*file)->method();
    if (m.io_uring || m.why_not.find("io_uring") == std::string::npos) ::_exit(5);
    if (!format_log(**file, kPool, 1u << 20).ok()) ::_exit(6);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(BlockFile, MisuseIsNamed) {
  ScratchFile const scratch("/tmp");
  EXPECT_EQ(BlockFile::open(scratch.path, OpenMode::read_write).status().code(), Code::not_found);
  auto file = BlockFile::open(scratch.path, OpenMode::create);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(BlockFile::open(scratch.path, OpenMode::create).status().code(), Code::already_exists);
  EXPECT_EQ(BlockFile::open(scratch.path, OpenMode::read_write).status().code(), Code::busy);
  auto memory = AlignedBuffer::make(2 * kBlock);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*file)->start({Verb::write, 512, memory->data(), kBlock, 0}).code(),
            Code::invalid_argument);
  EXPECT_EQ((*file)->start({Verb::write, 0, memory->data() + 8, kBlock, 0}).code(),
            Code::invalid_argument);
}

TEST(BlockFile, AFileSizeLimitIsAnErrorOfTheWrite) {
  ScratchFile const scratch("/tmp");
  pid_t const child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{1u << 20, 1u << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto file = BlockFile::open(scratch.path, OpenMode::create);
    if (!file.ok()) ::_exit(4);
    Status const s = format_log(**file, kPool, 4u << 20);
    ::_exit(s.code() == Code::no_space ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(BlockFile, AFailedSyncFailsTheZeroing) {
  auto disk = std::make_shared<FaultyDisk>();
  disk->fail_sync = true;
  EXPECT_EQ(format_log(*file_on(disk), kPool, 1u << 20).code(), Code::io_error);
}

}  // namespace
}  // namespace perdure::wal::test
