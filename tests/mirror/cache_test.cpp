// The record cache: what a load takes, what it saves, and that no answer comes from what has
// changed since.

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = 4000;
constexpr std::uint64_t kEntry = 160 + 8;  // header, key and value; and where it came from

class Cache : public MirroredStore {
 protected:
  void make_cached(std::uint64_t records, CachePolicy policy = CachePolicy::lfu,
                   std::uint64_t expected = kRecords) {
    options_.memory.cache_bytes = records * kEntry;
    options_.memory.cache_policy = policy;
    make(expected, options_);
  }
  CacheReport load() {
    auto report = driver_->store().load_cache();
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : CacheReport{};
  }
  OpenOptions options_;
};

TEST_P(Cache, ThatHoldsEverythingSavesEveryAccess) {
  make_cached(kRecords);
  put(0, kRecords);
  CacheReport const report = load();
  EXPECT_EQ(report.records, kRecords);
  EXPECT_EQ(report.corrupt, 0u);
  EXPECT_EQ(driver_->store().stats().memory.cache_records, kRecords);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, 0u);
}

TEST_P(Cache, TakesWhatWasGotMostOften) {
  make_cached(500);
  put(0, kRecords);
  for (int i = 0; i < 64; ++i) get(keys(1000, 1500));
  for (int i = 0; i < 16; ++i) get(keys(0, kRecords));
  EXPECT_EQ(load().records, 500u);
  EXPECT_EQ(get(keys(1000, 1500)).pm_reads, 0u);
  EXPECT_EQ(get(keys(2000, 2500)).pm_reads, 500u);
}

TEST_P(Cache, ForgetsWhatWasGotBeforeTheLastLoad) {
  make_cached(500);
  put(0, kRecords);
  for (int i = 0; i < 64; ++i) get(keys(1000, 1500));
  load();
  for (int i = 0; i < 40; ++i) get(keys(2000, 2500));
  load();
  EXPECT_EQ(get(keys(2000, 2500)).pm_reads, 0u);
  EXPECT_EQ(get(keys(1000, 1500)).pm_reads, 500u);
}

TEST_P(Cache, TakesWhatIsGotNowOverWhatWasGotMoreOftenLongAgo) {
  make_cached(500);
  put(0, kRecords);
  for (int i = 0; i < 300; ++i) get(keys(1000, 1500));
  for (int i = 0; i < 250; ++i) get(keys(2000, 2500));
  load();
  EXPECT_EQ(get(keys(2000, 2500)).pm_reads, 0u);
  EXPECT_EQ(get(keys(1000, 1500)).pm_reads, 500u);
}

TEST_P(Cache, TakesWhatWasGotLast) {
  make_cached(500, CachePolicy::lru);
  put(0, kRecords);
  for (int i = 0; i < 64; ++i) get(keys(0, kRecords));
  for (int i = 0; i < 40; ++i) get(keys(3000, 3500));
  load();
  EXPECT_EQ(get(keys(3000, 3500)).pm_reads, 0u);
}

TEST_P(Cache, TakesSomethingAtRandom) {
  make_cached(1000, CachePolicy::random);
  put(0, kRecords);
  EXPECT_EQ(load().records, 1000u);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, kRecords - 1000);
}

TEST_P(Cache, AReplacedRecordStaysAndOneThatIsErasedOrComputedLeavesIt) {
  make_cached(kRecords);
  put(0, kRecords);
  load();
  put(0, 100, 1);
  driver_->run_erase(keys(100, 200));
  add(200, 300);
  get(keys(0, kRecords));
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, 100u);
  driver_->check_all();
  put(100, 200, 2);
  driver_->check_all();
  EXPECT_EQ(load().records, kRecords);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, 0u);
}

TEST_P(Cache, GrowthKeepsMostOfIt) {
  make_cached(2000, CachePolicy::lfu, 2000);
  put(0, 2000);
  ASSERT_EQ(load().records, 2000u);
  std::uint64_t const growths = driver_->store().stats().growths;
  for (std::uint64_t at = 2000; at < 8000; at += 500) put(at, at + 500);
  ASSERT_GT(driver_->store().stats().growths, growths);
  get(keys(0, 2000));  // what a displacement moved is read, and then known
  EXPECT_LE(get(keys(0, 2000)).pm_reads, 400u);
  driver_->check_all();
}

TEST_P(Cache, SurvivesGrowthAndDisplacement) {
  make_cached(2000, CachePolicy::lfu, 1);
  put(0, 2000);
  load();
  for (std::uint64_t at = 2000; at < 30'000; at += 700) put(at, at + 700);
  get(keys(0, 30'000));
  driver_->run_erase(keys(0, 1000));
  put(500, 1500, 3);
  driver_->check_all();
  reopen(options_);
  driver_->check_all();
}

TEST_P(Cache, SurvivesAnAbortedTransaction) {
  make_cached(kRecords);
  put(0, 1000);
  load();
  Model const before = driver_->model;
  auto transaction = driver_->store().begin();
  ASSERT_TRUE(transaction.ok()) << transaction.status().message();
  driver_->how.transaction = &*transaction;
  put(0, 500, 1);
  EXPECT_EQ(driver_->store().load_cache().status().code(), Code::busy);
  ASSERT_TRUE(transaction->abort().ok());
  driver_->how.transaction = nullptr;
  driver_->model = before;
  get(keys(0, 1000));
  driver_->check_all();
}

TEST_P(Cache, LeavesOutADamagedRecord) {
  make_cached(kRecords);
  put(0, 1000);
  ASSERT_NO_FATAL_FAILURE(damage(config_.value(7)));
  CacheReport const report = load();
  EXPECT_EQ(report.records, 999u);
  EXPECT_EQ(report.corrupt, 1u);
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get(keys(7, 8), answers).ok());
  EXPECT_EQ(answers[0].status, KeyStatus::corrupt);
}

TEST_P(Cache, LoadsWhileOthersGetAndPut) {
  config_.count_accesses = false;
  make_cached(1000);
  put(0, 2000);
  use_while([&] {
    for (int i = 0; i < 20; ++i) load();
  });
}

TEST_P(Cache, NeedsAMirrorRoomAndFixedSizes) {
  make(100);
  auto const expect = [&](Code code, char const* part) {
    auto const report = driver_->store().load_cache();
    EXPECT_EQ(report.status().code(), code);
    EXPECT_NE(report.status().message().find(part), std::string::npos) << report.status().message();
  };
  expect(Code::unsupported, "set cache_bytes");
  options_.memory.cache_bytes = 1u << 20;
  config_.residency = Residency::pm;
  make(100, options_);
  expect(Code::unsupported, "needs residency mirrored");
  config_.residency = Residency::mirrored;
  options_.memory.budget_bytes = 1u << 19;
  make(100, options_);
  expect(Code::no_space, "memory budget");
  options_.memory.budget_bytes = 0;
  config_.value_bytes = 0;
  make(100, options_);
  expect(Code::unsupported, "varying sizes");
}

INSTANTIATE_TEST_SUITE_P(Machines, Cache, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
