// What collections of a value log free, keep and wait for; and what is damage to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "support/asleep.hpp"
#include "units/value_log_store.hpp"

namespace perdure::pm {
namespace {

constexpr std::size_t kLong = 10'000;  // of a value: a hundred of them fill a segment

std::vector<Operation> puts(std::size_t from, std::size_t to, char with,
                            std::size_t bytes = kLong) {
  std::vector<Operation> operations;
  for (std::size_t i = from; i < to; ++i)
    operations.push_back({OpKind::put, key_of(i), std::string(bytes, with)});
  return operations;
}

std::vector<Operation> erases(std::size_t from, std::size_t to) {
  std::vector<Operation> operations;
  for (std::size_t i = from; i < to; ++i) operations.push_back({OpKind::erase, key_of(i), ""});
  return operations;
}

bool all_ok(Outcome const& outcome) {
  return std::ranges::all_of(outcome.statuses,
                             [](KeyStatus status) { return status == KeyStatus::ok; });
}

/// The segments that nobody has room in are collected until none is due.
std::uint64_t collect_all(LogStore& store) {
  std::uint64_t collected = 0;
  while (std::uint64_t const now = store.log->collector().collect_queued()) collected += now;
  return collected;
}

TEST(ValueLogCollection, FreesWhatIsHalfOutdatedAndKeepsWhatIsCurrent) {
  LogStore store(small_segments(0));
  ASSERT_TRUE(all_ok(run(store, puts(0, 300, 'a'))));
  EXPECT_EQ(collect_all(store), 0u);  // nothing is outdated
  ASSERT_TRUE(all_ok(run(store, puts(0, 60, 'b'))));
  Model const before = store.contents();
  EXPECT_EQ(collect_all(store), 1u);
  EXPECT_EQ(store.contents(), before);
  ValueLog::Counters const counters = store.log->counters();
  EXPECT_EQ(counters.collector.collections, 1u);
  // What of the first segment was current.
  EXPECT_EQ(counters.collector.moved_bytes % log_bytes(5, kLong), 0u);
  EXPECT_GT(counters.collector.moved_bytes, 30 * kLong);
  EXPECT_LT(counters.collector.moved_bytes, 60 * kLong);
}

/// A crash while items are in two segments finds each of them once.
TEST(ValueLogCollection, CutShortLeavesEachItemOnce) {
  LogStore store(small_segments(0));
  run(store, puts(0, 300, 'a'));
  run(store, puts(0, 60, 'b'));
  Image cut;
  int left = 5;
  store.index.before_swap = [&] {
    if (--left == 0) cut = store.image();
  };
  ASSERT_EQ(collect_all(store), 1u);
  ASSERT_FALSE(cut.empty());
  LogStore reopened(cut, small_segments(0));
  EXPECT_EQ(reopened.contents(), store.contents());
  EXPECT_EQ(reopened.recovered.current, 300u);
  EXPECT_GT(reopened.recovered.records, 360u);  // copies among them
}

/// The tombstones are collected before what they stand against, and have to outlive it.
TEST(ValueLogCollection, DeletesDoNotComeBack) {
  LogStore store(small_segments(0));
  run(store, puts(0, 100, 'a'));  // a segment, nearly
  run(store, puts(100, 200, 'b'));
  ASSERT_TRUE(all_ok(run(store, erases(0, 20))));  // too few for the first segment to be collected
  // The tombstones' segment is outdated as a whole, but for them.
  for (char with : {'c', 'd', 'e', 'f'}) {
    run(store, puts(100, 200, with));
    collect_all(store);
  }
  Model const before = store.contents();
  ASSERT_EQ(before.size(), 180u);
  LogStore reopened(store.image(), small_segments(0));
  EXPECT_EQ(reopened.contents(), before);
  // Once what they stood against is collected, they go.
  run(reopened, erases(20, 100));
  for (char with : {'g', 'h', 'i', 'j', 'k'}) {
    run(reopened, puts(100, 200, with));
    collect_all(reopened);
  }
  EXPECT_GT(reopened.log->counters().collector.dropped_tombstones, 0u);
  LogStore again(reopened.image(), small_segments(0));
  EXPECT_EQ(again.contents(), reopened.contents());
  EXPECT_EQ(again.contents().size(), 100u);
}

/// Small items that are put and erased leave tombstones only; those do not pile up.
TEST(ValueLogCollection, TombstonesDoNotPileUp) {
  LogStore store(small_segments(0));
  for (int round = 0; round < 12; ++round) {
    run(store, puts(0, 4000, 'a', 20));
    run(store, erases(0, 4000));
    collect_all(store);
  }
  LogSegments::Counters const counters = store.log->counters().segments;
  EXPECT_LT(counters.used_bytes, 4u << 20);
  EXPECT_LT(counters.segments, 8u);
  EXPECT_TRUE(LogStore(store.image(), small_segments(0)).contents().empty());
}

/// A segment that is used again holds records of its earlier use, whole ones. They are nothing.
TEST(ValueLogCollection, RecordsOfAnEarlierUseStayForgotten) {
  LogStore store(small_segments(0));
  run(store, puts(0, 300, 'a'));
  run(store, erases(0, 300));
  ASSERT_GT(collect_all(store), 1u);
  ASSERT_TRUE(all_ok(run(store, puts(300, 460, 'z'))));
  Model const before = store.contents();
  Image const image = store.image();
  LogStore const reopened(image, small_segments(0));
  EXPECT_EQ(reopened.recovered.current, before.size());
  // As if there had been no earlier use.
  Image clean = image;
  std::uint64_t stale = 0;
  for (auto const& each : store.log->segments().all()) {
    std::byte* const begin = clean.data() + each->at.bytes;
    std::byte* const end = begin + kMinSuperblock;
    if (each->use != LogSegment::Use::free && each->generation > 1)
      stale += static_cast<std::uint64_t>(std::count_if(
          begin + each->fill.end, end, [](std::byte b) { return b != std::byte{0}; }));
    std::fill(begin + each->fill.end, end, std::byte{0});
  }
  EXPECT_GT(stale, kLong);
  EXPECT_EQ(reopened.recovered.records, LogStore(clean, small_segments(0)).recovered.records);
}

TEST(ValueLogCollection, AFullPoolSaysSoAndErasingMakesRoom) {
  LogStore store(small_segments(1), 9);  // eight segments
  Outcome const filled = run(store, puts(0, 1000, 'a'));
  EXPECT_FALSE(all_ok(filled));
  EXPECT_EQ(filled.refusal.code(), Code::no_space);
  std::size_t const held = store.contents().size();
  EXPECT_GT(held, 400u);
  EXPECT_LT(held, 800u);
  // Whatever is refused has not happened.
  EXPECT_EQ(std::ranges::count(filled.statuses, KeyStatus::ok), static_cast<std::ptrdiff_t>(held));
  ASSERT_TRUE(all_ok(run(store, erases(0, held))));
  EXPECT_TRUE(all_ok(run(store, puts(0, held * 9 / 10, 'b'))));
  // Updates in a full pool live from what they make outdated.
  for (char with : {'c', 'd', 'e'}) EXPECT_TRUE(all_ok(run(store, puts(0, held / 2, with))));
  Model const before = store.contents();
  store.log->close();
  LogStore reopened(store.image(), small_segments(1));
  EXPECT_EQ(reopened.contents(), before);
}

/// However few segments there are, and although threads put again what they have won.
TEST(ValueLogCollection, AFullPoolCanAlwaysBeErasedFrom) {
  constexpr std::size_t kThreads = 4;
  for (std::uint64_t const segments : {2u, 3u, 8u}) {
    LogStore store(small_segments(1), segments + 1);
    EXPECT_FALSE(all_ok(run(store, puts(0, 1000, 'a'))));
    std::size_t const held = store.contents().size();
    std::atomic<std::size_t> erased{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < held; i += kThreads) {
          auto operations = erases(i, i + 1);
          operations.push_back(puts(1000 + i, 1001 + i, 'b')[0]);
          erased += run(store, operations).statuses[0] == KeyStatus::ok;
        }
      });
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(erased, held) << segments << " segments";
    EXPECT_FALSE(store.contents().empty());
    store.log->close();
  }
}

/// One thread has the reserve's segment for tombstones; another waits until it leaves it room.
TEST(ValueLogCollection, AFullPoolIsErasedFromByTwoThreadsAtOnce) {
  LogStore store(small_segments(0), 9);
  EXPECT_FALSE(all_ok(run(store, puts(0, 1000, 'a'))));
  auto& segments = store.log->segments();
  std::optional<LogAppender> other(std::in_place, segments, store.index.host());
  ASSERT_TRUE(other->reserve(100, LogSegments::For::tombstones).ok());
  std::atomic<bool> erased{false};
  Outcome outcome;
  std::thread eraser([&] {
    outcome = run(store, erases(0, 10));
    erased = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(erased);
  other.reset();
  eraser.join();
  EXPECT_TRUE(all_ok(outcome));
  EXPECT_FALSE(store.contents().contains(key_of(9)));
}

/// The last segment is freed between a refusal and the wait for it: nothing more is going to
/// happen.
TEST(ValueLogCollection, WhatIsFreedAfterARefusalIsNotWaitedFor) {
  LogStore store(small_segments(0));
  EXPECT_EQ(fault_of_waiting(store), "");
}

/// Nobody waits for a thread that an exception has thrown out of a piece.
TEST(ValueLogCollection, SegmentsThatWereAbandonedAreNotWaitedFor) {
  LogStore store(small_segments(0), 9);
  EXPECT_FALSE(all_ok(run(store, puts(0, 1000, 'a'))));
  Model const before = store.contents();
  {
    LogAppender other(store.log->segments(), store.index.host());
    ASSERT_TRUE(other.reserve(100, LogSegments::For::tombstones).ok());
    other.append(bytes_of("a key"), {}, store.log->next_sequence(), true);
  }
  EXPECT_EQ(run(store, erases(0, 1)).statuses[0], KeyStatus::no_space);
  EXPECT_EQ(store.contents(), before);
}

TEST(ValueLogCollection, AnIndexWithoutMemoryLeavesNoTrace) {
  LogStore store(small_segments(0));
  store.index.most = 5;
  Outcome const outcome = run(store, puts(0, 8, 'a', 100));
  EXPECT_EQ(std::ranges::count(outcome.statuses, KeyStatus::no_space), 3);
  Model const before = store.contents();
  ASSERT_EQ(before.size(), 5u);
  LogStore reopened(store.image(), small_segments(0));
  EXPECT_EQ(reopened.contents(), before);
  EXPECT_TRUE(reopened.recovered.damage.empty());
}

TEST(ValueLogCollection, WritersWaitWhileTheQueueIsFull) {
  LogSettings options = small_segments(0);
  options.most_queued = 2;
  LogStore store(options);
  LogAttended const attended(store.log->segments());
  run(store, puts(0, 600, 'a'));
  std::atomic<bool> wrote{false};
  std::atomic<pid_t> of_writer{0};
  std::thread writer([&] {
    of_writer = perdure::test::thread_number();
    for (std::size_t from = 0; from < 600; from += 50) run(store, puts(from, from + 50, 'b'));
    wrote = true;
  });
  perdure::test::until_asleep(of_writer);  // nobody else is here whom it could wait for
  EXPECT_EQ(store.log->counters().segments.queued, 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(wrote);
  while (!wrote) {
    store.log->collector().collect_queued();
    std::this_thread::yield();
  }
  writer.join();
  ValueLog::Counters const counters = store.log->counters();
  EXPECT_GT(counters.segments.waits, 0u);
  EXPECT_GT(counters.segments.longest_wait_ns, 10'000'000u);
  EXPECT_LE(counters.segments.queued, 4u);
}

/// Two writers, readers among them, and two collectors.
TEST(ValueLogCollection, GoesOnBesideWriters) {
  LogSettings options = small_segments(2);
  options.most_queued = 2;
  LogStore store(options);
  auto const writes = [&](std::size_t which) {
    std::mt19937_64 random(which);
    for (int round = 0; round < 40; ++round) {
      std::vector<Operation> operations;
      for (int i = 0; i < 40; ++i) {
        // Keys of its own, and some of both's.
        std::size_t const key = random() % 50 + (random() % 4 == 0 ? 0 : 100 * which);
        OpKind const kind = random() % 4 == 0 ? OpKind::erase : OpKind::put;
        operations.push_back(
            {kind, key_of(key), kind == OpKind::put ? std::string(random() % 9000, 'x') : ""});
      }
      run(store, operations);
    }
  };
  std::thread one(writes, 1), two(writes, 2);
  one.join();
  two.join();
  store.log->close();
  EXPECT_GT(store.log->counters().collector.collections, 5u);
  EXPECT_EQ(store.log->counters().collector.failed, 0u);
  Model const before = store.contents();
  LogStore reopened(store.image(), small_segments(0));
  EXPECT_EQ(reopened.contents(), before);
  EXPECT_TRUE(reopened.recovered.damage.empty());
}

TEST(ValueLogDamage, IsTold) {
  LogStore store(small_segments(0));
  run(store, puts(0, 250, 'a'));
  store.log->close();
  LogSegment const& first = *store.log->segments().all().front();
  // In a value, in a key, in a tag, in the state and in the magic.
  for (std::uint64_t const at : {kFirstLogRecord + 500, kFirstLogRecord + 25, kFirstLogRecord + 12,
                                 std::uint64_t{24}, std::uint64_t{1}}) {
    Image image = store.image();
    image[first.at.bytes + at] ^= std::byte{4};
    LogStore reopened(image, small_segments(0));
    ASSERT_EQ(reopened.recovered.damage.size(), 1u) << at;
    EXPECT_LT(reopened.contents().size(), 250u);
    // It was passed over for good, where it could be.
    reopened.log->close();
    LogStore again(reopened.image(), small_segments(0));
    EXPECT_EQ(again.contents(), reopened.contents());
    EXPECT_EQ(again.recovered.damage.empty(), at >= kFirstLogRecord);
  }
}

/// After a crash as well, but for the last piece, of which nothing is known.
TEST(ValueLogDamage, IsToldFromWhatACrashLeft) {
  LogStore store(small_segments(0));
  run(store, puts(0, 1, 'a', 100));
  run(store, puts(1, 2, 'b', 100));
  Offset const first = store.log->segments().all().front()->at + kFirstLogRecord;
  Image image = store.image();
  image[first.bytes + 40] ^= std::byte{1};
  EXPECT_EQ(LogStore(image, small_segments(0)).recovered.damage.size(), 1u);
  image = store.image();
  image[first.bytes + log_bytes(5, 100) + 40] ^= std::byte{1};
  LogStore const torn(image, small_segments(0));
  EXPECT_TRUE(torn.recovered.damage.empty());
  EXPECT_EQ(torn.recovered.current, 1u);
}

}  // namespace
}  // namespace perdure::pm
