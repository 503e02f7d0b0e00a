// Faults planted in the batches of a durable tree: each must be found by the check that
// full_test.cpp runs on the code without it. The engine's sources, compiled with the hooks of
// fault/mutants.hpp alive, over a pool in a file.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "cut_batches.hpp"
#include "fault/mutants.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kEach = 7;

struct Planted {
  Mutant mutant;
  bool may_hang = false;  // a lock that a crash left is waited for
};

class FullMutants : public testing::TestWithParam<Planted> {};

/// In a process of its own, for it may hang or crash.
TEST_P(FullMutants, IsFound) {
  ::pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(GetParam().may_hang ? 1 : 60);
    planted = GetParam().mutant;
    std::string wrong;
    try {
      wrong = cut_everywhere(kEach);
    } catch (std::exception const& error) {
      wrong = error.what();
    }
    std::fprintf(stderr, "found: %s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status)) {
    EXPECT_NE(WEXITSTATUS(status), 0) << "nothing is wrong with it";
  } else if (!GetParam().may_hang) {
    EXPECT_NE(WTERMSIG(status), SIGALRM) << "nothing was wrong with it for a long time";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FullMutants,
    testing::Values(Planted{"undo_line_not_logged"}, Planted{"undo_line_logged_late"},
                    Planted{"map_not_logged"}, Planted{"unlinked_reused_before_commit"},
                    Planted{"generation_stays", true}, Planted{"btree_generation_ignored", true}),
    [](auto const& one) { return std::string(one.param.mutant.name()); });

TEST(WithoutAFault, NothingIsFound) { EXPECT_EQ(cut_everywhere(5 * kEach), ""); }

}  // namespace
}  // namespace perdure::test
