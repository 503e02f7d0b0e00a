// Segments of a value log that small calls park in hands: who finds them, and when they are let go.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "units/value_log_store.hpp"

namespace perdure::pm {
namespace {

KeyStatus put(LogStore& store, std::string const& key, std::size_t bytes) {
  return run(store, {{OpKind::put, key, std::string(bytes, 'x')}}).statuses[0];
}

std::uint64_t segments_in_use(LogStore const& store) {
  LogSegments::Counters const counters = store.log->counters().segments;
  return counters.segments - counters.free;
}

TEST(ValueLogHands, WhatSmallCallsAppendedIsCountedAtOnce) {
  LogStore store(small_segments(0));
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    ASSERT_EQ(put(store, key_of(i), 100), KeyStatus::ok);
    used += log_bytes(key_of(i).size(), 100);
    EXPECT_EQ(store.log->counters().segments.used_bytes, used);
  }
  ASSERT_EQ(run(store, {{OpKind::erase, key_of(7), ""}}).statuses[0], KeyStatus::ok);
  EXPECT_EQ(store.log->counters().segments.tombstone_bytes, log_bytes(key_of(7).size(), 0));
  EXPECT_EQ(segments_in_use(store), 1u);
}

/// However many threads come and go, what one has parked serves the next.
TEST(ValueLogHands, NobodyBeginsASegmentWhileAParkedOneHasRoom) {
  LogStore store(small_segments(0));
  for (std::size_t t = 0; t < 40; ++t)
    std::thread([&] { EXPECT_EQ(put(store, key_of(t), 100), KeyStatus::ok); }).join();
  EXPECT_EQ(segments_in_use(store), 1u);
  EXPECT_EQ(store.contents().size(), 40u);
}

TEST(ValueLogHands, AClosedLogSaysWhereParkedSegmentsEnd) {
  LogStore store(small_segments(0));
  for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(put(store, key_of(i), 100), KeyStatus::ok);
  store.log->close();
  LogState const state = store.log->segments().state_of(*store.log->segments().all().front());
  EXPECT_EQ(state.use, LogState::Use::sealed);
  EXPECT_EQ(state.end, kFirstLogRecord + 5 * log_bytes(5, 100));
  LogStore reopened(store.image(), small_segments(0));
  EXPECT_EQ(reopened.contents(), store.contents());
}

/// A pool that is full but for what a put has: who erases waits until it is there for everybody,
/// not only for the thread that put.
TEST(ValueLogHands, AnErasureIsGivenWhatAPutHasLeft) {
  LogStore store(small_segments(0), 2);  // one segment
  ASSERT_EQ(put(store, key_of(0), 100), KeyStatus::ok);
  std::optional<LogAppender> other(std::in_place, store.log->segments(), store.index.host());
  ASSERT_TRUE(other->reserve(100, LogSegments::For::puts).ok());
  std::atomic<bool> erased{false};
  std::thread eraser(
      [&] { erased = run(store, {{OpKind::erase, key_of(0), ""}}).statuses[0] == KeyStatus::ok; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(erased);
  other.reset();
  eraser.join();
  EXPECT_TRUE(erased);
}

/// Nobody collects, so room that a collection would win is refused, and the answer says why.
TEST(ValueLogHands, WhereNobodyCollectsNobodyWaitsForIt) {
  LogSettings options = small_segments(0);
  options.most_queued = 2;
  LogStore store(options, 9);
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < 2000; ++i)
    operations.push_back({OpKind::put, key_of(i % 100), std::string(10'000, 'a')});
  Outcome const outcome = run(store, operations);
  EXPECT_EQ(outcome.statuses.back(), KeyStatus::no_space);
  EXPECT_EQ(outcome.refusal.code(), Code::no_space);
  EXPECT_NE(outcome.refusal.message().find("nobody collects"), std::string::npos)
      << outcome.refusal.message();
  // Once somebody does, there is room again.
  ASSERT_GT(store.log->collector().collect_queued(), 0u);
  EXPECT_EQ(put(store, key_of(0), 10'000), KeyStatus::ok);
}

/// Puts, updates and erasures one by one, by more threads than there are hands to meet in, beside
/// collectors: each thread's keys are those of a map.
TEST(ValueLogHands, ManyThreadsOfSmallCallsKeepEachOnesKeys) {
  constexpr std::size_t kThreads = 8, kKeys = 30, kCalls = 1500;
  LogStore store(small_segments(2), 40);
  std::vector<Model> models(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (std::size_t n = 0; n < kCalls; ++n) {
        bool const erases = random() % 4 == 0;
        Operation const one{erases ? OpKind::erase : OpKind::put,
                            key_of(t * kKeys + random() % kKeys),
                            erases ? "" : std::string(random() % 8000, 'y')};
        bool const there = models[t].contains(one.key);
        KeyStatus const expected = erases && !there ? KeyStatus::not_found : KeyStatus::ok;
        EXPECT_EQ(run(store, {one}).statuses[0], expected);
        Asked::apply(one, models[t]);
      }
    });
  for (std::thread& each : threads) each.join();
  Model all;
  for (Model const& each : models) all.insert(each.begin(), each.end());
  EXPECT_EQ(store.contents(), all);
  store.log->close();
  EXPECT_GT(store.log->counters().collector.collections, 5u);
  LogStore reopened(store.image(), small_segments(0));
  EXPECT_EQ(reopened.contents(), all);
  EXPECT_TRUE(reopened.recovered.damage.empty());
}

}  // namespace
}  // namespace perdure::pm
