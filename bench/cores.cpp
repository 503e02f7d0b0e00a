#include "cores.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <utility>

namespace perdure::bench {
namespace {

/// The first hardware thread of the same core, which names it.
std::size_t core_of(std::size_t thread) {
  std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(thread) +
                         "/topology/thread_siblings_list");
  std::size_t first = 0;
  return siblings >> first ? first : thread;
}

}  // namespace

std::vector<std::size_t> one_of_each_core_first() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::map<std::size_t, std::size_t> taken;  // of each core
  std::vector<std::pair<std::size_t, std::size_t>> ranked;
  for (std::size_t thread = 0; thread < CPU_SETSIZE; ++thread) {
    if (CPU_ISSET(thread, &allowed)) ranked.emplace_back(taken[core_of(thread)]++, thread);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::size_t> threads;
  for (auto const& [rank, thread] : ranked) threads.push_back(thread);
  return threads;
}

}  // namespace perdure::bench
