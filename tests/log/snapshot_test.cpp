// Snapshots of stores of every durability, and pools made from them: contents against the model,
// and that readers and writers go on meanwhile. What is refused is in snapshot_refusals_test.cpp.
// Invariant: a restored pool holds what the store held at one moment between two batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "snapshots.hpp"
#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test::snapshots {
namespace {

struct Case {
  Layout layout;
  std::uint32_t key_bytes, value_bytes;
  Durability from, to;
};

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
                        {Layout::in_place, 8, 24},
                        {Layout::log, 8, 16},
                        {Layout::log, 8, 0},
                        {Layout::log, 0, 16}}) {
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
  return std::string(c.layout == Layout::word  ? "word"
                     : c.layout == Layout::log ? "log"
                                               : "in_place") +
         "K" + std::to_string(c.key_bytes) + "V" + std::to_string(c.value_bytes) + "_" +
         kNames[static_cast<int>(c.from)] + "_to_" + kNames[static_cast<int>(c.to)];
}

INSTANTIATE_TEST_SUITE_P(All, Snapshots, testing::ValuesIn(all_cases()), name_of);

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
      EXPECT_TRUE(store.get(packed.column(), {out.data(), 16, kKeys, MemorySpace::host}, {}).ok());
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
      EXPECT_TRUE(store.get(key.column(), {out.data(), 16, 1, MemorySpace::host}, {}).ok());
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

}  // namespace
}  // namespace perdure::test::snapshots
