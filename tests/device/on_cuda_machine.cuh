// What tests of the CUDA machine by itself have in common: a machine on the first GPU, hashes, and
// items that come back from the GPU's memory. Invariant: without a GPU they are skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "exec/cuda/cuda_machine.cuh"
#include "support/store_driver.hpp"

namespace perdure::exec {

class OnCudaMachine : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!test::available(Device::cuda, why_not)) GTEST_SKIP() << "no GPU to run on: " << why_not;
    auto described = CudaMachine::describe_device(workers_);
    ASSERT_TRUE(described.ok()) << described.status().message();
    shared_ = *described;
    machine_.emplace(shared_);
  }

  template <class F>
  std::vector<std::uint64_t> drawn(std::size_t n, F hash) {
    std::vector<std::uint64_t> hashes(n);
    for (std::uint64_t& h : hashes) h = hash();
    return hashes;
  }

  static std::vector<Sorted> in_array_order(std::vector<std::uint64_t> const& hashes) {
    std::vector<Sorted> items(hashes.size());
    for (std::size_t i = 0; i < hashes.size(); ++i) items[i] = {i, hashes[i]};
    return items;
  }

  /// run(items, how many), where these lie in the GPU's memory: what is there afterwards.
  template <class F>
  void on_gpu(std::vector<Sorted>& items, F run) {
    CudaBuffer<Sorted> here;
    std::size_t const bytes = items.size() * sizeof(Sorted);
    ASSERT_TRUE(here.resize(items.size()).ok());
    ASSERT_EQ(cudaMemcpy(here.data(), items.data(), bytes, cudaMemcpyDefault), cudaSuccess);
    ASSERT_TRUE(machine_->begin().ok());
    Status const ran = run(here.data(), items.size());
    ASSERT_TRUE(ran.ok()) << ran.message();
    ASSERT_TRUE(machine_->wait().ok());
    ASSERT_EQ(cudaMemcpy(items.data(), here.data(), bytes, cudaMemcpyDefault), cudaSuccess);
  }

  std::mt19937_64 random_{7};
  Workers workers_{1};
  CudaMachine::Shared shared_;
  std::optional<CudaMachine> machine_;
};

}  // namespace perdure::exec
