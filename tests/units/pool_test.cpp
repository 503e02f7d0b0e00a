// The pool's superblocks: which runs of them recovery may claim.
#include "pm/pool.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace perdure::pm {
namespace {

Pool make_pool(std::uint64_t superblocks) {
  PoolHeader shape{};
  shape.superblock_bytes = kMinSuperblock;
  auto pool = Pool::create("memfd:pool", shape, superblocks, false, {});
  if (!pool) throw std::runtime_error(pool.status().message());
  return std::move(*pool);
}

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

TEST(Pool, TellsWhatIsNoRun) {
  Pool const pool = make_pool(8);
  std::uint64_t const most = ~std::uint64_t{0};
  EXPECT_FALSE(pool.is_free_run(Offset{kMinSuperblock + 64}, 1)) << "between two superblocks";
  EXPECT_FALSE(pool.is_free_run(Offset{7 * kMinSuperblock}, 2)) << "its end is beyond the pool's";
  EXPECT_FALSE(pool.is_free_run(Offset{8 * kMinSuperblock}, 1)) << "the pool ends there";
  EXPECT_FALSE(pool.is_free_run(Offset{kMinSuperblock}, most)) << "so many that their sum wraps";
  EXPECT_FALSE(pool.is_free_run(Offset{most / kMinSuperblock * kMinSuperblock}, 1)) << "no superblock lies so far off";
}

}  // namespace
}  // namespace perdure::pm
