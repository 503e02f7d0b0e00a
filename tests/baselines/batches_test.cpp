// What every baseline must do: batches against a model, repeated keys inside a batch, growth.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "baseline_driver.hpp"

namespace perdure::baselines::test {
namespace {

class Baselines : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!can_run(GetParam())) GTEST_SKIP() << "no GPU to run on";
  }
  TmpFile file_{testing::UnitTest::GetInstance()->current_test_info()->name()};
};

Ids numbers(std::uint64_t first, std::uint64_t count) {
  Ids ids(count);
  for (std::uint64_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

/// What a batch of distinct keys must answer, done to the model.
std::vector<KeyStatus> put_in(Model& model, Ids const& keys, Ids const& values, bool update) {
  std::vector<KeyStatus> want;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool const does = !update || model.contains(keys[i]);
    if (does) model[keys[i]] = values[i];
    want.push_back(does ? KeyStatus::ok : KeyStatus::not_found);
  }
  return want;
}

std::vector<KeyStatus> erase_in(Model& model, Ids const& keys) {
  std::vector<KeyStatus> want;
  for (std::uint64_t const k : keys)
    want.push_back(model.erase(k) != 0 ? KeyStatus::ok : KeyStatus::not_found);
  return want;
}

TEST_P(Baselines, WhatWasPutIsFoundAndNothingElse) {
  Driver driver = created(file_, GetParam(), 4096);
  driver.put(numbers(0, 3000), numbers(7000, 3000));
  Model model;
  put_in(model, numbers(0, 3000), numbers(7000, 3000), false);
  driver.expect(model, 6000);
}

TEST_P(Baselines, GeneratedBatchesOfDistinctKeysAnswerAsTheModel) {
  constexpr std::uint64_t kKeys = 1500;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    TmpFile const file("generated" + std::to_string(seed) + kind_name(GetParam()));
    std::mt19937_64 random(seed);
    Driver driver = created(file, GetParam(), 64);
    Model model;
    for (int batch = 0; batch < 40; ++batch) {
      std::set<std::uint64_t> chosen;
      while (chosen.size() < 1 + random() % 300) chosen.insert(random() % kKeys);
      Ids const keys(chosen.begin(), chosen.end());
      Ids const values = numbers(random() >> 8, keys.size());
      switch (random() % 4) {
        case 0:
        case 1: ASSERT_EQ(driver.put(keys, values), put_in(model, keys, values, false)); break;
        case 2: ASSERT_EQ(driver.update(keys, values), put_in(model, keys, values, true)); break;
        default: ASSERT_EQ(driver.erase(keys), erase_in(model, keys)); break;
      }
      driver.expect(model, kKeys);
    }
  }
}

TEST_P(Baselines, OfRepeatedKeysInABatchOneWinsWhole) {
  constexpr std::uint64_t kKeys = 40;
  std::mt19937_64 random(5);
  Driver driver = created(file_, GetParam(), 64, 4);
  for (int round = 0; round < 30; ++round) {
    Ids keys(4000);
    for (auto& k : keys) k = random() % kKeys;
    Ids const values = numbers(static_cast<std::uint64_t>(round) * 10'000, keys.size());
    auto const statuses = round % 3 == 1 ? driver.update(keys, values) : driver.put(keys, values);
    EXPECT_EQ(statuses, std::vector<KeyStatus>(keys.size(), KeyStatus::ok));
    auto const got = driver.get(numbers(0, kKeys));
    for (std::uint64_t k = 0; k < kKeys; ++k) {
      ASSERT_EQ(got[k].first, KeyStatus::ok);
      std::uint64_t const which = got[k].second - values[0];
      ASSERT_TRUE(which < keys.size() && keys[which] == k)
          << "key " << k << " holds another key's value";
    }
    if (round % 3 != 2) continue;
    auto const erased = driver.erase(keys);
    EXPECT_EQ(std::count(erased.begin(), erased.end(), KeyStatus::ok),
              static_cast<std::ptrdiff_t>(kKeys));
    driver.expect({}, kKeys);
  }
}

TEST_P(Baselines, GrowsFromATableForFewAndLosesNothing) {
  Driver driver = created(file_, GetParam(), 16);
  Model model;
  for (std::uint64_t first = 0; first < 40'000; first += 5000) {
    Ids const keys = numbers(first, 5000);
    ASSERT_EQ(driver.put(keys, keys), put_in(model, keys, keys, false));
    driver.expect(model, 40'000);
  }
  EXPECT_GT(driver.baseline().stats().growths, 3u);
}

TEST_P(Baselines, RecordsOfOverwrittenAndErasedKeysAreUsedAgain) {
  Driver driver = created(file_, GetParam(), 2048);
  auto const size = [&] { return std::filesystem::file_size(file_.path); };
  for (int round = 0; round < 3; ++round) {
    driver.put(numbers(0, 1000), numbers(0, 1000));
    driver.erase(numbers(0, 500));
  }
  auto const before = size();
  for (int round = 0; round < 60; ++round) {
    driver.put(numbers(0, 1000), numbers(0, 1000));
    driver.update(numbers(500, 1000), numbers(0, 1000));
    driver.erase(numbers(0, 500));
  }
  EXPECT_EQ(size(), before);
}

TEST_P(Baselines, ColumnsOfOtherSizesAreRefused) {
  Driver driver = created(file_, GetParam(), 64);
  std::vector<std::byte> bytes(256);
  std::vector<KeyStatus> statuses(1);
  Column const keys{bytes.data(), nullptr, GetParam().key_bytes + 1, 1, MemorySpace::host};
  EXPECT_EQ(driver.baseline().erase(keys, statuses).code(), Code::invalid_argument);
}

TEST(AssistedBaselines, TheirFilesHaveTheIndexAskedFor) {
  for (auto const& [asked, index] :
       {std::pair{CpuIndex::word, Index::gphash}, std::pair{CpuIndex::dash_eh, Index::dash_eh},
        std::pair{CpuIndex::dash_lh, Index::dash_lh}}) {
    TmpFile const file("index-of-" + name(Design::cpu_assisted, asked));
    created(file, {Design::cpu_assisted, 8, asked}, 64).put(numbers(0, 100), numbers(0, 100));
    auto store = Store::open(file.path);
    ASSERT_TRUE(store) << store.status().message();
    EXPECT_EQ(store->stats().index, index);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Baselines,
                         testing::ValuesIn(on_all_devices(with_assisted(
                             {Kind{Design::slabhash_gpm, 8}, Kind{Design::slabhash_gpm, 32},
                              Kind{Design::clevel_gpm, 8}, Kind{Design::clevel_gpm, 24}}))),
                         [](auto const& each) { return kind_name(each.param); });

}  // namespace
}  // namespace perdure::baselines::test
