// That the checks of full_test.cpp (cut_batches.hpp), driven_log.hpp and value_log_store.hpp can
// fail: faults of the tree's log, the heap's and the value log's, each of which must be found. What
// other faults do, the explorer's mutants tell (src/explore/btree/store_mutants.hpp). The engine's
// sources, compiled with the hooks of fault/mutants.hpp alive, over a pool in a file.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "cut_batches.hpp"
#include "fault/mutants.hpp"
#include "units/driven_log.hpp"
#include "units/value_log_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kEach = 7;

class FullMutants : public testing::TestWithParam<Mutant> {};

/// In a process of its own, for it may hang or crash.
TEST_P(FullMutants, IsFound) {
  ::pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    planted = GetParam();
    std::string wrong;
    try {
      wrong = cut_everywhere(kEach);
      if (pm::LogStore log(pm::small_segments(0)); wrong.empty()) wrong = pm::fault_of_waiting(log);
      if (auto const lost = wrong.empty() ? pm::words_lost_without_room() : 0; lost != 0)
        wrong = std::to_string(lost) + " words lost where the log has no room";
    } catch (std::exception const& error) {
      wrong = error.what();
    }
    std::fprintf(stderr, "found: %s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << "nothing, for a long time";
  EXPECT_NE(status, 0) << "nothing is wrong with it";
}

INSTANTIATE_TEST_SUITE_P(All, FullMutants,
                         testing::Values(Mutant("undo_line_not_logged"), Mutant("map_not_logged"),
                                         Mutant("undo_line_closed_without_room"),
                                         Mutant("vlog_room_freed_before_the_wait_missed")),
                         [](auto const& one) { return std::string(one.param.name()); });

}  // namespace
}  // namespace perdure::test
