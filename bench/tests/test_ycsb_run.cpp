// Several caches on one pool: which, in which order, and that each is told of by itself.
#include <gtest/gtest.h>

#include <vector>

#include "ycsb_run.hpp"

namespace perdure::bench {
namespace {

YcsbOptions small(std::string const& workload) {
  YcsbOptions o;
  o.workload = workload;
  o.records = 4'000;
  o.expected_records = 8'000;
  o.ops = 3'000;
  o.batch = 256;
  o.index = "gphash";
  o.layout = "in_place";
  o.threads = 2;
  o.repeats = 2;
  return o;
}

std::vector<YcsbOutcome> run(YcsbOptions const& o) {
  std::vector<YcsbOutcome> all;
  run_ycsb(o, Device::cpu, [&](YcsbOutcome const& outcome) { all.push_back(outcome); });
  return all;
}

TEST(YcsbRun, NoCacheHasNoPolicy) {
  YcsbOptions o;
  o.cache_policies = {"lru", "random"};
  o.caches = {0.1, 0, 0.2};
  std::vector<std::pair<std::string, double>> found;
  for (YcsbCache const& cache : caches_of(o)) found.emplace_back(cache.policy, cache.share);
  std::vector<std::pair<std::string, double>> const expected{
      {"lru", 0.1}, {"lru", 0}, {"lru", 0.2}, {"random", 0.1}, {"random", 0.2}};
  EXPECT_EQ(found, expected);
}

TEST(YcsbRun, CachesOfOnePoolFindWhatTheOnesBeforeLeft) {
  for (char const* workload : {"a", "c", "d", "f"}) {
    YcsbOptions o = small(workload);
    o.caches = {0, 0.1, 0.4};
    o.cache_policies = {"lfu", "lru"};
    auto const all = run(o);
    ASSERT_EQ(all.size(), 5u);
    for (std::size_t i = 0; i < all.size(); ++i) {
      YcsbOutcome const& one = all[i];
      EXPECT_EQ(one.checks.faults, 0u) << workload << ": " << one.checks.first_fault;
      ASSERT_EQ(one.passes.size(), 2u);
      for (Pass const& pass : one.passes) EXPECT_EQ(pass.faults, 0u) << pass.first_fault;
      EXPECT_EQ(one.turn, *workload == 'd' ? 0u : i) << workload;
      EXPECT_EQ(one.cache.bytes > 0, one.asked.share > 0) << workload;
      EXPECT_GE(one.checks.gets, o.records) << "all records are read back each time";
    }
    EXPECT_LT(all[1].cache.bytes, all[2].cache.bytes);
  }
}

TEST(YcsbRun, ACacheIsHeldToTheSameAnswersAloneAndInTurn) {
  YcsbOptions o = small("a");
  o.caches = {0, 0.2};
  auto const both = run(o);
  for (std::size_t i = 0; i < both.size(); ++i) {
    o.caches = {both[i].asked.share};
    auto const alone = run(o);
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(alone[0].turn, 0u);
    EXPECT_EQ(alone[0].checks.gets, both[i].checks.gets) << "share " << both[i].asked.share;
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(alone[0].passes[k].gets, both[i].passes[k].gets);
      EXPECT_EQ(alone[0].passes[k].hits, both[i].passes[k].hits);
    }
  }
}

TEST(YcsbRun, ACacheOfAnyRecordsIsTheSameWhateverWasGotBefore) {
  YcsbOptions o = small("c");
  o.cache_policies = {"random"};
  o.caches = {0.2};
  auto const hits = [&o] {
    YcsbOutcome const one = run(o).at(0);
    EXPECT_EQ(one.learned_ops, 0u);
    return one.accesses.value().counts.cache_hits;
  };
  std::uint64_t const after_others = [&] {
    YcsbOptions both = o;
    both.cache_policies = {"lfu", "random"};
    auto const all = run(both);
    EXPECT_EQ(all.at(0).learned_ops, 4 * o.records);
    return all.at(1).accesses.value().counts.cache_hits;
  }();
  EXPECT_EQ(hits(), after_others);
  EXPECT_GT(after_others, 0u);
}

TEST(YcsbRun, TellsOfGrowthsThatTheLoadBrought) {
  YcsbOptions o = small("c");
  o.expected_records = 1'000;
  o.caches = {0, 0.2};
  for (YcsbOutcome const& one : run(o)) EXPECT_GT(one.stats.growths, 0u);
}

}  // namespace
}  // namespace perdure::bench
