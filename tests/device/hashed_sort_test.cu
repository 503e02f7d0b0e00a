// CudaMachine::sort_hashed against std::sort: hashes that are spread, hashes that are there often,
// and, as nobody's keys have, many that share their upper halves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "on_cuda_machine.cuh"

namespace perdure::exec {
namespace {

class HashedSort : public OnCudaMachine {
 protected:
  void sorts(std::vector<std::uint64_t> const& hashes) {
    std::vector<Sorted> expected = in_array_order(hashes), found = expected;
    ASSERT_NO_FATAL_FAILURE(on_gpu(
        found, [&](Sorted* items, std::size_t n) { return machine_->sort_hashed(items, n); }));
    std::ranges::sort(expected, [](Sorted const& a, Sorted const& b) {
      return std::tie(a.hash, a.index) < std::tie(b.hash, b.index);
    });
    for (std::size_t i = 0; i < hashes.size(); ++i)
      ASSERT_EQ(std::tie(found[i].hash, found[i].index),
                std::tie(expected[i].hash, expected[i].index))
          << "at " << i << " of " << hashes.size();
  }
};

TEST_F(HashedSort, OfAnyNumberOfSpreadHashesIsThatOfAllBits) {
  for (std::size_t const n :
       {1u, 1000u, 1u << 18, (1u << 18) + 1, 300'001u, 1u << 20, 1u << 21, (1u << 21) + 1})
    ASSERT_NO_FATAL_FAILURE(sorts(drawn(n, random_))) << n;
}

TEST_F(HashedSort, KeepsTheOrderOfWhatHasOneHash) {
  ASSERT_NO_FATAL_FAILURE(sorts(std::vector<std::uint64_t>(1u << 19, 7)));
  auto const some = drawn(50, random_);
  auto const one = [&] { return some[random_() % (1 + random_() % some.size())]; };
  ASSERT_NO_FATAL_FAILURE(sorts(drawn(1u << 20, one)));
}

TEST_F(HashedSort, PutsHashesInOrderThatShareAnUpperHalf) {
  // Of two each, of some sixteen, of about as many as one thread moves, and of more.
  for (std::uint64_t const uppers : {1u << 19, 1u << 16, 1u << 14, 1u << 12, 1u << 10})
    ASSERT_NO_FATAL_FAILURE(sorts(drawn(1u << 20, [&] {
      return (random_() % uppers) << 32 | (random_() & 0xff);
    }))) << uppers;
}

TEST_F(HashedSort, PutsAFewStrangersAmongManyEqualHashesInOrder) {
  std::uint64_t const often = 0x123456789abcdef0;
  ASSERT_NO_FATAL_FAILURE(sorts(drawn(1u << 19, [&] {
    std::uint64_t const dice = random_() % 1000;
    return dice == 0 ? often ^ (random_() & 3) : dice < 100 ? often : random_();
  })));
}

TEST_F(HashedSort, OfOneUpperHalfAloneEnds) {
  ASSERT_NO_FATAL_FAILURE(sorts(drawn((1u << 18) + 5, [&] { return random_() >> 32; })));
}

}  // namespace
}  // namespace perdure::exec
