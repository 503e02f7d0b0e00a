// Assertions end the process, in every build, and say what did not hold and where.
#include "base/assert.hpp"

#include <gtest/gtest.h>

#include "perdure/status.h"

namespace perdure {
namespace {

TEST(AssertDeathTest, SaysWhatDidNotHoldAndWhere) {
  int const two = 2;
  PERDURE_ASSERT(two == 2);
  EXPECT_DEATH(PERDURE_ASSERT(two == 3), "assertion failed, assert_test.cpp:[0-9]+: two == 3");
}

TEST(AssertDeathTest, OfAResultIsThatItHasAValueOrAnError) {
  EXPECT_EQ(Result<int>(7).value(), 7);
  EXPECT_EQ(Result<int>(Status{Code::busy, "busy"}).status().code(), Code::busy);
  EXPECT_DEATH(static_cast<void>(Result<int>(Status{})), "a Result has a value or an error");
}

}  // namespace
}  // namespace perdure
