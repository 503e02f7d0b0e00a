// Growth without a stop, on tables large enough to have several units: what it takes from each
// batch, and that in its midst everything goes on as before. Each test begins with a pool that is
// full, and may grow from then on. Slow, up to fifteen seconds: only tables of several windows of
// 2^15 buckets have several units.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "fault/planted_faults.hpp"
#include "full_pool.hpp"

namespace perdure::test {
namespace {

TEST_P(Growth, TakesAShareOfEachBatchUntilItIsOver) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  Stats const begun = driver->store().stats();
  EXPECT_EQ(begun.growths, 1u);
  EXPECT_GT(begun.top_level, kTop);
  std::uint64_t left = begun.units_left;
  for (std::uint64_t batch = 0; left > 0; ++batch) {
    driver->run_erase(keys(GetParam(), batch, batch + 1));  // needs no room
    EXPECT_EQ(driver->store().stats().units_left, left - 1)
        << "one at least, and for few operations no more";
    left = driver->store().stats().units_left;
  }
  EXPECT_EQ(driver->store().stats().growths, 1u);
  driver->check_all();
}

TEST_P(Growth, HidesNoKeyInItsMidst) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  driver->check_all();  // by get, by scan, by stats and by verify
  ASSERT_GT(driver->store().stats().units_left, 0u) << "reading moves nothing";
  std::vector<Answer> absent;
  ASSERT_TRUE(driver->get(keys(GetParam(), next_, next_ + 2000), absent).ok());
  for (Answer const& a : absent) ASSERT_EQ(a.status, KeyStatus::not_found);
}

TEST_P(Growth, ChangesAndErasesKeysOfUnitsMovedAndNot) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  std::vector<Bytes> there;
  for (auto const& [key, value] : driver->model.held) there.push_back(key);
  std::vector<Bytes> const some(there.begin(), there.begin() + 20000);
  std::vector<Bytes> fresh(some.size(), GetParam().value(7, 7));
  driver->run_put(some, fresh);
  driver->check_held();
  driver->run_erase({there.begin() + 10000, there.begin() + 30000});
  driver->check_all();
}

TEST_P(Growth, EndsWithinTheBatchThatNeedsAllUnits) {
  auto driver = open_full();
  put_new(*driver, slots_of(GetParam(), kTop) / 2);
  Stats const after = driver->store().stats();
  EXPECT_GE(after.growths, 1u);
  EXPECT_TRUE(after.growths > 1 || after.units_left == 0);
  driver->check_all();
}

TEST_P(Growth, GoesOverIntoTheNextOneInsideABatch) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  put_new(*driver, slots_of(GetParam(), kTop) * 12 / 10);  // more than twice the table
  EXPECT_GE(driver->store().stats().top_level, kTop + 2)
      << "by the next growth, or because this one was widened";
  driver->check_all();
}

TEST_P(Growth, IsFinishedByClosing) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  ASSERT_TRUE(driver->store().close().ok());
  OpenOptions open = GetParam().open();
  open.read_only = true;
  auto store = Store::open(path_, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().clean);
  EXPECT_FALSE(store->recovery().resize_resumed);
  driver->replace(std::move(*store));
  driver->check_all();
}

// The device is lost while a close completes a growth: it says so, and the next opening goes on.
TEST_P(Growth, ThatAClosingCannotFinishIsSaidAndFinishedByTheOpening) {
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("launch " + std::to_string(n));
    auto driver = open_full();
    ASSERT_NO_FATAL_FAILURE(begin(*driver));
    fault::lost_device.plant(n, true);
    Status const closed = driver->store().close();
    bool const struck = fault::lost_device.struck();
    fault::lost_device.plant(0);
    EXPECT_EQ(closed.ok(), !struck);
    if (struck) {
      ++failed;
      EXPECT_NE(closed.message().find("was not closed in order"), std::string::npos)
          << closed.message();
      OpenOptions reader = GetParam().open();
      reader.read_only = true;
      EXPECT_FALSE(Store::open(path_, reader).ok()) << "what is half moved is not read";
    }
    auto store = Store::open(path_, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().clean, !struck);
    EXPECT_EQ(store->recovery().resize_resumed, struck);
    EXPECT_EQ(store->recovery().records, driver->model.held.size());
    driver->replace(std::move(*store));
    if (n == 1) driver->check_all();
    ASSERT_FALSE(HasFailure());
    if (!struck) break;
  }
  EXPECT_GT(failed, 0u);
}

TEST_P(Growth, IsFinishedByTheOpenAfterAKill) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  for (int round = 0; round < 3; ++round) {  // after the first units, and after the next
    driver->run_erase(
        keys(GetParam(), static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(round) + 1));
    bool const growing = driver->store().stats().units_left > 0;
    auto const held = driver->model.held;
    std::string const killed = scratch_.file("killed");
    copy_as_if_killed(path_, killed);
    auto store = Store::open(killed, GetParam().open());
    ASSERT_TRUE(store.ok()) << store.status().message();
    EXPECT_EQ(store->recovery().resize_resumed, growing);
    EXPECT_EQ(store->recovery().duplicates, 0u);
    EXPECT_EQ(store->recovery().dropped, 0u);
    EXPECT_EQ(store->stats().units_left, 0u);
    Driver again(GetParam(), std::move(*store));
    again.model.held = held;
    again.check_all();
  }
}

TEST_P(Growth, SurvivesSigkillInItsMidst) {
  if (GetParam().device == Device::cuda)
    GTEST_SKIP() << "a forked child cannot use the GPU; soak kills stores there";
  auto driver = open_full();  // for the model; the child has the pool
  ASSERT_TRUE(driver->store().close().ok());
  ::pid_t const child = ::fork();
  if (child == 0) {
    auto store = Store::open(path_, GetParam().open());
    if (!store) ::_exit(1);
    Driver mine(GetParam(), std::move(*store));
    mine.model.held = full_->held;
    begin(mine);
    if (mine.store().stats().units_left > 0) ::kill(::getpid(), SIGKILL);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  auto store = Store::open(path_, GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_TRUE(store->recovery().resize_resumed);
  std::uint64_t const records = store->recovery().records;
  ASSERT_GT(records, driver->model.held.size());
  std::uint64_t const put = records - driver->model.held.size();  // new keys in order, none refused
  auto const k = keys(GetParam(), next_, next_ + put);
  auto const v = values(GetParam(), next_, next_ + put);
  for (std::uint64_t i = 0; i < put; ++i) driver->model.held[k[i]] = v[i];
  driver->replace(std::move(*store));
  driver->check_all();
}

TEST_P(Growth, LetsAtomicBatchesAndTransactionsIn) {
  if (GetParam().layout == Layout::in_place)
    GTEST_SKIP() << "layout in_place has no atomic batches";
  auto driver = open_full();
  driver->how.atomic = true;
  for (int i = 0; i < 1000 && driver->store().stats().units_left == 0; ++i) put_new(*driver, 4);
  ASSERT_GT(driver->store().stats().units_left, 0u);
  put_new(*driver, 2000);
  driver->check_held();
  driver->how = {};
  auto transaction = driver->store().begin({.max_operations = 1000});
  ASSERT_TRUE(transaction.ok()) << transaction.status().message();
  EXPECT_EQ(driver->store().stats().units_left, 0u)
      << "a transaction begins with the table at rest";
  driver->how.transaction = &*transaction;
  put_new(*driver, 1000);
  ASSERT_TRUE(transaction->commit().ok());
  driver->how = {};
  driver->check_all();
}

TEST_P(Growth, LetsASnapshotBeTakenInItsMidst) {
  auto driver = open_full();
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  std::string const snapshot = scratch_.file("snapshot"), restored = scratch_.file("restored");
  ASSERT_TRUE(driver->store().snapshot(snapshot).ok());
  EXPECT_GT(driver->store().stats().units_left, 0u);
  auto store = Store::restore(snapshot, restored, {}, GetParam().open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  Driver other(GetParam(), std::move(*store));
  other.model.held = driver->model.held;
  other.check_all();
}

TEST_P(Growth, KeepsTheRecordCacheTrue) {
  if (GetParam().residency != Residency::mirrored)
    GTEST_SKIP() << "only a mirrored store has a record cache";
  auto driver = open_full();
  ASSERT_TRUE(driver->store().close().ok());
  OpenOptions open = GetParam().open();
  open.memory.cache_bytes = 64u << 20;
  auto store = Store::open(path_, open);
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver->replace(std::move(*store));
  ASSERT_TRUE(driver->store().load_cache().ok());
  ASSERT_NO_FATAL_FAILURE(begin(*driver));
  driver->check_held();
  ASSERT_TRUE(driver->store().load_cache().ok());  // of records on the retiring level as well
  driver->check_held();
  driver->run_put(keys(GetParam(), 0, 5000), values(GetParam(), 0, 5000, 3));
  driver->run_erase(keys(GetParam(), 5000, 6000));
  driver->check_held();
  while (driver->store().stats().units_left > 0) driver->run_erase(keys(GetParam(), 0, 1));
  driver->check_all();
}

std::vector<Config> configs() {
  Shape const shape{1, 2, 2};
  std::vector<Config> all;
  for (Device const device : {Device::cpu, Device::cuda}) {
    std::string const suffix = device == Device::cuda ? "_cuda" : "";
    all.push_back({"word" + suffix, device, Layout::word, shape, 8, 16, false, 2});
    all.push_back(
        {"mirrored" + suffix, device, Layout::word, shape, 8, 16, false, 2, Residency::mirrored});
    all.back().gets_by = GetsBy::both;  // a second engine, which must follow unit by unit
    all.push_back({"in_place" + suffix, device, Layout::in_place, shape, 8, 16, false, 2});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Tables, Growth, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

}  // namespace
}  // namespace perdure::test
