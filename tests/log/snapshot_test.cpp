// Snapshots of stores of every durability, and pools made from them: contents against the model,
// what is refused, and that a failure leaves nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "pm/pool_format.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"
#include "wal/checkpoint.hpp"
#include "wal/snapshot_file.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  Layout layout;
  std::uint32_t key_bytes, value_bytes;
  Durability from, to;
};

Config config_of(Layout layout, std::uint32_t key_bytes, std::uint32_t value_bytes) {
  Config c;
  c.name = "snapshot";
  c.layout = layout;
  c.key_bytes = key_bytes;
  c.value_bytes = value_bytes;
  return c;
}

Store create(Config const& config, std::string const& pool, Durability durability,
             std::string const& log_dir) {
  CreateOptions options = config.create(64);
  options.durability = durability;
  if (durability == Durability::power) options.log.dir = log_dir;
  options.log.bytes = 1u << 20;
  auto store = Store::create(pool, options, config.open());
  if (!store.ok()) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

RestoreOptions as(Durability durability, std::string const& log_dir) {
  RestoreOptions options;
  options.durability = durability;
  if (durability == Durability::power) options.log.dir = log_dir;
  options.log.bytes = 1u << 20;
  return options;
}

std::vector<Op> some_ops(Config const& config, std::mt19937_64& random) {
  std::vector<Op> ops(1 + random() % 200);
  for (Op& op : ops) {
    std::uint64_t const n = random() % 2000;
    op.kind = std::vector{OpKind::put, OpKind::put, OpKind::erase, OpKind::update}[random() % 4];
    op.key = config.key(n);
    op.value = config.value(n, random());
  }
  return ops;
}

std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class Snapshots : public testing::TestWithParam<Case> {
 protected:
  Config const config_ = config_of(GetParam().layout, GetParam().key_bytes, GetParam().value_bytes);
  ScratchDir const scratch_;
  DiskDir const log_{"log"}, other_log_{"other-log"};
};

TEST_P(Snapshots, HoldTheModelsRecordsAndLiveOnByThemselves) {
  std::mt19937_64 random(11);
  Case const& c = GetParam();
  Driver driver(config_, create(config_, scratch_.file("pool"), c.from, log_.path));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 12; ++i) driver.run_mixed(some_ops(config_, random));
    Status const taken =
        driver.store().snapshot(scratch_.file("snapshot"), {.overwrite = round > 0});
    ASSERT_TRUE(taken.ok()) << taken.message();
    Model const then = driver.model;
    driver.run_mixed(some_ops(config_, random));  // not in it

    RestoreOptions options = as(c.to, other_log_.path);
    options.file.overwrite = round > 0;
    auto restored =
        Store::restore(scratch_.file("snapshot"), scratch_.file("other"), options, config_.open());
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    EXPECT_TRUE(restored->recovery().clean);
    EXPECT_EQ(restored->recovery().records, then.held.size());
    EXPECT_EQ(restored->survives().power_loss, c.to == Durability::power);
    Driver other(config_, std::move(*restored));
    other.model = then;
    other.check_all();
    for (int i = 0; i < 5; ++i) other.run_mixed(some_ops(config_, random));
    ASSERT_TRUE(other.store().close().ok());

    OpenOptions open = config_.open();
    if (c.to == Durability::power) {
      open.log_dir = other_log_.path;
      fs::remove(scratch_.file("other"));  // as a power loss does
    }
    auto again = Store::open(scratch_.file("other"), open);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(again->recovery().clean) << again->recovery().log_report;
    other.replace(std::move(*again));
    other.check_all();
    driver.check_all();
    if (HasFailure()) return;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  struct Sizes {
    Layout layout;
    std::uint32_t key_bytes, value_bytes;
  };
  for (Sizes const s : {Sizes{Layout::word, 8, 16},
                        {Layout::word, 0, 0},
                        {Layout::in_place, 16, 0},
                        {Layout::in_place, 8, 24}}) {
    for (Durability const from : {Durability::process, Durability::power}) {
      for (Durability const to : {Durability::none, Durability::process, Durability::power})
        cases.push_back({s.layout, s.key_bytes, s.value_bytes, from, to});
    }
  }
  return cases;
}

std::string name_of(testing::TestParamInfo<Case> const& which) {
  constexpr char const* kNames[] = {"none", "process", "power"};
  Case const& c = which.param;
  return std::string(c.layout == Layout::word ? "word" : "in_place") + "K" +
         std::to_string(c.key_bytes) + "V" + std::to_string(c.value_bytes) + "_" +
         kNames[static_cast<int>(c.from)] + "_to_" + kNames[static_cast<int>(c.to)];
}

INSTANTIATE_TEST_SUITE_P(All, Snapshots, testing::ValuesIn(all_cases()), name_of);

class SnapshotOne : public testing::Test {
 protected:
  Config const config_ = config_of(Layout::word, 8, 16);
  ScratchDir const scratch_;
  DiskDir const log_{"log"}, other_log_{"other-log"};
  std::string const snapshot_ = scratch_.file("snapshot"), pool_ = scratch_.file("pool"),
                    target_ = scratch_.file("target");

  Driver with_records(std::uint64_t n, Durability durability = Durability::process) {
    Driver driver(config_, create(config_, pool_, durability, log_.path));
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = 0; i < n; ++i)
      keys.push_back(config_.key(i)), values.push_back(config_.value(i));
    driver.run_put(keys, values);
    return driver;
  }

  Driver with_snapshot(std::uint64_t n, Durability durability = Durability::process) {
    Driver driver = with_records(n, durability);
    Status const s = driver.store().snapshot(snapshot_);
    EXPECT_TRUE(s.ok()) << s.message();
    return driver;
  }

  Status restore(RestoreOptions const& options = {}) {
    return Store::restore(snapshot_, target_, options, config_.open()).status();
  }

  /// Restoring is refused with this code and a message that holds these words, and leaves nothing.
  void expect_refused(Code code, std::string const& words, RestoreOptions const& options = {}) {
    Status const s = restore(options);
    EXPECT_EQ(s.code(), code) << s.message();
    EXPECT_NE(s.message().find(words), std::string::npos) << s.message();
    EXPECT_FALSE(fs::exists(target_));
    EXPECT_FALSE(fs::exists(other_log_.file("redo.log")));
  }

  void edit_header(std::function<void(wal::ImageHeader&)> const& edit) {
    std::string bytes = read_file(snapshot_);
    wal::ImageHeader h;
    std::memcpy(&h, bytes.data(), sizeof h);
    edit(h);
    h.crc = wal::checksum(h);
    std::memcpy(bytes.data(), &h, sizeof h);
    write_file(snapshot_, bytes);
  }
};

TEST_F(SnapshotOne, OfEveryMediumIsRestoredToEveryMedium) {
  DiskDir const disk{"media"};
  fs::create_directory(disk.path);
  for (std::string const& from :
       {scratch_.file("from"), disk.file("from"), std::string("memfd:from")}) {
    Driver driver(config_, create(config_, from, Durability::process, ""));
    std::mt19937_64 random(3);
    for (int i = 0; i < 10; ++i) driver.run_mixed(some_ops(config_, random));
    ASSERT_TRUE(driver.store().snapshot(disk.file("snapshot"), {.overwrite = true}).ok());
    for (std::string const& to : {scratch_.file("to"), disk.file("to"), std::string("memfd:to")}) {
      auto restored =
          Store::restore(disk.file("snapshot"), to, {.file = {.overwrite = true}}, config_.open());
      ASSERT_TRUE(restored.ok()) << restored.status().message();
      Driver other(config_, std::move(*restored));
      other.model = driver.model;
      other.check_all();
    }
  }
}

// Batches of one version for all keys: a snapshot between two batches holds one version only.
TEST_F(SnapshotOne, LiesBetweenTwoBatchesWhileOthersReadAndWrite) {
  constexpr std::uint64_t kKeys = 500;
  std::vector<Bytes> keys;
  for (std::uint64_t i = 0; i < kKeys; ++i) keys.push_back(config_.key(i));
  Packed const packed(keys, config_.key_bytes);
  auto const values_of = [&](std::uint64_t version) {
    return Packed(std::vector<Bytes>(kKeys, config_.value(0, version)), config_.value_bytes);
  };
  Store store = create(config_, pool_, Durability::process, "");
  ASSERT_TRUE(store.put(packed.column(), values_of(0).column()).ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t v = 1; !stop; ++v)
      EXPECT_TRUE(store.put(packed.column(), values_of(v).column()).ok());
  });
  std::thread reader([&] {
    std::vector<std::byte> out(kKeys * 16);
    while (!stop)
      EXPECT_TRUE(store.get(packed.column(), {out.data(), 16, kKeys, Place::host}, {}).ok());
  });
  for (int i = 0; i < 10; ++i) {
    Status const s = store.snapshot(snapshot_, {.overwrite = true});
    ASSERT_TRUE(s.ok()) << s.message();
    auto restored =
        Store::restore(snapshot_, target_, {.file = {.overwrite = true}}, config_.open());
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    auto const found = scan_all(*restored, 1000);
    EXPECT_EQ(found.size(), kKeys);
    for (auto const& [key, value] : found) EXPECT_EQ(to_hex(value), to_hex(found.begin()->second));
  }
  stop = true;
  writer.join();
  reader.join();
}

// A writer that waits for a snapshot must not keep readers waiting behind it.
TEST_F(SnapshotOne, ReadersGoOnWhileOneIsWritten) {
  CreateOptions create = config_.create(1'000'000);  // tens of MiB to write
  auto made = Store::create(pool_, create, config_.open());
  ASSERT_TRUE(made.ok()) << made.status().message();
  Store& store = *made;
  Packed const key({config_.key(1)}, config_.key_bytes),
      value({config_.value(1)}, config_.value_bytes);
  std::atomic<bool> stop = false, inside = false;
  std::atomic<int> reads = 0;
  std::thread writer([&] {
    while (!stop) EXPECT_TRUE(store.put(key.column(), value.column()).ok());
  });
  std::thread reader([&] {
    std::vector<std::byte> out(16);
    while (!stop) {
      bool const began_inside = inside;
      EXPECT_TRUE(store.get(key.column(), {out.data(), 16, 1, Place::host}, {}).ok());
      if (began_inside && inside) ++reads;
    }
  });
  int most = 0;
  for (int i = 0; i < 20 && most < 10; ++i) {
    reads = 0;
    inside = true;
    EXPECT_TRUE(store.snapshot(snapshot_, {.overwrite = true}).ok());
    inside = false;
    most = std::max(most, reads.load());
  }
  stop = true;
  writer.join();
  reader.join();
  EXPECT_GE(most, 10);
}

TEST_F(SnapshotOne, HoldsCommittedTransactionsWholeAndNothingOfAborted) {
  Driver driver = with_records(1000);
  Store& store = driver.store();
  auto const put = [&](Transaction& tx, std::uint64_t n, std::uint64_t version) {
    Packed const key({config_.key(n)}, config_.key_bytes),
        value({config_.value(n, version)}, config_.value_bytes);
    Status const s = store.put(key.column(), value.column(), {}, {.transaction = &tx});
    EXPECT_TRUE(s.ok()) << s.message();
  };
  {
    auto tx = store.begin();
    ASSERT_TRUE(tx.ok()) << tx.status().message();
    put(*tx, 1, 7), put(*tx, 5000, 0);
    EXPECT_EQ(store.snapshot(snapshot_).code(), Code::busy) << "of half a transaction";
    ASSERT_TRUE(tx->abort().ok());
  }
  auto tx = store.begin();
  ASSERT_TRUE(tx.ok()) << tx.status().message();
  put(*tx, 2, 7);
  Status taken;
  std::thread other([&] { taken = store.snapshot(snapshot_); });  // waits for the transaction's end
  put(*tx, 6000, 0);
  ASSERT_TRUE(tx->commit().ok());
  other.join();
  ASSERT_TRUE(taken.ok()) << taken.message();
  driver.model.held[config_.key(2)] = config_.value(2, 7);
  driver.model.held[config_.key(6000)] = config_.value(6000, 0);
  auto restored = Store::restore(snapshot_, target_, {}, config_.open());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ(restored->recovery().undone, 0u);
  Driver copy(config_, std::move(*restored));
  copy.model = driver.model;
  copy.check_all();
  auto again = copy.store().begin();
  ASSERT_TRUE(again.ok()) << again.status().message();
  ASSERT_TRUE(again->abort().ok());
  copy.check_all();
  driver.check_all();
}

TEST_F(SnapshotOne, OfAnEmptyAndOfAReadOnlyStore) {
  {
    Driver const empty = with_records(0);
  }
  OpenOptions open = config_.open();
  open.read_only = true;
  auto store = Store::open(pool_, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(store->snapshot(snapshot_).ok());
  auto restored = Store::restore(snapshot_, target_, {}, config_.open());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ(restored->stats().records, 0u);
}

TEST_F(SnapshotOne, KeepsDurabilityUnlessToldOtherwise) {
  {
    Driver const driver = with_snapshot(10, Durability::power);
  }
  expect_refused(Code::unsupported, "needs a log_dir");
  expect_refused(Code::invalid_argument, "of use with durability power only",
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
  std::string const before = read_file(target_);
  OpenOptions open = config_.open();
  open.log_dir = log_.path;
  Status const s = Store::open(target_, open).status();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_NE(s.message().find("is not the one whose log lies in " + log_.path), std::string::npos)
      << s.message();
  EXPECT_EQ(read_file(target_), before);
}

TEST_F(SnapshotOne, ALogDirDoesNotCostAPoolOfDurabilityProcess) {
  {
    Driver const driver = with_records(10, Durability::power);
  }
  {
    Store const plain = create(config_, target_, Durability::process, "");
  }
  std::string const before = read_file(target_);
  OpenOptions open = config_.open();
  open.log_dir = log_.path;
  EXPECT_EQ(Store::open(target_, open).status().code(), Code::invalid_argument);
  EXPECT_EQ(read_file(target_), before);
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
  expect_refused(Code::corrupt, "format version 9; this build reads versions 2 and 3");
}

TEST_F(SnapshotOne, ADamagedChunkIsNamed) {
  {
    Driver const driver = with_snapshot(30'000);
  }
  std::string const whole = read_file(snapshot_);
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
  std::string const before = read_file(snapshot_);
  EXPECT_EQ(driver.store().snapshot(snapshot_).code(), Code::already_exists);
  EXPECT_EQ(read_file(snapshot_), before);
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
  std::string const before = read_file(log_.file("image-a"));
  EXPECT_EQ(driver.store().snapshot(log_.file("image-a"), {.overwrite = true}).code(),
            Code::already_exists);
  EXPECT_EQ(read_file(log_.file("image-a")), before);
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
}  // namespace perdure::test
