// A store of a B+-tree whose values lie in logs: what is not as with the heap.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeys = 4000;

class ValueLogStore : public testing::Test {
 protected:
  ValueLogStore() { config_.index = Index::btree, config_.values = Values::log; }

  [[nodiscard]] std::string pool() const { return scratch_.file("pool"); }
  void make(CreateOptions const& create) {
    auto store = Store::create(pool(), create, config_.open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_ = std::make_unique<Driver>(config_, std::move(*store));
  }
  void make() { make(config_.create()); }
  void put(std::uint64_t from, std::uint64_t to, std::uint64_t version) {
    std::vector<Bytes> keys, values;
    for (std::uint64_t n = from; n < to; ++n) {
      keys.push_back(config_.key(n));
      values.push_back(config_.value(n, version));
    }
    ASSERT_NO_FATAL_FAILURE(driver_->run_put(keys, values));
  }
  [[nodiscard]] ValueLogStats log() const { return driver_->store().stats().value_log; }

  ScratchDir scratch_;
  Config config_{"", Device::cpu, Layout::word, {}, 8, 1000, false, 2};
  std::unique_ptr<Driver> driver_;
};

/// Twenty times as much is written as there is room for.
TEST_F(ValueLogStore, StaysSmallUnderUpdates) {
  make();
  for (std::uint64_t version = 0; version < 20; ++version)
    ASSERT_NO_FATAL_FAILURE(put(0, kKeys, version));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  while (log().queued_segments != 0) std::this_thread::yield();
  ValueLogStats const stats = log();
  EXPECT_GT(stats.appended_bytes, 75u << 20);
  EXPECT_GT(stats.collections, 40u);
  EXPECT_EQ(stats.failed_collections, 0u);
  EXPECT_LT(driver_->store().stats().space.used_bytes, 20u << 20);
  EXPECT_EQ(driver_->store().stats().values, Values::log);
}

/// In a snapshot that is made beside collections, and in the store that comes of it.
TEST_F(ValueLogStore, SnapshotsHaveEverythingOnce) {
  make();
  for (std::uint64_t version = 0; version < 6; ++version) {
    ASSERT_NO_FATAL_FAILURE(put(0, kKeys, version));
    std::string const image = scratch_.file("image" + std::to_string(version));
    ASSERT_TRUE(driver_->store().snapshot(image).ok());
    auto restored = Store::restore(image, scratch_.file("restored" + std::to_string(version)), {},
                                   config_.open());
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    EXPECT_TRUE(scan_all(*restored, 500) == driver_->model.held);
    EXPECT_EQ(restored->verify()->fault_count, 0u);
    EXPECT_EQ(restored->stats().values, Values::log);
  }
}

TEST_F(ValueLogStore, AFullPoolStillErases) {
  CreateOptions create = config_.create();
  create.max_bytes = 8u << 20;
  make(create);
  Store& store = driver_->store();
  std::vector<KeyStatus> status(1);
  std::uint64_t held = 0;
  for (;; ++held) {
    Packed const key({config_.key(held)}, 8), value({config_.value(held)}, 1000);
    if (!store.put(key.column(), value.column(), status).ok()) break;
  }
  EXPECT_EQ(status[0], KeyStatus::no_space);
  EXPECT_GT(held, 4000u);
  for (std::uint64_t n = 0; n < held; ++n) {
    Packed const key({config_.key(n)}, 8);
    ASSERT_TRUE(store.erase(key.column(), status).ok()) << n;
  }
  for (std::uint64_t n = 0; n < held / 2; ++n) {
    Packed const key({config_.key(n)}, 8), value({config_.value(n, 1)}, 1000);
    ASSERT_TRUE(store.put(key.column(), value.column(), status).ok()) << n;
  }
  EXPECT_EQ(store.stats().records, held / 2);
  EXPECT_EQ(store.verify()->fault_count, 0u);
}

/// A flipped bit in a value, of a pool that was closed in order.
TEST_F(ValueLogStore, DamageIsRefusedAndRepairSaysWhatItDropped) {
  make();
  ASSERT_NO_FATAL_FAILURE(put(0, 100, 0));
  ASSERT_TRUE(driver_->store().close().ok());
  std::fstream file(pool(), std::ios::in | std::ios::out | std::ios::binary);
  constexpr std::streamoff kInside = (1 << 20) + 64 + 5 * 1040 + 500;  // of the sixth record
  char byte = 0;
  file.seekg(kInside).read(&byte, 1);
  byte = static_cast<char>(byte ^ 4);
  file.seekp(kInside).write(&byte, 1);
  file.close();
  auto refused = Store::open(pool(), config_.open());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::corrupt);
  OpenOptions repair = config_.open();
  repair.repair = true;
  auto mended = Store::open(pool(), repair);
  ASSERT_TRUE(mended.ok()) << mended.status().message();
  EXPECT_EQ(mended->recovery().dropped, 1u);
  EXPECT_EQ(mended->stats().records, 99u);
  ASSERT_TRUE(mended->close().ok());
  auto again = Store::open(pool(), config_.open());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->stats().records, 99u);
}

TEST_F(ValueLogStore, ImpossibleOptionsAreRefused) {
  OpenOptions open = config_.open();
  open.value_log.collectors = 0;
  auto const none = Store::create(pool(), config_.create(), open);
  EXPECT_EQ(none.status().code(), Code::invalid_argument);
  CreateOptions other = config_.create();
  other.index = Index::dash_eh;
  auto const dash = Store::create(pool(), other, config_.open());
  EXPECT_EQ(dash.status().code(), Code::invalid_argument);
  EXPECT_NE(dash.status().message().find("index btree"), std::string::npos);
}

}  // namespace
}  // namespace perdure::test
