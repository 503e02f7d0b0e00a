// What a mixed batch's kinds come to, beside a count of one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "batch/kinds.hpp"

namespace perdure {
namespace {

TEST(Kinds, AreCountedAsOneAfterTheOther) {
  std::mt19937 random(1);
  for (std::size_t n = 0; n < 9000; n += 1 + n / 16) {
    std::vector<OpKind> kinds(n);
    for (OpKind& each : kinds)
      each = static_cast<OpKind>(random() % 1000 == 0 ? random() % 256 : random() % 4);
    auto const count = [&](OpKind kind) {
      return static_cast<std::uint64_t>(std::ranges::count(kinds, kind));
    };
    KindCounts const counts = count_kinds(kinds);
    bool const unknown =
        std::ranges::any_of(kinds, [](OpKind kind) { return kind > OpKind::update; });
    EXPECT_EQ(counts.unknown, unknown);
    if (unknown) continue;
    EXPECT_EQ(counts.gets, count(OpKind::get));
    EXPECT_EQ(counts.puts, count(OpKind::put));
    EXPECT_EQ(counts.erases, count(OpKind::erase));
    EXPECT_EQ(counts.updates, count(OpKind::update));
  }
}

}  // namespace
}  // namespace perdure
