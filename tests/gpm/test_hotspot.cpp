// What hotspot checks of its own result: that a wrong one is seen, and a right one is not taken for
// one; at the paper's size too, where the scheme must not run away.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/cpu/grid_cpu.hpp"
#include "gpm/hotspot.hpp"

namespace perdure::test {
namespace {

using bench::gpm::HotspotCheck;
using bench::gpm::HotspotScheme;
using bench::gpm::HotspotStep;
using Field = std::vector<float>;

class Hotspot : public testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr std::uint32_t kSide = 48;
  /// The scheme of a grid of that many cells a side, for fewer of them.
  Hotspot() : scheme_(HotspotScheme::of(GetParam())), power_(kSide * kSide), first_(power_.size()) {
    scheme_.side = kSide;
    for (std::size_t i = 0; i < power_.size(); ++i) {
      power_[i] = static_cast<float>(bench::gpm::random_at(2, i) % 1024) / 1e5f;
      first_[i] = 323.0f + static_cast<float>(bench::gpm::random_at(1, i) % 1024) / 128.0f;
    }
  }
  /// By the kernel, on the host's threads.
  Field after(std::uint32_t steps) {
    exec::CpuGrid grid(2);
    Field now = first_, next(now.size());
    for (std::uint32_t i = 0; i < steps; ++i, std::swap(now, next)) {
      HotspotStep const kernel{now.data(),  power_.data(), next.data(), kSide,
                               scheme_.cap, scheme_.rx,    scheme_.ry,  scheme_.rz};
      EXPECT_TRUE(grid.launch({4, 64}, kernel).ok());
    }
    return now;
  }
  HotspotCheck check() { return {scheme_, power_, 2}; }

  HotspotScheme scheme_;
  Field power_, first_;
};

INSTANTIATE_TEST_SUITE_P(Sides, Hotspot, testing::Values(16, 512, 16384));

TEST_P(Hotspot, StaysWithinWhatItBeganWith) {
  for (float const kelvin : after(300)) ASSERT_TRUE(kelvin > 79.0f && kelvin < 340.0f) << kelvin;
}

TEST_P(Hotspot, TakesTheKernelsResultForRight) {
  EXPECT_TRUE(check().mean_right(first_, after(300), 300));
  EXPECT_TRUE(check().leads(first_, after(300), 300));
  EXPECT_TRUE(check().leads(after(298), after(300), 2));
}

TEST_P(Hotspot, SeesACellThatIsWrong) {
  Field result = after(40);
  result[kSide * 5 + 7] += 0.02f;
  EXPECT_FALSE(check().leads(first_, result, 40));
  result[kSide * 5 + 7] = std::nanf("");
  EXPECT_FALSE(check().leads(first_, result, 40));
  EXPECT_FALSE(check().mean_right(first_, result, 40));
}

/// A run that was resumed from the checkpoint before would lack some, or have some twice.
TEST_P(Hotspot, SeesStepsThatAreMissing) {
  EXPECT_FALSE(check().leads(after(36), after(40), 2));
  if (GetParam() > 512) return;  // there the whole chip hardly cools in so few
  EXPECT_FALSE(check().mean_right(first_, after(38), 40));
  EXPECT_FALSE(check().mean_right(first_, after(42), 40));
}

}  // namespace
}  // namespace perdure::test
