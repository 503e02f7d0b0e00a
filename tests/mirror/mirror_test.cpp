// What operations of a mirrored store cost, exactly, and that the mirror follows whatever happens.
#include <cstring>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = 3000;

using Mirrored = MirroredStore;

TEST_P(Mirrored, AHitCostsOneAccessAndAMissNone) {
  make(kRecords);
  put(0, kRecords);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, kRecords);
  EXPECT_EQ(get(keys(kRecords, 3 * kRecords)).pm_reads, 0u);
}

TEST_P(Mirrored, WritesReadNothingAndWriteARecordAndAWord) {
  make(kRecords);
  AccessCounts const insert = cost([&] { put(0, kRecords); });
  EXPECT_EQ(insert.pm_reads, 0u);
  EXPECT_EQ(insert.pm_writes, 2 * kRecords);
  EXPECT_EQ(insert.orders, 2u);
  AccessCounts const overwrite = cost([&] { put(0, kRecords, 1); });
  EXPECT_EQ(overwrite.pm_reads, 0u);
  EXPECT_EQ(overwrite.pm_writes, 2 * kRecords);
  AccessCounts const erase = cost([&] { driver_->run_erase(keys(0, kRecords)); });
  EXPECT_EQ(erase.pm_reads, 0u);
  EXPECT_EQ(erase.pm_writes, kRecords);
  driver_->check_all();
}

TEST_P(Mirrored, AfterOpeningARecordIsReadWholeOnceThenKnown) {
  make(kRecords);
  put(0, kRecords);
  reopen();
  EXPECT_EQ(get(keys(kRecords, 2 * kRecords)).pm_reads, 0u) << "misses need no record";
  AccessCounts const first = get(keys(0, kRecords));
  EXPECT_GE(first.pm_reads, kRecords);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, kRecords);
}

TEST_P(Mirrored, RepeatedKeysOfABatchThatIsGatheredInOrderCostOneAccessAnItem) {
  config_.gather = Gather::in_order;
  make(kRecords);
  put(0, kRecords);
  std::vector<Bytes> keys;
  for (std::uint64_t i = 0; i < 3200; ++i) keys.push_back(config_.key(i % 10));
  EXPECT_LE(get(keys).pm_reads, 10u + 3200 / 32);
}

/// So many that the lists of what is put aside are parted, again and again until the parts suit.
TEST_P(Mirrored, LargeBatchesAnswerTheSameHoweverTheyAreGathered) {
  constexpr std::uint64_t kMany = 20000;
  config_.count_accesses = false;
  for (Gather const gather :
       {Gather::at_once, Gather::in_order, Gather::by_host, Gather::shared, Gather::automatic}) {
    config_.gather = gather;
    make(kMany);
    put(0, kMany);
    for (int round = 0; round < (gather == Gather::automatic ? 30 : 6); ++round) {
      std::uint64_t const first = static_cast<std::uint64_t>(round) * 1000 % 5000;
      get(keys(first, first + kMany));
    }
  }
}

TEST_P(Mirrored, PutsOfLargeBatchesFromHostMemoryAreWhole) {
  constexpr std::uint64_t kMany = 10'000;
  config_.count_accesses = false;
  for (Layout const layout : {Layout::word, Layout::log}) {
    config_.layout = layout;
    make(kMany);
    put(0, kMany);
    for (std::uint64_t version = 1; version < 20; ++version) {
      std::uint64_t const first = version * 700 % kMany;
      std::vector<Bytes> twice = keys(first, first + kMany / 2);
      for (Bytes const& key : keys(first, first + kMany / 2)) twice.push_back(key);
      std::vector<Bytes> values_of = values(first, first + kMany / 2, version);
      for (Bytes const& value : values(first, first + kMany / 2, version + 1))
        values_of.push_back(value);
      driver_->run_put(twice, values_of);
      get(keys(first, first + kMany / 2));
    }
    driver_->run_erase(keys(0, 100));
    driver_->check_all();
    ASSERT_NO_FATAL_FAILURE(reopen());
    driver_->check_all();
  }
}

/// Every way is tried while the answers are compared with the model's, and the store says so.
TEST_P(Mirrored, TheStoreSaysHowGetsFetchValuesAndWhatEachWayTook) {
  constexpr std::uint64_t kMany = 1500;
  config_.count_accesses = false;
  config_.gather = Gather::automatic;
  make(kMany);
  put(0, kMany);
  EXPECT_TRUE(driver_->store().stats().gathers.empty()) << "nobody has got anything";
  GatherSize size;
  auto const all_tried = [&] {
    return size.at_once_us > 0 && size.in_order_us > 0 && size.by_host_us > 0;
  };
  for (int i = 0; i < 5000 && !all_tried(); ++i) {
    get(keys(0, kMany));
    auto const sizes = driver_->store().stats().gathers;
    ASSERT_EQ(sizes.size(), 1u);
    size = sizes[0];
  }
  EXPECT_TRUE(all_tried());
  EXPECT_EQ(size.batch, 1024u);
  EXPECT_EQ(size.shared_us, 0) << "so few are not parted";
  EXPECT_GE(size.contests, 1u);
}

TEST_P(Mirrored, AnArithmeticResultIsReadOnceThenKnown) {
  make(kRecords);
  put(0, 100);
  add(0, 100);
  driver_->check_held();
  EXPECT_EQ(get(keys(0, 100)).pm_reads, 100u);
}

TEST_P(Mirrored, GrowthKeepsWhatIsKnownOfTheLevelsThatStay) {
  make(1);
  for (std::uint64_t at = 0; at < 20'000; at += 500) put(at, at + 500);
  EXPECT_GT(driver_->store().stats().growths, 3u);
  get(keys(0, 20'000));
  EXPECT_EQ(get(keys(0, 20'000)).pm_reads, 20'000u);
  driver_->check_all();
}

TEST_P(Mirrored, AnAbortedTransactionLeavesTheMirrorAsItWas) {
  make(kRecords);
  put(0, 1000);
  auto transaction = driver_->store().begin();
  ASSERT_TRUE(transaction.ok()) << transaction.status().message();
  Model const before = driver_->model;
  driver_->how.transaction = &*transaction;
  driver_->run_put(keys(500, 1500), values(500, 1500, 3));
  driver_->run_erase(keys(0, 200));
  ASSERT_TRUE(transaction->abort().ok());
  driver_->how.transaction = nullptr;
  driver_->model = before;
  get(keys(0, 2000));
  driver_->check_all();
}

// The pool has room for the records and one batch: what batches replaced must come back.
TEST_P(Mirrored, RecordsThatWereReplacedAreUsedAgain) {
  CreateOptions create = config_.create(2000);
  create.max_bytes = 4u << 20;
  create.file.overwrite = true;
  auto store = Store::create(path(), create, config_.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_ = std::make_unique<Driver>(config_, std::move(*store));
  put(0, 2000);
  for (std::uint64_t version = 1; version < 100; ++version) put(0, 2000, version);
  for (std::uint64_t round = 0; round < 50; ++round) {
    driver_->run_erase(keys(0, 1000));
    put(0, 1000, round);
  }
  driver_->check_all();
  EXPECT_LE(driver_->store().stats().space.pool_bytes, 4u << 20);
}

TEST_P(Mirrored, ABatchWithoutRoomIsRefusedAndNothingIsLost) {
  CreateOptions create = config_.create(1000);
  create.max_bytes = 5u << 20;
  create.file.overwrite = true;
  auto store = Store::create(path(), create, config_.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_ = std::make_unique<Driver>(config_, std::move(*store));
  put(0, 1000);
  std::vector<KeyStatus> statuses;
  Model const before = driver_->model;
  EXPECT_EQ(driver_->put(keys(1000, 100'000), values(1000, 100'000), statuses).code(),
            Code::no_space);
  driver_->model = before;
  put(0, 500, 1);
  driver_->run_erase(keys(500, 600));
  driver_->check_all();
}

TEST_P(Mirrored, ADamagedValueIsCorruptThoughItsKeyIsKnown) {
  config_.count_accesses = false;
  for (Gather const gather : {Gather::at_once, Gather::in_order, Gather::by_host, Gather::shared}) {
    config_.gather = gather;
    make(100);
    put(0, 100);
    get(keys(0, 100));
    ASSERT_NO_FATAL_FAILURE(damage(config_.value(42)));
    std::vector<Answer> answers;
    ASSERT_TRUE(driver_->get(keys(40, 45), answers).ok());
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(answers[i].status, i == 2 ? KeyStatus::corrupt : KeyStatus::ok);
  }
}

TEST_P(Mirrored, LayoutInPlaceIsNeverMirrored) {
  config_.layout = Layout::in_place;
  auto const store = Store::create(path(), config_.create(100), config_.open());
  EXPECT_EQ(store.status().code(), Code::invalid_argument);
  EXPECT_NE(store.status().message().find("residency pm"), std::string::npos)
      << store.status().message();
}

INSTANTIATE_TEST_SUITE_P(Machines, Mirrored, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
