// What overlaps making, submitting and checking gives and finds the same as batch by batch.
#include <gtest/gtest.h>

#include <vector>

#include "common.hpp"
#include "driver.hpp"
#include "untimed.hpp"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kRecords = 3'000;
constexpr std::size_t kBatch = 256;

class UntimedOnAStore : public testing::Test {
 protected:
  UntimedOnAStore() {
    RequestStream load(Workload::load, kRecords, 0, 1);
    loaded_ = untimed_.run(store_, load, kRecords);
  }

  Store create() {
    CreateOptions create;
    create.key_bytes = dataset_.key_bytes();
    create.value_bytes = dataset_.value_bytes();
    create.expected_records = kRecords;
    OpenOptions open;
    open.threads = 2;
    return require(Store::create(pool_.path(), create, open), "create " + pool_.path());
  }

  Dataset dataset_{3, 12, 24};
  PoolFile pool_{""};
  Store store_ = create();
  Untimed untimed_{dataset_, kBatch};
  Pass loaded_;
};

TEST_F(UntimedOnAStore, AnswersAreRightInTheOrderOfTheRequests) {
  EXPECT_EQ(loaded_.ops, kRecords);
  EXPECT_EQ(loaded_.faults, 0u) << loaded_.first_fault;
  for (Workload const workload : {Workload::c, Workload::a}) {
    RequestStream stream(workload, kRecords, 0.99, 7);  // hot keys are in every batch
    Pass const pass = untimed_.run(store_, stream, 20'001);
    EXPECT_EQ(pass.ops, 20'001u);
    EXPECT_EQ(pass.faults, 0u) << name(workload) << ": " << pass.first_fault;
    EXPECT_EQ(pass.hits, pass.gets);
    Pass const back = untimed_.read_back(store_, stream);
    EXPECT_EQ(back.gets, kRecords);
    EXPECT_EQ(back.faults, 0u) << name(workload) << ": " << back.first_fault;
  }
}

TEST_F(UntimedOnAStore, AStreamGoesOnWithADriver) {
  RequestStream stream(Workload::f, kRecords, 0.99, 7);
  Driver driver(dataset_, 100, MemorySpace::host);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(untimed_.run(store_, stream, 1'000).faults, 0u);
    EXPECT_EQ(driver.run(store_, stream, 1'000).faults, 0u);
  }
  EXPECT_EQ(untimed_.read_back(store_, stream).faults, 0u);
}

TEST_F(UntimedOnAStore, FindsARecordThatIsGoneAndOneOfAnotherVersion) {
  RequestStream const stream(Workload::c, kRecords, 0, 1);
  std::vector<std::byte> key(dataset_.key_bytes()), value(dataset_.value_bytes());
  KeyStatus status{};
  dataset_.write_key(1'000, key.data());
  Column const keys{key.data(), nullptr, dataset_.key_bytes(), 1};
  require(store_.erase(keys, {&status, 1}), "erase");
  dataset_.write_key(kRecords - 1, key.data());  // in the last batch
  dataset_.write_value(kRecords - 1, 1, value.data());
  require(store_.put(keys, {value.data(), nullptr, dataset_.value_bytes(), 1}, {&status, 1}),
          "put");
  Pass const pass = untimed_.read_back(store_, stream);
  EXPECT_EQ(pass.faults, 2u);
  EXPECT_NE(pass.first_fault.find("get of record 1000 (operation 1000 of the pass) has key status"),
            std::string::npos)
      << pass.first_fault;
}

TEST_F(UntimedOnAStore, RefusesScansAndTakesNoRequests) {
  RequestStream scans(Workload::e, kRecords, 0, 1);
  EXPECT_THROW(untimed_.run(store_, scans, 1), Failure);
  RequestStream reads(Workload::c, kRecords, 0, 1);
  EXPECT_EQ(untimed_.run(store_, reads, 0).ops, 0u);
}

}  // namespace
}  // namespace perdure::bench
