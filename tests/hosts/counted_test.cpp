// CountedHost: exact counts of lines, against counts made by hand and against a plain set.
#include "pm/counted_host.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <random>
#include <set>

namespace perdure::pm {
namespace {

struct alignas(64) Memory {
  std::array<std::uint64_t, 8 * 64> words{};  // 64 lines
  [[nodiscard]] DurableRange range() { return DurableRange(std::as_bytes(std::span(words))); }
  [[nodiscard]] std::uint64_t* line(std::size_t i) { return &words[8 * i]; }
};

TEST(CountedHost, CountsEachLineOnceAnOperation) {
  Memory memory;
  CountedHost host(memory.range());
  host.begin();
  static_cast<void>(host.load(memory.line(3)));
  static_cast<void>(host.load(memory.line(3) + 7));
  host.read(memory.line(3), 64);
  EXPECT_EQ(host.counts().lines_read, 1u);
  host.read(memory.line(3) + 7, 16);  // reaches into line 4
  EXPECT_EQ(host.counts().lines_read, 2u);
  host.begin();
  static_cast<void>(host.load(memory.line(3)));
  EXPECT_EQ(host.counts().lines_read, 3u) << "another operation reads it again";
  EXPECT_EQ(host.counts().operations, 2u);
}

TEST(CountedHost, TellsStoresFlushesAndFencesApart) {
  Memory memory;
  CountedHost host(memory.range());
  host.begin();
  host.store(memory.line(0), 1);
  host.store(memory.line(0) + 1, 2);
  host.store(memory.line(1), 3);
  host.flush(memory.line(0), 128);
  host.persist(memory.line(1), 8);
  EXPECT_EQ(host.counts().lines_written, 2u);
  EXPECT_EQ(host.counts().lines_flushed, 3u) << "each flush of a line counts";
  EXPECT_EQ(host.counts().fences, 1u);
  EXPECT_EQ(host.counts().lines_read, 0u);
  EXPECT_EQ(memory.words[8], 3u);
}

TEST(CountedHost, ASwapThatFailsReadsAndDoesNotWrite) {
  Memory memory;
  CountedHost host(memory.range());
  host.begin();
  EXPECT_FALSE(host.cas(memory.line(5), 7, 8));
  EXPECT_EQ(host.counts().lines_written, 0u);
  EXPECT_TRUE(host.cas(memory.line(5), 0, 8));
  EXPECT_EQ(host.counts().lines_written, 1u);
  EXPECT_EQ(host.counts().lines_read, 1u);
}

TEST(CountedHost, VolatileWordsCountAsNothing) {
  Memory memory;
  CountedHost host(memory.range());
  std::uint64_t lock = 0;
  host.begin();
  EXPECT_TRUE(host.cas(&lock, 0, 1));
  host.store(&lock, 0);
  static_cast<void>(host.load(&lock));
  EXPECT_EQ(host.counts().lines_read, 0u);
  EXPECT_EQ(host.counts().lines_written, 0u);
}

RC_GTEST_PROP(LineSet, AnswersAsASetDoesOverRounds, ()) {
  LineSet lines;
  std::mt19937_64 draw(*rc::gen::arbitrary<std::uint64_t>());
  for (int round = 0; round < 20; ++round) {
    std::set<std::uint64_t> model;
    lines.clear();
    std::uint64_t const span = 1 + draw() % 5000;
    for (std::uint64_t i = draw() % 2000; i > 0; --i) {
      std::uint64_t const line = draw() % span * (draw() % 2 == 0 ? 1 : 1 << 20);
      RC_ASSERT(lines.add(line) == model.insert(line).second);
    }
  }
}

}  // namespace
}  // namespace perdure::pm
