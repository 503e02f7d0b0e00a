// A store of durability power, of one layout and size: batches larger than its log or its spare
// room, damaged images and logs, a disk that refuses writes, several threads. Invariant: an
// acknowledged batch is there, or the opening says that it is lost.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "power_stores.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"
#include "support/whole_file.hpp"

namespace perdure::test::power_stores {
namespace {

namespace fs = std::filesystem;

void flip(std::string const& path, std::uint64_t byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(byte));
  char c = 0;
  file.get(c);
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(static_cast<char>(c ^ 16));
}

class PowerStoreOne : public testing::Test {
 protected:
  Config const config_ = config_of(Layout::word, 8, 16);
  ScratchDir const scratch_;
  DiskDir const log_{"log"};

  Driver with_records(std::uint64_t n) {
    Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = 0; i < n; ++i)
      keys.push_back(config_.key(i)), values.push_back(config_.value(i));
    driver.run_put(keys, values);
    return driver;
  }
};

TEST_F(PowerStoreOne, ABatchLargerThanTheLogIsKeptByACheckpoint) {
  Driver driver = with_records(60'000);
  EXPECT_GE(driver.store().stats().log.checkpoints, 2u);
  DiskDir const copy{"copy"};
  fs::copy(log_.path, copy.path);
  auto restored = open(config_, scratch_.file("restored"), copy.path);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ(restored->stats().records, 60'000u);
}

// It was in no log, so the other image and the log do not make up for it.
TEST_F(PowerStoreOne, ABatchThatOnlyADamagedImageHeldIsSaidToBeLost) {
  Driver driver = with_records(60'000);
  DiskDir const copy{"copy"};
  fs::copy(log_.path, copy.path);
  flip(copy.file("image-b"), 4096 + 70'000);
  Status const refused = open(config_, scratch_.file("restored"), copy.path).status();
  EXPECT_EQ(refused.code(), Code::corrupt) << refused.message();
  EXPECT_NE(refused.message().find("a later checkpoint had been written"), std::string::npos)
      << refused.message();
  EXPECT_FALSE(fs::exists(scratch_.file("restored"))) << "a refusal leaves a pool";
  auto restored = open(config_, scratch_.file("restored"), copy.path, true);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_LT(restored->stats().records, 60'000u);
  EXPECT_TRUE(restored->recovery().lost_acknowledged) << restored->recovery().log_report;
}

// Of a pool that was closed in order, no other file of the directory is needed but its log and one
// image; an empty one stands for one that is lost.
TEST_F(PowerStoreOne, AFileThatIsLostIsNamedAndAnEmptyOneDoes) {
  {
    Driver driver = with_records(20'000);
    ASSERT_TRUE(driver.store().close().ok());
  }
  for (char const* const name : {"checkpoint", "image-a", "image-b"}) {
    DiskDir const copy{"copy"};
    fs::copy(log_.path, copy.path);
    fs::remove(copy.file(name));
    std::string const pool = scratch_.file(std::string("without-") + name);
    Status const refused = open(config_, pool, copy.path).status();
    EXPECT_EQ(refused.code(), Code::not_found) << refused.message();
    EXPECT_NE(refused.message().find("put an empty file in its place"), std::string::npos)
        << refused.message();
    std::ofstream{copy.file(name)};
    auto opened = open(config_, pool, copy.path);
    ASSERT_TRUE(opened.ok()) << name << ": " << opened.status().message();
    EXPECT_EQ(opened->stats().records, 20'000u) << name;
  }
}

// Merged, these batches would need room for all their records beside the ones they replace.
TEST_F(PowerStoreOne, APoolWithoutRoomToSpareIsReplayedBatchByBatch) {
  constexpr std::uint32_t kValueBytes = 4096;
  Config const config = config_of(Layout::word, 8, kValueBytes);
  CreateOptions options = config.create(300);
  options.durability = Durability::power;
  options.log.dir = log_.path;
  options.log.bytes = 32u << 20;
  options.max_bytes = 5u << 20;  // what it begins with
  auto made = Store::create(scratch_.file("pool"), options, config.open());
  ASSERT_TRUE(made.ok()) << made.status().message();
  Driver driver(config, std::move(*made));
  constexpr std::uint64_t kRecords = 300, kBatch = 20;
  for (std::uint64_t first = 0; first < 8 * kRecords; first += kBatch) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t i = first; i < first + kBatch; ++i)
      keys.push_back(config.key(i % kRecords)), values.push_back(config.value(i % kRecords, first));
    driver.run_put(keys, values);
  }
  DiskDir const copy{"copy"};
  fs::copy(log_.path, copy.path);
  auto restored = open(config, scratch_.file("restored"), copy.path);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  driver.replace(std::move(*restored));
  driver.check_all();
}

TEST_F(PowerStoreOne, AnEmptyValueBesideARefusedOneOutlivesAPowerLoss) {
  Config const config = config_of(Layout::word, 8, 0);
  DiskDir const log{"log-of-empty"}, copy{"copy"};
  Driver driver(config, create(config, scratch_.file("variable"), log.path));
  std::vector<KeyStatus> statuses;
  std::vector<Bytes> const values{"", Bytes(driver.store().stats().max_value_bytes + 1, 'x')};
  ASSERT_TRUE(driver.put({config.key(1), config.key(2)}, values, statuses).ok());
  EXPECT_EQ(statuses, (std::vector{KeyStatus::ok, KeyStatus::too_large}));
  fs::copy(log.path, copy.path);
  auto restored = open(config, scratch_.file("restored"), copy.path);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  driver.replace(std::move(*restored));
  driver.model.held[config.key(1)] = "";
  driver.check_all();
}

// A batch larger than a group of the log goes there as it is, with its gets.
TEST_F(PowerStoreOne, ALargeMixedBatchOutlivesAPowerLossGetsAndAll) {
  for (Layout const layout : {Layout::word, Layout::log}) {
    Config const config = config_of(layout, 8, 128);
    std::string const name = layout == Layout::log ? "mixed-log" : "mixed-word";
    DiskDir const log{"mixed"}, copy{"mixed-copy"};
    Driver driver(config, create(config, scratch_.file(name), log.path, 16u << 20));
    for (bool const only_gets : {false, true}) {
      std::vector<Op> ops;
      for (std::uint64_t k = 0; k < 8000; ++k) {
        OpKind const kind = only_gets || k % 3 == 0 ? OpKind::get : OpKind::put;
        ops.push_back({kind, config.key(k % 5000), config.value(k, 1)});
      }
      driver.run_mixed(ops);
    }
    driver.run_put({config.key(1)}, {config.value(1, 2)});
    fs::copy(log.path, copy.path);
    auto restored = open(config, scratch_.file(name + "-restored"), copy.path);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    driver.replace(std::move(*restored));
    driver.check_all();
  }
}

TEST_F(PowerStoreOne, ReadersGoOnWhileACheckpointIsWritten) {
  CreateOptions options = config_.create(1'000'000);  // tens of MiB to write
  options.durability = Durability::power;
  options.log.dir = log_.path;
  options.log.bytes = 1u << 20;
  auto made = Store::create(scratch_.file("pool"), options, config_.open());
  ASSERT_TRUE(made.ok()) << made.status().message();
  Store& store = *made;
  Packed const key({config_.key(1)}, 8), value({config_.value(1)}, 16);
  std::atomic<bool> stop = false, inside = false;
  std::atomic<int> reads = 0;
  std::thread reader([&] {
    std::vector<std::byte> out(16);
    while (!stop) {
      bool const began_inside = inside;
      EXPECT_TRUE(store.get(key.column(), {out.data(), 16, 1, MemorySpace::host}, {}).ok());
      if (began_inside && inside) ++reads;
    }
  });
  int most = 0;  // gets during one put that brought a checkpoint about
  for (int i = 0; i < 5000 && most < 10; ++i) {
    std::uint64_t const before = store.stats().log.checkpoints;
    reads = 0;
    inside = true;
    EXPECT_TRUE(store.put(key.column(), value.column()).ok());
    inside = false;
    if (store.stats().log.checkpoints > before) most = std::max(most, reads.load());
  }
  stop = true;
  reader.join();
  EXPECT_GE(most, 10);
}

TEST_F(PowerStoreOne, ADamagedImageIsReplacedByTheOtherAndTheLog) {
  Driver driver = with_records(100);
  ASSERT_TRUE(driver.store().close().ok());  // images: A of the empty pool, B of all
  flip(log_.file("image-b"), 4096 + 70'000);
  auto again = open(config_, scratch_.file("pool"), log_.path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_NE(again->recovery().log_report.find("the other image was used"), std::string::npos)
      << again->recovery().log_report;
  EXPECT_FALSE(again->recovery().clean);
  EXPECT_EQ(again->recovery().replayed, 1u);
  driver.replace(std::move(*again));
  driver.check_all();
}

/// Of the files of a directory, and one more.
std::map<std::string, Bytes> contents_of(std::string const& directory, std::string const& file) {
  std::map<std::string, Bytes> contents;
  for (auto const& entry : fs::directory_iterator(directory))
    contents[entry.path()] = whole_file(entry.path());
  if (fs::exists(file)) contents[file] = whole_file(file);
  return contents;
}

TEST_F(PowerStoreOne, DamagedAcknowledgedBatchesAreSaidToBeLost) {
  std::string const pool = scratch_.file("pool");
  {
    Driver driver = with_records(100);
    DiskDir const copy{"copy"};
    fs::copy(log_.path, copy.path);
    auto seen = open(config_, scratch_.file("other"), copy.path);
    ASSERT_TRUE(seen.ok());
    ASSERT_EQ(seen->recovery().replayed, 1u);
    // This opening knows how far the log had come; its power goes before it is closed.
    fs::remove_all(log_.path);
    fs::copy(copy.path, log_.path);
  }
  flip(log_.file("redo.log"), 8192 + 200);
  auto const before = contents_of(log_.path, pool);
  for (int opening = 0; opening < 2; ++opening) {
    Status const refused = open(config_, pool, log_.path).status();
    EXPECT_EQ(refused.code(), Code::corrupt) << refused.message();
    for (char const* const part :
         {"acknowledged batches, number 1 and those after it, are lost",
          "flipped, bit 4 of byte 200", "restore a snapshot", "repair=True"})
      EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
    EXPECT_TRUE(contents_of(log_.path, pool) == before) << "a refusal changed a file";
  }
  {
    auto repaired = open(config_, pool, log_.path, true);
    ASSERT_TRUE(repaired.ok()) << repaired.status().message();
    RecoveryReport const& r = repaired->recovery();
    EXPECT_TRUE(r.lost_acknowledged && r.repaired && !r.clean) << r.log_report;
    ASSERT_EQ(r.changes.size(), 2u);
    EXPECT_NE(r.changes[0].find("lost: acknowledged batches, number 1 and those after it"),
              std::string::npos)
        << r.changes[0];
    EXPECT_EQ(r.changes[1], "0 records are left");
    EXPECT_EQ(repaired->stats().records, 0u);
  }
  bool acknowledged = false;
  for (bool const acknowledges : {false, true, false}) {
    auto again = open(config_, pool, log_.path);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_FALSE(again->recovery().lost_acknowledged);
    auto verified = again->verify();
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    EXPECT_EQ(verified->fault_count, acknowledged ? 0u : 2u);
    if (!acknowledged) {
      EXPECT_TRUE(verified->faults[0].starts_with("repaired, and not acknowledged: lost: "))
          << verified->faults[0];
    }
    acknowledged = acknowledged || (acknowledges && again->acknowledge_repair().ok());
  }
}

/// A backup that was put back, say: the pool's file tells that its log had got further.
TEST_F(PowerStoreOne, ADirectoryOfAnOlderCloseIsNotTakenForItsOwn) {
  std::string const pool = scratch_.file("pool");
  DiskDir const older{"older"}, own{"own"};
  with_records(100);
  fs::copy(log_.path, older.path);
  {
    auto store = open(config_, pool, log_.path);
    ASSERT_TRUE(store.ok()) << store.status().message();
    Driver(config_, std::move(*store)).run_put({config_.key(500)}, {config_.value(500)});
  }
  fs::copy(log_.path, own.path);
  {
    auto store = open(config_, pool, own.path);
    ASSERT_TRUE(store.ok()) << store.status().message();
    copy_as_if_killed(pool, scratch_.file("killed"));
  }
  for (std::string const& left : {pool, scratch_.file("killed")}) {
    auto const before = contents_of(older.path, left);
    Status const refused = open(config_, left, older.path).status();
    EXPECT_EQ(refused.code(), Code::corrupt);
    for (char const* const part :
         {"older files", "log_dir that it was used with last", "repair=True"})
      EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
    EXPECT_TRUE(contents_of(older.path, left) == before) << "a refusal changed a file";
    auto found = open(config_, left, log_.path);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->stats().records, 101u);
  }
  auto elsewhere = open(config_, scratch_.file("elsewhere"), older.path);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status().message();  // no file there tells otherwise
  EXPECT_EQ(elsewhere->stats().records, 100u);
  ASSERT_TRUE(elsewhere->close().ok());
  auto repaired = open(config_, pool, older.path, true);
  ASSERT_TRUE(repaired.ok()) << repaired.status().message();
  EXPECT_TRUE(repaired->recovery().lost_acknowledged) << repaired->recovery().log_report;
  EXPECT_EQ(repaired->stats().records, 100u);
  ASSERT_TRUE(repaired->close().ok());
  EXPECT_TRUE(open(config_, pool, older.path).ok());
}

TEST_F(PowerStoreOne, MisuseIsNamed) {
  CreateOptions options = config_.create();
  options.durability = Durability::power;
  EXPECT_EQ(Store::create(scratch_.file("a"), options).status().code(), Code::unsupported);
  options.log.dir = scratch_.file("in-memory");  // tmpfs, if there is one
  if (scratch_.path().starts_with("/dev/shm")) {
    Status const s = Store::create(scratch_.file("a"), options).status();
    EXPECT_EQ(s.code(), Code::unsupported);
    EXPECT_NE(s.message().find("lies in memory"), std::string::npos) << s.message();
  }
  options.log.dir = log_.path;
  options.durability = Durability::process;
  EXPECT_EQ(Store::create(scratch_.file("a"), options).status().code(), Code::invalid_argument);
  {
    Driver driver = with_records(1);
  }
  Status const without = Store::open(scratch_.file("pool"), config_.open()).status();
  EXPECT_NE(without.message().find("log_dir"), std::string::npos) << without.message();
  options.durability = Durability::power;
  EXPECT_EQ(Store::create(scratch_.file("a"), options).status().code(), Code::already_exists);
  EXPECT_EQ(open(config_, scratch_.file("pool"), log_.path + "-none").status().code(),
            Code::not_found);
  auto held = open(config_, scratch_.file("pool"), log_.path);
  ASSERT_TRUE(held.ok()) << held.status().message();
  EXPECT_EQ(open(config_, scratch_.file("elsewhere"), log_.path).status().code(), Code::busy);
}

// A disk that refuses writes: the file size limit, below where the log's ring begins.
TEST_F(PowerStoreOne, AFailedLogStopsWritesAndReads) {
  pid_t const child = ::fork();
  if (child == 0) {
    Driver driver = with_records(10);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit const limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<KeyStatus> statuses;
    std::vector<Answer> answers;
    Status const first = driver.put({config_.key(99)}, {config_.value(99)}, statuses);
    if (first.code() != Code::no_space) ::_exit(2);
    Status const second = driver.put({config_.key(98)}, {config_.value(98)}, statuses);
    if (second.code() != Code::closed) ::_exit(3);
    // What was refused stands in the pool, and nobody knows which keys those are.
    if (driver.get({config_.key(5)}, answers).code() != Code::no_space) ::_exit(4);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 0);
  auto again = open(config_, scratch_.file("pool"), log_.path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->stats().records, 10u);
}

TEST_F(PowerStoreOne, ThreadsWriteAndReadAtOnce) {
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
  Store& store = driver.store();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 50; ++i) {
        std::vector<Bytes> keys, values;
        for (std::uint64_t k = 0; k < 8; ++k)
          keys.push_back(config_.key(t * 1000 + i * 8 + k)), values.push_back(config_.value(k, i));
        Packed const packed_keys(keys, 8), packed_values(values, 16);
        std::vector<KeyStatus> statuses(8);
        EXPECT_TRUE(store.put(packed_keys.column(), packed_values.column(), statuses).ok());
        std::vector<std::byte> out(8 * 16);
        EXPECT_TRUE(
            store.get(packed_keys.column(), {out.data(), 16, 8, MemorySpace::host}, statuses).ok());
        EXPECT_EQ(statuses, std::vector<KeyStatus>(8, KeyStatus::ok));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  DiskDir const copy{"copy"};
  fs::copy(log_.path, copy.path);
  auto restored = open(config_, scratch_.file("restored"), copy.path);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ(restored->stats().records, 4u * 50 * 8);
}

}  // namespace
}  // namespace perdure::test::power_stores
