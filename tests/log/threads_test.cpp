// Several threads append and wait at once, on a disk in memory and on a real file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "log_on_disk.hpp"

namespace perdure::wal::test {
namespace {

constexpr std::uint64_t kThreads = 4;

Batch batch_from(std::uint64_t thread, std::uint64_t i) {
  return std::to_string(thread) + ":" + std::to_string(i) + ":" + Batch(i * 97 % 9000, 'x');
}

void append_from_threads(RedoLog& log, std::uint64_t each) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log, t, each] {
      for (std::uint64_t i = 0; i < each; ++i) {
        Lsn const lsn = commit(log, batch_from(t, i));
        EXPECT_GE(log.durable_lsn(), lsn);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

void expect_all(Replayed const& r, std::uint64_t each) {
  ASSERT_EQ(r.batches.size(), kThreads * each) << r.report.describe();
  std::vector<std::uint64_t> next(kThreads, 0);
  for (Batch const& batch : r.batches) {
    auto const t = static_cast<std::size_t>(batch[0] - '0');
    ASSERT_EQ(batch, batch_from(t, next[t]++));
  }
}

TEST(RedoLogThreads, FaultyDisk) {
  Disk const disk = formatted(16u << 20);
  disk->short_writes = true;
  append_from_threads(*start(disk), test::kThreads * 40);
  expect_all(replay_all(disk), test::kThreads * 40);
}

TEST(RedoLogThreads, RealFile) {
  std::string const path = "/tmp/perdure-log-threads-" + std::to_string(::getpid());
  ::unlink(path.c_str());
  {
    auto file = BlockFile::open(path, OpenMode::create);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(format_log(**file, kPool, 16u << 20).ok());
    auto log = RedoLog::start(std::move(*file), {}, 0);
    ASSERT_TRUE(log.ok());
    append_from_threads(**log, 200);
  }
  auto file = BlockFile::open(path, OpenMode::read_only);
  ASSERT_TRUE(file.ok());
  expect_all(replay_all(**file), 200);
  ::unlink(path.c_str());
}

TEST(RedoLogThreads, AFailureReachesEveryWaiter) {
  Disk const disk = formatted(1u << 20);
  auto log = start(disk);
  {
    std::lock_guard const lock(disk->mutex);
    disk->hold = true;
  }
  std::vector<Lsn> ends;
  for (std::uint64_t i = 0; i < kThreads; ++i) ends.push_back(*append(*log, batch_of(i, 100)));
  std::vector<Status> said(kThreads);
  std::vector<std::thread> waiters;
  for (std::uint64_t i = 0; i < kThreads; ++i)
    waiters.emplace_back([&, i] { said[i] = log->wait_durable(ends[i]); });
  disk->cut_power();
  for (auto& waiter : waiters) waiter.join();
  for (Status const& s : said) EXPECT_EQ(s.code(), Code::io_error);
}

}  // namespace
}  // namespace perdure::wal::test
