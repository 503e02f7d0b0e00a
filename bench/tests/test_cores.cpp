// Threads that are kept where they are get a core each before two share one.
#include "cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

namespace perdure::bench {
namespace {

TEST(Cores, EachHardwareThreadOfTheProcessComesOnce) {
  auto const threads = one_of_each_core_first();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(std::set<std::size_t>(threads.begin(), threads.end()).size(), threads.size());
  EXPECT_EQ(threads.size(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  for (std::size_t const thread : threads) EXPECT_TRUE(CPU_ISSET(thread, &allowed)) << thread;
}

TEST(Cores, OfAProcessWithOneHardwareThreadThereIsThat) {
  std::thread([] {
    auto const all = one_of_each_core_first();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.back(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(one_of_each_core_first(), std::vector<std::size_t>{all.back()});
  }).join();
}

}  // namespace
}  // namespace perdure::bench
