// The store's lock by itself: who is alone is alone, nobody starves, and any thread releases what
// another took.
#include "store/store_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "support/asleep.hpp"

namespace perdure {
namespace {

using namespace std::chrono_literals;

TEST(StoreLock, WhoIsAloneIsAlone) {
  StoreLock store_lock;
  std::uint64_t plain = 0;  // a sanitizer sees who is not alone
  std::atomic<int> readers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        ExclusiveLock alone(store_lock);
        EXPECT_EQ(readers, 0);
        ++plain;
        if (i % 7 == 0) {
          alone.let_readers_in();
          if (i % 2 == 0) alone.keep_readers_out();
        }
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        SharedLock const shared(store_lock);
        ++readers;
        EXPECT_LE(plain, 900u);
        --readers;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(plain, 900u);
}

TEST(StoreLock, AnotherThreadLetsGo) {
  StoreLock store_lock;
  for (int i = 0; i < 20; ++i) {
    auto taken = std::make_unique<ExclusiveLock>(store_lock);
    std::thread([&] { taken.reset(); }).join();
    SharedLock const shared(store_lock);
  }
}

TEST(StoreLock, NobodyStarves) {
  StoreLock store_lock;
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 2; ++t) {
    busy.emplace_back([&] {
      while (!stop) ExclusiveLock const alone(store_lock);
    });
    busy.emplace_back([&] {
      while (!stop) SharedLock const shared(store_lock);
    });
  }
  auto each = std::async(std::launch::async, [&] {
    for (int i = 0; i < 50; ++i) {
      {
        SharedLock const shared(store_lock);
      }
      {
        ExclusiveLock const alone(store_lock);
      }
    }
  });
  EXPECT_EQ(each.wait_for(60s), std::future_status::ready);
  stop = true;
  for (auto& thread : busy) thread.join();
}

TEST(StoreLock, WhoWaitsToBeAloneGoesBeforeReadersThatComeAfterIt) {
  StoreLock store_lock;
  auto first = std::make_unique<SharedLock>(store_lock);
  std::atomic<int> order{0};
  std::atomic<pid_t> of_writer{0}, of_reader{0};
  auto writer = std::async(std::launch::async, [&] {
    of_writer = test::thread_number();
    ExclusiveLock const alone(store_lock);
    return ++order;
  });
  test::until_asleep(of_writer);
  auto reader = std::async(std::launch::async, [&] {
    of_reader = test::thread_number();
    SharedLock const shared(store_lock);
    return ++order;
  });
  test::until_asleep(of_reader);
  EXPECT_EQ(reader.wait_for(0ms), std::future_status::timeout);
  first.reset();
  EXPECT_EQ(writer.get(), 1);
  EXPECT_EQ(reader.get(), 2);
}

TEST(StoreLock, InsideIsWhoNamesTheHolderOrBeganIt) {
  StoreLock store_lock;
  int holder = 0, other = 0;
  auto held = std::make_unique<ExclusiveLock>(store_lock);
  store_lock.hold(&holder);
  EXPECT_EQ(SharedLock(store_lock).way(), Way::inside);
  EXPECT_EQ(SharedLock(store_lock, &holder).way(), Way::inside);
  EXPECT_EQ(SharedLock(store_lock, &other).way(), Way::none);
  std::thread([&] {
    EXPECT_EQ(ExclusiveLock(store_lock, &holder).way(), Way::inside);
    EXPECT_EQ(ExclusiveLock(store_lock, &other).way(), Way::none);
    EXPECT_FALSE(store_lock.is_held_here());
    {
      ExclusiveLock const inside(store_lock, &holder);
      store_lock.hold_no_more();
    }
    held.reset();
  }).join();
  EXPECT_EQ(SharedLock(store_lock).way(), Way::lock);
  EXPECT_EQ(SharedLock(store_lock, &holder).way(), Way::none);
}

}  // namespace
}  // namespace perdure
