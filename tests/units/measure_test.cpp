// Measurements of the machine: what they walk through and read, and what becomes of those that
// there is no room for.
#include "perdure/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "measure/host_chase.hpp"
#include "measure/random_reads.hpp"

namespace perdure::measure {
namespace {

TEST(Measure, AWalkVisitsEachLineOnceBeforeItComesBack) {
  exec::Workers workers(2);
  for (std::size_t span = 256; span <= 1u << 20; span *= 2) {
    std::vector<std::uint64_t> words(span / 8);
    lay_out_walk(workers, words.data(), span);
    std::vector<bool> visited(span / 64);
    std::uint64_t at = 0;
    for (std::size_t step = 0; step < span / 64; ++step) {
      ASSERT_EQ(at % 8, 0u);
      ASSERT_FALSE(visited[at / 8]) << "span " << span << ", step " << step;
      visited[at / 8] = true;
      at = words[at];
    }
    EXPECT_EQ(at, 0u) << "span " << span;
  }
}

TEST(Measure, ThreadsThatShareAnAccessReadEachWordOfIt) {
  std::vector<std::uint64_t> words(1024);
  std::uint64_t sink = 0;
  for (std::uint32_t const threads : {1u, 4u, 16u}) {
    RandomReads const reads{words.data(), 1024 / 16, 16, threads, 7, &sink};
    std::uint64_t const access = mixed(7 + 3) % (1024 / 16);
    for (std::uint32_t w = 0; w < 16; ++w) {
      // The sum of the thread that reads this word alone becomes the value that is noted.
      words[access * 16 + w] = ~std::uint64_t{0};
      sink = 0;
      for (std::uint32_t t = 0; t < threads; ++t) reads(3 * threads + t);
      EXPECT_EQ(sink, ~std::uint64_t{0}) << threads << " threads, word " << w;
      words[access * 16 + w] = 0;
    }
  }
}

TEST(Measure, WhatThereIsNoRoomForIsLeftOutByName) {
  auto report = measure_machine({.seconds = 1, .memory_bytes = 1000, .quick = true});
  ASSERT_TRUE(report.ok()) << report.status().message();
  std::set<std::string> left_out;
  for (LeftOut const& one : report->left_out) {
    left_out.insert(one.what);
    EXPECT_FALSE(one.why.empty()) << one.what;
  }
  for (char const* const what : {"read, write, copy", "chase", "random, by the host",
                                 "sort, by the host", "random, over the link"})
    EXPECT_TRUE(left_out.contains(what)) << what;
  for (MeasuredRow const& row : report->rows) EXPECT_EQ(row.what, "launch") << "takes no memory";
}

TEST(Measure, ItStopsBetweenTwoRows) {
  int asked = 0;
  auto const report = measure_machine({.seconds = 1, .memory_bytes = 1u << 20, .quick = true},
                                      [&](double) { return ++asked < 4; });
  EXPECT_EQ(report.status().code(), Code::stopped);
  EXPECT_EQ(asked, 4);
}

TEST(Measure, NumbersOfStoresNameARowThatIsMeasured) {
  std::set<std::string> const rows{"launch", "link", "random", "sort"};
  auto const numbers = numbers_of_stores();
  EXPECT_FALSE(numbers.empty());
  for (UsedNumber const& one : numbers)
    EXPECT_TRUE(one.row_what.empty() || rows.contains(one.row_what)) << one.what;
}

}  // namespace
}  // namespace perdure::measure
