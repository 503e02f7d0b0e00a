// EmulatedMedium in time of its own, so that every expectation is exact; the cache's model; that
// EmulatedHost waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "pm/emulated_host.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kCacheBytes = 1 << 20;

MediumShape one_module() {
  MediumShape shape;
  shape.modules = 1;
  shape.buffered = 4;
  shape.read_gb_per_s = 25.6;   // 10 ns an internal line
  shape.write_gb_per_s = 12.8;  // 20 ns
  return shape;
}

TEST(EmulatedMedium, FarLinesTakeTheLatencyAndNearOnesLess) {
  EmulatedMedium medium(one_module());
  EXPECT_DOUBLE_EQ(medium.read(0, 1000), 1300);
  EXPECT_DOUBLE_EQ(medium.read(1, 1300), 1424) << "the same internal line";
  EXPECT_DOUBLE_EQ(medium.read(4, 1424), 1724) << "the next one";
}

TEST(EmulatedMedium, LinesAskedForTogetherArriveTogether) {
  EmulatedMedium medium(one_module());
  EXPECT_DOUBLE_EQ(medium.read(0, 0), 300);
  EXPECT_DOUBLE_EQ(medium.read(1, 0), 300) << "no sooner than its internal line";
}

TEST(EmulatedMedium, ReadsQueueForBandwidth) {
  EmulatedMedium medium(one_module());
  double last = 0;
  for (std::uint64_t i = 0; i < 100; ++i) last = medium.read(4 * i, 0);
  EXPECT_DOUBLE_EQ(last, 1000) << "100 internal lines of 10 ns";
}

TEST(EmulatedMedium, ForgetsTheOldestInternalLine) {
  EmulatedMedium medium(one_module());
  for (std::uint64_t i = 0; i < 5; ++i) static_cast<void>(medium.read(4 * i, 0));
  EXPECT_DOUBLE_EQ(medium.read(4, 10000), 10124) << "one of the last four";
  EXPECT_DOUBLE_EQ(medium.read(0, 10000), 10300) << "pushed out";
}

TEST(EmulatedMedium, WritesGatherAndAreChargedWhenTheyLeave) {
  EmulatedMedium medium(one_module());
  for (std::uint64_t line = 0; line < 16; ++line)
    EXPECT_DOUBLE_EQ(medium.write(line, 0), 0) << "four internal lines";
  EXPECT_DOUBLE_EQ(medium.write(16, 0), 20) << "the oldest leaves";
  EXPECT_DOUBLE_EQ(medium.write(17, 0), 0) << "gathered";
  EXPECT_DOUBLE_EQ(medium.write(0, 0), 40) << "it is not there any more, and pushes out the next";
}

TEST(EmulatedMedium, AThreadWhoseClockLagsWaitsForItsOwnTimeAlone) {
  EmulatedMedium medium(one_module());
  double const ahead = 1e6;
  for (std::uint64_t i = 0; i < 100; ++i) static_cast<void>(medium.read(4 * i, ahead));
  EXPECT_DOUBLE_EQ(medium.read(4000, 100), 400) << "bandwidth of its own time was free";
  EXPECT_DOUBLE_EQ(medium.read(4 * 99, 100), 400)
      << "what the other asked for is there after a read's time";
  double last = 0;
  for (std::uint64_t i = 0; i < 100; ++i) last = medium.read(8000 + 4 * i, 100);
  EXPECT_DOUBLE_EQ(last, 1010) << "and is used up by whoever asks, the one of before too";
}

TEST(EmulatedMedium, BandwidthIsThatOfAllThreadsTogether) {
  constexpr std::uint64_t kThreads = 4, kReads = 20000;
  EmulatedMedium medium;
  std::vector<double> last(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < kReads; ++i) last[t] = medium.read((t * kReads + i) * 4, 0);
      });
    }
  }
  double const all = *std::max_element(last.begin(), last.end());
  EXPECT_NEAR(kThreads * kReads * 256 / all, medium.shape().read_gb_per_s, 0.5);
}

TEST(EmulatedMedium, MeetsItsOwnPointsAndTellsHowFarTheOthersAre) {
  auto const points = calibration();
  ASSERT_EQ(points.size(), 7u);
  auto const residual = [&](std::size_t i) { return points[i].modelled / points[i].published - 1; };
  EXPECT_NEAR(residual(0), -0.016, 0.002);
  EXPECT_NEAR(residual(1), -0.006, 0.002);
  EXPECT_NEAR(residual(2), 0, 0.001);
  EXPECT_NEAR(residual(3), 0, 0.01);
  EXPECT_NEAR(residual(4), 0.04, 0.01) << "the link";
  EXPECT_NEAR(residual(5), 0.11, 0.01) << "a quarter of 13.9";
  EXPECT_NEAR(residual(6), 0.21, 0.02) << "a sixteenth of 13.9";
}

TEST(CacheModel, TheLeastLatelyUsedMakesRoom) {
  CacheModel cache({.bytes = kCacheBytes});
  EXPECT_FALSE(cache.touch(1, true).hit);
  EXPECT_TRUE(cache.touch(1, false).hit);
  std::uint64_t written_back = CacheModel::kNone;
  std::uint64_t line = 2;
  for (; written_back == CacheModel::kNone; ++line)
    written_back = cache.touch(line, false).written_back;
  EXPECT_EQ(written_back, 1u) << "the only one stored to";
  EXPECT_FALSE(cache.touch(1, false).hit);
  EXPECT_GT(line, kCacheBytes / kCacheLine / 2) << "sets are used evenly";
}

TEST(CacheModel, HoldsAsManyBytesAsItIsTold) {
  CacheModel small({.bytes = 11 * kCacheLine});  // one set
  for (std::uint64_t line = 0; line < 11; ++line) EXPECT_FALSE(small.touch(line, false).hit);
  for (std::uint64_t line = 0; line < 11; ++line) EXPECT_TRUE(small.touch(line, false).hit);
  EXPECT_FALSE(small.touch(11, false).hit);
  EXPECT_FALSE(small.touch(0, false).hit) << "the least lately used";
  EXPECT_TRUE(small.touch(2, false).hit) << "only two had to go";
}

TEST(CacheModel, CleaningTellsWhatWasStoredTo) {
  CacheModel cache({.bytes = kCacheBytes});
  static_cast<void>(cache.touch(9, false));
  EXPECT_FALSE(cache.clean(9));
  static_cast<void>(cache.touch(9, true));
  EXPECT_TRUE(cache.clean(9));
  EXPECT_FALSE(cache.clean(9));
  EXPECT_TRUE(cache.touch(9, false).hit);
}

TEST(EmulatedHost, ADependentReadTakesAtLeastTheLatencyAndAHotLineDoesNot) {
  constexpr std::size_t kReads = 1000;
  std::vector<std::uint64_t> words(kReads * 64);
  DurableRange const range(std::as_bytes(std::span(words)));
  EmulatedMedium medium;
  EmulatedHost host(medium, range, kCacheBytes);
  double const begin = host.now();
  for (std::size_t i = 0; i < kReads; ++i)
    static_cast<void>(host.load(&words[i * 64]));  // 512 bytes apart
  double const cold = (host.now() - begin) / kReads;
  EXPECT_GE(cold, medium.shape().read_ns);
  double hot = cold;  // the least of several times: this thread may lose its core in any of them
  for (int times = 0; times < 100; ++times) {
    double const before = host.now();
    for (std::size_t i = 0; i < kReads; ++i) static_cast<void>(host.load(&words[i * 64]));
    hot = std::min(hot, (host.now() - before) / kReads);
  }
  EXPECT_LT(hot, cold / 2) << "hot lines wait for nothing";
  EXPECT_GT(host.own_ns(), 0) << "what emulating takes is left out";
}

TEST(EmulatedHost, ReadsAnnouncedTogetherOverlap) {
  constexpr std::size_t kReads = 1000;
  std::vector<std::uint64_t> words(2 * kReads * 64);
  DurableRange const range(std::as_bytes(std::span(words)));
  EmulatedMedium medium;
  EmulatedHost host(medium, range, kCacheBytes);
  double const begin = host.now();
  for (std::size_t i = 0; i < kReads; ++i) {
    host.read(&words[2 * i * 64], 8);
    host.read(&words[(2 * i + 1) * 64], 8);
    static_cast<void>(host.load(&words[2 * i * 64]));
    static_cast<void>(host.load(&words[(2 * i + 1) * 64]));
  }
  double const pair = (host.now() - begin) / kReads;
  EXPECT_GE(pair, medium.shape().read_ns);
}

TEST(EmulatedHost, WhatLeavesTheBuffersIsWaitedFor) {
  MediumShape slow = one_module();
  slow.write_gb_per_s = 0.0256;  // 10 us an internal line
  constexpr std::size_t kLines = 50;
  std::vector<std::uint64_t> words(kLines * 64);
  DurableRange const range(std::as_bytes(std::span(words)));
  EmulatedMedium medium(slow);
  EmulatedHost host(medium, range, kCacheBytes);
  double const begin = host.now();
  for (std::size_t i = 0; i < kLines; ++i) {
    host.store(&words[i * 64], i);
    host.persist(&words[i * 64], 8);
  }
  EXPECT_GE(host.now() - begin, (kLines - slow.buffered - 1) * 10000.0);
}

}  // namespace
}  // namespace perdure::pm
