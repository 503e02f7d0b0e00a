// Where a growth begins and what it costs: the load that a table of the default shape reaches
// before it, one batch of far more keys than there are slots, and a medium that has no room for it.
// Invariant: no key that was taken is lost, and what finds no room is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "full_pool.hpp"

namespace perdure::test {
namespace {

/// The default shape: four levels' worth of slots, 0.97 of them taken before the first growth.
TEST(GrowthOfTheDefaultShape, BeginsAboveALoadOf097) {
  Config const config{"default", Device::cpu, Layout::word, {2, 2, 8}, 8, 8, false, 2};
  ScratchDir const scratch;
  auto store = Store::create(scratch.file("pool"), config.create(slots_of(config, kTop) * 85 / 100),
                             config.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_EQ(store->stats().top_level, kTop);
  Driver driver(config, std::move(*store));
  std::uint64_t const slots = slots_of(config, kTop);
  std::uint64_t next = 0;
  std::uint64_t before = 0;
  auto const put = [&](std::uint64_t n) {
    std::vector<KeyStatus> statuses;
    before = driver.store().stats().records;
    ASSERT_TRUE(
        driver.put(keys(config, next, next + n), values(config, next, next + n), statuses).ok());
    next += n;
  };
  // Key by key where it may begin, so that one key has found no room, and one unit has moved.
  for (std::uint64_t n = slots / 10; driver.store().stats().growths == 0;
       n = next < slots * 96 / 100 ? n : 1)
    ASSERT_NO_FATAL_FAILURE(
        put(std::min(n, slots * 96 / 100 > next ? slots * 96 / 100 - next : n)));
  EXPECT_GE(static_cast<double>(before), 0.97 * static_cast<double>(slots));
  EXPECT_EQ(driver.store().stats().units_left, 1u) << "of two";
  auto const found = driver.store().verify();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().fault_count, 0u);
  EXPECT_EQ(found.value().records, next);
}

/// One batch of far more new keys than a small table has slots makes it grow to its size at once:
/// it reads little more than it would where the keys were expected. (Unit by unit it read fifty
/// times as much; in an atomic batch, five.)
TEST(BulkLoad, OfOneBatchReadsLittleMoreThanWhereItWasExpected) {
  Config const config{"bulk", Device::cpu, Layout::word, {2, 2, 8}, 8, 8, false, 2};
  constexpr std::uint64_t kKeys = 300'000;
  for (bool const atomic : {false, true}) {
    SCOPED_TRACE(atomic ? "atomic" : "plain");
    auto const reads = [&](std::uint64_t expected) {
      ScratchDir const scratch;
      OpenOptions open = config.open();
      open.count_accesses = true;
      auto store = Store::create(scratch.file("pool"), config.create(expected), open);
      EXPECT_TRUE(store.ok()) << store.status().message();
      CallOptions how;
      how.atomic = atomic;
      std::vector<std::uint64_t> column(kKeys);
      std::iota(column.begin(), column.end(), 1u);
      auto const* const bytes = reinterpret_cast<std::byte const*>(column.data());
      Column const both{bytes, nullptr, 8, kKeys};
      Status const put = store->put(both, both, {}, how);
      EXPECT_TRUE(put.ok()) << put.message();
      auto const found = store->verify();
      EXPECT_TRUE(found.ok() && found.value().fault_count == 0);
      EXPECT_EQ(store->stats().records, kKeys);
      return store->stats().accesses.pm_reads;
    };
    std::uint64_t const grown = reads(1000), expected = reads(kKeys);
    EXPECT_LE(grown, expected * 3);
    std::cout << grown << " and " << expected << " words\n";
  }
}

/// It says how large it may be, so it need not be borne out by what the table holds already.
TEST(BulkLoad, OfOneTransactionMakesAnEmptyTableAsLargeAsItSays) {
  Config const config{"bulk", Device::cpu, Layout::word, {2, 2, 8}, 8, 8, false, 2};
  ScratchDir const scratch;
  auto store = Store::create(scratch.file("pool"), config.create(100), config.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  constexpr std::uint64_t kKeys = 2'000'000;
  auto transaction = store->begin({.max_operations = kKeys});
  ASSERT_TRUE(transaction.ok()) << transaction.status().message();
  EXPECT_GE(store->stats().slots, kKeys);
  std::vector<std::uint64_t> column(kKeys);
  std::iota(column.begin(), column.end(), 1u);
  Column const both{reinterpret_cast<std::byte const*>(column.data()), nullptr, 8, kKeys};
  CallOptions how;
  how.transaction = &*transaction;
  Status const put = store->put(both, both, {}, how);
  EXPECT_TRUE(put.ok()) << put.message();
  EXPECT_TRUE(transaction->commit().ok());
  EXPECT_EQ(store->stats().records, kKeys);
}

void erase_revertibly(Driver& driver, Bytes const& key) {
  auto t = driver.store().begin({.max_operations = 1, .revertible = true});
  ASSERT_TRUE(t.ok()) << t.status().message();
  driver.how.transaction = &*t;
  driver.run_erase({key});
  driver.how = {};
  ASSERT_TRUE(t->commit().ok());
}

/// One slot a bucket: entries find no room on the new levels again and again, and soon there is
/// none for wider ones.
TEST(GrowthOnAFullMedium, LosesNoKeyAndSaysWhatItRefuses) {
  for (Residency const residency : {Residency::pm, Residency::mirrored}) {
    Config const config{"narrow", Device::cpu, Layout::word, {1, 2, 1}, 8, 8, false, 2, residency};
    for (std::uint64_t const levels : {6u, 8u, 12u, 16u}) {
      if (residency == Residency::mirrored && levels % 8 == 0) continue;  // the same growths
      ScratchDir const scratch;
      std::string const path = scratch.file("pool");
      FullPool const full(config, path, kTop, (levels + 4) << 20);
      auto store = Store::open(path, config.open());
      ASSERT_TRUE(store.ok()) << store.status().message();
      Driver driver(config, std::move(*store));
      driver.model.held = full.held;
      std::uint64_t next = full.next;
      bool refused = false;
      for (int batch = 0; batch < 60; ++batch, next += 500) {
        Status const s =
            put_what_fits(driver, keys(config, next, next + 500), values(config, next, next + 500));
        ASSERT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
        refused |= !s.ok();
        if (batch % 20 == 0) driver.check_held();
      }
      driver.check_all();
      EXPECT_TRUE(refused || levels > 8);
      // A transaction has room made before it begins, also where a growth waits that finds none.
      auto const begun = driver.store().begin({.max_operations = 1u << 20});
      EXPECT_EQ(begun.status().code(), Code::no_space) << begun.status().message();
      driver.check_held();
      ASSERT_NO_FATAL_FAILURE(erase_revertibly(driver, config.key(0)));
      bool const can = driver.store().can_revert().value();
      EXPECT_TRUE(can || driver.store().stats().units_left > 0);
      std::string const killed = scratch.file("killed");
      copy_as_if_killed(path, killed);
      for (std::string const& pool : {path, killed}) {
        if (pool == path) {
          ASSERT_TRUE(driver.store().close().ok());
        }
        auto again = Store::open(pool, config.open());
        ASSERT_TRUE(again.ok()) << again.status().message();
        EXPECT_EQ(again->recovery().duplicates, 0u);
        EXPECT_EQ(again->can_revert().value(), can) << "which a growth under way decides";
        Driver after(config, std::move(*again));
        after.model.held = driver.model.held;
        after.check_all();
      }
    }
  }
}

}  // namespace
}  // namespace perdure::test
