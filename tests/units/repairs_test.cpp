// Notes of repairs: what waits to be acknowledged, whatever was noted before, had no room, or is
// damaged.
#include "pm/repairs.hpp"

#include <gtest/gtest.h>

#include "units/memfd_pool.hpp"

namespace perdure::pm {
namespace {

std::vector<std::string> lines(std::size_t n, std::size_t bytes = 10) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back(std::to_string(i) + std::string(bytes, 'x'));
  return all;
}

TEST(Repairs, WaitBehindThoseThatWereThereUntilAcknowledged) {
  Pool pool = make_pool(2);
  Repairs repairs(pool);
  EXPECT_TRUE(repairs.waiting().empty());
  std::vector<std::string> const first = lines(2), second = lines(3, 20);
  repairs.add(first);
  EXPECT_EQ(repairs.waiting(), first);
  repairs.add(second);
  std::vector<std::string> both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(repairs.waiting(), both);
  repairs.acknowledge();
  EXPECT_TRUE(repairs.waiting().empty());
  repairs.add(second);
  EXPECT_EQ(repairs.waiting(), second);
}

TEST(Repairs, WithoutRoomAreCountedOverAllRepairs) {
  Pool pool = make_pool(2);
  Repairs repairs(pool);
  std::vector<std::string> const many = lines(10, kMostRepairText / 8);  // seven have room
  repairs.add(many);
  ASSERT_EQ(repairs.waiting().size(), 8u);
  EXPECT_EQ(repairs.waiting().back().substr(0, 7), "3 more ");
  repairs.add(many);
  ASSERT_EQ(repairs.waiting().size(), 8u);
  EXPECT_EQ(repairs.waiting().back().substr(0, 8), "13 more ");
}

TEST(Repairs, FillTheRoomToItsLastByteAndNoFurther) {
  for (std::size_t const left : {0u, 1u}) {
    Pool pool = make_pool(2);
    std::byte* const behind =
        pool.base() + kRepairNoteOffset + sizeof(RepairNote) + kMostRepairText;
    std::byte const before = *behind;
    Repairs repairs(pool);
    std::string const line(kMostRepairText - left, 'x');
    repairs.add(std::span(&line, 1));
    ASSERT_EQ(repairs.waiting().size(), 1u);
    EXPECT_EQ(repairs.waiting()[0] == line, left == 1) << "its end takes a byte";
    EXPECT_EQ(*behind, before);
  }
}

TEST(Repairs, OfWhichTheNoteIsDamagedStillWait) {
  for (std::uint64_t const at :
       {std::uint64_t{0}, std::uint64_t{16}, std::uint64_t{24}, sizeof(RepairNote)}) {
    Pool pool = make_pool(2);
    Repairs repairs(pool);
    repairs.add(lines(2));
    pool.base()[kRepairNoteOffset + at] ^= std::byte{1};
    ASSERT_EQ(repairs.waiting().size(), 1u);
    EXPECT_NE(repairs.waiting()[0].find("damaged"), std::string::npos);
    repairs.add(lines(1));
    ASSERT_EQ(repairs.waiting().size(), 2u);
    EXPECT_NE(repairs.waiting()[0].find("damaged"), std::string::npos);
    EXPECT_EQ(repairs.waiting()[1], lines(1)[0]);
  }
}

}  // namespace
}  // namespace perdure::pm
