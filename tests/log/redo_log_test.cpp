// The redo log and replay, case by case.
#include <gtest/gtest.h>

#include "log_on_disk.hpp"
#include "support/sanitized.hpp"

namespace perdure::wal::test {
namespace {

constexpr std::uint64_t kRing = 64u << 10;

/// Three batches of which the last one is a single group of 8 KiB; the log is closed.
struct ThreeBatches {
  std::vector<Batch> batches{batch_of(1, 100), batch_of(2, 20'000), batch_of(3, 8192 - 64 - 500)};
  Disk disk = formatted(kRing);
  Lsn last_group = 0;
  ThreeBatches() {
    auto log = start(disk);
    commit(*log, batches[0]);
    last_group = commit(*log, batches[1]);
    EXPECT_EQ(commit(*log, batches[2]), last_group + 8192);
  }
  [[nodiscard]] std::uint64_t offset() const { return kRingOffset + last_group; }
  [[nodiscard]] std::vector<Batch> first_two() const { return {batches[0], batches[1]}; }
};

TEST(RedoLog, BatchesOfAllSizesComeBackInOrder) {
  Disk const disk = formatted(4u << 20);
  std::vector<Batch> written;
  {
    auto log = start(disk);
    for (std::size_t const bytes : {0, 1, 63, 4031, 4032, 4033, 8128, 8129, 50'000, 700'000}) {
      written.push_back(batch_of(written.size(), bytes));
      commit(*log, written.back());
    }
  }
  Replayed const r = replay_all(disk);
  EXPECT_EQ(r.batches, written);
  EXPECT_EQ(r.report.reason, StopReason::end) << r.report.describe();
  EXPECT_FALSE(r.report.lost_acknowledged);
}

TEST(RedoLog, BatchesGoOnAcrossOpenings) {
  Disk const disk = formatted(1u << 20);
  std::vector<Batch> written;
  LogPosition at;
  for (std::uint64_t opening = 0; opening < 5; ++opening) {
    auto log = start(disk, at);
    for (std::uint64_t i = 0; i < 3; ++i) {
      written.push_back(batch_of(opening * 10 + i, 3000 + 4000 * i));
      commit(*log, written.back());
    }
    at = log->position();
    log.reset();
    Replayed const r = replay_all(disk);
    EXPECT_EQ(r.batches, written);
    EXPECT_EQ(r.report.end, at);
  }
}

TEST(RedoLog, ReplayFromTheMiddle) {
  Disk const disk = formatted(kRing);
  LogPosition middle;
  {
    auto log = start(disk);
    commit(*log, "one");
    middle = log->position();
    commit(*log, "two");
  }
  EXPECT_EQ(replay_all(disk, middle).batches, std::vector<Batch>{"two"});
}

/// A position that is none: of another batch, or within one, as a damaged record of a checkpoint
/// could give.
TEST(RedoLog, ReplayDeliversNothingFromWhereNoBatchBegins) {
  Disk const disk = formatted(kRing);
  LogPosition second;
  {
    auto log = start(disk);
    commit(*log, "one");
    second = log->position();
    commit(*log, batch_of(1, 20'000));  // three groups
  }
  EXPECT_EQ(replay_all(disk, second).batches.size(), 1u);
  for (std::uint64_t const other : {second.next_batch + 1, second.next_batch - 1})
    EXPECT_TRUE(replay_all(disk, {second.lsn, other}).batches.empty());
  for (Lsn const within : {second.lsn + 8192, second.lsn + 16384})
    EXPECT_TRUE(replay_all(disk, {within, second.next_batch}).batches.empty());
}

TEST(RedoLog, CutOffAtEveryByteOfTheLastGroup) {
  ThreeBatches const three;
  std::vector<std::byte> const whole = three.disk->medium;
  for (std::uint64_t bytes = three.offset(); bytes < three.offset() + 8192; ++bytes) {
    three.disk->medium = whole;
    three.disk->cut_off(bytes);
    Replayed const r = replay_all(three.disk);
    ASSERT_EQ(r.batches, three.first_two()) << "cut off at byte " << bytes;
    ASSERT_EQ(r.report.reason, StopReason::truncated) << r.report.describe();
    ASSERT_EQ(r.report.stop_offset, three.offset());
    ASSERT_EQ(r.report.stop_lsn, three.last_group);
  }
}

TEST(RedoLog, AFlippedBitAnywhereInTheLastGroupIsNamed) {
  ThreeBatches const three;
  for (std::uint64_t byte = 0; byte < 8192; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (byte >= 64 && byte < 8192 - 600 && bit != byte % 8)
        continue;  // all bits of header and padding
      three.disk->flip(three.offset() + byte, bit);
      Replayed const r = replay_all(three.disk);
      three.disk->flip(three.offset() + byte, bit);
      ASSERT_EQ(r.batches, three.first_two()) << byte << "." << bit;
      ASSERT_EQ(r.report.reason, StopReason::flipped)
          << byte << "." << bit << ": " << r.report.describe();
      ASSERT_EQ(r.report.detail, "bit " + std::to_string(bit) + " of byte " + std::to_string(byte) +
                                     " of the group");
      ASSERT_EQ(r.report.stop_offset, three.offset());
    }
  }
  EXPECT_EQ(replay_all(three.disk).batches, three.batches);
}

TEST(RedoLog, TornSectorsEndTheLog) {
  ThreeBatches const three;
  for (std::uint64_t sector = 0; sector < 8192 / kSector; ++sector) {
    auto const saved = three.disk->medium;
    std::fill_n(
        three.disk->medium.begin() + static_cast<std::ptrdiff_t>(three.offset() + sector * kSector),
        kSector, std::byte{0x5a});
    three.disk->cache = three.disk->medium;
    Replayed const r = replay_all(three.disk);
    EXPECT_EQ(r.batches, three.first_two());
    EXPECT_EQ(r.report.reason, StopReason::torn) << r.report.describe();
    three.disk->medium = saved;
  }
}

TEST(RedoLog, HalfABatchIsNotDelivered) {
  Disk const disk = formatted(kRing);
  Lsn first = 0;
  {
    auto log = start(disk);
    first = commit(*log, "whole");
    commit(*log, batch_of(1, 20'000));  // three groups
  }
  auto const lost = disk->medium.begin() + static_cast<std::ptrdiff_t>(kRingOffset + first + 8192);
  std::fill_n(lost, 8192, std::byte{0});
  disk->cache = disk->medium;
  Replayed const r = replay_all(disk);
  EXPECT_EQ(r.batches, std::vector<Batch>{"whole"});
  EXPECT_EQ(r.report.end.lsn, first);
  EXPECT_EQ(r.report.stop_lsn, first + 8192);
  EXPECT_EQ(r.report.reason, StopReason::torn) << r.report.describe();
}

TEST(RedoLog, TheRingWrapsAndStaleLapsAreKnown) {
  Disk const disk = formatted(kRing);
  std::vector<std::pair<LogPosition, Batch>> kept;
  std::mt19937_64 random(7);
  auto log = start(disk);
  for (std::uint64_t i = 0; i < 600; ++i) {
    Batch const batch = batch_of(i, random() % 15'000);
    LogPosition const before = log->position();
    auto lsn = append(*log, batch);
    while (!lsn.ok()) {  // full: the oldest go
      ASSERT_EQ(lsn.status().code(), Code::no_space);
      ASSERT_FALSE(kept.empty());
      ASSERT_TRUE(log->wait_durable(log->position().lsn).ok());
      kept.erase(kept.begin());
      log->truncate(kept.empty() ? log->position().lsn : kept.front().first.lsn);
      lsn = append(*log, batch);
    }
    ASSERT_TRUE(log->wait_durable(*lsn).ok());
    kept.emplace_back(before, batch);
    if (i % 20 != 19) continue;
    log.reset();
    Replayed const r = replay_all(disk, kept.front().first);
    ASSERT_EQ(r.batches.size(), kept.size()) << r.report.describe();
    for (std::size_t k = 0; k < kept.size(); ++k) ASSERT_EQ(r.batches[k], kept[k].second);
    bool const lapped =
        r.report.reason == StopReason::stale_lap || r.report.reason == StopReason::torn;
    EXPECT_TRUE(lapped || i < 100) << r.report.describe();
    log = start(disk, r.report.end, kept.front().first.lsn);
  }
  EXPECT_GT(log->position().lsn, 50 * kRing);
}

// Groups that were on the disk beyond a lost one are valid in all but their epoch.
TEST(RedoLog, GroupsBeyondTheCutNeverComeBack) {
  Disk const disk = formatted(kRing);
  {
    auto log = start(disk);
    for (char const* const batch : {"lost", "stale 2", "stale 3"}) commit(*log, batch);
  }
  std::fill_n(disk->medium.begin() + static_cast<std::ptrdiff_t>(kRingOffset), kBlock,
              std::byte{0});
  disk->cache = disk->medium;
  Replayed r = replay_all(disk);
  ASSERT_TRUE(r.batches.empty());
  {
    auto log = start(disk, r.report.end);
    commit(*log, "new");
  }
  r = replay_all(disk);
  EXPECT_EQ(r.batches, std::vector<Batch>{"new"});
  EXPECT_EQ(r.report.reason, StopReason::stale_lap) << r.report.describe();
}

TEST(RedoLog, DamageBeforeAnEarlierOpeningsEndIsSaidToBeLoss) {
  Disk const disk = formatted(kRing);
  start(disk)->truncate(0);
  LogPosition at;
  {
    auto log = start(disk);
    commit(*log, "acknowledged");
    at = log->position();
  }
  start(disk, at).reset();  // this opening saw the batch
  disk->flip(kRingOffset + 100, 0);
  EXPECT_TRUE(replay_all(disk).report.lost_acknowledged);
}

/// Two bits, so that no syndrome tells it from a torn write; the group after it does, which was
/// sealed later.
TEST(RedoLog, DamageBeforeALaterGroupIsSaidToBeLoss) {
  Disk const disk = formatted(kRing);
  start(disk)->truncate(0);
  {
    auto log = start(disk);
    for (char const* const batch : {"one", "two", "three"}) commit(*log, batch);
  }
  disk->flip(kRingOffset + kBlock + 100, 0);
  disk->flip(kRingOffset + kBlock + 200, 3);
  Replayed const r = replay_all(disk);
  EXPECT_EQ(r.batches, std::vector<Batch>{"one"});
  EXPECT_TRUE(r.report.lost_acknowledged);
  EXPECT_NE(r.report.describe().find("a later group, at byte 16384 of the log"), std::string::npos)
      << r.report.describe();
  auto log = start(disk, r.report.end);  // whoever goes on all the same has told it enough
  EXPECT_FALSE(replay_all(disk).report.lost_acknowledged);
}

/// A CRC does not see that one value which ends with its own CRC stands for another: what an
/// earlier lap left there.
TEST(RedoLog, ATornGroupOfValuesWithChecksumsOfTheirOwnDoesNotCount) {
  auto const with_value = [](std::uint64_t n) {
    Batch batch = batch_of(7, 2000);
    Batch value = batch_of(n, kSector - 4);
    std::uint32_t const crc = crc32c(0, value.data(), value.size());
    value.append(reinterpret_cast<char const*>(&crc), sizeof crc);
    return batch.replace(2 * kSector - sizeof(GroupHeader), value.size(), value);
  };
  Disk const disk = formatted(kRing);
  {
    commit(*start(disk), with_value(1));
  }
  std::string const old = with_value(2).substr(2 * kSector - sizeof(GroupHeader), kSector);
  disk->put(kRingOffset + 2 * kSector, reinterpret_cast<std::byte const*>(old.data()), old.size());
  disk->cache = disk->medium;
  Replayed const r = replay_all(disk);
  EXPECT_TRUE(r.batches.empty()) << "a mix of two batches";
  EXPECT_EQ(r.report.reason, StopReason::torn) << r.report.describe();
}

TEST(RedoLog, ADamagedCopyOfTheHeaderCostsNothing) {
  for (std::uint64_t const copy : {std::uint64_t{0}, kBlock}) {
    SCOPED_TRACE(copy);
    Disk const disk = formatted(kRing);
    {
      commit(*start(disk), "one");
    }
    disk->flip(copy + 12, 1);
    Replayed const first = replay_all(disk);
    EXPECT_EQ(first.batches, std::vector<Batch>{"one"}) << first.report.describe();
    {
      commit(*start(disk, first.report.end), "two");
    }
    Replayed const second = replay_all(disk);
    EXPECT_EQ(second.batches, (std::vector<Batch>{"one", "two"})) << second.report.describe();
    for (std::uint64_t const other : {std::uint64_t{0}, kBlock}) {
      disk->flip(other + 12, 1);
      EXPECT_EQ(replay_all(disk).batches, second.batches) << other;
      disk->flip(other + 12, 1);
    }
  }
}

/// The copy that is damaged named an epoch of which groups lie beyond a lost one; the next
/// opening's epoch is another.
TEST(RedoLog, GroupsBeyondTheCutNeverComeBackWhenTheHeaderIsDamaged) {
  Disk const disk = formatted(kRing);
  {
    auto log = start(disk);
    for (char const* const batch : {"one", "two", "three"}) commit(*log, batch);
  }
  std::uint64_t const copy = kBlock * (read_identity(*file_on(disk))->epoch % 2);
  disk->flip(copy + 12, 1);
  disk->flip(kRingOffset + kBlock + 100, 0);
  disk->flip(kRingOffset + kBlock + 200, 3);
  Replayed const cut = replay_all(disk);
  ASSERT_EQ(cut.batches, std::vector<Batch>{"one"});
  {
    commit(*start(disk, cut.report.end), "new");
  }
  EXPECT_EQ(replay_all(disk).batches, (std::vector<Batch>{"one", "new"})) << "\"three\" came back";
}

TEST(RedoLog, FullUntilTruncated) {
  Disk const disk = formatted(kRing);
  auto log = start(disk);
  Lsn second = 0;
  for (std::uint64_t i = 0; i < kRing / kBlock; ++i) {
    Lsn const lsn = commit(*log, "one block");
    if (i == 0) second = lsn;
  }
  EXPECT_EQ(log->room().used_bytes, kRing);
  auto const full = append(*log, "one more");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.status().code(), Code::no_space);
  EXPECT_NE(full.status().message().find("checkpoint"), std::string::npos);
  EXPECT_TRUE(log->failure().ok()) << "being full is no failure";
  log->truncate(second);
  commit(*log, "one more");
  auto const large = append(*log, batch_of(1, kRing));
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.status().message().find("larger than the whole log"), std::string::npos);
}

/// What waits for the disk stays in the buffer as it is: who has more waits.
TEST(RedoLog, NothingIsOverwrittenOnItsWayToTheDisk) {
  Disk const disk = formatted(1u << 20);
  std::vector<Batch> written;
  for (std::uint64_t i = 0; i < 20; ++i)
    written.push_back(batch_of(i, kBlock - 100));  // of a block each
  auto log = start(disk);
  disk->hold_back(true);
  std::thread writer([&] {
    for (Batch const& batch : written) EXPECT_TRUE(append(*log, batch).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  disk->hold_back(false);
  writer.join();
  log.reset();
  EXPECT_EQ(replay_all(disk).batches, written);
}

TEST(RedoLog, AFailedWriteIsFatalAndToldToAll) {
  for (int const error : {EIO, ENOSPC}) {
    for (std::uint64_t at = 2; at < 9; ++at) {  // 1 is the epoch's header
      Disk const disk = formatted(kRing);
      std::vector<Batch> acknowledged;
      disk->fail_errno = error;
      disk->fail_write_at = disk->writes + at;
      disk->fail_writes_until = disk->fail_write_at + 1;
      {
        auto log = start(disk);
        Status failure;
        for (std::uint64_t i = 0; i < 20 && failure.ok(); ++i) {
          Batch const batch = batch_of(i, 5000);
          auto lsn = append(*log, batch);
          failure = lsn.ok() ? log->wait_durable(*lsn) : lsn.status();
          if (failure.ok()) acknowledged.push_back(batch);
        }
        EXPECT_EQ(failure.code(), error == ENOSPC ? Code::no_space : Code::io_error)
            << failure.message();
        EXPECT_EQ(append(*log, "later").status().message(), failure.message());
        EXPECT_FALSE(log->wait_durable(log->position().lsn).ok());
        EXPECT_TRUE(log->wait_durable(log->durable_lsn()).ok());
      }
      disk->cut_power();
      disk->restore();
      Replayed const r = replay_all(disk);
      ASSERT_GE(r.batches.size(), acknowledged.size());
      for (std::size_t i = 0; i < acknowledged.size(); ++i)
        EXPECT_EQ(r.batches[i], acknowledged[i]);
    }
  }
}

// Whatever else ended with it is not waited for, for ever.
TEST(RedoLog, AFailedReadEndsTheReplayWhileOthersAreUnderWay) {
  constexpr std::uint64_t kSegments = 6;
  for (std::uint64_t seed = 1; seed <= (perdure::test::kSanitized ? kSegments : 5 * kSegments);
       ++seed) {
    Disk const disk = formatted(kSegments * (2u << 20), seed);
    commit(*start(disk), batch_of(1, 5000));
    auto const file = file_on(disk);
    auto const identity = read_identity(*file);
    ASSERT_TRUE(identity.ok());
    std::uint64_t reads = 0;
    disk->asked = [&](Asked what, std::uint64_t, std::uint64_t, bool) {
      return what == Asked::read && ++reads == 1 + seed % kSegments ? EIO : 0;
    };
    auto const report =
        replay(*file, identity.value(), {}, [](std::uint64_t, auto const&) { return Status{}; });
    EXPECT_EQ(report.ok() ? Code::io_error : report.status().code(), Code::io_error);
    EXPECT_EQ(reads, kSegments);
    disk->asked = nullptr;
    EXPECT_EQ(replay_all(disk).batches.size(), 1u);
  }
}

TEST(RedoLog, ShortWritesAreContinued) {
  Disk const disk = formatted(1u << 20);
  disk->short_writes = true;
  std::vector<Batch> written;
  {
    auto log = start(disk);
    for (std::uint64_t i = 0; i < 40; ++i) {
      written.push_back(batch_of(i, 500 * i));
      commit(*log, written.back());
    }
  }
  EXPECT_EQ(replay_all(disk).batches, written);
}

TEST(RedoLog, ADeviceThatNeverProgressesIsAnError) {
  Disk const disk = formatted(kRing);
  auto log = start(disk);
  disk->fail_errno = EAGAIN;
  disk->fail_write_at = 0;
  disk->fail_writes_until = ~std::uint64_t{0};
  auto lsn = append(*log, "x");
  ASSERT_TRUE(lsn.ok());
  EXPECT_EQ(log->wait_durable(*lsn).code(), Code::io_error);
}

TEST(RedoLog, HeadersAreChecked) {
  Disk const disk = formatted(kRing);
  for (int opening = 0; opening < 2; ++opening) start(disk).reset();
  auto const good = read_identity(*file_on(disk));
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value().epoch, 3u);
  disk->flip(kBlock + 20, 1);  // copy B holds epoch 3
  auto const older = read_identity(*file_on(disk));
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older.value().epoch, 2u);
  disk->flip(20, 1);
  EXPECT_EQ(read_identity(*file_on(disk)).status().code(), Code::corrupt);

  Disk const other = formatted(kRing);
  LogHeader h;
  std::memcpy(&h, other->medium.data(), sizeof h);
  h.format_version = 7;
  h.crc = checksum(h);
  std::memcpy(other->medium.data(), &h, sizeof h);
  other->cache = other->medium;
  EXPECT_NE(read_identity(*file_on(other)).status().message().find("version 7"), std::string::npos);
}

TEST(RedoLog, AnotherPoolsGroupsAreForeign) {
  Disk const mine = formatted(kRing), theirs = std::make_shared<FaultyDisk>();
  PoolId other = kPool;
  other[3] ^= 0xff;
  ASSERT_TRUE(format_log(*file_on(theirs), other, kRing).ok());
  commit(*start(theirs), "not mine");
  start(mine).reset();
  std::memcpy(mine->medium.data() + kRingOffset, theirs->medium.data() + kRingOffset, kBlock);
  mine->cache = mine->medium;
  Replayed const r = replay_all(mine);
  EXPECT_TRUE(r.batches.empty());
  EXPECT_EQ(r.report.reason, StopReason::foreign) << r.report.describe();
}

}  // namespace
}  // namespace perdure::wal::test
