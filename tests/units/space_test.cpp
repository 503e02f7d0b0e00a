// Room for records of threads that take and give few at a time, through hands: no record is two
// threads', and where there is no room left, none is in a hand.
#include "store/threads/space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "units/memfd_pool.hpp"

namespace perdure::threads {
namespace {

constexpr std::uint64_t kStride = 4096;

TEST(Space, GivesThreadsRecordsOfTheirOwn) {
  pm::Pool pool = pm::make_pool(2);
  Mutex memory;
  Space space(pool, memory);
  constexpr std::size_t kThreads = 4, kEach = 500;
  std::vector<std::vector<std::uint64_t>> held(kThreads);
  std::vector<std::jthread> all;
  for (std::size_t t = 0; t < kThreads; ++t) {
    all.emplace_back([&, t] {
      auto& mine = held[t];
      for (std::size_t i = 0; i < kEach; ++i) {
        ASSERT_TRUE(space.take(kStride, 1 + i % 3, mine).ok());
        if (i % 2 == 0) {
          space.give(std::span(mine).last(1));
          mine.pop_back();
        }
      }
    });
  }
  all.clear();
  std::set<std::uint64_t> once;
  std::size_t count = 0;
  for (auto const& mine : held) {
    once.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  EXPECT_EQ(once.size(), count);
}

TEST(Space, TakesNoMoreThanItIsAskedForWhereSizesChange) {
  pm::Pool pool = pm::make_pool(2);
  Mutex memory;
  Space space(pool, memory);
  std::vector<std::uint64_t> held;
  for (std::size_t i = 0; i < 100; ++i)
    ASSERT_TRUE(space.take(i % 2 == 0 ? kStride : 2 * kStride, 1, held).ok());
  EXPECT_EQ(space.heap_alone().records_in_use(), held.size());
}

TEST(Space, RefusesNothingThatIsInAHand) {
  pm::Pool pool = pm::make_pool(2, 4);
  Mutex memory;
  Space space(pool, memory);
  std::vector<std::uint64_t> held;
  while (space.take(kStride, 1, held).ok()) {
  }
  std::size_t const most = held.size();
  ASSERT_GT(most, 100u);
  // Others' hands have them now, each less than makes the heap get them.
  std::size_t const each = 5;
  for (std::size_t t = 0; t < 4; ++t) {
    std::jthread([&] {
      space.give(std::span(held).last(each));
      held.resize(held.size() - each);
    }).join();
  }
  while (space.take(kStride, 1, held).ok()) {
  }
  EXPECT_EQ(held.size(), most);
  std::ranges::sort(held);
  EXPECT_EQ(std::ranges::adjacent_find(held), held.end());
}

TEST(Space, TakesRecordsOfEachStrideThatIsAskedFor) {
  pm::Pool pool = pm::make_pool(2);
  Mutex memory;
  Space space(pool, memory);
  std::vector<std::uint64_t> small, large;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(space.take(64, 1, small).ok());
    ASSERT_TRUE(space.take(4096, 1, large).ok());
  }
  for (std::uint64_t const at : small)
    for (std::uint64_t const other : large) EXPECT_TRUE(at + 64 <= other || other + 4096 <= at);
}

}  // namespace
}  // namespace perdure::threads
