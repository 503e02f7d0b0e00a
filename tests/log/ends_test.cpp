// Ends of requests: a device that fails while transfers are under way, which may still use their
// memory; ends that come together; requests that the device does not take. A disk in memory keeps
// what was begun, and does it in the end: to memory that is gone, where nobody waited.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "log_on_disk.hpp"
#include "support/sanitized.hpp"
#include "wal/checkpoint.hpp"

namespace perdure::wal::test {
namespace {

constexpr std::uint64_t kBytes = 6 * kChunkBytes + 3 * kBlock;

AlignedBuffer buffer_of(std::uint64_t bytes, int fill) {
  auto buffer = AlignedBuffer::make(bytes);
  EXPECT_TRUE(buffer.ok());
  std::memset(buffer->data(), fill, bytes);
  return std::move(*buffer);
}

/// A disk on which an image of kBytes stands, each byte of it 7.
Disk with_image() {
  auto disk = std::make_shared<FaultyDisk>();
  ImageInfo info;
  EXPECT_TRUE(write_image(*file_on(disk), info, buffer_of(kBytes, 7).span()).ok());
  return disk;
}

/// Does it with the n-th wait failing, for every n, once and several times: then it fails, with
/// nothing under way.
void with_each_wait_failing(std::function<Disk()> const& make,
                            std::function<Status(BlockFile&)> const& doing) {
  for (std::uint64_t const times : {1, 3}) {
    for (std::uint64_t n = 1;; ++n) {
      SCOPED_TRACE("wait " + std::to_string(n) + ", " + std::to_string(times) + " times");
      ASSERT_LT(n, 100u);
      Disk const disk = make();
      auto const file = file_on(disk);
      std::uint64_t const before = disk->waits;
      disk->fail_wait_at = before + n;
      disk->fail_waits = times;
      Status const s = doing(*file);
      EXPECT_EQ(disk->under_way, 0u) << s.message();
      if (disk->waits < before + n) {
        EXPECT_TRUE(s.ok()) << s.message();
        break;
      }
      EXPECT_EQ(s.code(), Code::io_error);
      EXPECT_NE(s.message().find("Cannot allocate memory"), std::string::npos) << s.message();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(Ends, AreWaitedForWhenAZeroingFails) {
  with_each_wait_failing([] { return std::make_shared<FaultyDisk>(); },
                         [](BlockFile& f) { return f.zero(0, kBytes); });
}

TEST(Ends, AreWaitedForWhenATransferFails) {
  AlignedBuffer const buffer = buffer_of(kBlock, 1);
  with_each_wait_failing(with_image,
                         [&](BlockFile& f) { return f.write_durably(0, buffer.span()); });
  with_each_wait_failing(with_image,
                         [&](BlockFile& f) { return f.read(0, buffer.span()).status(); });
}

TEST(Ends, AreWaitedForWhenWritingAnImageFails) {
  AlignedBuffer const pool = buffer_of(kBytes, 9);
  with_each_wait_failing(with_image, [&](BlockFile& f) {
    ImageInfo info;
    return write_image(f, info, pool.span());
  });
}

// What is read late would stand in memory that has another use by then.
TEST(Ends, AreWaitedForWhenLoadingAnImageFails) {
  AlignedBuffer const room = buffer_of(kBytes, 0), used_otherwise = buffer_of(kBytes, 0x55);
  bool loaded = false;
  with_each_wait_failing(
      [&] {
        // The file of the try before is closed, and what was under way there has been done.
        if (room.data()[0] != std::byte{0} && !loaded) {
          EXPECT_EQ(std::memcmp(room.data(), used_otherwise.data(), kBytes), 0);
        }
        loaded = false;
        return with_image();
      },
      [&](BlockFile& f) {
        auto info = read_image_info(f);
        Status const s = info ? load_image(f, *info, room.span()) : info.status();
        loaded = s.ok();
        std::memcpy(room.data(), used_otherwise.data(), kBytes);
        return s;
      });
}

TEST(Ends, AreWaitedForWhenALogFails) {
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1; n < 12; ++n) {
    Disk const disk = formatted(1u << 20);
    auto log = start(disk);
    ASSERT_TRUE(log);
    {
      std::lock_guard const lock(disk->mutex);
      disk->fail_wait_at = disk->waits + n;
      disk->fail_waits = 2;
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
      auto lsn = append(*log, batch_of(i, 3000));
      if (!lsn) break;
      if (i % 4 == 3 && !log->wait_durable(*lsn).ok()) break;
    }
    failed += log->failure().ok() ? 0 : 1;
    log.reset();
    EXPECT_EQ(disk->under_way, 0u) << n;
  }
  EXPECT_GT(failed, 5u);
}

TEST(Ends, AfterAFailedWaitNothingIsBegun) {
  Disk const disk = with_image();
  auto const file = file_on(disk);
  AlignedBuffer const buffer = buffer_of(kBlock, 1);
  disk->fail_wait_at = disk->waits + 1;
  disk->fail_waits = 1;
  EXPECT_FALSE(file->read(0, buffer.span()).ok());
  EXPECT_EQ(file->read(0, buffer.span()).status().code(), Code::io_error);
}

// A piece of a short write that the device does not take again is that write's error: the others
// end as ever, and the file serves on.
TEST(Ends, AnEndThatCannotBeContinuedIsAnError) {
  std::uint64_t refused = 0;
  for (std::uint64_t n = 1; n < 40; ++n) {
    auto disk = std::make_shared<FaultyDisk>(n);
    disk->short_writes = true;
    auto const file = file_on(disk);
    disk->refuse_starts_from = disk->starts + n;
    disk->refuse_starts_until = disk->starts + n + 1;
    Status const s = file->zero(0, kBytes);
    EXPECT_EQ(disk->under_way, 0u);
    refused += s.ok() ? 0 : 1;
    for (int i = 0; i < 40; ++i)
      EXPECT_TRUE(file->write_durably(0, buffer_of(kBlock, 1).span()).ok());
  }
  EXPECT_GT(refused, 30u);
}

// Several reads ahead fail, and their ends come together.
TEST(Ends, OfManyFailedReadsEndAReplay) {
  for (std::uint64_t seed = 1; seed < (perdure::test::kSanitized ? 6 : 20); ++seed) {
    Disk const disk = formatted(20u << 20, seed);  // read ahead in ten pieces
    auto const file = file_on(disk);
    auto const identity = read_identity(*file);
    ASSERT_TRUE(identity.ok());
    disk->asked = [](Asked what, std::uint64_t, std::uint64_t, bool) {
      return what == Asked::read ? EIO : 0;
    };
    auto const report = replay(*file, identity.value(), {},
                               [](std::uint64_t, std::span<std::byte const>) { return Status{}; });
    EXPECT_EQ(report.status().code(), Code::io_error);
    EXPECT_EQ(disk->under_way, 0u);
  }
}

// ------------------------------------------------------------------------------------------------
// The system's own: io_uring_enter is refused to one thread

/// Makes io_uring_enter fail with ENOMEM for this thread, for good.
bool refuse_entering() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// What the child answers; -1: it was killed, by its alarm for one.
int in_child(std::function<int()> const& doing) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(doing());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Scratch {
 public:
  Scratch() { ::unlink(path.c_str()); }
  ~Scratch() { ::unlink(path.c_str()); }
  std::string const path = "/tmp/perdure-ends-" + std::to_string(::getpid());
};

TEST(Ends, ALogWhoseRingTakesNothingMoreIsClosed) {
  Scratch const scratch;
  EXPECT_EQ(in_child([&] {
              auto file = BlockFile::open(scratch.path, OpenMode::create);
              if (!file.ok() || !format_log(**file, kPool, 1u << 20).ok()) return 3;
              auto log = RedoLog::start(std::move(*file), {}, 0);
              if (!log.ok()) return 4;
              if (!refuse_entering()) return 5;
              log->reset();  // wakes the log's thread, and waits for it
              return 0;
            }),
            0);
}

// The kernel took it neither then nor later, when its memory has another use.
TEST(Ends, ARequestThatWasNotTakenIsNeverDone) {
  Scratch const scratch;
  EXPECT_EQ(in_child([&] {
              auto file = BlockFile::open(scratch.path, OpenMode::create);
              if (!file.ok() || !(*file)->zero(0, 4 * kBlock).ok()) return 3;
              bool const ring = (*file)->method().io_uring;
              AlignedBuffer const ones = buffer_of(kBlock, 1), twos = buffer_of(kBlock, 2);
              int refused = 0;
              std::thread([&] {
                if (!refuse_entering()) return;
                for (int i = 0; i < 100; ++i)
                  refused +=
                      (*file)->start({Verb::write, kBlock, ones.data(), kBlock, 0}).ok() ? 0 : 1;
              }).join();
              if (!ring) return 0;
              if (refused != 100) return 4;
              if (!(*file)->write_durably(0, twos.span()).ok()) return 5;
              AlignedBuffer const all = buffer_of(4 * kBlock, 9);
              if (!(*file)->read(0, all.span()).ok()) return 6;
              if (all.data()[0] != std::byte{2}) return 7;
              return all.data()[kBlock] == std::byte{0} ? 0 : 8;
            }),
            0);
}

}  // namespace
}  // namespace perdure::wal::test
