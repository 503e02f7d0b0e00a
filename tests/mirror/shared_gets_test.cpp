// Gets that the host's threads share with the device (OpenOptions::gets_by): every way answers as
// the model does, through growth, transactions and a lack of memory, and the store says who
// answered. On device cpu the second engine is beside a mirrored one of the same threads.
#include <cstring>

#include "fault/planted_faults.hpp"
#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

constexpr GetsBy kWays[] = {GetsBy::device, GetsBy::host, GetsBy::both, GetsBy::measured};

class SharedGets : public MirroredStore {
 protected:
  void SetUp() override {
    MirroredStore::SetUp();
    config_.count_accesses = false;
    config_.threads = 2;
  }
  [[nodiscard]] SharingStats sharing() { return driver_->store().stats().sharing; }
};

TEST_P(SharedGets, AnswerAsTheModelDoesWhoeverAnswers) {
  for (GetsBy const by : kWays) {
    config_.gets_by = by;
    make(1);
    for (std::uint64_t at = 0; at < 3000; at += 500) {
      put(at, at + 500);
      get(keys(0, at + 700));
    }
    driver_->run_erase(keys(100, 900));
    put(2000, 2400, 1);
    get(keys(0, 4000));
    reopen();
    get(keys(0, 4000));
    EXPECT_GT(driver_->store().stats().batches, 0u);
    SharingStats const said = sharing();
    EXPECT_EQ(said.shared, by != GetsBy::device);
    EXPECT_EQ(said.note, "");
    if (by == GetsBy::host) {
      EXPECT_EQ(said.host_keys, 4000u);
      EXPECT_EQ(said.device_keys, 0u);
    }
    if (by == GetsBy::both) {
      EXPECT_GT(said.host_keys, 0u);
      EXPECT_GT(said.device_keys, 0u);
    }
    if (by == GetsBy::device) {
      EXPECT_EQ(said.host_keys + said.device_keys, 0u);
    }
  }
}

TEST_P(SharedGets, OfOneKeyHaveOneSide) {
  config_.gets_by = GetsBy::both;
  make(100);
  put(0, 100);
  for (std::uint64_t n = 0; n < 120; ++n) get(keys(n, n + 1));
}

TEST_P(SharedGets, OfATransactionSeeWhatItWroteAndNotWhatItAborted) {
  for (GetsBy const by : {GetsBy::host, GetsBy::both}) {
    config_.gets_by = by;
    make(1000);
    put(0, 500);
    Model const before = driver_->model;
    auto transaction = driver_->store().begin();
    ASSERT_TRUE(transaction.ok()) << transaction.status().message();
    driver_->how.transaction = &*transaction;
    driver_->run_put(keys(250, 750), values(250, 750, 3));
    get(keys(0, 1000));
    driver_->how.transaction = nullptr;
    ASSERT_TRUE(transaction->abort().ok());
    driver_->model = before;
    get(keys(0, 1000));
  }
}

TEST_P(SharedGets, AreMeasuredAndSaidBySize) {
  config_.gets_by = GetsBy::measured;
  make(2000);
  put(0, 2000);
  for (int round = 0; round < 3; ++round) get(keys(0, 1500));
  std::uint64_t rounds = 0;
  auto const all_tried = [&] {
    SharedSize const small = sharing().sizes.at(0);
    return small.host_us > 0 && small.device_us > 0 && small.both_us > 0;
  };
  do get(keys(0, 40));
  while (++rounds < 100'000 && (rounds % 50 != 0 || !all_tried()));
  SharingStats const said = sharing();
  ASSERT_EQ(said.sizes.size(), 2u);
  EXPECT_EQ(said.sizes[0].batch, 32u);
  EXPECT_EQ(said.sizes[1].batch, 1024u);
  SharedSize const& small = said.sizes[0];
  EXPECT_GT(small.host_us, 0) << "not tried";
  EXPECT_GT(small.device_us, 0) << "not tried";
  EXPECT_GT(small.both_us, 0) << "not tried";
  EXPECT_EQ(said.host_keys + said.device_keys, rounds * 40 + 3 * 1500);
  EXPECT_GT(said.host_keys, 0u);
  EXPECT_GT(said.device_keys, 0u);
}

TEST_P(SharedGets, AreTheDevicesWithoutMemoryForAnother) {
  config_.gets_by = GetsBy::host;
  make(1000);
  put(0, 1000);
  fault::failing_allocation.plant(1);
  get(keys(0, 1200));
  bool const struck = fault::failing_allocation.struck();
  fault::failing_allocation.plant(0);
  EXPECT_TRUE(struck);
  SharingStats const said = sharing();
  EXPECT_FALSE(said.shared);
  EXPECT_NE(said.note.find("out of memory"), std::string::npos) << said.note;
  EXPECT_EQ(said.host_keys, 0u);
  get(keys(0, 1200));
}

TEST_P(SharedGets, ByThemselvesAreSharedOnAGpuAloneAndThereSayWhyNot) {
  bool const on_gpu = GetParam() == Device::cuda;
  make(100);
  EXPECT_EQ(sharing().shared, on_gpu);
  EXPECT_EQ(sharing().note, "");
  config_.count_accesses = true;
  make(100);
  EXPECT_FALSE(sharing().shared);
  EXPECT_EQ(sharing().note.find("accesses are counted") != std::string::npos, on_gpu);
  config_.count_accesses = false;
  config_.value_bytes = 0;
  config_.gets_by = GetsBy::host;
  make(100);
  EXPECT_FALSE(sharing().shared);
  EXPECT_NE(sharing().note.find("any length"), std::string::npos);
}

TEST_P(SharedGets, CountTheHostsAccessesWhereThatIsAskedFor) {
  config_.count_accesses = true;
  config_.gets_by = GetsBy::host;
  make(1000);
  put(0, 1000);
  EXPECT_GE(get(keys(0, 1000)).pm_reads, 2000u) << "a row and a record each";
}

TEST_P(SharedGets, AreRefusedByAnIndexThatHasNoDevice) {
  OpenOptions open;
  open.gets_by = GetsBy::measured;
  CreateOptions create;
  create.key_bytes = create.value_bytes = 8;
  create.index = Index::dash_eh;
  auto const store = Store::create(path(), create, open);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::unsupported);
  EXPECT_NE(store.status().message().find("gets_by"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Store, SharedGets, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
