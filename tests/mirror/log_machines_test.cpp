// Pools of layout `log` on one machine and then on the other: what durable bytes say does not
// depend on whose memory the table was in. Kills come between, and what is looked at by the host
// follows what the device has changed.
#include <algorithm>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

class LogMachines : public MirroredStore {
 protected:
  void SetUp() override {
    MirroredStore::SetUp();
    config_.layout = Layout::log;
    config_.count_accesses = false;
    config_.value_bytes = 64;
  }

  /// As a kill leaves it, on that machine.
  void take_over(Device device) {
    std::string const copy = scratch_.file("killed-" + std::to_string(kills_++));
    copy_as_if_killed(driver_->store().path(), copy);
    OpenOptions open = config_.open();
    open.device = device;
    auto store = Store::open(copy, open);
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
  }

  /// Batches of all kinds, of keys below 3000; the table grows on the way.
  void write_some(std::uint64_t version) {
    for (std::uint64_t at = 0; at < 3000; at += 750) put(at, at + 750, version);
    driver_->run_erase(keys(version * 100, version * 100 + 500));
    add(1000, 1400);
    put(200, 300, version + 10);
  }

  std::uint64_t kills_ = 0;
};

TEST_P(LogMachines, TakeEachOthersPoolsOverAfterKills) {
  Device const other = GetParam() == Device::cuda ? Device::cpu : GetParam();
  make(1);
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    write_some(turn);
    ASSERT_NO_FATAL_FAILURE(take_over(turn % 2 == 0 ? other : GetParam()));
    driver_->check_all();
  }
}

TEST_P(LogMachines, ShowTheHostWhatTheDeviceHasChanged) {
  make(4000);
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    write_some(turn);
    driver_->check_all();  // scans, and verifies
    EXPECT_EQ(scan_all(driver_->store(), 100).size(), driver_->model.held.size());
  }
  std::string const snapshot = scratch_.file("snapshot");
  Status const taken = driver_->store().snapshot(snapshot);
  ASSERT_TRUE(taken.ok()) << taken.message();
  auto restored = Store::restore(snapshot, scratch_.file("restored"), {}, config_.open());
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  driver_->replace(std::move(*restored));
  driver_->check_all();
}

/// Entries are put into the table many at a time, and may find no room where single ones did.
TEST_P(LogMachines, OpenFullTablesThoughGrowthIsRefused) {
  OpenOptions open = config_.open();
  open.grow = false;
  make(1000, open);
  std::vector<Bytes> const value = values(0, 1);
  std::uint64_t held = 0;
  for (std::uint64_t n = 0, refused = 0; refused < 200; ++n) {
    std::vector<Bytes> const key = keys(n, n + 1);
    Packed const k(key, config_.key_bytes), v(value, config_.value_bytes);
    KeyStatus status{};
    Status const put = driver_->store().put(k.column(), v.column(), std::span(&status, 1));
    ASSERT_TRUE(put.ok() || put.code() == Code::no_space) << put.message();
    put.ok() ? ++held : ++refused;
  }
  std::string const copy = scratch_.file("killed");
  copy_as_if_killed(driver_->store().path(), copy);
  auto store = Store::open(copy, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(store->stats().records, held);
}

TEST_P(LogMachines, NeverGrowAPoolThatWasMadeForItsRecords) {
  constexpr std::uint64_t kRecords = 120'000;
  make(kRecords);
  std::uint64_t const made = driver_->store().stats().space.pool_bytes;
  put(0, 90'000);  // by one batch, as a load does
  for (std::uint64_t version = 1; version < 12; ++version)  // the log is written anew on the way
    put(0, 30'000, version);
  EXPECT_EQ(driver_->store().stats().space.pool_bytes, made);
  driver_->check_all();
}

TEST_P(LogMachines, WriteBatchesOfFewKeysManyTimesOver) {
  make(4000);
  put(0, 64);
  for (std::uint64_t version = 1; version < 12; ++version) {
    // Most records of such a batch are for nothing, of the next one none.
    std::vector<Bytes> chosen, written;
    for (std::uint64_t n = 0; n < 640; ++n) {
      chosen.push_back(config_.key(n * n % (version % 3 == 0 ? 640 : 8)));
      written.push_back(config_.value(n, version));
    }
    driver_->run_put(chosen, written);
    driver_->check_all();
  }
  ASSERT_NO_FATAL_FAILURE(take_over(GetParam()));
  driver_->check_all();
}

TEST_P(LogMachines, KeepGetsToTheOneThatHasTheTable) {
  for (GetsBy const by : {GetsBy::host, GetsBy::both, GetsBy::measured}) {
    config_.gets_by = by;
    make(1000);
    put(0, 1000);
    get(keys(0, 1200));
    EXPECT_FALSE(driver_->store().stats().sharing.shared);
    EXPECT_NE(driver_->store().stats().sharing.note.find("layout log"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, LogMachines, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
