// Dash-EH against a plain map: generated sequences over openings, splits and merges; several threads.
#include "index/dash/extendible.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <thread>

#include "tables.hpp"

namespace perdure::dash {
namespace {

using Table = Extendible<InlineKeys>;
using Write = Table::Write;
using InPool = TableInPool<Table>;

constexpr SegmentShape kSmall{4, 2};  // 84 slots: sequences of a few hundred keys split and merge it

RC_GTEST_PROP(DashExtendible, AnswersAsAMapDoesOverOpenings, ()) {
  InPool t(kSmall, 0);
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

TEST(DashExtendible, GrowsAndShrinksAgain) {
  InPool t(SegmentShape{}, 1);
  constexpr std::uint64_t kKeys = 60000;
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.write(k, ~k, Write::insert), Answer::done);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.get(k), ~k);
  auto const full = t.table().shape(t.host());
  EXPECT_GT(full.segments, 64u);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.erase(k), Answer::done);
  auto const empty = t.table().shape(t.host());
  EXPECT_LT(empty.segments * 8, full.segments);
  EXPECT_LT(empty.depth, full.depth);
  EXPECT_TRUE(t.contents().empty());
  t.table().epochs().drain();
  std::uint64_t const bytes = t.pool().bytes();
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.write(k, k, Write::put), Answer::done);
  EXPECT_EQ(t.pool().bytes(), bytes) << "merged segments were not used again";
}

TEST(DashExtendible, SegmentsFillToTheirBoundBeforeTheySplit) {
  for (std::uint32_t const stash : {2u, 4u}) {
    InPool t(SegmentShape{64, stash}, 1);
    double best = 0;
    for (std::uint64_t k = 0; k < 400000; ++k) {
      ASSERT_EQ(t.write(k, k, Write::insert), Answer::done);
      if (k % 1000 == 0) {
        auto const slots = t.table().shape(t.host()).segments * (64 + stash) * kSlots;
        best = std::max(best, static_cast<double>(k) / static_cast<double>(slots));
      }
    }
    EXPECT_GE(best, stash == 2 ? 0.80 : 0.90);
  }
}

TEST(DashExtendible, ThreadsWriteAndReadSideBySide) {
  InPool t(SegmentShape{8, 2}, 1);
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
        wrong = wrong || t.get(look) != (mine.contains(look) ? std::optional(mine[look]) : std::nullopt);
        static_cast<void>(t.get(draw() % (kKeys * kThreads)));
      }
      for (auto const& [key, value] : mine) wrong = wrong || t.get(key) != value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
  EXPECT_GT(t.table().merges(), 0u);
}

}  // namespace
}  // namespace perdure::dash
