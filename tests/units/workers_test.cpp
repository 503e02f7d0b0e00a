// The worker pool: every index once, from any number of callers.
#include "exec/workers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace perdure::exec {
namespace {

void run_once(Workers& workers, std::size_t n, std::size_t chunk) {
  std::vector<std::atomic<int>> seen(n);
  std::atomic<std::size_t> largest{0};
  workers.for_chunks(n, chunk, [&](std::size_t begin, std::size_t end) {
    ASSERT_LT(begin, end);
    ASSERT_LE(end, n);
    std::size_t size = end - begin, most = largest;
    while (size > most && !largest.compare_exchange_weak(most, size)) {
    }
    for (std::size_t i = begin; i < end; ++i) ++seen[i];
  });
  EXPECT_LE(largest, std::max<std::size_t>(chunk, 1));
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](auto const& count) { return count == 1; }))
      << n << "/" << chunk;
}

TEST(Workers, EveryIndexIsVisitedOnce) {
  for (std::uint32_t const threads : {1u, 2u, 7u}) {
    Workers workers(threads);
    EXPECT_EQ(workers.threads(), threads);
    for (std::size_t const n : {0u, 1u, 2u, 100u, 4097u}) {
      for (std::size_t const chunk : {0u, 1u, 3u, 64u, 5000u}) run_once(workers, n, chunk);
    }
  }
}

TEST(Workers, NoneAskedForMeansOneACore) {
  Workers workers(0);
  EXPECT_EQ(workers.threads(), std::max(1u, std::thread::hardware_concurrency()));
}

TEST(Workers, SeveralCallersGetTheirOwnAnswers) {
  Workers workers(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&workers] {
      for (int round = 0; round < 200; ++round) run_once(workers, 257, 8);
    });
  }
  for (auto& caller : callers) caller.join();
}

TEST(Workers, AJobReturnsWhenItsSlowestHelperHasDone) {
  Workers workers(4);
  auto const caller = std::this_thread::get_id();
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::size_t> done{0};
    workers.for_chunks(64, 1, [&](std::size_t begin, std::size_t end) {
      // Longer than anybody looks out for the others.
      bool const helps = std::this_thread::get_id() != caller;
      std::this_thread::sleep_for(std::chrono::microseconds(helps ? 3000 : 20));
      done += end - begin;
    });
    ASSERT_EQ(done, 64u);
  }
}

TEST(Workers, WhatAJobWroteIsSeenWhenItReturns) {
  Workers workers(4);
  std::vector<std::uint64_t> plain(10'000, 0);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    workers.for_chunks(plain.size(), 100, [&](std::size_t b, std::size_t e) {
      for (std::size_t i = b; i < e; ++i) plain[i] += round;
    });
  }
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](std::uint64_t x) { return x == 5050; }));
}

TEST(Workers, AnExceptionComesOutOnceNobodyWorksOnItsJob) {
  Workers workers(4);
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> inside{0};
    bool thrown = false;
    try {
      workers.for_chunks(64, 1, [&](std::size_t begin, std::size_t) {
        ++inside;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        --inside;
        if (begin % 16 == static_cast<std::size_t>(round) % 16)
          throw std::runtime_error("of a chunk");
      });
    } catch (std::runtime_error const&) {
      thrown = true;
    }
    ASSERT_TRUE(thrown);
    ASSERT_EQ(inside, 0);
  }
  run_once(workers, 1000, 7);
}

}  // namespace
}  // namespace perdure::exec
