// The pool's superblocks: which runs of them recovery may claim, and when it finds out whose they
// are.
#include "pm/pool.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "units/memfd_pool.hpp"

namespace perdure::pm {
namespace {

TEST(Pool, TellsWhichRunsAreFree) {
  Pool pool = make_pool(8);
  auto const at = [](std::uint64_t superblock) { return Offset{superblock * kMinSuperblock}; };
  EXPECT_TRUE(pool.is_free_run(at(1), 7));
  EXPECT_FALSE(pool.is_free_run(at(0), 1)) << "the header's";
  pool.claim_run(at(4), 2);
  EXPECT_TRUE(pool.is_free_run(at(1), 3));
  EXPECT_FALSE(pool.is_free_run(at(1), 4)) << "its last superblock is in use";
  EXPECT_FALSE(pool.is_free_run(at(5), 2)) << "its first";
  EXPECT_FALSE(pool.is_free_run(at(3), 4)) << "those in its midst";
  EXPECT_TRUE(pool.is_free_run(at(6), 2));
  pool.give_run(at(4), 2);
  EXPECT_TRUE(pool.is_free_run(at(1), 7));
}

/// So that an opening tells a file that was cut off from one that is whole.
TEST(Pool, TheRootCountsTheSuperblocksThatItHasGrownTo) {
  Pool pool = make_pool(2);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool.take_run(3).ok());
    EXPECT_EQ(pool.root().superblocks, pool.superblocks());
  }
  EXPECT_GE(pool.superblocks(), 16u);
}

TEST(Pool, TellsWhatIsNoRun) {
  Pool const pool = make_pool(8);
  std::uint64_t const most = ~std::uint64_t{0};
  EXPECT_FALSE(pool.is_free_run(Offset{kMinSuperblock + 64}, 1)) << "between two superblocks";
  EXPECT_FALSE(pool.is_free_run(Offset{7 * kMinSuperblock}, 2)) << "its end is beyond the pool's";
  EXPECT_FALSE(pool.is_free_run(Offset{8 * kMinSuperblock}, 1)) << "the pool ends there";
  EXPECT_FALSE(pool.is_free_run(Offset{kMinSuperblock}, most)) << "so many that their sum wraps";
  EXPECT_FALSE(pool.is_free_run(Offset{most / kMinSuperblock * kMinSuperblock}, 1))
      << "no superblock lies so far off";
}

TEST(Pool, FindsOwnersInTurnBeforeAnythingIsTaken) {
  Pool pool = make_pool(8);
  std::vector<int> called;
  pool.find_owners_later([&] {
    called.push_back(1);
    pool.claim_run(Offset{kMinSuperblock}, 3);
  });
  pool.find_owners_later([&] {
    called.push_back(2);
    EXPECT_FALSE(pool.is_free(Offset{kMinSuperblock})) << "the first has claimed it";
  });
  EXPECT_TRUE(pool.is_free_run(Offset{kMinSuperblock}, 7));
  pool.claim_run(Offset{4 * kMinSuperblock}, 1);
  EXPECT_TRUE(called.empty());
  auto taken = pool.take_run(1);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(called, (std::vector{1, 2}));
  EXPECT_EQ(taken->bytes, 5 * kMinSuperblock);
  EXPECT_EQ(pool.superblocks_in_use(), 6u);
  EXPECT_EQ(called.size(), 2u) << "once each";
}

TEST(Pool, FindsOwnersWhenAskedHowMuchIsInUseOrGivenSomething) {
  for (bool const gives : {false, true}) {
    Pool pool = make_pool(8);
    bool called = false;
    pool.find_owners_later([&] { called = true; });
    gives ? pool.give_run(Offset{kMinSuperblock}, 1) : static_cast<void>(pool.superblocks_in_use());
    EXPECT_TRUE(called);
  }
}

}  // namespace
}  // namespace perdure::pm
