// The models behind pre-stores, in time of their own, so that every expectation is exact or is the
// thesis's: caches that evict in seemingly random order, what media then write, a core before
// them, and a device from afar.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
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

/// The begin of the published sequence, up to the first lines of the last four slices.
TEST(CacheModel, SlicesAreThoseThatWereMeasured) {
  std::vector<std::uint32_t> const first{0, 11, 2, 9, 7, 12, 5, 14, 1, 10, 3,  8,  6, 13, 4,  15,
                                         1, 10, 3, 8, 6, 13, 4, 15, 0, 11, 18, 17, 7, 12, 17, 18};
  for (std::size_t line = 0; line < first.size(); ++line)
    EXPECT_EQ(slice_of(line), first[line]) << line;
  EXPECT_EQ(slice_of(255), 16u);
  for (std::uint64_t const from : {std::uint64_t{0}, std::uint64_t{12345} * 256}) {
    std::vector<int> lines(kSlices);
    for (std::uint64_t line = from; line < from + 256; ++line) ++lines[slice_of(line)];
    for (std::size_t slice = 0; slice < kSlices; ++slice)
      EXPECT_EQ(lines[slice], slice < 16 ? 13 : 12) << slice;
  }
}

TEST(CacheModel, HigherBitsPermuteTheSequence) {
  for (std::uint64_t block = 1; block < 1000; ++block) {
    std::uint32_t const by = permutation(block * 256);
    for (std::uint64_t line = 0; line < 256; ++line)
      ASSERT_EQ(slice_of(block * 256 + line), slice_of(line ^ by));
  }
  EXPECT_EQ(permutation(255), 0u);
  EXPECT_EQ(permutation(256), 0x4fu) << "of five of the masks";
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

/// LRU by sets, plainly: lists of lines, the latest first, and whether they were stored to.
class PlainCache {
 public:
  explicit PlainCache(std::uint64_t sets) : sets_(sets) {}
  CacheModel::Touched touch(std::uint64_t line, bool store) {
    auto& set = sets_[line % sets_.size()];
    auto const at = find(set, line);
    CacheModel::Touched touched{at != set.end(), CacheModel::kNone};
    bool const dirty = store || (touched.hit && at->second);
    if (touched.hit) set.erase(at);
    set.insert(set.begin(), {line, dirty});
    if (set.size() > CacheModel::kWays) {
      if (set.back().second) touched.written_back = set.back().first;
      set.pop_back();
    }
    return touched;
  }
  bool clean(std::uint64_t line) {
    auto& set = sets_[line % sets_.size()];
    auto const at = find(set, line);
    return at != set.end() && std::exchange(at->second, false);
  }
  void drop(std::uint64_t line) {
    auto& set = sets_[line % sets_.size()];
    if (auto const at = find(set, line); at != set.end()) set.erase(at);
  }

 private:
  using Set = std::vector<std::pair<std::uint64_t, bool>>;
  static Set::iterator find(Set& set, std::uint64_t line) {
    return std::find_if(set.begin(), set.end(), [&](auto const& one) { return one.first == line; });
  }
  std::vector<Set> sets_;
};

struct Action {
  std::uint64_t line;
  int kind;
};
std::vector<Action> generated_actions() {
  return *rc::gen::container<std::vector<Action>>(
      400, rc::gen::apply([](std::uint64_t line, int kind) { return Action{line, kind}; },
                          rc::gen::inRange<std::uint64_t>(0, 80), rc::gen::inRange(0, 8)));
}

RC_GTEST_PROP(CacheModel, DoesWhatAPlainOneDoes, ()) {
  constexpr std::uint64_t kSets = 3;
  CacheModel cache({kSets * CacheModel::kWays * kCacheLine, Replacement::lru, SetsBy::address});
  PlainCache plain(kSets);
  for (Action const& action : generated_actions()) {
    if (action.kind == 0) {
      RC_ASSERT(cache.clean(action.line) == plain.clean(action.line));
    } else if (action.kind == 1) {
      cache.drop(action.line);
      plain.drop(action.line);
    } else {
      auto const ours = cache.touch(action.line, action.kind < 5);
      auto const theirs = plain.touch(action.line, action.kind < 5);
      RC_ASSERT(ours.hit == theirs.hit);
      RC_ASSERT(ours.written_back == theirs.written_back);
    }
  }
}

RC_GTEST_PROP(CacheModel, WritesBackWhatWasStoredToAndThatOnce, ()) {
  auto const replacement = *rc::gen::element(Replacement::rotating, Replacement::random);
  CacheModel cache({2 * CacheModel::kWays * kCacheLine, replacement, SetsBy::address});
  std::set<std::uint64_t> dirty, seen;
  for (Action const& action : generated_actions()) {
    if (action.kind == 0) {
      RC_ASSERT(cache.clean(action.line) == (dirty.erase(action.line) == 1));
    } else if (action.kind == 1) {
      cache.drop(action.line);
      dirty.erase(action.line);
      seen.erase(action.line);
    } else {
      auto const touched = cache.touch(action.line, action.kind < 5);
      if (touched.hit) RC_ASSERT(seen.contains(action.line));
      if (!touched.hit) RC_ASSERT(!dirty.contains(action.line));
      if (touched.written_back != CacheModel::kNone)
        RC_ASSERT(dirty.erase(touched.written_back) == 1);
      if (action.kind < 5) dirty.insert(action.line);
      seen.insert(action.line);
    }
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
  how.cache_bytes /= 16;
  how.array_bytes /= 16;
  return how;
}

TEST(Listing2, ThreadsAmplifyByWhatTheThesisMeasuredAndCleaningEndsIt) {
  for (auto const& [threads, thesis] : {std::pair{1u, 1.8}, {2u, 3.3}, {5u, 3.3}}) {
    double const plain =
        cpu_baselines::emulated_elements(elements(4096, threads, Prestored::plain)).amplification;
    EXPECT_NEAR(plain, thesis, 0.15 * thesis) << threads << " threads";
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
  EXPECT_GT(cpu_baselines::emulated_elements(how).amplification, 1.7)
      << "in order within a set, but an element's lines have other neighbours in each slice";
  how.sets = cpu_baselines::Sets::address;
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

TEST(Listing2, ALogThatSeveralThreadsWriteIsNotWrittenInOrderUnlessItIsCleaned) {
  ElementWrites log = elements(1024, 2, Prestored::plain);
  log.in_order = true;
  double const two = cpu_baselines::emulated_elements(log).amplification;
  EXPECT_GT(two, 2);
  log.prestored = Prestored::clean;
  EXPECT_NEAR(cpu_baselines::emulated_elements(log).amplification, 1, 0.03);
  log.prestored = Prestored::plain;
  log.threads = 1;
  EXPECT_LT(cpu_baselines::emulated_elements(log).amplification, 0.8 * two);
  log.sets = cpu_baselines::Sets::address;
  EXPECT_LT(cpu_baselines::emulated_elements(log).amplification, 1.2);
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
