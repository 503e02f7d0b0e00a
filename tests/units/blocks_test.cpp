// Blocks against a plain set, over an opening and the sweep after it: none handed out twice, none
// lost.
#include "pm/blocks.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <iterator>
#include <mutex>
#include <set>

#include "units/memfd_pool.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kBlock = 1u << 16;
constexpr std::uint64_t kEach = (kMinSuperblock - kBlockAlign) / kBlock;  // blocks a superblock

/// As the next opening finds the pool.
void forget_owners(Pool& pool) {
  for (std::uint64_t i = 1; i < pool.superblocks(); ++i)
    pool.give_run(Offset{i * kMinSuperblock}, 1);
}

/// Blocks and who holds which.
class Driven {
 public:
  Driven(Pool& pool, Mutex& memory, std::set<std::uint64_t>& held)
      : blocks(pool, memory, kBlock), held_(held) {}
  void take() {
    auto block = blocks.take();
    if (!block) return;
    RC_ASSERT(blocks.is_block(*block));
    RC_ASSERT(held_.insert(block->bytes).second);
  }
  void give() {
    if (held_.empty()) return;
    auto const it =
        std::next(held_.begin(), *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(held_)));
    blocks.give(Offset{*it});
    held_.erase(it);
  }
  void some() {
    for (auto left = *rc::gen::inRange(0, 60); left > 0; --left)
      *rc::gen::inRange(0, 3) == 0 ? give() : take();
  }
  void sweep() {
    blocks.begin_sweep();
    std::set<std::uint64_t> const there = held_;
    for (std::uint64_t const block : there) {
      // What is unlinked before it is reached is not marked, and what is taken meanwhile need not
      // be.
      if (held_.contains(block)) blocks.mark(Offset{block});
      if (*rc::gen::inRange(0, 4) == 0) give();
      if (*rc::gen::inRange(0, 4) == 0) take();
    }
    blocks.finish_sweep();
  }

  Blocks blocks;

 private:
  std::set<std::uint64_t>& held_;
};

RC_GTEST_PROP(Blocks, AreHandedOutOnceOverAnOpeningAndItsSweep, ()) {
  constexpr std::uint64_t kSuperblocks = 12;
  Pool pool = make_pool(kSuperblocks, kSuperblocks);
  Mutex memory;
  std::set<std::uint64_t> held;
  {
    Driven before(pool, memory, held);
    before.some();
  }
  forget_owners(pool);
  Driven after(pool, memory, held);
  after.blocks.find_superblocks_later();
  after.some();
  after.sweep();
  after.some();
  while (held.size() < (kSuperblocks - 1) * kEach) {
    std::size_t const before = held.size();
    after.take();
    RC_ASSERT(held.size() > before);  // what is nobody's is there
  }
}

TEST(Blocks, SuperblocksAreLookedAtWhenSomethingIsFirstTaken) {
  Pool pool = make_pool(4, 4);
  Mutex memory;
  Offset first;
  {
    Blocks blocks(pool, memory, kBlock);
    first = *blocks.take();
  }
  forget_owners(pool);
  Blocks blocks(pool, memory, kBlock);
  blocks.find_superblocks_later();
  EXPECT_TRUE(pool.is_free(first)) << "the opening looked at it";
  EXPECT_TRUE(blocks.is_block(first)) << "what the index leads to is known nevertheless";
  auto second = blocks.take();
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(pool.is_free(first));
  EXPECT_NE(first.bytes / kMinSuperblock, second->bytes / kMinSuperblock);
}

}  // namespace
}  // namespace perdure::pm
