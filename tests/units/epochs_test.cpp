// Epochs: what is retired goes when no guard from before is left, and not earlier; and retiring
// stays cheap meanwhile.
#include "exec/epochs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

namespace perdure::exec {
namespace {

TEST(Epochs, FreeNothingThatAGuardMayRead) {
  Epochs epochs;
  std::size_t freed = 0;
  std::optional<EpochGuard> guard(epochs);
  epochs.retire([&] { ++freed; });
  epochs.collect();
  EXPECT_EQ(freed, 0u);
  guard.reset();
  epochs.collect();
  EXPECT_EQ(freed, 1u);
}

TEST(Epochs, FreeWhatIsRetiredWithoutBeingAskedTo) {
  Epochs epochs;
  std::size_t freed = 0;
  for (int i = 0; i < 10000; ++i) epochs.retire([&] { ++freed; });
  EXPECT_GT(freed, 9000u);
}

/// Half a minute, when each was looked at whenever another came.
TEST(Epochs, TakeAnyNumberWhileAGuardStays) {
  Epochs epochs;
  std::size_t freed = 0;
  constexpr std::size_t kMany = 100000;
  auto const begin = std::chrono::steady_clock::now();
  {
    EpochGuard const guard(epochs);
    for (std::size_t i = 0; i < kMany; ++i) epochs.retire([&] { ++freed; });
    EXPECT_EQ(freed, 0u);
  }
  epochs.synchronize();
  EXPECT_EQ(freed, kMany);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Epochs, SynchronizeWaitsForGuardsThatAreThere) {
  Epochs epochs;
  std::atomic<bool> reading{false}, done{false};
  std::thread reader([&] {
    EpochGuard const guard(epochs);
    reading = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    done = true;
  });
  while (!reading) std::this_thread::yield();
  epochs.synchronize();
  EXPECT_TRUE(done);
  reader.join();
}

}  // namespace
}  // namespace perdure::exec
