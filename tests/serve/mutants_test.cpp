// Faults planted in the server's turns: each must be found by a check that turns_test.cpp and
// reader_test.cpp run on the code without it. The server's sources are compiled with the hooks of
// fault/mutants.hpp alive.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "fault/mutants.hpp"
#include "reader_checks.hpp"

namespace perdure::serve::test {
namespace {

struct Planted {
  Mutant mutant;
  Wrong (*check)();
};

class ServeMutants : public testing::TestWithParam<Planted> {};

/// In a process of its own, for it may crash; that, too, is being found out.
TEST_P(ServeMutants, IsFound) {
  ::pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    planted = GetParam().mutant;
    Wrong wrong;
    try {
      wrong = GetParam().check();
    } catch (std::exception const& error) {
      wrong = error.what();
    }
    if (wrong) std::fprintf(stderr, "found: %s\n", wrong->c_str());
    ::_exit(wrong ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << "nothing, for a long time";
  EXPECT_NE(status, 0) << "nothing is wrong with it";
}

INSTANTIATE_TEST_SUITE_P(
    All, ServeMutants,
    testing::Values(Planted{"serve_redo_keeps_sessions", one_that_does_not_fit_is_refused_alone},
                    Planted{"serve_redo_keeps_watchers", one_that_does_not_fit_is_refused_alone},
                    Planted{"serve_redo_left_out", one_that_does_not_fit_is_refused_alone},
                    Planted{"serve_turn_not_atomic", full_pools_refuse_single_commands},
                    Planted{"serve_expired_not_erased", what_has_expired_stays_away},
                    Planted{"serve_unfinished_not_kept", what_is_unfinished_outlasts_turns}),
    [](auto const& which) { return std::string(which.param.mutant.name()); });

TEST(ServeMutants, NoneIsFoundWhereNoneIsPlanted) {
  for (auto const check :
       {one_that_does_not_fit_is_refused_alone, full_pools_refuse_single_commands,
        what_has_expired_stays_away, what_is_unfinished_outlasts_turns}) {
    Wrong const wrong = check();
    EXPECT_FALSE(wrong) << *wrong;
  }
}

}  // namespace
}  // namespace perdure::serve::test
