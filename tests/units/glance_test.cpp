// A glance tells from outside what a pool holds, at the cost of a bounded part of its file.
#include "perdure/glance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "perdure/store.h"

namespace perdure {
namespace {

class AGlance : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/dev/shm/perdure-glance-" + std::to_string(::getpid());
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Store make(CreateOptions create = {}) {
    create.value_bytes = 8;
    auto store = Store::create(path_, create);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(*store);
  }
  static void put(Store& store, std::uint64_t first, std::uint64_t n) {
    std::vector<std::uint64_t> keys(n);
    std::iota(keys.begin(), keys.end(), first);
    std::vector<KeyStatus> statuses(n);
    Column const column = Column::of(keys);
    ASSERT_TRUE(store.put(column, column, statuses).ok());
  }
  Glance look() {
    auto found = glance(path_);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? *found : Glance{};
  }
  std::string path_;
};

TEST_F(AGlance, BesideTheOwnerSeesWhoItIsAndWhatChanges) {
  Store store = make();
  put(store, 0, 1000);
  Glance const before = look();
  EXPECT_EQ(before.use, PoolUse::writing);
  EXPECT_EQ(before.process, ::getpid());
  EXPECT_FALSE(before.closed_in_order);
  EXPECT_FALSE(before.changing);
  put(store, 1000, 500);
  put(store, 1500, 500);
  Glance const after = look();
  EXPECT_EQ(*after.changes, *before.changes + 2);
  EXPECT_EQ(*before.records, 1000u);  // a small table is looked at whole
  EXPECT_EQ(*after.records, 2000u);
  EXPECT_EQ(*after.slots, store.stats().slots);
}

TEST_F(AGlance, AfterAnOrderlyCloseHasTheRecordsOfTheClose) {
  for (Index const index : {Index::gphash, Index::dash_eh}) {
    CreateOptions create;
    create.index = index;
    create.file.overwrite = true;
    Store store = make(create);
    put(store, 0, 5000);
    ASSERT_TRUE(store.close().ok());
    Glance const found = look();
    EXPECT_EQ(found.use, PoolUse::nobody);
    EXPECT_TRUE(found.closed_in_order);
    ASSERT_TRUE(found.records.has_value());
    EXPECT_EQ(*found.records, 5000u);
    EXPECT_FALSE(found.estimated);
    EXPECT_EQ(found.index, index);
  }
}

TEST_F(AGlance, EstimatesALargeTableFromABoundedPartOfIt) {
  CreateOptions create;
  create.expected_records = 4'000'000;
  Store store = make(create);
  constexpr std::uint64_t kRecords = 1'000'000;
  for (std::uint64_t first = 0; first < kRecords; first += 100'000) put(store, first, 100'000);
  Glance const found = look();
  EXPECT_TRUE(found.estimated);
  EXPECT_NEAR(static_cast<double>(*found.records), 1e6, 0.03e6);
  EXPECT_NEAR(*found.load_factor, store.stats().load_factor, 0.03 * store.stats().load_factor);
  EXPECT_GT(found.pool_bytes, 100u << 20);
  EXPECT_LT(found.bytes_read, 4u << 20);
  Stats const stats = store.stats();
  EXPECT_NEAR(static_cast<double>(found.used_bytes), static_cast<double>(stats.space.used_bytes),
              0.05 * static_cast<double>(stats.space.used_bytes));
}

TEST_F(AGlance, OfATableThatGrowsCountsEachKeyOnce) {
  CreateOptions create;
  create.expected_records = 1'200'000;  // of two units, which move one by one
  Store store = make(create);
  std::uint64_t records = 0;
  auto const add = [&](std::uint64_t n) {
    put(store, records, n);
    records += n;
  };
  while (store.stats().load_factor < 0.9) add(100'000);
  while (store.stats().growths == 0) add(20);  // so few that one unit alone refuses some
  ASSERT_EQ(store.stats().units_left, 1u);
  Glance const amidst = look();
  EXPECT_TRUE(amidst.growing);
  EXPECT_TRUE(amidst.estimated);
  EXPECT_NEAR(static_cast<double>(*amidst.records), static_cast<double>(records), 0.05e6);
  EXPECT_EQ(*amidst.slots, store.stats().slots);
  while (store.stats().units_left != 0) add(1000);
  EXPECT_FALSE(look().growing);
}

TEST_F(AGlance, RefusesWhatIsNoPoolAndSaysWhatIsThere) {
  EXPECT_EQ(glance(path_).status().code(), Code::not_found);
  std::FILE* const file = std::fopen(path_.c_str(), "w");
  std::fputs("something else", file);
  std::fclose(file);
  EXPECT_EQ(glance(path_).status().code(), Code::corrupt);
}

}  // namespace
}  // namespace perdure
