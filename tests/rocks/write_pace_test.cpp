// Writers go slower before they have to stop.
#include "lsm/rocks/write_pace.hpp"

#include <gtest/gtest.h>

namespace perdure::lsm {
namespace {

using std::chrono::microseconds;

constexpr WritePace kPace{.memtable_bytes = 1000, .most_sealed = 5};
constexpr microseconds kFlush(100'000);

TEST(WritePace, LeavesBurstsAlone) {
  for (std::uint64_t sealed = 0; sealed <= 2; ++sealed)
    EXPECT_EQ(kPace.delay(sealed, 1000, kFlush).count(), 0);
  EXPECT_EQ(kPace.delay(5, 1000, microseconds(0)).count(), 0) << "nothing was flushed yet";
}

TEST(WritePace, FillsAMemtableInAFlushThenInTwoAndFour) {
  EXPECT_EQ(kPace.delay(3, 1000, kFlush), kFlush);
  EXPECT_EQ(kPace.delay(4, 1000, kFlush), 2 * kFlush);
  EXPECT_EQ(kPace.delay(5, 250, kFlush), kFlush);
  EXPECT_EQ(kPace.delay(3, 10, kFlush).count(), 1000) << "each batch waits for its share";
}

TEST(WritePace, NeverKeepsAWriteForLong) {
  EXPECT_EQ(kPace.delay(5, 1'000'000, kFlush), WritePace::kLongest);
  EXPECT_EQ(kPace.delay(1000, 1'000'000, kFlush), WritePace::kLongest);
  constexpr WritePace kOne{.memtable_bytes = 1000, .most_sealed = 1};
  EXPECT_EQ(kOne.delay(1, 100, kFlush), kFlush / 10);
}

}  // namespace
}  // namespace perdure::lsm
