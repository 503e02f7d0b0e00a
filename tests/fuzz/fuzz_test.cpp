// The fuzzer's target on inputs from a fixed seed, for a few seconds: what ctest can run with any compiler.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

#include "fuzz_open.hpp"

namespace perdure::test {
namespace {

TEST(Fuzz, OpensWhateverTheBytesWithoutACrash) {
  std::mt19937 random(20261121);
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  std::size_t inputs = 0;
  while (std::chrono::steady_clock::now() < deadline) {
    std::vector<std::uint8_t> input(1 + 4 * (random() % 8));
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
    fuzz_one(input.data(), input.size());
    ++inputs;
  }
  EXPECT_GT(inputs, 10u);
}

}  // namespace
}  // namespace perdure::test
