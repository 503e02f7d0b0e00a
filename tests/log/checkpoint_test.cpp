// Checkpoint images and their record: damage in each part, power cuts at each write, snapshots.
#include "wal/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "log_on_disk.hpp"

namespace perdure::wal::test {
namespace {

constexpr std::uint64_t kPoolBytes = 2 * kChunkBytes + 5 * kBlock;  // the last chunk is short

AlignedBuffer pool_of(std::uint64_t n) {
  auto pool = AlignedBuffer::make(kPoolBytes);
  EXPECT_TRUE(pool.ok());
  std::mt19937_64 random(n);
  for (std::uint64_t at = 0; at < kPoolBytes; at += 8) {
    std::uint64_t const word = random();
    std::memcpy(pool->data() + at, &word, 8);
  }
  return std::move(*pool);
}

bool holds(AlignedBuffer const& found, std::uint64_t n) {
  AlignedBuffer const expected = pool_of(n);
  return found.size() == expected.size() &&
         std::memcmp(found.data(), expected.data(), expected.size()) == 0;
}

struct Disks {
  Disk record = std::make_shared<FaultyDisk>(1), a = std::make_shared<FaultyDisk>(2),
       b = std::make_shared<FaultyDisk>(3);
  [[nodiscard]] Checkpoints open(PoolId const& id = kPool) const {
    return Checkpoints({file_on(record), {file_on(a), file_on(b)}}, id);
  }
  void cut_power() const {
    for (Disk const& disk : {record, a, b}) disk->cut_power(), disk->restore();
  }
};

struct Found {
  Status status;
  Loaded loaded;
  AlignedBuffer pool;
};

Found load(Checkpoints& checkpoints) {
  Found f;
  auto loaded = checkpoints.load([&](ImageInfo const& image) -> Result<std::span<std::byte>> {
    auto room = AlignedBuffer::make(image.bytes);
    if (!room) return room.status();
    f.pool = std::move(*room);
    return f.pool.span();
  });
  f.status = loaded.status();
  if (loaded.ok()) f.loaded = *loaded;
  return f;
}

Found load(Disks const& disks) {
  Checkpoints checkpoints = disks.open();
  return load(checkpoints);
}

LogPosition at(std::uint64_t n) { return {n * kBlock, n}; }

/// Checkpoints 1..n, of pools 1..n, at places 1..n: odd ones in A, even ones in B.
Disks written(std::uint64_t n) {
  Disks disks;
  Checkpoints checkpoints = disks.open();
  for (std::uint64_t i = 1; i <= n; ++i) {
    Status const s = checkpoints.write(pool_of(i).span(), at(i));
    EXPECT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(checkpoints.keep_from(), at(i == 1 ? 1 : i - 1).lsn);
  }
  return disks;
}

TEST(Checkpoint, TheNewestComesBack) {
  for (std::uint64_t n = 1; n < 6; ++n) {
    Disks const disks = written(n);
    Checkpoints checkpoints = disks.open();
    Found const f = load(checkpoints);
    ASSERT_TRUE(f.status.ok()) << f.status.message();
    EXPECT_TRUE(holds(f.pool, n));
    EXPECT_EQ(f.loaded.image.at, at(n));
    EXPECT_EQ(f.loaded.which, n % 2 == 1 ? 'A' : 'B');
    EXPECT_EQ(f.loaded.report, "");
    EXPECT_EQ(checkpoints.keep_from(), at(n == 1 ? 1 : n - 1).lsn);
  }
}

TEST(Checkpoint, AFlippedBitInAnyPartOfTheNewestIsFoundAndTheOtherServes) {
  std::uint64_t const table = kBlock + kPoolBytes;
  for (std::uint64_t const byte :
       {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{33}, std::uint64_t{50}, std::uint64_t{66},
        std::uint64_t{100}, std::uint64_t{125}, kBlock, kBlock + 77, kBlock + kChunkBytes,
        kBlock + kPoolBytes - 1, table, table + 4, table + 11, table + 500}) {
    Disks const disks = written(4);  // newest in B
    disks.b->flip(byte, 3);
    Checkpoints checkpoints = disks.open();
    Found const f = load(checkpoints);
    ASSERT_TRUE(f.status.ok()) << byte << ": " << f.status.message();
    EXPECT_TRUE(holds(f.pool, 3)) << byte;
    EXPECT_EQ(f.loaded.image.at, at(3));
    EXPECT_NE(f.loaded.report.find("the other image was used"), std::string::npos)
        << f.loaded.report;
    // The next checkpoint goes over the damaged one.
    ASSERT_TRUE(checkpoints.write(pool_of(5).span(), at(5)).ok());
    Found const again = load(disks);
    EXPECT_TRUE(again.status.ok() && holds(again.pool, 5)) << again.status.message();
    EXPECT_EQ(again.loaded.which, 'B');
  }
}

TEST(Checkpoint, DamageOfTheOtherImageIsHarmless) {
  Disks const disks = written(4);
  disks.a->flip(kBlock + 5, 0);
  Found const f = load(disks);
  EXPECT_TRUE(f.status.ok() && holds(f.pool, 4));
  EXPECT_EQ(f.loaded.report, "");
}

TEST(Checkpoint, BothDamagedIsAnErrorThatNamesBoth) {
  Disks const disks = written(4);
  disks.a->flip(kBlock + 5, 0);
  disks.b->flip(kBlock + kChunkBytes, 7);
  Found const f = load(disks);
  EXPECT_EQ(f.status.code(), Code::corrupt);
  EXPECT_NE(f.status.message().find("chunk 0"), std::string::npos) << f.status.message();
  EXPECT_NE(f.status.message().find("chunk 1"), std::string::npos) << f.status.message();
}

TEST(Checkpoint, ATornRecordLeavesTheOlderOne) {
  Disks const disks = written(4);
  disks.record->flip(60, 2);  // 4 % 2: copy A
  Found f = load(disks);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_TRUE(holds(f.pool, 3)) << "the record of 3 names A";
  disks.record->flip(kBlock + 60, 2);
  f = load(disks);
  ASSERT_TRUE(f.status.ok()) << f.status.message();
  EXPECT_TRUE(holds(f.pool, 4)) << "the images' headers decide";
  EXPECT_NE(f.loaded.report.find("neither copy"), std::string::npos);
}

/// The newest's header says something else, under a checksum that is right, in the record too.
void rewrite_header(Disks const& disks, std::function<void(ImageHeader&)> const& change) {
  ImageHeader h;
  std::memcpy(&h, disks.b->medium.data(), sizeof h);
  change(h);
  h.crc = checksum(h);
  std::memcpy(disks.b->medium.data(), &h, sizeof h);
  disks.b->cache = disks.b->medium;
  for (std::uint64_t const copy : {std::uint64_t{0}, kBlock}) {
    CheckpointRecord r;
    std::memcpy(&r, disks.record->medium.data() + copy, sizeof r);
    if (r.image == 1) r.image_crc = h.crc;
    r.crc = checksum(r);
    std::memcpy(disks.record->medium.data() + copy, &r, sizeof r);
  }
  disks.record->cache = disks.record->medium;
}

TEST(Checkpoint, AnImpossibleSizeLeadsToTheOther) {
  std::function<void(ImageHeader&)> const changes[] = {
      [](ImageHeader& h) { h.bytes = std::uint64_t{1} << 47; },
      [](ImageHeader& h) { h.bytes = (std::uint64_t{1} << 48) - kBlock, h.chunk_bytes = kBlock; },
      [](ImageHeader& h) { h.bytes += kBlock; },
      [](ImageHeader& h) { h.bytes -= kBlock; },
      [](ImageHeader& h) { h.bytes = 0; },
      [](ImageHeader& h) { h.bytes += 1; },
      [](ImageHeader& h) { h.bytes = ~std::uint64_t{0}; },
      [](ImageHeader& h) { h.chunk_bytes = 0; },
      [](ImageHeader& h) { h.chunk_bytes = kBlock; },
      [](ImageHeader& h) { h.chunk_bytes = 0xfffff000u; },
      [](ImageHeader& h) { h.lsn += 1; },
  };
  for (auto const& change : changes) {
    SCOPED_TRACE("change " + std::to_string(&change - changes));
    Disks const disks = written(4);  // newest in B
    rewrite_header(disks, change);
    Found const f = load(disks);
    ASSERT_TRUE(f.status.ok()) << f.status.message();
    EXPECT_TRUE(holds(f.pool, 3));
    EXPECT_NE(f.loaded.report.find("the other image was used"), std::string::npos)
        << f.loaded.report;
  }
}

TEST(Checkpoint, AnImageWithoutRoomLeadsToTheOther) {
  Disks const disks = written(4);
  Checkpoints checkpoints = disks.open();
  AlignedBuffer pool;
  auto const room_after = [&](int refusals, Code code) {
    return [&pool, refusals, code](ImageInfo const& image) mutable -> Result<std::span<std::byte>> {
      if (refusals-- > 0)
        return Status{code, "no room, sequence " + std::to_string(image.sequence)};
      pool = pool_of(0);
      return pool.span();
    };
  };
  auto const loaded = checkpoints.load(room_after(1, Code::no_space));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(holds(pool, 3));
  EXPECT_EQ(loaded.value().report, "no room, sequence 4; the other image was used");
  EXPECT_EQ(checkpoints.newest(), at(3));
  EXPECT_EQ(checkpoints.keep_from(), at(3).lsn);
  // Neither: what lacks is said, and not that a snapshot would help.
  Status const none = disks.open().load(room_after(2, Code::no_space)).status();
  EXPECT_EQ(none.code(), Code::no_space);
  EXPECT_EQ(none.message(), "no image can be used: no room, sequence 4; no room, sequence 3");
  // The one damaged, the other without room.
  disks.b->flip(kBlock + 5, 0);
  int calls = 0;
  Status const other = disks.open()
                           .load([&](ImageInfo const&) -> Result<std::span<std::byte>> {
                             if (++calls == 2) return Status{Code::no_space, "no room"};
                             pool = pool_of(0);
                             return pool.span();
                           })
                           .status();
  EXPECT_EQ(other.code(), Code::no_space) << other.message();
  EXPECT_EQ(other.message().find("restore a snapshot"), std::string::npos) << other.message();
}

TEST(Checkpoint, TruncatedImages) {
  for (std::uint64_t const bytes :
       {std::uint64_t{0}, std::uint64_t{100}, kBlock, kBlock + 5000, kBlock + kPoolBytes}) {
    Disks const disks = written(2);
    disks.b->cut_off(bytes);
    Found const f = load(disks);
    EXPECT_TRUE(f.status.ok() && holds(f.pool, 1)) << bytes << ": " << f.status.message();
  }
}

// A power cut, or a failed write, at each write of the third checkpoint.
TEST(Checkpoint, ACutAnywhereLeavesAWholeOne) {
  bool done = false;
  for (std::uint64_t n = 1; !done; ++n) {
    for (int const error : {EIO, ENOSPC}) {
      Disks const disks = written(2);
      Disk const& disk = n < 8 ? disks.a : disks.record;
      std::uint64_t const which = n < 8 ? n : n - 7;
      disk->fail_errno = error;
      disk->fail_write_at = disk->writes + which;
      disk->fail_writes_until = ~std::uint64_t{0};
      bool wrote = false;
      {
        Checkpoints checkpoints = disks.open();
        ASSERT_TRUE(load(checkpoints).status.ok());
        Lsn const kept = checkpoints.keep_from();
        EXPECT_EQ(kept, at(1).lsn);
        wrote = checkpoints.write(pool_of(3).span(), at(3)).ok();
        EXPECT_TRUE(wrote || checkpoints.newest() == at(2));
      }
      disks.cut_power();
      Found const f = load(disks);
      ASSERT_TRUE(f.status.ok()) << n << ": " << f.status.message();
      EXPECT_TRUE(holds(f.pool, 3) || (!wrote && holds(f.pool, 2))) << n;
      done = wrote && n >= 8;
    }
    ASSERT_LT(n, 20u);
  }
}

// CRC-32C of something that ends with its own CRC-32C does not depend on what that is: a chunk in
// which only the closing note has changed has the checksum that it had.
TEST(Checkpoint, AMixOfTwoImagesIsNeverUsed) {
  auto const with_note = [](std::uint64_t n) {
    AlignedBuffer pool = pool_of(1);
    std::array<std::uint64_t, 15> note{n, n * 3, n * 7};
    std::uint32_t const crc = crc32c(0, note.data(), sizeof note);
    std::memcpy(pool.data() + kBlock, note.data(), sizeof note);
    std::memcpy(pool.data() + kBlock + sizeof note, &crc, sizeof crc);
    return pool;
  };
  ASSERT_EQ(crc32c(0, with_note(1).data(), kChunkBytes),
            crc32c(0, with_note(3).data(), kChunkBytes));
  for (std::uint64_t fails = 1; fails < 7; ++fails) {
    Disks const disks;
    {
      Checkpoints checkpoints = disks.open();
      for (std::uint64_t n : {1, 2})
        ASSERT_TRUE(checkpoints.write(with_note(n).span(), at(n)).ok());
      disks.a->fail_write_at = disks.a->writes + fails;
      disks.a->fail_writes_until = ~std::uint64_t{0};
      ASSERT_FALSE(checkpoints.write(with_note(3).span(), at(3)).ok());
      disks.a->sync_all();  // all that was not refused has arrived
    }
    disks.cut_power();
    // A file of a log directory still, which a new log may replace.
    EXPECT_EQ(std::memcmp(disks.a->medium.data(), kImageMagic.data(), kImageMagic.size()), 0)
        << fails;
    disks.b->flip(kBlock + 5, 0);
    Found const f = load(disks);
    AlignedBuffer const first = with_note(1);
    EXPECT_TRUE(!f.status.ok() || std::memcmp(f.pool.data(), first.data(), first.size()) == 0)
        << fails;
  }
}

TEST(Checkpoint, AFailedSyncIsNoCheckpoint) {
  Disks const disks = written(2);
  {
    Checkpoints checkpoints = disks.open();
    ASSERT_TRUE(load(checkpoints).status.ok());
    disks.a->fail_sync = true;
    EXPECT_EQ(checkpoints.write(pool_of(3).span(), at(3)).code(), Code::io_error);
    EXPECT_EQ(checkpoints.newest(), at(2));
  }
  disks.cut_power();
  Found const f = load(disks);
  EXPECT_TRUE(f.status.ok() && holds(f.pool, 2));
}

TEST(Checkpoint, AnotherPoolsImagesAreRefused) {
  Disks const disks = written(2);
  PoolId other = kPool;
  other[0] = 99;
  Checkpoints checkpoints = disks.open(other);
  EXPECT_NE(load(checkpoints).status.message().find("another pool"), std::string::npos);
}

TEST(Checkpoint, AnotherPoolsRecordIsRefused) {
  PoolId other = kPool;
  other[0] = 99;
  Disks mixed = written(2);
  mixed.record = std::make_shared<FaultyDisk>(7);
  Disks theirs{mixed.record, std::make_shared<FaultyDisk>(8), std::make_shared<FaultyDisk>(9)};
  {
    Checkpoints checkpoints = theirs.open(other);
    ASSERT_TRUE(checkpoints.format().ok());
    ASSERT_TRUE(checkpoints.write(pool_of(5).span(), at(5)).ok());
  }
  Checkpoints checkpoints = mixed.open();
  EXPECT_NE(load(checkpoints).status.message().find("another pool"), std::string::npos);
}

class SnapshotFile : public testing::Test {
 protected:
  void SetUp() override { ::unlink(path_.c_str()); }
  void TearDown() override { ::unlink(path_.c_str()); }
  std::string const path_ = "/tmp/perdure-snapshot-" + std::to_string(::getpid());
};

TEST_F(SnapshotFile, OpensElsewhere) {
  {
    auto file = BlockFile::open(path_, OpenMode::create);
    ASSERT_TRUE(file.ok());
    ImageInfo info;
    info.pool_id = kPool;
    info.at = at(9);
    ASSERT_TRUE(write_image(**file, info, pool_of(1).span()).ok());
  }
  auto file = BlockFile::open(path_, OpenMode::read_only);
  ASSERT_TRUE(file.ok());
  auto const info = read_image_info(**file);
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info.value().at, at(9));
  auto room = AlignedBuffer::make(info.value().bytes);
  ASSERT_TRUE(room.ok());
  ASSERT_TRUE(load_image(**file, info.value(), room->span()).ok());
  EXPECT_TRUE(holds(*room, 1));
}

TEST_F(SnapshotFile, OfAnotherVersionIsRefusedByName) {
  auto disk = std::make_shared<FaultyDisk>();
  ImageInfo info;
  info.pool_id = kPool;
  ASSERT_TRUE(write_image(*file_on(disk), info, pool_of(1).span()).ok());
  ImageHeader h;
  std::memcpy(&h, disk->medium.data(), sizeof h);
  h.format_version = 2;
  h.crc = checksum(h);
  std::memcpy(disk->cache.data(), &h, sizeof h);
  Status const s = read_image_info(*file_on(disk)).status();
  EXPECT_EQ(s.code(), Code::corrupt);
  EXPECT_NE(s.message().find("image format version 2; this build reads version 1"),
            std::string::npos)
      << s.message();
}

}  // namespace
}  // namespace perdure::wal::test
