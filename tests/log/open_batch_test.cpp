// Batches that are written to the log before all of their bytes are known.
#include <gtest/gtest.h>

#include <algorithm>

#include "log_on_disk.hpp"

namespace perdure::wal::test {
namespace {

/// The groups before its last bytes are written while those are unknown; it counts with the last.
TEST(OpenBatch, ABatchWhoseLastBytesComeLaterCountsWithThem) {
  for (std::size_t const known : {0, 1, 7000, 8128, 20'000, 49'000}) {
    Disk const disk = formatted(1u << 20);
    Batch const first = batch_of(1, 100);
    Batch last = batch_of(2, 50'000);
    auto log = start(disk);
    commit(*log, first);
    Batch const right = last.substr(known);
    std::fill(last.begin() + static_cast<std::ptrdiff_t>(known), last.end(), '?');
    std::span<std::byte const> const pieces[] = {std::as_bytes(std::span(last))};
    auto batch = log->begin(pieces);
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    ASSERT_TRUE(log->write_known(**batch, known).ok());
    EXPECT_EQ(replay_all(disk).batches, std::vector<Batch>{first}) << known;
    last.replace(known, std::string::npos, right);
    auto const end = log->end(std::move(*batch));
    ASSERT_TRUE(end.ok()) << end.status().message();
    ASSERT_TRUE(log->wait_durable(end.value()).ok());
    commit(*log, "next");
    EXPECT_EQ(replay_all(disk).batches, (std::vector<Batch>{first, batch_of(2, 50'000), "next"}));
  }
}

/// Its place is taken, so that nothing that follows could be replayed.
TEST(OpenBatch, ABatchThatIsBegunAndNotEndedEndsTheLog) {
  Disk const disk = formatted(1u << 20);
  auto log = start(disk);
  commit(*log, "one");
  Batch const two = batch_of(2, 50'000);
  std::span<std::byte const> const pieces[] = {std::as_bytes(std::span(two))};
  {
    auto batch = log->begin(pieces);
    ASSERT_TRUE(batch.ok()) << batch.status().message();
    ASSERT_TRUE(log->write_known(**batch, 40'000).ok());
  }
  EXPECT_FALSE(append(*log, "three").ok());
  log.reset();  // waits for nothing that never comes
  EXPECT_EQ(replay_all(disk).batches, std::vector<Batch>{"one"});
}

}  // namespace
}  // namespace perdure::wal::test
