// The table that CPU and GPU share (baselines/hetero): every way to answer against a plain model,
// both copies after every batch of puts, hot keys that come and go, tables that are full. Without a
// GPU the device is a second group of CPU warps.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "hetero.hpp"
#include "layout.hpp"

namespace perdure::hetero::test {
namespace {

using Model = std::map<std::uint64_t, std::uint64_t>;
using Numbers = std::vector<std::uint64_t>;

std::shared_ptr<Sides> sides() {
#if defined(PERDURE_BASELINES_ON_CUDA)
  if (auto gpu = open_sides(perdure::Device::cuda, 3)) return *gpu;
#endif
  auto made = open_sides(perdure::Device::cpu, 3);
  EXPECT_TRUE(made) << made.status().message();
  return *made;
}

class Array {
 public:
  Array(std::shared_ptr<Sides> const& sides, Numbers const& numbers)
      : words_(std::move(*shared_words(sides, numbers.size() + 1))), n_(numbers.size()) {
    std::copy(numbers.begin(), numbers.end(), words_->all().begin());
  }
  [[nodiscard]] std::span<std::uint64_t> all() { return words_->all().first(n_); }

 private:
  std::unique_ptr<Words> words_;
  std::size_t n_;
};

Numbers generated(std::uint64_t seed, std::size_t n, std::uint64_t below) {
  std::mt19937_64 random(seed);
  Numbers numbers(n);
  for (auto& one : numbers) one = random() % below;
  return numbers;
}

void expect_answers(Model const& model, Keys keys, Keys values) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const found = model.find(keys[i]);
    ASSERT_EQ(values[i], found == model.end() ? kAbsent : found->second)
        << "key " << keys[i] << ", the " << i << "th of the batch";
  }
}

/// Distinct keys, for operations of a batch on one key come in any order.
void put_distinct(Table& table, std::shared_ptr<Sides> const& on, Model& model, Numbers keys,
                  std::uint64_t version) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Numbers values;
  for (std::uint64_t const key : keys) model[key] = values.emplace_back(key * 7 + version);
  Array k(on, keys), v(on, values);
  Status const put = table.put(k.all(), v.all());
  ASSERT_TRUE(put.ok()) << put.message();
}

void expect_by_every_way(Table& table, std::shared_ptr<Sides> const& on, Model const& model,
                         std::initializer_list<Way> ways, std::uint64_t below) {
  for (Way const way : ways) {
    for (std::size_t const n : {1u, 2u, 500u, 5000u}) {
      Array keys(on, generated(n, n, below)), values(on, Numbers(n, 1));
      Status const got = table.get(keys.all(), values.all(), way);
      ASSERT_TRUE(got.ok()) << got.message();
      expect_answers(model, keys.all(), values.all());
    }
  }
}

std::unique_ptr<Table> make(std::shared_ptr<Sides> const& on, std::uint64_t keys, Where where) {
  auto made = create_table(on, {keys, where});
  EXPECT_TRUE(made) << made.status().message();
  return std::move(*made);
}

class HeteroTable : public testing::TestWithParam<Where> {};

TEST_P(HeteroTable, AnswersAsTheModelByEveryWayAfterEveryBatchOfPuts) {
  auto const on = sides();
  auto const table = make(on, 4000, GetParam());
  Model model;
  for (std::uint64_t batch = 0; batch < 12; ++batch) {
    put_distinct(*table, on, model, generated(100 + batch, 400, 4000), batch);
    if (GetParam() == Where::device) {
      expect_by_every_way(*table, on, model, {Way::device, Way::automatic}, 6000);
    } else {
      expect_by_every_way(*table, on, model, {Way::host, Way::device, Way::both, Way::automatic},
                          6000);
    }
    EXPECT_EQ(table->stats().records, model.size());
  }
}

TEST_P(HeteroTable, FullTablesKeepWhatTheyHaveAndSaySo) {
  auto const on = sides();
  auto const table = make(on, 1000, GetParam());
  Model model;
  Numbers keys(1000);
  for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = i;
  put_distinct(*table, on, model, keys, 0);
  Array one_more(on, {5000, 17}), value(on, {1, 1717});
  Status const full = table->put(one_more.all(), value.all());
  EXPECT_EQ(full.code(), Code::no_space);
  EXPECT_NE(full.message().find("made for 1000 keys"), std::string::npos) << full.message();
  model[17] = 1717;  // updates need no room
  expect_by_every_way(*table, on, model, {Way::device}, 1000);
}

TEST_P(HeteroTable, AClearedTableIsEmptyAndTakesAsManyKeysAgain) {
  auto const on = sides();
  auto const table = make(on, 1000, GetParam());
  Numbers keys(1000);
  for (std::uint64_t round = 0; round < 2; ++round) {
    Model model;
    for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = 1000 * round + i;
    put_distinct(*table, on, model, keys, round);
    expect_by_every_way(*table, on, model, {Way::device}, 2000);
    ASSERT_TRUE(table->clear().ok());
    expect_by_every_way(*table, on, {}, {Way::device}, 2000);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, HeteroTable,
                         testing::Values(Where::host, Where::device, Where::twice),
                         [](auto const& of) {
                           return of.param == Where::host     ? "host"
                                  : of.param == Where::device ? "device"
                                                              : "twice";
                         });

TEST(HeteroCopies, StayEqualWhateverOrderAHotKeysUpdatesTakeAndWhateverIsEvicted) {
  auto const on = sides();
  std::uint64_t const room = 13926;  // as full as a table of 2,048 buckets gets
  auto const table = make(on, room, Where::twice);
  Numbers all(room);
  for (std::uint64_t i = 0; i < room; ++i) all[i] = i;
  Model model;
  for (std::size_t at = 0; at < room; at += 650) {  // the last of them evict most
    auto const from = all.begin() + static_cast<std::ptrdiff_t>(at);
    put_distinct(*table, on, model, {from, from + std::min<std::ptrdiff_t>(650, all.end() - from)},
                 0);
    auto const equal = table->copies_equal();
    ASSERT_TRUE(equal) << equal.status().message();
    ASSERT_TRUE(equal.value()) << "after " << at;
  }
  for (std::uint64_t batch = 0; batch < 8; ++batch) {
    Numbers keys = generated(batch, 20000, 50), values(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) values[i] = 1000 * i + keys[i];
    Array k(on, keys), v(on, values);
    ASSERT_TRUE(table->put(k.all(), v.all()).ok());
    auto const equal = table->copies_equal();
    ASSERT_TRUE(equal) << equal.status().message();
    EXPECT_TRUE(equal.value()) << "after batch " << batch;
  }
  Array keys(on, all), here(on, Numbers(room)), there(on, Numbers(room));
  ASSERT_TRUE(table->get(keys.all(), here.all(), Way::host).ok());
  ASSERT_TRUE(table->get(keys.all(), there.all(), Way::device).ok());
  for (std::size_t i = 0; i < room; ++i) {
    ASSERT_EQ(here.all()[i], there.all()[i]) << "key " << i;
    if (i < 50)
      ASSERT_EQ(here.all()[i] % 1000, i) << "a value that was put to another key";
    else
      ASSERT_EQ(here.all()[i], model[i]);
  }
}

TEST(HeteroTables, KeysOfOneSignatureInOneBucketAreToldApart) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> signatures;
  for (std::uint64_t key = 0; key < 400000; ++key)
    signatures.emplace_back(signature_of(hash_word(key, 8)), key);
  std::sort(signatures.begin(), signatures.end());
  int pairs = 0;
  for (std::size_t i = 0; i + 1 < signatures.size(); ++i) {
    if (signatures[i].first != signatures[i + 1].first) continue;
    ++pairs;
    auto const on = sides();
    auto const table = make(on, 4, Where::twice);  // two buckets, the candidates of every key
    std::uint64_t const one = signatures[i].second, other = signatures[i + 1].second;
    Model model;
    put_distinct(*table, on, model, {one}, 1);
    for (int step = 0; step < 3; ++step) {
      Array keys(on, {other, one}), values(on, Numbers(2));
      for (Way const way : {Way::host, Way::device}) {
        ASSERT_TRUE(table->get(keys.all(), values.all(), way).ok());
        expect_answers(model, keys.all(), values.all());
      }
      put_distinct(*table, on, model, {step == 0 ? other : one}, 2);
    }
    EXPECT_EQ(table->stats().records, 2u);
  }
  EXPECT_GT(pairs, 0) << "no two of these keys have one signature";
}

TEST(HeteroCallers, ThreadsThatPutAndGetSideBySideLoseNothing) {
  auto const on = sides();
  constexpr std::uint64_t kThreads = 4, kEach = 3000;
  auto const table = make(on, kThreads * kEach, Where::host);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto const caller = std::move(*table->caller());
      Numbers keys(kEach);
      for (std::uint64_t i = 0; i < kEach; ++i) keys[i] = i * kThreads + t;
      Array k(on, keys), v(on, keys);
      EXPECT_TRUE(caller->put_here(k.all(), v.all()).ok());
    });
  }
  threads.clear();
  for (std::uint32_t const ahead : {0u, 1u, 5u, 16u, 64u}) {
    auto const caller = std::move(*table->caller());
    Numbers keys(kThreads * kEach);
    for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = i;
    Array k(on, keys), v(on, Numbers(keys.size()));
    caller->get_here(k.all(), v.all(), ahead);
    EXPECT_TRUE(std::equal(keys.begin(), keys.end(), v.all().begin())) << "looking " << ahead;
    std::fill(v.all().begin(), v.all().end(), 0);
    ASSERT_TRUE(caller->begin_get(Copy::host, k.all(), v.all()).ok());
    for (;;) {
      auto done = caller->done();
      ASSERT_TRUE(done.ok());
      if (*done) break;
    }
    ASSERT_TRUE(caller->wait().ok());
    EXPECT_TRUE(std::equal(keys.begin(), keys.end(), v.all().begin()));
  }
}

TEST(HeteroTables, KeysThatComeManyTimesInABatchAreInsertedOnce) {
  auto const on = sides();
  constexpr std::uint64_t kRounds = 20, kNew = 200;
  auto const table = make(on, kRounds * kNew, Where::host);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Numbers keys = generated(round, 50 * kNew, kNew);
    for (auto& key : keys) key += round * kNew;
    Array k(on, keys), v(on, keys);
    Status const put = table->put(k.all(), v.all());
    ASSERT_TRUE(put.ok()) << put.message();
    ASSERT_LE(table->stats().records, (round + 1) * kNew);
  }
}

TEST(HeteroCallers, WhatWouldLeaveACopyBehindOrReadNoneIsRefused) {
  auto const on = sides();
  auto const twice = make(on, 100, Where::twice), device = make(on, 100, Where::device);
  Array one(on, {1});
  Array absent(on, {kAbsent});
  auto const caller = std::move(*twice->caller());
  EXPECT_EQ(caller->put_here(one.all(), one.all()).code(), Code::invalid_argument);
  EXPECT_EQ(caller->begin_put(one.all(), one.all()).code(), Code::invalid_argument);
  EXPECT_EQ(device->get(one.all(), one.all(), Way::host).code(), Code::invalid_argument);
  EXPECT_EQ(std::move(*device->caller())->begin_get(Copy::host, one.all(), one.all()).code(),
            Code::invalid_argument);
  EXPECT_EQ(twice->put(one.all(), absent.all()).code(), Code::invalid_argument);
  EXPECT_EQ(twice->put(one.all(), {}).code(), Code::invalid_argument);
}

TEST(HotAndCold, MigrationLosesNoKeyAndNoValueThatWasPutToAHotOne) {
  auto const on = sides();
  constexpr std::uint64_t kKeys = 6000;
  auto const tables = std::move(*create_hot_cold(on, {kKeys, 512, 16}));
  Model model;
  Numbers all(kKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) all[i] = i;
  Array every(on, all);
  ASSERT_TRUE(tables->put(every.all(), every.all()).ok());
  for (std::uint64_t const key : all) model[key] = key;
  std::uint64_t hot_before = 0;
  for (std::uint64_t round = 0; round < 6; ++round) {
    std::uint64_t const hot = 1000 * round;  // where the hot keys of this round begin
    Numbers asked = generated(round, 20000, 200);
    for (auto& key : asked) key += hot;
    Array k(on, asked), v(on, Numbers(asked.size()));
    ASSERT_TRUE(tables->get(k.all(), v.all()).ok());
    expect_answers(model, k.all(), v.all());
    auto const came = tables->migrate();
    ASSERT_TRUE(came.ok()) << came.status().message();
    EXPECT_GT(came.value(), 100u);
    EXPECT_LE(tables->hot_keys(), 512u);
    ASSERT_TRUE(tables->get(k.all(), v.all()).ok());
    expect_answers(model, k.all(), v.all());
    EXPECT_GT(tables->hot_gets() - hot_before, 15000u) << "hot keys are the host's now";
    hot_before = tables->hot_gets();
    Numbers changed(all.begin() + static_cast<std::ptrdiff_t>(hot),
                    all.begin() + static_cast<std::ptrdiff_t>(hot) + 500);
    Numbers values;
    for (std::uint64_t const key : changed) model[key] = values.emplace_back(key + 100000 * round);
    Array ck(on, changed), cv(on, values);
    ASSERT_TRUE(tables->put(ck.all(), cv.all()).ok());
    Array answers(on, Numbers(kKeys));
    ASSERT_TRUE(tables->get(every.all(), answers.all()).ok());
    expect_answers(model, every.all(), answers.all());
  }
  ASSERT_TRUE(tables->keep({}).ok());
  EXPECT_EQ(tables->hot_keys(), 0u);
  Array answers(on, Numbers(kKeys));
  ASSERT_TRUE(tables->get(every.all(), answers.all()).ok());
  expect_answers(model, every.all(), answers.all());
}

TEST(HeteroLayout, TheOtherBucketOfTheOtherIsTheFirstAndNeverTheSame) {
  for (std::uint32_t const log2 : {1u, 5u, 20u}) {
    View view;
    view.log2_buckets = log2;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      std::uint64_t const hash = hash_word(i, 8);
      std::uint32_t const first = view.first(hash), signature = signature_of(hash);
      std::uint32_t const other = view.other(first, signature);
      ASSERT_LT(first, 1u << log2);
      ASSERT_LT(other, 1u << log2);
      ASSERT_NE(other, first);
      ASSERT_EQ(view.other(other, signature), first);
    }
  }
}

}  // namespace
}  // namespace perdure::hetero::test
