// The bucket cache of layout `in_place`: what a load takes, what it saves, and that copies say what
// their buckets say.
#include <algorithm>
#include <random>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = 4000;
// states, keys, places; and where it came from
constexpr std::uint64_t kBucket = 8 * (8 + 8 + 8) + 4;

class BucketCache : public MirroredStore {
 protected:
  BucketCache() {
    config_.name = "bucket_cache";
    config_.layout = Layout::in_place;
    config_.residency = Residency::pm;
  }
  void make_cached(std::uint64_t buckets, CachePolicy policy = CachePolicy::lfu,
                   std::uint64_t expected = kRecords) {
    options_.memory.cache_bytes = buckets * kBucket;
    options_.memory.cache_policy = policy;
    make(expected, options_);
  }
  [[nodiscard]] std::uint64_t all_buckets() { return driver_->store().stats().slots / 8; }
  void make_all_cached() {
    make_cached(1);
    make_cached(all_buckets());
  }
  CacheReport load() {
    auto report = driver_->store().load_cache();
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : CacheReport{};
  }
  /// Of what it costs to get these, how many were in the cache; and that the accesses say the same.
  std::uint64_t hits(std::vector<Bytes> const& keys) {
    AccessCounts const cost = get(keys);
    EXPECT_GE(cost.pm_reads, cost.cache_hits + 4 * (keys.size() - cost.cache_hits))
        << "a row, key, place, record";
    EXPECT_LE(cost.pm_reads, cost.cache_hits + 7 * (keys.size() - cost.cache_hits))
        << "rows, key, place, record";
    return cost.cache_hits;
  }
  void gets(std::uint64_t times, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = 0; i < times; ++i) get(keys(from, to));
  }
  OpenOptions options_;
};

TEST_P(BucketCache, OfAllBucketsLeavesAHitOneAccessAndAMissNone) {
  make_all_cached();
  put(0, kRecords);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, 7 * kRecords) << "four rows, key, place, record";
  EXPECT_EQ(load().records, kRecords);
  EXPECT_EQ(driver_->store().stats().memory.cache_records, kRecords);
  AccessCounts const hit = get(keys(0, kRecords));
  EXPECT_EQ(hit.pm_reads, kRecords);
  EXPECT_EQ(hit.cache_hits, kRecords);
  AccessCounts const miss = get(keys(kRecords, 2 * kRecords));
  EXPECT_EQ(miss.pm_reads, 0u);
  EXPECT_EQ(miss.cache_hits, 0u);
}

/// A GPU finds the keys of a large batch first, and then reads their records one after the other.
TEST_P(BucketCache, LeavesRecordsThatAreReadInTheOrderOfTheirAddresses) {
  constexpr std::uint64_t kDamaged = 3000;
  config_.gather = Gather::in_order;
  make_cached(1);
  make_cached(all_buckets() / 2);
  put(0, kRecords);
  put(kRecords / 4, kRecords / 2, 1);  // their records lie behind the others
  std::vector<Bytes> some = keys(kRecords / 2, kRecords + 500);
  std::ranges::copy(keys(0, kRecords / 2), std::back_inserter(some));
  some.push_back(config_.key(3));  // again
  std::uint64_t const misses = 500;
  EXPECT_EQ(get(some).pm_reads, 7 * (some.size() - misses) + 4 * misses);
  load();
  std::uint64_t const cached = hits(keys(0, kRecords));
  EXPECT_GT(cached, kRecords / 3);
  EXPECT_LT(cached, kRecords);
  ASSERT_NO_FATAL_FAILURE(damage(config_.value(kDamaged)));
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get(keys(kDamaged - 300, kDamaged + 300), answers).ok());
  for (std::uint64_t i = 0; i < answers.size(); ++i) {
    std::uint64_t const n = kDamaged - 300 + i;
    EXPECT_EQ(answers[i].status, n == kDamaged ? KeyStatus::corrupt : KeyStatus::ok) << n;
    if (n == kDamaged) continue;
    EXPECT_EQ(answers[i].value, config_.value(n)) << n;
  }
}

TEST_P(BucketCache, TakesTheBucketsThatWereUsedMostOften) {
  make_cached(150);
  put(0, kRecords);
  gets(160, 1000, 1100);
  gets(16, 0, kRecords);
  load();
  EXPECT_EQ(hits(keys(1000, 1100)), 100u);
  EXPECT_LT(hits(keys(2000, 3000)), 400u);
}

TEST_P(BucketCache, ForgetsWhatWasUsedBeforeTheLastLoad) {
  make_cached(100);
  put(0, kRecords);
  gets(64, 1000, 1100);
  load();
  EXPECT_EQ(hits(keys(1000, 1100)), 100u);
  gets(40, 2000, 2100);
  load();
  EXPECT_EQ(hits(keys(2000, 2100)), 100u);
  EXPECT_LT(hits(keys(1000, 1100)), 60u);
}

TEST_P(BucketCache, TakesTheBucketsThatWereUsedLast) {
  make_cached(100, CachePolicy::lru);
  put(0, kRecords);
  gets(64, 0, kRecords);
  gets(40, 3000, 3100);
  load();
  EXPECT_EQ(hits(keys(3000, 3100)), 100u);
}

TEST_P(BucketCache, TakesAnyBucketsAndCountsNothing) {
  make_cached(1, CachePolicy::random);
  make_cached(all_buckets() / 2, CachePolicy::random);
  put(0, kRecords);
  EXPECT_EQ(driver_->store().stats().memory.cache_bytes, all_buckets() * 4)
      << "its map, and no counters";
  std::uint64_t const records = load().records;
  EXPECT_EQ(hits(keys(0, kRecords)), records);
  EXPECT_NEAR(static_cast<double>(records), kRecords / 2.0, kRecords / 10.0);
}

TEST_P(BucketCache, OfKeysThatAreNotThereTakesAllTheBucketsThatWereLookedThrough) {
  make_cached(450);
  put(0, kRecords);
  gets(32, 1'000'000, 1'000'100);
  load();
  EXPECT_EQ(get(keys(1'000'000, 1'000'100)).pm_reads, 0u);
}

TEST_P(BucketCache, IsFrozenBetweenLoads) {
  make_cached(100);
  put(0, kRecords);
  gets(16, 1000, 1100);
  load();
  gets(64, 2000, 2100);
  EXPECT_LT(hits(keys(2000, 2100)), 60u);
  EXPECT_EQ(hits(keys(1000, 1100)), 100u);
}

TEST_P(BucketCache, AChangedBucketStays) {
  make_all_cached();
  put(0, kRecords / 2);
  load();
  put(0, 100, 1);
  driver_->run_erase(keys(100, 200));
  add(200, 300);
  put(kRecords / 2, kRecords);
  std::uint64_t const there = kRecords - 100;
  AccessCounts const cost = get(keys(0, kRecords));
  EXPECT_EQ(cost.pm_reads, there);
  EXPECT_EQ(cost.cache_hits, there);
  put(100, 200, 2);
  EXPECT_EQ(get(keys(0, kRecords)).pm_reads, kRecords);
  driver_->check_all();
}

TEST_P(BucketCache, SparesWritesTheRowsThatTheyLookFor) {
  make_all_cached();
  put(0, kRecords);
  load();
  AccessCounts const update = cost([&] { put(0, 1000, 1); });
  EXPECT_EQ(update.pm_reads, 0u) << "not even the record that is replaced";
  EXPECT_EQ(update.pm_writes, 2000u) << "the fresh record, and its place";
}

TEST_P(BucketCache, AResizeEmptiesIt) {
  make_cached(200, CachePolicy::lfu, 1);
  put(0, 500);
  gets(8, 0, 500);
  EXPECT_GT(load().records, 0u);
  std::uint64_t const before = driver_->store().stats().growths;
  while (driver_->store().stats().growths == before) {
    auto const n = driver_->model.held.size();
    put(n, n + 300);
  }
  EXPECT_EQ(driver_->store().stats().memory.cache_records, 0u);
  EXPECT_EQ(get(keys(0, 500)).cache_hits, 0u);
  driver_->check_all();
  gets(8, 0, 100);
  load();
  EXPECT_GT(get(keys(0, 100)).cache_hits, 90u);
  driver_->check_all();
  reopen(options_);
  driver_->check_all();
}

TEST_P(BucketCache, WithAnyShapeAndSizesGivesTheModelsAnswers) {
  struct Kind {
    Shape shape;
    std::uint32_t key_bytes, value_bytes;
  };
  for (Kind const& kind : {Kind{{2, 2, 8}, 8, 128}, Kind{{1, 2, 16}, 20, 7}, Kind{{4, 2, 4}, 0, 16},
                           Kind{{2, 2, 2}, 8, 0}, Kind{{3, 1, 1}, 32, 8}}) {
    for (CachePolicy const policy : {CachePolicy::lfu, CachePolicy::lru, CachePolicy::random}) {
      config_.shape = kind.shape;
      config_.key_bytes = kind.key_bytes;
      config_.value_bytes = kind.value_bytes;
      options_.memory.cache_bytes = 5000;
      options_.memory.cache_policy = policy;
      make(50, options_);
      std::mt19937_64 random(kind.key_bytes * 3 + static_cast<unsigned>(policy));
      for (std::uint64_t round = 0; round < volume(60); ++round) {
        std::vector<Op> ops;
        for (std::uint64_t i = random() % 60; i > 0; --i) {
          auto op = static_cast<OpKind>(random() % 4);
          if (config_.value_bytes == 0 && op == OpKind::get) op = OpKind::put;
          std::uint64_t const n = random() % 300;
          ops.push_back({op, config_.key(n),
                         op == OpKind::put || op == OpKind::update ? config_.value(n, round) : ""});
          if (config_.value_bytes != 0 && ops.back().value.empty())
            ops.back().value = config_.value(n);
        }
        driver_->run_mixed(ops, round % 2 == 0 ? Rmw::replace : Rmw::add, Element::u8);
        get(keys(round % 2 * 100, 200));
        if (random() % 3 == 0) load();
      }
      driver_->check_all();
    }
  }
}

TEST_P(BucketCache, LoadsWhileOthersGetAndPut) {
  config_.count_accesses = false;
  make_cached(150);
  put(0, 2000);
  use_while([&] {
    for (int i = 0; i < 40; ++i) load();
  });
}

TEST_P(BucketCache, NeedsRoomForItsMapsAndOneBucket) {
  make(100);
  auto const expect = [&](Code code, char const* part) {
    auto const report = driver_->store().load_cache();
    EXPECT_EQ(report.status().code(), code);
    EXPECT_NE(report.status().message().find(part), std::string::npos) << report.status().message();
    put(0, 50);
    driver_->check_all();
  };
  expect(Code::unsupported, "set cache_bytes");
  options_.memory.cache_bytes = 100;
  make(100, options_);
  expect(Code::invalid_argument, "hold no bucket");
  options_.memory.cache_bytes = 1u << 20;
  options_.memory.budget_bytes = 1u << 19;
  make(100, options_);
  EXPECT_TRUE(driver_->store().stats().memory.note.empty());
  expect(Code::no_space, "exceed the memory budget of 524288");
  options_.memory.budget_bytes = 100;
  make(100, options_);
  EXPECT_NE(driver_->store().stats().memory.note.find("bucket cache"), std::string::npos);
  EXPECT_EQ(driver_->store().stats().memory.cache_bytes, 0u);
  expect(Code::no_space, "the memory budget is 100");
}

INSTANTIATE_TEST_SUITE_P(Machines, BucketCache, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
