// Threads that wait for something of the library's that shows nowhere: the system is asked whether
// they sleep, and no test guesses how long they take to get there.
//
// Invariant: where nobody else holds anything that the thread could meet on its way, a thread that
// sleeps waits for what the test has taken.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace perdure::test {

/// The calling thread's number, for others to ask by.
inline pid_t thread_number() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

/// Returns once the thread of that number, which it sets itself, sleeps or has ended.
inline void until_asleep(std::atomic<pid_t> const& thread) {
  while (thread == 0) std::this_thread::yield();
  std::string const path = "/proc/self/task/" + std::to_string(thread.load()) + "/stat";
  for (;;) {
    std::string stat;
    if (!std::getline(std::ifstream(path), stat)) return;
    std::size_t const name_ends = stat.rfind(") ");  // 4711 (a name) S ...
    if (name_ends == std::string::npos || stat[name_ends + 2] == 'S') return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace perdure::test
