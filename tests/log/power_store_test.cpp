// A store of durability power: what a power loss leaves is what lies in its log directory at that
// moment. So each test copies that directory while the store is open, and opens a store from the
// copy. The stores are of every layout and kind of size; tests for which one will do are in
// power_store_one_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "power_stores.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test::power_stores {
namespace {

namespace fs = std::filesystem;

/// What was being written when the power went never came to the disk.
void zero_from(std::string const& path, std::uint64_t byte) {
  auto const size = fs::file_size(path);
  fs::resize_file(path, byte);
  fs::resize_file(path, size);
}

struct Case {
  Layout layout;
  std::uint32_t key_bytes, value_bytes;
};

class PowerStore : public testing::TestWithParam<Case> {
 protected:
  Config const config_ = config_of(GetParam().layout, GetParam().key_bytes, GetParam().value_bytes);
  ScratchDir const scratch_;
  DiskDir const log_{"log"}, copy_{"copy"};

  /// What the disk holds now, opened elsewhere, must be the model's records and nothing else.
  void check_after_power_loss(Driver& driver) {
    fs::remove_all(copy_.path);
    fs::copy(log_.path, copy_.path);
    auto restored = open(config_, scratch_.file("restored"), copy_.path);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    EXPECT_FALSE(restored->recovery().lost_acknowledged);
    EXPECT_EQ(restored->recovery().records, driver.model.held.size())
        << restored->recovery().log_report;
    Driver other(config_, std::move(*restored));
    other.model = driver.model;
    other.check_all();
  }

  std::vector<Op> some_ops(std::mt19937_64& random) {
    std::vector<Op> ops(1 + random() % 200);
    for (Op& op : ops) {
      std::uint64_t const n = random() % 2000;
      op.kind = std::vector{OpKind::put, OpKind::put, OpKind::erase, OpKind::update}[random() % 4];
      op.key = config_.key(n);
      op.value = config_.value(n, random());
    }
    return ops;
  }
};

TEST_P(PowerStore, EveryAcknowledgedBatchOutlivesAPowerLoss) {
  std::mt19937_64 random(5);
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
  EXPECT_TRUE(driver.store().survives().power_loss);
  for (int i = 0; i < 60; ++i) {
    driver.run_mixed(some_ops(random));
    if (i % 6 == 0) check_after_power_loss(driver);
    if (HasFatalFailure()) return;
    if (i % 20 != 19) continue;
    ASSERT_TRUE(driver.store().close().ok());
    fs::remove(scratch_.file("pool"));  // as a power loss does
    auto again = open(config_, scratch_.file("pool"), log_.path);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_TRUE(again->recovery().clean) << again->recovery().log_report;
    driver.replace(std::move(*again));
    driver.check_all();
  }
}

/// A batch of one kind, or a mixed one; every answer must be the model's.
void run_batch(Driver& driver, std::vector<Op> ops, std::optional<OpKind> all, Rmw rmw) {
  if (!all) return driver.run_mixed(ops, rmw, Element::u64);
  std::vector<Bytes> keys, values;
  std::vector<KeyStatus> statuses, expected;
  for (Op& op : ops) {
    op.kind = *all;
    keys.push_back(op.key);
    values.push_back(op.value);
    expected.push_back(driver.model.apply(op, rmw, Element::u64).status);
  }
  Status const s = *all == OpKind::put ? driver.put(keys, values, statuses)
                   : *all == OpKind::erase
                       ? driver.erase(keys, statuses)
                       : driver.update(keys, values, rmw, Element::u64, statuses);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(statuses, expected);
}

// Batches of one kind follow each other, so that replay merges them; some are of a transaction.
TEST_P(PowerStore, BatchesOfEveryKindAreReplayedToWhatTheyWere) {
  std::optional<OpKind> const kinds[] = {OpKind::put, OpKind::put, OpKind::erase, OpKind::update,
                                         std::nullopt};
  std::mt19937_64 random(11);
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path, 16u << 20));
  for (int run = 0; run < 40; ++run) {
    auto const kind = kinds[random() % 5];
    Rmw rmw = random() % 2 == 0 ? Rmw::add : Rmw::replace;
    std::optional<Transaction> transaction;
    if (GetParam().layout != Layout::in_place && random() % 4 == 0) {
      if (GetParam().value_bytes == 0) rmw = Rmw::replace;  // sizes that differ would be refused
      auto begun = driver.store().begin();
      ASSERT_TRUE(begun.ok()) << begun.status().message();
      transaction = std::move(*begun);
      driver.how.transaction = &*transaction;
    }
    for (std::uint64_t batches = 1 + random() % 12; batches > 0; --batches)
      ASSERT_NO_FATAL_FAILURE(run_batch(driver, some_ops(random), kind, rmw));
    if (transaction) {
      ASSERT_TRUE(transaction->commit().ok());
    }
    driver.how = {};
    if (run % 8 != 7) continue;
    ASSERT_NO_FATAL_FAILURE(check_after_power_loss(driver));
  }
  EXPECT_EQ(driver.store().stats().log.checkpoints, 1u) << "all of it is to be replayed";
}

TEST_P(PowerStore, ALogCutInsideABatchIsReplayedToTheBatchBefore) {
  std::mt19937_64 random(12);
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path, 16u << 20));
  std::vector<Model> models{driver.model};
  std::vector<std::uint64_t> ends{0};
  for (int batch = 0; batch < 40; ++batch) {
    run_batch(driver, some_ops(random), batch % 10 == 9 ? OpKind::erase : OpKind::put,
              Rmw::replace);
    models.push_back(driver.model);
    ends.push_back(driver.store().stats().log.used_bytes);
  }
  for (std::size_t const kept : {0u, 1u, 20u, 39u}) {
    fs::remove_all(copy_.path);
    fs::copy(log_.path, copy_.path);
    constexpr std::uint64_t kRing = 8192, kHeaderAndMore = 100;
    zero_from(copy_.file("redo.log"), kRing + ends[kept] + kHeaderAndMore);
    auto restored = open(config_, scratch_.file("restored"), copy_.path);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    EXPECT_EQ(restored->recovery().replayed, kept) << restored->recovery().log_report;
    Driver other(config_, std::move(*restored));
    other.model = models[kept];
    other.check_all();
  }
}

TEST_P(PowerStore, ATransactionOutlivesAPowerLossWholeOrNotAtAll) {
  if (GetParam().layout == Layout::in_place) GTEST_SKIP() << "layout in_place has no transactions";
  std::mt19937_64 random(7);
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
  for (int i = 0; i < 12; ++i) {
    driver.how = {};
    driver.run_mixed(some_ops(random));
    Model const before = driver.model;
    auto transaction = driver.store().begin();
    ASSERT_TRUE(transaction.ok()) << transaction.status().message();
    driver.how.transaction = &*transaction;
    for (int batch = 0; batch < 3; ++batch) driver.run_mixed(some_ops(random));
    Model const after = std::exchange(driver.model, before);
    ASSERT_NO_FATAL_FAILURE(check_after_power_loss(driver)) << "not committed yet";
    if (i % 3 == 2) {
      ASSERT_TRUE(transaction->abort().ok());
    } else {
      ASSERT_TRUE(transaction->commit().ok());
      driver.model = after;
    }
    ASSERT_NO_FATAL_FAILURE(check_after_power_loss(driver));
  }
}

TEST_P(PowerStore, OfLayoutLogIsOpenedForWhatTheLayoutHasAlone) {
  if (GetParam().layout != Layout::log) GTEST_SKIP() << "another index";
  {
    Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
    driver.run_put({config_.key(1)}, {config_.value(1)});
  }
  OpenOptions options = config_.open();
  options.log_dir = log_.path;
  options.memory.residency = Residency::pm;
  Status const s = Store::open(scratch_.file("pool"), options).status();
  EXPECT_EQ(s.code(), Code::unsupported) << s.message();
  EXPECT_NE(s.message().find("leave residency out"), std::string::npos) << s.message();
  auto again = open(config_, scratch_.file("pool"), log_.path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->stats().records, 1u);
}

TEST_P(PowerStore, ALogThatFillsIsTruncatedByCheckpoints) {
  std::mt19937_64 random(6);
  Driver driver(config_, create(config_, scratch_.file("pool"), log_.path));
  for (int i = 0; i < 400; ++i) driver.run_mixed(some_ops(random));
  EXPECT_GE(driver.store().stats().log.checkpoints, 3u) << driver.store().stats().log.used_bytes;
  check_after_power_loss(driver);
}

INSTANTIATE_TEST_SUITE_P(All, PowerStore,
                         testing::Values(Case{Layout::word, 8, 16}, Case{Layout::word, 0, 0},
                                         Case{Layout::in_place, 16, 0}, Case{Layout::log, 8, 16},
                                         Case{Layout::log, 20, 16}, Case{Layout::log, 8, 0},
                                         Case{Layout::log, 0, 0}),
                         [](auto const& which) {
                           return text(which.param.layout) + "K" +
                                  std::to_string(which.param.key_bytes) + "V" +
                                  std::to_string(which.param.value_bytes);
                         });

}  // namespace
}  // namespace perdure::test::power_stores
