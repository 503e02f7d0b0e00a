// The store's lock by itself: who is alone is alone, nobody starves, and any thread lets go of what another took.
#include "store/world.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace perdure {
namespace {

using namespace std::chrono_literals;

TEST(World, WhoIsAloneIsAlone) {
  World world;
  std::uint64_t plain = 0;  // a sanitizer sees who is not alone
  std::atomic<int> readers{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        WorldAlone alone(world);
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
        WorldShared const shared(world);
        ++readers;
        EXPECT_LE(plain, 900u);
        --readers;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(plain, 900u);
}

TEST(World, AnotherThreadLetsGo) {
  World world;
  for (int i = 0; i < 20; ++i) {
    auto taken = std::make_unique<WorldAlone>(world);
    std::thread([&] { taken.reset(); }).join();
    WorldShared const shared(world);
  }
}

TEST(World, NobodyStarves) {
  World world;
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int t = 0; t < 2; ++t) {
    busy.emplace_back([&] {
      while (!stop) WorldAlone const alone(world);
    });
    busy.emplace_back([&] {
      while (!stop) WorldShared const shared(world);
    });
  }
  auto each = std::async(std::launch::async, [&] {
    for (int i = 0; i < 50; ++i) {
      {
        WorldShared const shared(world);
      }
      {
        WorldAlone const alone(world);
      }
    }
  });
  EXPECT_EQ(each.wait_for(60s), std::future_status::ready);
  stop = true;
  for (auto& thread : busy) thread.join();
}

TEST(World, WhoWaitsToBeAloneGoesBeforeReadersThatComeAfterIt) {
  World world;
  auto first = std::make_unique<WorldShared>(world);
  std::atomic<int> order{0};
  auto writer = std::async(std::launch::async, [&] {
    WorldAlone const alone(world);
    return ++order;
  });
  std::this_thread::sleep_for(20ms);
  auto reader = std::async(std::launch::async, [&] {
    WorldShared const shared(world);
    return ++order;
  });
  EXPECT_EQ(reader.wait_for(20ms), std::future_status::timeout);
  first.reset();
  EXPECT_EQ(writer.get(), 1);
  EXPECT_EQ(reader.get(), 2);
}

TEST(World, InsideIsWhoNamesTheHolderOrBeganIt) {
  World world;
  int holder = 0, other = 0;
  auto held = std::make_unique<WorldAlone>(world);
  world.hold(&holder);
  EXPECT_EQ(WorldShared(world).way(), Way::inside);
  EXPECT_EQ(WorldShared(world, &holder).way(), Way::inside);
  EXPECT_EQ(WorldShared(world, &other).way(), Way::none);
  std::thread([&] {
    EXPECT_EQ(WorldAlone(world, &holder).way(), Way::inside);
    EXPECT_EQ(WorldAlone(world, &other).way(), Way::none);
    EXPECT_FALSE(world.is_held_here());
    {
      WorldAlone const inside(world, &holder);
      world.hold_no_more();
    }
    held.reset();
  }).join();
  EXPECT_EQ(WorldShared(world).way(), Way::lock);
  EXPECT_EQ(WorldShared(world, &holder).way(), Way::none);
}

}  // namespace
}  // namespace perdure
