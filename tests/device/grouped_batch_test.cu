// The step of a small batch that brings equal hashes together, against a stable sort: hashes that
// repeat, wherever they lie, hashes that do not, and, as nobody's keys have, more in one block's
// share than it has room for. Invariant: whatever is moved, equal hashes end up side by side in
// array order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/crc32c.hpp"
#include "on_cuda_machine.cuh"

namespace perdure::exec {
namespace {

class GroupedBatch : public OnCudaMachine {
 protected:
  [[nodiscard]] std::size_t most() const { return machine_->most_chained(); }

  void group(std::vector<Sorted>& items) {
    CudaBuffer<std::uint64_t> repeated;
    ASSERT_TRUE(repeated.resize(1).ok());
    ASSERT_EQ(cudaMemset(repeated.data(), 0, sizeof(std::uint64_t)), cudaSuccess);
    on_gpu(items, [&](Sorted* here, std::size_t n) {
      GroupAlone const steps{CudaMachine::group_step(here, n, repeated.data())};
      return machine_->chain(n, steps);
    });
  }

  void groups(std::vector<std::uint64_t> const& hashes) {
    std::vector<Sorted> items = in_array_order(hashes);
    ASSERT_NO_FATAL_FAILURE(group(items));
    std::set<std::uint64_t> seen, left;
    for (std::size_t i = 0; i < items.size(); ++i) {
      ASSERT_LT(items[i].index, hashes.size());
      ASSERT_TRUE(seen.insert(items[i].index).second) << "twice: " << items[i].index;
      ASSERT_EQ(items[i].hash, hashes[items[i].index]);
      if (i > 0 && items[i].hash == items[i - 1].hash)
        ASSERT_LT(items[i - 1].index, items[i].index) << "at " << i << " of " << items.size();
      else
        ASSERT_TRUE(left.insert(items[i].hash).second) << "apart: " << items[i].hash;
    }
  }
};

TEST_F(GroupedBatch, WithoutEqualHashesStaysAsItIs) {
  for (std::size_t const n : {std::size_t{1}, std::size_t{255}, std::size_t{256}, most()}) {
    std::vector<Sorted> items = in_array_order(drawn(n, random_));
    std::vector<Sorted> const before = items;
    ASSERT_NO_FATAL_FAILURE(group(items));
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(items[i].index, before[i].index) << n;
  }
}

TEST_F(GroupedBatch, FindsASinglePairWhereverItLies) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::size_t const n = 2 + random_() % (most() - 1);
    auto hashes = drawn(n, random_);
    hashes[random_() % n] = hashes[random_() % n];
    ASSERT_NO_FATAL_FAILURE(groups(hashes)) << n;
  }
}

TEST_F(GroupedBatch, OfFewOrManyHashesKeepsTheOrderOfEach) {
  for (std::size_t const different : {1u, 2u, 50u, 400u, 1000u, 100'000u}) {
    auto const some = drawn(different, random_);
    auto const one = [&] { return some[random_() % some.size()]; };
    for (std::size_t const n :
         {std::size_t{2}, std::size_t{256}, std::size_t{257}, std::size_t{1500}, most()})
      ASSERT_NO_FATAL_FAILURE(groups(drawn(n, one))) << n << " of " << different;
  }
}

TEST_F(GroupedBatch, OfOneHashThatIsManyTimesThereKeepsItsOrderWhetherItsShareHasRoomOrNot) {
  for (std::size_t const often : {100u, 250u, 400u, 700u, 3000u}) {
    auto hashes = drawn(most(), random_);
    std::uint64_t const one = random_();
    for (std::size_t i = 0; i < often; ++i) hashes[random_() % hashes.size()] = one;
    ASSERT_NO_FATAL_FAILURE(groups(hashes)) << often;
  }
}

TEST_F(GroupedBatch, OfHashesThatFallToOneBlockOrOneSlotIsGroupedAllTheSame) {
  ASSERT_NO_FATAL_FAILURE(groups(drawn(most(), [&] { return random_() >> 32; })));
  ASSERT_NO_FATAL_FAILURE(groups(drawn(most(), [&] { return random_() << 32 | 3; })));
  ASSERT_NO_FATAL_FAILURE(groups({~std::uint64_t{0}, 5, ~std::uint64_t{0}}));
}

/// A warp copies values, or only looks at them, and says the CRC-32C of each.
__global__ void sum_values(std::byte const* from, std::byte* to, std::size_t bytes,
                           std::uint32_t mask, std::uint32_t* sums) {
  CudaWarp const warp;
  CudaWarp::Each<std::uint32_t> each;
  auto const source = [&](std::uint32_t lane) { return from + lane * bytes; };
  if (to == nullptr)
    warp.sum_each(mask, bytes, source, each);
  else
    warp.copy_each(
        mask, bytes, [&](std::uint32_t lane) { return to + lane * bytes; }, source, &each);
  if ((mask >> threadIdx.x & 1) != 0) sums[threadIdx.x] = each.value;
}

TEST_F(GroupedBatch, ValuesOfAnySizeHaveTheChecksumsThatTheHostComputes) {
  constexpr std::size_t kMost = 1200;
  CudaBuffer<std::byte> from, to;
  CudaBuffer<std::uint32_t> sums;
  ASSERT_TRUE(from.resize(32 * kMost).ok() && to.resize(32 * kMost).ok() && sums.resize(32).ok());
  std::vector<std::byte> values(32 * kMost), copied(32 * kMost);
  for (std::byte& b : values) b = static_cast<std::byte>(random_());
  ASSERT_EQ(cudaMemcpy(from.data(), values.data(), values.size(), cudaMemcpyDefault), cudaSuccess);
  for (std::size_t bytes = 4; bytes <= kMost; bytes += bytes < 300 ? 4 : 60) {
    bool const copies = bytes % 3 != 0;
    auto const mask = static_cast<std::uint32_t>(bytes % 5 == 0 ? ~0u : random_());
    ASSERT_EQ(cudaMemset(to.data(), 0, 32 * kMost), cudaSuccess);
    sum_values<<<1, 32>>>(from.data(), copies ? to.data() : nullptr, bytes, mask, sums.data());
    std::uint32_t found[32];
    ASSERT_EQ(cudaMemcpy(found, sums.data(), sizeof found, cudaMemcpyDefault), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(copied.data(), to.data(), copied.size(), cudaMemcpyDefault), cudaSuccess);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      auto const at = static_cast<std::ptrdiff_t>(lane * bytes);
      ASSERT_EQ(found[lane], crc32c(0, values.data() + at, bytes)) << bytes << ", lane " << lane;
      if (copies)
        ASSERT_TRUE(std::equal(values.begin() + at, values.begin() + at + std::ptrdiff_t(bytes),
                               copied.begin() + at))
            << bytes << ", lane " << lane;
    }
  }
}

}  // namespace
}  // namespace perdure::exec
