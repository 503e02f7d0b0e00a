// Snapshots that are refused: of another version, damaged, cut off, in the way of something else,
// on a full disk, with another pool's log. Invariant: a refusal says why, by name, and leaves
// behind what was there before and nothing else.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

#include "pm/pool_format.hpp"
#include "snapshots.hpp"
#include "support/folders.hpp"
#include "wal/checkpoint.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure::test::snapshots {
namespace {

TEST_F(SnapshotOne, KeepsDurabilityUnlessToldOtherwise) {
  {
    Driver const driver = with_snapshot(10, Durability::power);
  }
  expect_refused(Code::unsupported, "needs a log_dir");
  expect_refused(Code::invalid_argument, "needs durability power",
                 {.durability = Durability::process, .log = {.dir = other_log_.path}});
  auto restored =
      Store::restore(snapshot_, target_, {.log = {.dir = other_log_.path, .bytes = 1u << 20}});
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_TRUE(restored->survives().power_loss);
}

// The old directory would roll the restored pool forward to what it was not restored to.
TEST_F(SnapshotOne, AnotherPoolsLogIsNotTakenForItsOwn) {
  {
    Driver const driver = with_snapshot(10, Durability::power);
  }
  {
    ASSERT_TRUE(restore(as(Durability::power, other_log_.path)).ok());
  }
  std::string const before = whole_file(target_);
  OpenOptions open = config_.open();
  open.log_dir = log_.path;
  Status const s = Store::open(target_, open).status();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("is not the one whose log lies in " + log_.path), std::string::npos)
      << s.message();
  EXPECT_EQ(whole_file(target_), before);
}

TEST_F(SnapshotOne, ALogDirDoesNotCostAPoolOfDurabilityProcess) {
  {
    Driver const driver = with_records(10, Durability::power);
  }
  {
    Store const plain = create(config_, target_, Durability::process, "");
  }
  std::string const before = whole_file(target_);
  OpenOptions open = config_.open();
  open.log_dir = log_.path;
  EXPECT_EQ(Store::open(target_, open).status().code(), Code::invalid_argument);
  EXPECT_EQ(whole_file(target_), before);
}

TEST_F(SnapshotOne, OfAnotherVersionIsRefusedByName) {
  {
    Driver const driver = with_snapshot(10);
  }
  edit_header([](wal::ImageHeader& h) { h.format_version = 7; });
  expect_refused(Code::corrupt, "image format version 7; this build reads version 1");
}

TEST_F(SnapshotOne, OfAPoolOfAnotherVersionIsRefusedByName) {
  {
    Driver const driver = with_snapshot(10);
  }
  auto file = wal::BlockFile::open(snapshot_, wal::OpenMode::read_write);
  ASSERT_TRUE(file.ok());
  auto info = wal::read_image_info(**file);
  ASSERT_TRUE(info.ok());
  auto pool = wal::AlignedBuffer::make(info->bytes);
  ASSERT_TRUE(pool.ok());
  ASSERT_TRUE(wal::load_image(**file, *info, pool->span()).ok());
  std::uint32_t const version = 9;
  std::memcpy(pool->data() + offsetof(pm::PoolHeader, format_version), &version, sizeof version);
  ASSERT_TRUE(wal::write_image(**file, *info, pool->span()).ok());
  file->reset();
  expect_refused(Code::corrupt, "format version 9; this build reads version 4");
}

TEST_F(SnapshotOne, ADamagedChunkIsNamed) {
  {
    Driver const driver = with_snapshot(30'000);
  }
  std::string const whole = whole_file(snapshot_);
  ASSERT_GT(whole.size(), 3u << 20);
  for (std::uint64_t const chunk : {0u, 2u}) {
    std::string damaged = whole;
    damaged[4096 + (chunk << 20) + 777] ^= 4;
    write_file(snapshot_, damaged);
    expect_refused(Code::corrupt, "chunk " + std::to_string(chunk) + " (bytes ");
    expect_refused(Code::corrupt, "is damaged");
  }
  std::string damaged = whole;
  damaged[damaged.size() - 4096] ^= 4;
  write_file(snapshot_, damaged);
  expect_refused(Code::corrupt, "the list of its checksums is damaged");
  damaged = whole;
  damaged[20] ^= 4;
  write_file(snapshot_, damaged);
  expect_refused(Code::corrupt, "its header is damaged");
}

TEST_F(SnapshotOne, ATruncatedFileIsNamed) {
  {
    Driver const driver = with_snapshot(100);
  }
  std::uint64_t const whole = fs::file_size(snapshot_);
  for (std::uint64_t const bytes : {whole - 1, whole - 4096, whole / 2, std::uint64_t{4096}}) {
    fs::resize_file(snapshot_, bytes);
    expect_refused(Code::corrupt, "truncated: the file has " + std::to_string(bytes) + " bytes");
  }
  for (std::uint64_t const bytes : {100u, 0u}) {
    fs::resize_file(snapshot_, bytes);
    expect_refused(Code::corrupt, "not an image of a Perdure pool");
  }
  fs::remove(snapshot_);
  expect_refused(Code::not_found, "no such file");
}

TEST_F(SnapshotOne, WhatIsThereIsNotReplacedUnasked) {
  Driver driver = with_snapshot(10);
  std::string const before = whole_file(snapshot_);
  EXPECT_EQ(driver.store().snapshot(snapshot_).code(), Code::already_exists);
  EXPECT_EQ(whole_file(snapshot_), before);
  EXPECT_EQ(driver.store().snapshot(pool_, {.overwrite = true}).code(), Code::invalid_argument)
      << "its own pool";
  std::string const other = scratch_.file("other");
  fs::copy_file(pool_, other);
  EXPECT_EQ(driver.store().snapshot(other, {.overwrite = true}).code(), Code::already_exists)
      << "a pool is no snapshot";
  driver.check_all();
  ASSERT_TRUE(driver.store().close().ok());
  Status const s = Store::restore(snapshot_, pool_, {}, config_.open()).status();
  EXPECT_EQ(s.code(), Code::already_exists) << s.message();
  auto again = Store::open(pool_, config_.open());
  ASSERT_TRUE(again.ok());
  driver.replace(std::move(*again));
  driver.check_all();
}

TEST_F(SnapshotOne, NeitherTakesNorReplacesACheckpoint) {
  Driver driver = with_records(10, Durability::power);
  std::string const before = whole_file(log_.file("image-a"));
  EXPECT_EQ(driver.store().snapshot(log_.file("image-a"), {.overwrite = true}).code(),
            Code::already_exists);
  EXPECT_EQ(whole_file(log_.file("image-a")), before);
  ASSERT_TRUE(driver.store().close().ok());
  Status const s = Store::restore(log_.file("image-a"), target_).status();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("is a checkpoint of a log directory"), std::string::npos)
      << s.message();
}

TEST_F(SnapshotOne, WhatACrashLeftHalfWrittenGivesWay) {
  Driver driver = with_records(10);
  write_file(pm::partial_name(snapshot_), "half a snapshot");
  {
    auto const held = wal::BlockFile::open(pm::partial_name(snapshot_), wal::OpenMode::read_write);
    EXPECT_EQ(driver.store().snapshot(snapshot_).code(), Code::busy);
  }
  EXPECT_TRUE(driver.store().snapshot(snapshot_).ok());
  EXPECT_FALSE(fs::exists(pm::partial_name(snapshot_)));
  EXPECT_TRUE(restore().ok());
}

TEST_F(SnapshotOne, MisuseIsNamed) {
  Driver driver = with_snapshot(10);
  EXPECT_EQ(driver.store().snapshot(scratch_.file("nowhere/snapshot")).code(), Code::not_found);
  EXPECT_EQ(driver.store().snapshot(scratch_.path(), {.overwrite = true}).code(),
            Code::invalid_argument);
  OpenOptions open = config_.open();
  open.expect.value_bytes = 99;
  EXPECT_EQ(Store::restore(snapshot_, target_, {}, open).status().code(), Code::invalid_argument);
  EXPECT_FALSE(fs::exists(target_));
  open = config_.open();
  open.read_only = true;
  EXPECT_EQ(Store::restore(snapshot_, target_, {}, open).status().code(), Code::invalid_argument);
  ASSERT_TRUE(driver.store().close().ok());
  EXPECT_EQ(driver.store().snapshot(scratch_.file("late")).code(), Code::closed);
}

TEST_F(SnapshotOne, AFullDiskLeavesNothingBehind) {
  SmallTmpfs const small(scratch_.file("small"), "2m");
  if (!small.holds()) GTEST_SKIP() << "cannot mount a tmpfs of 2 MiB here (needs CAP_SYS_ADMIN)";
  Driver driver = with_snapshot(30'000);
  Status const s = driver.store().snapshot(small.file("snapshot"));
  EXPECT_EQ(s.code(), Code::no_space) << s.message();
  EXPECT_NE(s.message().find("no snapshot was made"), std::string::npos) << s.message();
  EXPECT_TRUE(fs::is_empty(small.path()));
  Status const t = Store::restore(snapshot_, small.file("pool")).status();
  EXPECT_EQ(t.code(), Code::no_space) << t.message();
  EXPECT_TRUE(fs::is_empty(small.path()));
  driver.check_all();
  ASSERT_TRUE(driver.store().snapshot(snapshot_, {.overwrite = true}).ok());
}

// The pool must not stay either.
TEST_F(SnapshotOne, ALogThatCannotBeMadeLeavesNoPool) {
  {
    Driver const driver = with_snapshot(10);
  }
  Status const s = restore(as(Durability::power, "/dev/null/log"));
  EXPECT_FALSE(s.ok());
  EXPECT_FALSE(fs::exists(target_)) << s.message();
}

}  // namespace
}  // namespace perdure::test::snapshots
