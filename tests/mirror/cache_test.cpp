// The record cache: what a load takes, what it saves, and that no answer comes from what has
// changed since.

#include <random>
#include <tuple>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = 4000;

using Kind = std::tuple<Device, Layout>;
constexpr Kind kKinds[] = {{Device::cpu, Layout::word},
                           {Device::cpu, Layout::log},
                           {Device::cuda, Layout::word},
                           {Device::cuda, Layout::log}};
std::string kind_name(testing::TestParamInfo<Kind> const& kind) {
  std::string const device = std::get<Device>(kind.param) == Device::cpu ? "cpu" : "cuda";
  return device + (std::get<Layout>(kind.param) == Layout::log ? "_log" : "");
}

class Cache : public MirroredStoreOfAny, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    config_.layout = std::get<Layout>(GetParam());
    run_on(std::get<Device>(GetParam()));
  }
  [[nodiscard]] bool of_log() const { return config_.layout == Layout::log; }
  void make_cached(std::uint64_t records, CachePolicy policy = CachePolicy::lfu,
                   std::uint64_t expected = kRecords) {
    // A value, with its head where there is one; and where it came from.
    std::uint64_t const entry = (of_log() ? 128 : 160) + 8;
    options_.memory.cache_bytes = records * entry;
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

/// Loads of a cache that has room for some, between all that changes a table.
class CacheSequence {
 public:
  CacheSequence(Driver& driver, std::uint64_t seed) : driver_(&driver), random_(seed) {}

  void step() {
    switch (below(8)) {
      case 0: return load();
      case 1: return driver_->run_erase(keys());
      case 2: return put();
      case 3: return compute(false);
      case 4: return compute(true);
      case 5: return transaction();
      default: return get();
    }
  }

 private:
  static constexpr std::uint64_t kKeys = 3000;

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  /// Side by side, some of them often.
  std::vector<Bytes> keys() {
    std::uint64_t const from = below(below(2) == 0 ? 200 : kKeys), n = 1 + below(400);
    std::vector<Bytes> some;
    for (std::uint64_t i = from; i < from + n; ++i) some.push_back(driver_->config().key(i));
    return some;
  }
  std::vector<Bytes> values(std::size_t n) {
    std::vector<Bytes> some;
    for (std::size_t i = 0; i < n; ++i) some.push_back(driver_->config().value(i, ++version_));
    return some;
  }
  void put() {
    std::vector<Bytes> const some = keys();
    driver_->run_put(some, values(some.size()));
  }
  void get() {
    std::vector<Op> ops;
    for (Bytes const& key : keys()) ops.push_back({OpKind::get, key, driver_->config().value(0)});
    driver_->run_mixed(ops);
  }
  /// Additions and all else, so that keys come twice.
  void compute(bool atomic) {
    constexpr OpKind kDone[] = {OpKind::get, OpKind::put, OpKind::update, OpKind::erase};
    std::vector<Op> ops;
    for (int part = 0; part < 2; ++part)
      for (Bytes const& key : keys())
        ops.push_back({kDone[below(4)], key, driver_->config().value(below(9), 1)});
    driver_->how.atomic = atomic;
    driver_->run_mixed(ops, Rmw::add, Element::u8);
    driver_->how = {};
  }
  void transaction() {
    Model const before = driver_->model;
    bool const reverts = below(2) == 0;
    auto t = driver_->store().begin({.max_operations = 5000, .revertible = reverts});
    ASSERT_TRUE(t.ok()) << t.status().message();
    driver_->how.transaction = &*t;
    put();
    compute(false);
    driver_->how = {};
    bool const commits = reverts || below(2) == 0;
    Status const ended = commits ? t->commit() : t->abort();
    ASSERT_TRUE(ended.ok()) << ended.message();
    if (reverts && below(2) == 0) load();
    Status const reverted = reverts ? driver_->store().revert() : Status{};
    ASSERT_TRUE(reverted.ok()) << reverted.message();
    if (reverts || !commits) driver_->model = before;
  }
  void load() {
    auto report = driver_->store().load_cache();
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->corrupt, 0u);
  }

  Driver* driver_;
  std::mt19937_64 random_;
  std::uint64_t version_ = 0;
};

TEST_P(Cache, AnswersAsAModelWhateverComesBetweenItsLoads) {
  for (std::uint64_t seed = 1; seed <= volume(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    make_cached(seed % 2 == 0 ? 300 : 2000, seed % 3 == 0 ? CachePolicy::random : CachePolicy::lfu,
                1);
    CacheSequence sequence(*driver_, seed);
    for (int i = 0; i < 60; ++i) {
      ASSERT_NO_FATAL_FAILURE(sequence.step());
      if (i % 10 == 9) driver_->check_all();
      if (HasFailure()) return;
    }
    reopen(options_);
    driver_->check_all();
  }
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
  if (!of_log()) {  // which is mirrored or refused
    config_.residency = Residency::pm;
    make(100, options_);
    expect(Code::unsupported, "needs residency mirrored");
    config_.residency = Residency::mirrored;
  }
  options_.memory.budget_bytes = 1u << 19;
  make(100, options_);
  expect(Code::no_space, "memory budget");
  options_.memory.budget_bytes = 0;
  config_.value_bytes = 0;
  make(100, options_);
  expect(Code::unsupported, "varying sizes");
}

INSTANTIATE_TEST_SUITE_P(Machines, Cache, testing::ValuesIn(kKinds), kind_name);

}  // namespace
}  // namespace perdure::test
