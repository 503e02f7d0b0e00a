// Workload e on a store: its answers are right, and whatever is wrong in one is found.
#include <gtest/gtest.h>

#include "common.hpp"
#include "driver.hpp"
#include "scans.hpp"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kRecords = 2'000;

class ScansOfAStore : public testing::Test {
 protected:
  ScansOfAStore() { driver_.run(store_, load_, kRecords); }

  Store create() {
    CreateOptions create;
    create.key_bytes = dataset_.key_bytes();
    create.value_bytes = dataset_.value_bytes();
    create.expected_records = kRecords;
    create.index = Index::btree;
    OpenOptions open;
    open.threads = 2;
    return require(Store::create(pool_.path(), create, open), "create " + pool_.path());
  }

  Status write(std::uint64_t id, std::uint64_t version) {
    std::vector<std::byte> key(dataset_.key_bytes()), value(dataset_.value_bytes());
    dataset_.write_key(id, key.data());
    dataset_.write_value(id, version, value.data());
    KeyStatus status{};
    return store_.put({key.data(), nullptr, dataset_.key_bytes(), 1},
                      {value.data(), nullptr, dataset_.value_bytes(), 1}, {&status, 1});
  }
  Status erase(std::uint64_t id) {
    std::vector<std::byte> key(dataset_.key_bytes());
    dataset_.write_key(id, key.data());
    KeyStatus status{};
    return store_.erase({key.data(), nullptr, dataset_.key_bytes(), 1}, {&status, 1});
  }

  /// A scan of three records: before `at` lies one, and behind it one.
  Pass scan_around(std::uint64_t at) {
    KeyOrder order(dataset_);
    order.grow(kRecords);
    std::uint64_t before = 0;
    while (order.from(before, 2).back().id != at) ++before;
    Pass pass;
    Request const scan{before, 0, Action::scan, 3};
    Scanner(dataset_, 2).run(range_, load_, {&scan, 1}, pass);
    EXPECT_EQ(pass.scans, 1u);
    return pass;
  }

  Dataset dataset_{3, 12, 20};
  PoolFile pool_{""};
  Store store_ = create();
  RangeCall range_ = [this](RangeQuery const& query) { return store_.range(query); };
  RequestStream load_{Workload::load, kRecords, 0, 1};
  Driver driver_{dataset_, 512, MemorySpace::host, 2};
};

TEST_F(ScansOfAStore, GiveAllThatIsThere) {
  RequestStream stream(Workload::e, kRecords, 0.99, 1);
  Pass const pass = driver_.run(store_, stream, 5'000);
  EXPECT_EQ(pass.faults, 0u) << pass.first_fault;
  EXPECT_EQ(pass.ops, 5'000u);
  EXPECT_EQ(pass.scans + stream.records() - kRecords, pass.ops);
  EXPECT_GT(pass.scanned, 40 * pass.scans);
  EXPECT_EQ(pass.batch_us.size(), 10u) << "a latency for each batch";
}

TEST_F(ScansOfAStore, EndWithTheGreatestKey) {
  KeyOrder order(dataset_);
  order.grow(kRecords);
  std::uint64_t last = 0;
  while (order.from(last, 2).size() > 1) ++last;
  Request const scan{last, 0, Action::scan, 100};
  Pass pass;
  Scanner(dataset_, 1).run(range_, load_, {&scan, 1}, pass);
  EXPECT_EQ(pass.faults, 0u) << pass.first_fault;
  EXPECT_EQ(pass.scanned, 1u);
}

TEST_F(ScansOfAStore, WithoutARecordAreFaults) {
  ASSERT_EQ(scan_around(7).faults, 0u);
  ASSERT_TRUE(erase(7).ok());
  Pass const pass = scan_around(7);
  EXPECT_EQ(pass.faults, 1u);
  EXPECT_NE(pass.first_fault.find("another key than that of record 7"), std::string::npos)
      << pass.first_fault;
}

TEST_F(ScansOfAStore, WithAnotherVersionAreFaults) {
  ASSERT_TRUE(write(7, 1).ok());
  Pass const pass = scan_around(7);
  EXPECT_EQ(pass.faults, 1u);
  EXPECT_NE(pass.first_fault.find("a value of record 7 that is not version 0"), std::string::npos)
      << pass.first_fault;
}

TEST_F(ScansOfAStore, AreNoOperationsOfABatch) {
  EXPECT_THROW(driver_.run_batch(store_, {{0, 0, Action::scan, 1}}), Failure);
}

}  // namespace
}  // namespace perdure::bench
