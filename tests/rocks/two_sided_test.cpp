// Which side does what, and when a run comes to the other one.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "rocks/engine_runs.hpp"
#include "rocks/two_sides.hpp"

namespace perdure::lsm {
namespace {

class LsmTwoSides : public testing::Test {
 protected:
  void begin(SideRules const& rules = low_rules()) {
    engine_ = make_two_cpu_sides(workers_, host_, device_, rules);
    runs_ = std::make_unique<Runs>(*engine_);
  }
  /// A run of so many entries, of keys that no other has, but for the first.
  void write(std::size_t entries) {
    std::vector<Write> writes{{"all", Kind::merge, "v"}};
    for (std::size_t i = 1; i < entries; ++i)
      writes.push_back({std::to_string(++keys_) + "-key", Kind::put, "v"});
    runs_->write(writes);
  }
  /// The keys of all runs and some that none has.
  [[nodiscard]] std::vector<std::string> all_keys() const {
    std::vector<std::string> keys{"all", "none", ""};
    for (std::size_t k = 1; k <= keys_; ++k) keys.push_back(std::to_string(k) + "-key");
    return keys;
  }
  Answer find(std::string const& key) {
    KeyColumn const column({key});
    Answer answer;
    EXPECT_TRUE(engine_->find(runs_->list(), column.column(), {}, {&answer, 1}, {}).ok());
    return answer;
  }

  exec::Workers workers_{2};
  SideCalls host_, device_;
  std::unique_ptr<TwoSidedEngine> engine_;
  std::unique_ptr<Runs> runs_;
  std::size_t keys_ = 0;
};

TEST_F(LsmTwoSides, FewEntriesAreSortedOnTheHostAndManyOnTheDevice) {
  begin();
  write(29);
  EXPECT_EQ(host_.builds, 1u);
  write(30);
  EXPECT_EQ(device_.builds, 1u);
  EXPECT_EQ(engine_->describe(), "the device");
  EXPECT_EQ(engine_->free_bytes(), 2u);
}

TEST_F(LsmTwoSides, SmallRunsOfTheHostMergeThereAndOthersOnTheDevice) {
  begin();
  write(20);
  write(20);
  runs_->merge(0, 2);
  EXPECT_EQ(host_.merges, 1u);
  write(25);
  runs_->merge(0, 2);  // 65 entries
  EXPECT_EQ(device_.merges, 1u);
  EXPECT_EQ(device_.copies_in, 2u);
  write(1);
  runs_->merge(0, 2);  // one entry joins what the device has
  EXPECT_EQ(device_.merges, 2u);
  EXPECT_EQ(device_.copies_in, 3u);
  EXPECT_EQ(host_.copies_in, 0u);
  runs_->check(all_keys(), {});
  runs_->check_entries(10);
}

TEST_F(LsmTwoSides, AKeyThatTheHostFindsCostsNoLaunch) {
  begin();
  write(40);  // the device's
  write(5);
  EXPECT_EQ(find("43-key").found, Found::put);
  EXPECT_EQ(device_.finds, 0u);
  EXPECT_EQ(find("1-key").found, Found::put);
  EXPECT_EQ(device_.finds, 1u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(find("43-key").found, Found::put);
  EXPECT_EQ(device_.finds, 1u);
  EXPECT_EQ(host_.copies_in, 0u) << "for what costs nothing nobody pays";
}

TEST_F(LsmTwoSides, ARunComesToTheHostOnceReadsHaveCostAsMuchAsTheCopy) {
  begin();
  write(40);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(find("1-key").found, Found::put);
  EXPECT_EQ(device_.finds, 2u);
  EXPECT_EQ(engine_->host_view(*runs_->list()[0]), nullptr);
  EXPECT_EQ(engine_->image_bytes(), 0u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(find("1-key").found, Found::put);  // the first one copies
  EXPECT_EQ(device_.finds, 2u);
  EXPECT_EQ(host_.copies_in, 1u);
  ASSERT_NE(engine_->host_view(*runs_->list()[0]), nullptr);
  EXPECT_EQ(engine_->image_bytes(), runs_->list()[0]->bytes());
  runs_->check(all_keys(), {});
  runs_->check_bounds(all_keys());
  runs_->check_entries(7);
  runs_ = nullptr;
  EXPECT_EQ(engine_->image_bytes(), 0u);
}

TEST_F(LsmTwoSides, RunsThatOneLaunchReadsShareItsCost) {
  begin();
  write(40);
  write(40);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(find("none").found, Found::absent);
  EXPECT_EQ(host_.copies_in, 0u);  // two copies cost as much as five reads
  EXPECT_EQ(find("none").found, Found::absent);
  EXPECT_EQ(host_.copies_in, 2u);
  EXPECT_EQ(device_.finds, 4u);
}

TEST_F(LsmTwoSides, SeeksAndFetchesPayTooAndThenNeedNoLaunch) {
  SideRules rules = low_rules();
  rules.copy = 500;
  begin(rules);
  write(40);
  KeyColumn const column({std::string("2")});
  EntryBlock block;
  for (int i = 0; i < 4; ++i) {
    std::uint32_t position = 0;
    RunPtr const run = runs_->list()[0];
    EXPECT_TRUE(engine_->seek(*run, column.column(), Bound::lower, {&position, 1}).ok());
    EXPECT_TRUE(engine_->fetch(*run, position, 3, block).ok());
    EXPECT_EQ(block.size(), 3u);
  }
  EXPECT_EQ(device_.seeks, 1u);  // one launch, and a fetch is three
  EXPECT_EQ(device_.fetches, 1u);
  EXPECT_EQ(host_.copies_in, 1u);
  EXPECT_EQ(host_.seeks + host_.fetches, 6u);
}

/// Many readers would keep it waiting behind their launches.
TEST_F(LsmTwoSides, WhoFetchesWaitsForACopyThatIsOnItsWay) {
  for (bool const arrives : {true, false}) {
    begin();
    write(40);
    host_.refuses_copies = !arrives;
    host_.holds_copies = true;
    std::uint64_t const copies = host_.copies_in, by_host = host_.fetches,
                        by_device = device_.fetches;
    auto const fetch = [&, run = runs_->list()[0]] {
      EntryBlock block;
      EXPECT_TRUE(engine_->fetch(*run, 0, 3, block).ok());
      EXPECT_EQ(block.size(), 3u);
    };
    std::thread payer(fetch);
    while (host_.copies_in == copies) std::this_thread::yield();
    std::thread second(fetch), third(fetch);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(host_.fetches + device_.fetches, by_host + by_device);
    host_.holds_copies = false;
    host_.holds_copies.notify_all();
    for (std::thread* const one : {&payer, &second, &third}) one->join();
    EXPECT_EQ(host_.fetches - by_host, arrives ? 3u : 0u);
    EXPECT_EQ(device_.fetches - by_device, arrives ? 0u : 3u);
    keys_ = 0;
  }
}

TEST_F(LsmTwoSides, ManyKeysBringTheHostsRunsToTheDevice) {
  begin();
  write(40);
  write(20);
  std::vector<std::string> const keys = all_keys();  // 61 of them
  for (int i = 0; i < 10; ++i) runs_->check_newest(keys);
  EXPECT_EQ(device_.copies_in, 1u);
  EXPECT_EQ(host_.finds, 4u);  // whose keys cost 4 * 61, when a copy costs 250
  EXPECT_EQ(host_.copies_in, 0u);
  EXPECT_EQ(device_.finds, 10u);
  runs_->check(keys, {});
}

TEST_F(LsmTwoSides, OnlyKeysThatTheHostLacksGoToTheDevice) {
  SideRules rules = low_rules();
  rules.copy = 1e9;
  begin(rules);
  write(40);
  write(20);
  runs_->check_newest(all_keys());
  EXPECT_EQ(host_.keys, 61u);
  EXPECT_EQ(device_.keys, 41u);  // and not the 20 that the newer run has
}

TEST_F(LsmTwoSides, WithoutRoomForCopiesAllIsReadWhereItLies) {
  SideRules rules = low_rules();
  rules.image_bytes = 0;
  begin(rules);
  write(40);
  write(5);
  write(50);
  for (int i = 0; i < 20; ++i) runs_->check({"all", "1-key", "none"}, {});
  EXPECT_EQ(host_.copies_in, 0u);
  EXPECT_EQ(engine_->image_bytes(), 0u);
  runs_->check_entries(9);
}

TEST_F(LsmTwoSides, ACopyThatFailsIsTriedAgainOnceItHasPaidAgain) {
  begin();
  write(40);
  host_.refuses_copies = true;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(find("1-key").found, Found::put);
  EXPECT_EQ(host_.copies_in, 2u);
  EXPECT_EQ(device_.finds, 6u);
  EXPECT_EQ(engine_->image_bytes(), 0u);
  host_.refuses_copies = false;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(find("1-key").found, Found::put);
  EXPECT_EQ(host_.copies_in, 3u);
  EXPECT_EQ(device_.finds, 8u);
}

TEST_F(LsmTwoSides, AMergeThatTheDeviceHasNoRoomForIsTheHosts) {
  begin();
  write(20);
  write(40);
  device_.refuses_copies = true;
  runs_->merge(0, 2);
  EXPECT_EQ(device_.merges, 0u);
  EXPECT_EQ(host_.merges, 1u);
  runs_->check(all_keys(), {});
}

TEST_F(LsmTwoSides, ChainsGoOnFromSideToSide) {
  SideRules rules = low_rules();
  rules.copy = 1e9;
  begin(rules);
  runs_->write({{"all", Kind::put, "base"}});  // the host's
  write(40);
  write(10);
  write(45);
  for (RequestId limit : {kNewest, RequestId{60}, RequestId{11}, RequestId{10}, RequestId{0}})
    runs_->check({"all", "1-key", "none"}, {.all = limit});
  runs_->check(all_keys(), {});
}

TEST_F(LsmTwoSides, EachKeyKeepsItsLimitFromSideToSide) {
  SideRules rules = low_rules();
  rules.copy = 1e9;
  begin(rules);
  write(40);
  write(10);
  write(45);
  std::vector<std::string> const keys = all_keys();
  for (std::size_t const n : {keys.size(), std::size_t{20}}) {
    std::vector<std::string> const some(keys.begin(),
                                        keys.begin() + static_cast<std::ptrdiff_t>(n));
    std::vector<RequestId> each(n);
    for (std::size_t i = 0; i < n; ++i) each[i] = 5 + i * 7 % runs_->next();
    runs_->check(some, {.each = each});
  }
}

TEST_F(LsmTwoSides, RangesOfManyPairsAreTheDevicesAndOthersTheHosts) {
  begin();
  write(20);
  runs_->check_ranges({"", "1"}, {}, kNewest, 5, false);
  EXPECT_EQ(host_.ranges, 1u);
  for (int i = 0; i < 3; ++i) runs_->check_ranges({"", "1", "2"}, {}, kNewest, 50, true);
  EXPECT_EQ(device_.copies_in, 1u) << "150 pairs each, when a copy costs 250";
  EXPECT_EQ(host_.ranges, 2u);
  EXPECT_EQ(device_.ranges, 2u);
  runs_->check_ranges({""}, {}, kNewest, 50, false);
  EXPECT_EQ(host_.ranges, 3u) << "a lane alone is slow";
  write(40);  // the device's
  runs_->check_ranges({"", "1"}, {}, kNewest, 5, false);
  EXPECT_EQ(device_.ranges, 3u) << "which has all of them";
}

TEST_F(LsmTwoSides, RangesOfRunsOnTwoSidesBringTheSmallOnesToTheDeviceForOnce) {
  SideRules rules = low_rules();
  rules.copy = 1e9;
  begin(rules);
  write(40);
  write(20);
  write(50);
  for (std::uint64_t const most : {5, 500})
    runs_->check_ranges(all_keys(), {}, kNewest, most, true);
  EXPECT_EQ(device_.ranges, 2u);
  EXPECT_EQ(device_.copies_in, 2u);
  EXPECT_EQ(host_.copies_in, 0u);
  for (int i = 0; i < 20; ++i) runs_->write({{std::string(100'000, 'k'), Kind::put, "v"}});
  runs_->merge(0, 20);  // on the host, and large
  KeyColumn const column({std::string("1")});
  auto const read = engine_->ranges(runs_->list(), {.begins = column.column()});
  EXPECT_EQ(read.status().code(), Code::unsupported) << read.status().message();
}

TEST_F(LsmTwoSides, OnlyOneReaderMakesACopy) {
  begin();
  write(40);
  TwoSidedRun const run(Side::device, runs_->list()[0]);
  EXPECT_FALSE(run.pay(Side::host, 9, 10));
  EXPECT_TRUE(run.pay(Side::host, 1, 10));
  EXPECT_FALSE(run.pay(Side::host, 100, 10));  // the other one is at it
  run.give_up(Side::host);
  EXPECT_FALSE(run.pay(Side::host, 9, 10));
  EXPECT_TRUE(run.pay(Side::host, 9, 10));
  EXPECT_EQ(run.on(Side::host), nullptr);
  run.publish(Side::host, runs_->list()[0]);
  EXPECT_NE(run.on(Side::host), nullptr);
  EXPECT_FALSE(run.pay(Side::device, 100, 10));  // it is there
}

TEST_F(LsmTwoSides, ThreadsReadWhileCopiesAreMade) {
  for (int round = 0; round < 5; ++round) {
    begin();
    write(40);
    write(10);
    write(80);
    write(29);
    std::vector<std::string> const few{"all", "none", "1-key", "45-key", "60-key"};
    std::vector<std::string> const many = all_keys();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 12; ++i) {
          runs_->check(t % 2 == 0 ? few : many, {.all = runs_->next() - static_cast<RequestId>(i)});
          runs_->check_bounds(few);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(host_.copies_in, 2u * static_cast<std::uint64_t>(round + 1));
    EXPECT_EQ(device_.copies_in, 2u * static_cast<std::uint64_t>(round + 1));
  }
}

}  // namespace
}  // namespace perdure::lsm
