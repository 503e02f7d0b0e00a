// The models behind pre-stores, in time of their own, so that every expectation is exact or is the
// thesis's: caches that evict in seemingly random order, what media then write, a core before
// them, and a device from afar.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "pm/emulated_core.hpp"
#include "pm/far_device.hpp"
#include "prestore_listings.hpp"

namespace perdure::pm {
namespace {

using cpu_baselines::ElementWrites;
using cpu_baselines::Evicts;
using cpu_baselines::Prestored;

CacheShape one_set(Replacement replacement) {
  return {CacheModel::kWays * kCacheLine, replacement, SetsBy::address};
}

TEST(EmulatedMedium, CountsWhatItsMediaWriteToTheByte) {
  EmulatedMedium medium;
  for (std::uint64_t line = 0; line < 8; ++line) static_cast<void>(medium.write(line, 0));
  EXPECT_EQ(medium.writes().lines, 8u);
  EXPECT_EQ(medium.writes().internal, 2u);
  EXPECT_DOUBLE_EQ(medium.writes().amplification(), 1) << "in order";
  MediumWrites const before = medium.writes();
  for (std::uint64_t i = 0; i < 100; ++i) static_cast<void>(medium.write(1000 + 4 * i, 0));
  EXPECT_DOUBLE_EQ((medium.writes() - before).amplification(), 4) << "a line of each internal one";
}

TEST(CacheModel, TheRotatingPointerPassesOverWhatWasUsedLately) {
  CacheModel cache(one_set(Replacement::rotating));
  for (std::uint64_t line = 0; line < CacheModel::kWays; ++line)
    static_cast<void>(cache.touch(line, true));
  // The last of a full set is the only one that counts as used; now line 0 does too.
  EXPECT_TRUE(cache.touch(0, false).hit);
  EXPECT_EQ(cache.touch(100, true).written_back, 1u) << "the pointer is at way 0, which was used";
  EXPECT_EQ(cache.touch(101, true).written_back, 2u)
      << "it moved on by one, to where 100 lies, which was used";
}

TEST(CacheModel, ARandomVictimMayBeAnyLineAndIsTheSameEveryTime) {
  auto const victims = [] {
    CacheModel cache(one_set(Replacement::random));
    std::vector<std::uint64_t> out;
    for (std::uint64_t line = 0; line < 1000; ++line) {
      CacheModel::Touched const touched = cache.touch(line, true);
      if (touched.written_back != CacheModel::kNone) out.push_back(line - touched.written_back);
    }
    return out;
  };
  std::vector<std::uint64_t> const ages = victims();
  EXPECT_EQ(ages, victims());
  EXPECT_EQ(ages.size(), 1000 - CacheModel::kWays);
  EXPECT_EQ(*std::min_element(ages.begin(), ages.end()), 1u) << "even the line before";
  EXPECT_GT(*std::max_element(ages.begin(), ages.end()), 3 * CacheModel::kWays);
}

TEST(CacheModel, WhatIsDroppedIsNotWrittenBack) {
  for (Replacement const each : {Replacement::lru, Replacement::rotating, Replacement::random}) {
    CacheModel cache(one_set(each));
    for (std::uint64_t line = 0; line < CacheModel::kWays; ++line)
      static_cast<void>(cache.touch(line, true));
    cache.drop(4);
    EXPECT_FALSE(cache.clean(4));
    EXPECT_EQ(cache.touch(50, true).written_back, CacheModel::kNone) << "there is room";
    EXPECT_TRUE(cache.clean(5));
  }
}

TEST(EmulatedCore, StoresWaitForFreeBuffersAloneAndFencesForAll) {
  EmulatedMedium medium;
  CacheModel cache({.bytes = 1 << 20});
  EmulatedCore core(medium, cache);
  for (std::uint64_t line = 0; line < 12; ++line) core.store(8 * line);
  EXPECT_LT(core.now(), 20) << "twelve lines are on their way";
  core.store(1000);
  EXPECT_GE(core.now(), medium.shape().read_ns) << "the thirteenth had to wait for the first";
  core.fence();
  EXPECT_GE(core.now(), 2 * medium.shape().read_ns);
}

TEST(EmulatedCore, ACleanedLineStaysAndIsWrittenOnce) {
  EmulatedMedium medium;
  CacheModel cache({.bytes = 1 << 20});
  EmulatedCore core(medium, cache);
  core.store(7);
  core.fence();
  double const before = core.now();
  core.clean(7);
  core.clean(7);
  EXPECT_LT(core.now() - before, 2) << "it blocks nobody";
  EXPECT_EQ(medium.writes().lines, 1u);
  core.load(7);
  EXPECT_LT(core.now() - before, 3) << "it is still there";
  core.store(7);
  EXPECT_GE(core.now() - before, 62) << "storing to it again has to wait until it has left";
}

TEST(EmulatedCore, ASkippedLineIsReadFromTheMediumAgain) {
  EmulatedMedium medium;
  CacheModel cache({.bytes = 1 << 20});
  EmulatedCore core(medium, cache);
  core.store(7);
  core.fence();
  double const before = core.now();
  core.skip(7);
  EXPECT_EQ(medium.writes().lines, 1u);
  core.load(7);
  core.fence();
  EXPECT_GE(core.now() - before, 90 + medium.shape().near_ns);
}

TEST(FarCore, AFenceWaitsForTheRightAndTheBytesAndADemoteHidesThem) {
  FarShape const shape = far_slow();  // a line: 170.7 cycles of its link
  double const line = 128 / 1.5 * 2;
  FarCore plain(shape);
  plain.store(5);
  EXPECT_DOUBLE_EQ(plain.now(), 0) << "it is private";
  plain.compute(1000);
  plain.fence();
  EXPECT_DOUBLE_EQ(plain.now(), 1000 + 2 * 200 + line);
  EXPECT_EQ(plain.counts().waited, 1u);
  FarCore demoted(shape);
  demoted.store(5);
  demoted.demote(5);
  EXPECT_DOUBLE_EQ(demoted.now(), 0) << "it blocks nobody";
  demoted.compute(1000);
  demoted.fence();
  EXPECT_DOUBLE_EQ(demoted.now(), 1000);
  EXPECT_EQ(demoted.counts().waited, 0u);
}

TEST(FarCore, ADirtyLineIsItsOwnAndACleanOneNeedsTheRightAlone) {
  FarCore core(far_fast());
  core.store(5);
  core.fence();
  double const first = core.now();
  core.store(5);
  core.fence();
  EXPECT_DOUBLE_EQ(core.now(), first) << "nothing to ask for";
  core.clean(5);
  EXPECT_EQ(core.counts().written_back, 1u);
  core.compute(100);
  core.store(5);
  core.fence();
  EXPECT_DOUBLE_EQ(core.now(), first + 100 + 60);
  EXPECT_EQ(core.counts().acquired, 1u);
}

TEST(FarCore, AFullBufferPublishesItsOldestLine) {
  FarCore core(far_fast());
  for (std::uint64_t line = 0; line < 4; ++line) core.store(line);
  EXPECT_DOUBLE_EQ(core.now(), 0);
  core.store(4);
  EXPECT_GT(core.now(), 2 * 60);
}

ElementWrites elements(std::uint32_t bytes, std::uint32_t threads, Prestored prestored) {
  ElementWrites how;
  how.element_bytes = bytes;
  how.threads = threads;
  how.prestored = prestored;
  how.cache_bytes /= 20;  // the share of one core
  how.array_bytes /= 20;
  return how;
}

TEST(Listing2, SeveralThreadsAmplifyByWhatTheThesisMeasuredAndCleaningEndsIt) {
  for (std::uint32_t const threads : {2u, 5u}) {
    double const plain =
        cpu_baselines::emulated_elements(elements(4096, threads, Prestored::plain)).amplification;
    EXPECT_NEAR(plain, 3.30, 0.15 * 3.30) << threads << " threads";
  }
  for (std::uint32_t const threads : {1u, 2u, 5u}) {
    auto const clean = cpu_baselines::emulated_elements(elements(4096, threads, Prestored::clean));
    EXPECT_NEAR(clean.amplification, 1, 0.03) << threads << " threads";
    EXPECT_EQ(4 * clean.internal_lines,
              static_cast<std::uint64_t>(clean.amplification * double(clean.lines_out) + 0.5));
  }
}

TEST(Listing2, AThreadByItselfAmplifiesLessAndOneThatEvictsInOrderNotAtAll) {
  ElementWrites how = elements(4096, 1, Prestored::plain);
  double const alone = cpu_baselines::emulated_elements(how).amplification;
  how.threads = 2;
  EXPECT_LT(alone, cpu_baselines::emulated_elements(how).amplification);
  how.evicts = Evicts::random;
  EXPECT_GT(cpu_baselines::emulated_elements(how).amplification, 3.7);
  how.evicts = Evicts::lru;
  how.small_pages = false;
  EXPECT_NEAR(cpu_baselines::emulated_elements(how).amplification, 1, 0.1);
}

TEST(Listing2, CleaningPaysOnceTheMediumIsSaturated) {
  auto const gain = [](std::uint32_t threads, Prestored prestored) {
    return cpu_baselines::emulated_elements(elements(4096, threads, Prestored::plain))
               .ns_an_element /
           cpu_baselines::emulated_elements(elements(4096, threads, prestored)).ns_an_element;
  };
  EXPECT_NEAR(gain(1, Prestored::clean), 1, 0.1);
  EXPECT_NEAR(gain(2, Prestored::clean), 2.2, 0.25 * 2.2);
  EXPECT_NEAR(gain(5, Prestored::clean), 3, 0.15 * 3);
}

TEST(Listing3, DemotingPaysMostAtModerateReadsAndLaterOnTheSlowDevice) {
  auto const best = [](bool slow) {
    std::pair<double, std::uint32_t> most{0, 0};
    for (std::uint32_t reads = 0; reads <= 2000; reads += 20) {
      double const gain =
          cpu_baselines::emulated_fences(slow, Prestored::plain, reads).cycles /
              cpu_baselines::emulated_fences(slow, Prestored::demote, reads).cycles -
          1;
      most = std::max(most, {gain, reads});
      EXPECT_TRUE(reads > 0 || gain < 0.01) << gain;
      EXPECT_TRUE(reads < 2000 || gain < 0.2) << gain;
    }
    return most;
  };
  auto const fast = best(false), slow = best(true);
  EXPECT_GT(fast.first, 0.5);
  EXPECT_GT(slow.first, 0.5);
  EXPECT_GT(slow.second, 2 * fast.second);
  EXPECT_GT(fast.second, 0u);
}

TEST(Listing4, CleaningALineThatIsRewrittenCostsWhatMemoryCostsOverTheCache) {
  double const slowdown = cpu_baselines::emulated_rewrites(Prestored::clean) /
                          cpu_baselines::emulated_rewrites(Prestored::plain);
  EXPECT_NEAR(slowdown, 75, 0.15 * 75);
}

}  // namespace
}  // namespace perdure::pm
