// The thread beside its owner's (exec/aside.hpp): what was handed over has been done by wait(), in
// order, and a child that was forked needs no thread for it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "exec/aside.hpp"

namespace perdure::exec::test {
namespace {

TEST(Aside, DoesWhatItIsHandedInOrderOnAThreadOfItsOwn) {
  std::vector<int> done;
  std::thread::id where;
  Aside aside;
  EXPECT_TRUE(aside.done());
  for (int i = 0; i < 1000; ++i)
    aside.hand([&done, &where, i] {
      done.push_back(i);
      where = std::this_thread::get_id();
    });
  aside.wait();
  EXPECT_TRUE(aside.done());
  ASSERT_EQ(done.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(done[static_cast<std::size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

/// Both have gone to sleep by then.
TEST(Aside, WakesForAJobAndWakesItsOwnerAfterIt) {
  Aside aside;
  bool done = false;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    done = false;
    aside.hand([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done = true;
    });
    aside.wait();
    EXPECT_TRUE(done);
  }
}

TEST(Aside, EndsOnlyWhenItsJobHasEnded) {
  std::atomic<bool> done{false};
  {
    Aside aside;
    aside.hand([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done = true;
    });
  }
  EXPECT_TRUE(done);
}

TEST(Aside, OfAParentHasItsJobsDoneByTheCallerInAChild) {
  auto aside = std::make_unique<Aside>();
  aside->hand([] {});
  aside->wait();
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(10);
    bool done = false;
    aside->hand([&] { done = true; });
    aside->wait();
    bool const good = done && aside->done();
    aside.reset();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace perdure::exec::test
