// CudaMachine::sort_hashed against std::sort: hashes that are spread, hashes that are there often,
// and, as nobody's keys have, many that share their upper halves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "exec/cuda/cuda_machine.cuh"
#include "support/store_driver.hpp"

namespace perdure::exec {
namespace {

class HashedSort : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!test::available(Device::cuda, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    auto described = CudaMachine::describe_device(workers_);
    ASSERT_TRUE(described.ok()) << described.status().message();
    shared_ = *described;
    machine_.emplace(shared_);
  }

  void sorts(std::vector<std::uint64_t> const& hashes) {
    std::vector<Sorted> expected(hashes.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) expected[i] = {i, hashes[i]};
    CudaBuffer<Sorted> items;
    std::size_t const bytes = hashes.size() * sizeof(Sorted);
    ASSERT_TRUE(items.resize(hashes.size()).ok());
    ASSERT_EQ(cudaMemcpy(items.data(), expected.data(), bytes, cudaMemcpyDefault), cudaSuccess);
    ASSERT_TRUE(machine_->begin().ok());
    Status const sorted = machine_->sort_hashed(items.data(), hashes.size());
    ASSERT_TRUE(sorted.ok()) << sorted.message();
    ASSERT_TRUE(machine_->wait().ok());
    std::vector<Sorted> found(hashes.size());
    ASSERT_EQ(cudaMemcpy(found.data(), items.data(), bytes, cudaMemcpyDefault), cudaSuccess);
    std::ranges::sort(expected, [](Sorted const& a, Sorted const& b) {
      return std::tie(a.hash, a.index) < std::tie(b.hash, b.index);
    });
    for (std::size_t i = 0; i < hashes.size(); ++i)
      ASSERT_EQ(std::tie(found[i].hash, found[i].index),
                std::tie(expected[i].hash, expected[i].index))
          << "at " << i << " of " << hashes.size();
  }

  template <class F>
  std::vector<std::uint64_t> drawn(std::size_t n, F hash) {
    std::vector<std::uint64_t> hashes(n);
    for (std::uint64_t& h : hashes) h = hash();
    return hashes;
  }

  std::mt19937_64 random_{7};
  Workers workers_{1};
  CudaMachine::Shared shared_;
  std::optional<CudaMachine> machine_;
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
