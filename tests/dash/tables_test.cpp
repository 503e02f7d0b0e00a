// Dash-EH and Dash-LH against a plain map: generated sequences over openings, splits and merges;
// several threads.
#include "index/dash/extendible.hpp"
#include "index/dash/linear.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <thread>

#include "tables.hpp"

namespace perdure::dash {
namespace {

using EH = Extendible<InlineKeys>;
using LH = Linear<InlineKeys>;

constexpr SegmentShape kSmall{4,
                              2};  // 84 slots: sequences of a few hundred keys split and merge it

template <class Table>
void answers_as_a_map_does() {
  using Write = typename Table::Write;
  TableInPool<Table> t(kSmall, 0);
  Model model;
  auto const keys = *rc::gen::inRange<std::uint64_t>(1, 2000);
  auto const steps = *rc::gen::inRange<int>(1, 4000);
  std::mt19937_64 draw(*rc::gen::arbitrary<std::uint64_t>());
  std::uint64_t erases_of_10 = draw() % 10;
  for (int i = 0; i < steps; ++i) {
    std::uint64_t const key = draw() % keys, value = draw();
    bool const there = model.contains(key);
    if (draw() % 500 == 0) {
      t.reopen(draw() % 2 == 0);
      if (draw() % 2 == 0) t.sweep();
      erases_of_10 = draw() % 10;
    } else if (draw() % 10 < erases_of_10) {
      RC_ASSERT(t.erase(key) == (there ? Answer::done : Answer::absent));
      model.erase(key);
    } else if (draw() % 3 == 0) {
      RC_ASSERT(t.write(key, value, Write::insert) == (there ? Answer::exists : Answer::done));
      model.emplace(key, value);
    } else if (draw() % 2 == 0) {
      RC_ASSERT(t.write(key, value, Write::update) == (there ? Answer::done : Answer::absent));
      if (there) model[key] = value;
    } else {
      RC_ASSERT(t.write(key, value, Write::put) == Answer::done);
      model[key] = value;
    }
    std::uint64_t const other = draw() % keys;
    RC_ASSERT(t.get(other) == (model.contains(other) ? std::optional(model[other]) : std::nullopt));
  }
  RC_ASSERT(t.contents() == model);
}

RC_GTEST_PROP(DashExtendible, AnswersAsAMapDoesOverOpenings, ()) { answers_as_a_map_does<EH>(); }
RC_GTEST_PROP(DashLinear, AnswersAsAMapDoesOverOpenings, ()) { answers_as_a_map_does<LH>(); }

TEST(DashExtendible, GrowsAndShrinksAgain) {
  TableInPool<EH> t(SegmentShape{}, 1);
  using Write = EH::Write;
  constexpr std::uint64_t kKeys = 60000;
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.write(k, ~k, Write::insert), Answer::done);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.get(k), ~k);
  std::uint64_t const full = t.table().segments(t.host());
  std::uint32_t const deep = t.table().depth(t.host());
  EXPECT_GT(full, 64u);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.erase(k), Answer::done);
  EXPECT_LT(t.table().segments(t.host()) * 8, full);
  EXPECT_LT(t.table().depth(t.host()), deep);
  EXPECT_TRUE(t.contents().empty());
  t.table().epochs().drain();
  std::uint64_t const bytes = t.pool().bytes();
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.write(k, k, Write::put), Answer::done);
  EXPECT_EQ(t.pool().bytes(), bytes) << "merged segments were not used again";
}

/// Most records a slot, whatever moment of a load one looks at, once it has many segments.
template <class Table>
double best_load(SegmentShape shape) {
  TableInPool<Table> t(shape, 1);
  double best = 0;
  for (std::uint64_t k = 0; k < 400000; ++k) {
    if (t.write(k, k, Table::Write::insert) != Answer::done) return 0;
    if (k < 20000 || k % 500 != 0) continue;
    auto const slots = t.table().buckets(t.host()) * kSlots;
    best = std::max(best, static_cast<double>(k) / static_cast<double>(slots));
  }
  return best;
}

TEST(DashExtendible, SegmentsFillToTheirBoundBeforeTheySplit) {
  EXPECT_GE(best_load<EH>({64, 2}), 0.80);
  EXPECT_GE(best_load<EH>({64, 4}), 0.90);
}
/// Of all that it took from the pool: its arrays are large for so few records. A load of 16 million
/// comes to 0.84.
TEST(DashLinear, SegmentsFillBeforeMoreCome) { EXPECT_GE(best_load<LH>({64, 2}), 0.77); }

/// What it took from the pool: superblocks of arrays, by what the index superblock says, and links
/// of chains.
std::uint64_t buckets_in(pm::Pool& pool, SegmentShape shape) {
  auto const word = [&](std::uint64_t at) {
    return *reinterpret_cast<std::uint64_t const*>(pool.base() + at);
  };
  std::uint64_t const index = pool.superblock_bytes();
  std::uint64_t buckets = 0;
  for (std::uint64_t a = 0; word(index + kDirectories + 8 * a) != 0; ++a) {
    std::uint64_t const segments = (pool.superblock_bytes() << a / 8) / shape.bytes();
    buckets += segments * (shape.buckets + shape.stash);
    for (std::uint64_t i = 0; i < segments; ++i) {
      std::uint64_t const chain =
          word(index + kDirectories + 8 * a) + i * shape.bytes() + offsetof(SegmentHeader, chain);
      for (std::uint64_t at = word(chain); at != 0; at = word(at + offsetof(Bucket, hints)))
        ++buckets;
    }
  }
  return buckets;
}

/// So no shortcut leads past a segment that was named after it was stored.
TEST(DashLinear, WhoeverWantsANewSegmentSplitsItOff) {
  TableInPool<LH> t(kSmall, 1);
  std::mt19937_64 draw(5);
  for (std::uint64_t n = 0; n < 20000; ++n) {
    std::uint64_t const key = draw();
    ASSERT_EQ(t.write(key, ~key, LH::Write::insert), Answer::done);
    std::uint64_t const named = t.table().segments(t.host());
    if (n % 97 != 0 || named < 64) continue;
    // A hash of the last one, whose first bits are its number backwards.
    exec::EpochGuard const guard(t.table().epochs());
    std::uint64_t const least = start_of(named - 1);
    std::uint64_t const address = t.table().segment_of(t.host(), least);
    auto const* const header = reinterpret_cast<SegmentHeader const*>(t.pool().base() + address);
    ASSERT_EQ(header->start, least) << "of " << named << " segments";
  }
  EXPECT_GT(t.table().segments(t.host()), 200u);
}

TEST(DashLinear, ItsBucketsAreThoseOfAllItTookFromThePool) {
  TableInPool<LH> t(kSmall, 1);
  bool chained = false;
  for (std::uint64_t k = 0; k < 30000; ++k) {
    ASSERT_EQ(t.write(k, k, LH::Write::insert), Answer::done);
    if (k % 100 != 0) continue;
    std::uint64_t const buckets = t.table().buckets(t.host());
    ASSERT_EQ(buckets, buckets_in(t.pool(), kSmall)) << k;
    EXPECT_GE(buckets, t.table().segments(t.host()) * (kSmall.buckets + kSmall.stash));
    chained |= buckets % (kSmall.buckets + kSmall.stash) != 0;
  }
  EXPECT_TRUE(chained) << "a bucket was chained meanwhile";
}

template <class Table>
void threads_side_by_side(TableInPool<Table>& t) {
  using Write = typename Table::Write;
  constexpr std::uint64_t kThreads = 4, kKeys = 4000;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (std::uint64_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      std::mt19937_64 draw(me);
      Model mine;  // each thread has keys of its own, and looks at the others' too
      for (int i = 0; i < 40000; ++i) {
        std::uint64_t const key = draw() % kKeys * kThreads + me, value = draw();
        if (bool const grow = i / 10000 % 2 == 0; draw() % 16 == 0 || (grow && draw() % 4 != 0)) {
          wrong = wrong || t.write(key, value, Write::put) != Answer::done;
          mine[key] = value;
        } else {
          wrong = wrong || t.erase(key) != (mine.erase(key) != 0 ? Answer::done : Answer::absent);
        }
        std::uint64_t const look = draw() % kKeys * kThreads + me;
        wrong = wrong ||
                t.get(look) != (mine.contains(look) ? std::optional(mine[look]) : std::nullopt);
        static_cast<void>(t.get(draw() % (kKeys * kThreads)));
      }
      for (auto const& [key, value] : mine) wrong = wrong || t.get(key) != value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
}
TEST(DashExtendible, ThreadsWriteAndReadSideBySide) {
  TableInPool<EH> t(SegmentShape{8, 2}, 1);
  threads_side_by_side(t);
  EXPECT_GT(t.table().merges(), 0u);
}
TEST(DashLinear, ThreadsWriteAndReadSideBySide) {
  TableInPool<LH> t(SegmentShape{8, 2}, 1);
  threads_side_by_side(t);
  EXPECT_GT(t.table().splits(), 0u);
}

/// Each half of all hashes grows to several segments and shrinks to one, again and again, by a
/// thread of its own: so one thread halves the directory while the other splits.
TEST(DashExtendible, OneThreadHalvesTheDirectoryWhileAnotherSplits) {
  TableInPool<EH> t(SegmentShape{4, 1}, 1);
  std::atomic<bool> wrong{false};
  auto const fill_and_empty = [&](std::uint64_t half) {
    constexpr std::size_t kKeys = 120;
    std::vector<std::uint64_t> keys;
    for (std::uint64_t k = 0; keys.size() < kKeys; ++k)
      if (InlineKeys(8).key(reinterpret_cast<std::byte const*>(&k)).hash >> 63 == half)
        keys.push_back(k);
    for (int round = 0; round < 2000 && !wrong; ++round) {
      for (std::uint64_t const key : keys)
        wrong = wrong || t.write(key, ~key, EH::Write::put) != Answer::done;
      for (std::uint64_t const key : keys) wrong = wrong || t.get(key) != ~key;
      for (std::uint64_t const key : keys) wrong = wrong || t.erase(key) != Answer::done;
    }
  };
  std::thread other(fill_and_empty, 1);
  fill_and_empty(0);
  other.join();
  EXPECT_FALSE(wrong);
  EXPECT_TRUE(t.contents().empty());
  EXPECT_GT(t.table().merges(), 1000u);
}

}  // namespace
}  // namespace perdure::dash
