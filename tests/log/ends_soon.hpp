// Whether something ends at once that is to wait. Where it does wait, a short look finds no fault,
// and none by chance; where a fault is planted (disk_mutants_test.cpp) it ends, and is given the
// time for that however slow the machine is.
#pragma once

#include <chrono>
#include <future>
#include <thread>

namespace perdure::wal::test {

inline std::chrono::milliseconds soon{100};
inline constexpr auto kLong = std::chrono::seconds(5);  // after which what waits never ends

template <class T>
bool has_ended(std::future<T> const& f) {
  return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

template <class Ended>
bool ends_soon(Ended ended) {
  auto const now = [] { return std::chrono::steady_clock::now(); };
  for (auto const until = now() + soon; now() < until;) {
    if (ended()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ended();
}

}  // namespace perdure::wal::test
