// How the engine makes events of perdure/logging.h. note() may be called under any lock, for it
// only keeps the event with the thread; a Delivery hands what is kept to the sink when it ends, so
// the public calls have one outside all locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "perdure/logging.h"

namespace perdure::log {

namespace detail {
inline std::atomic<LogLevel> least{LogLevel::off};
inline std::atomic<std::uint64_t> kept{0};  // events, of all threads
void deliver() noexcept;
}  // namespace detail

/// Asked before an event is made, which takes memory.
[[nodiscard]] inline bool wants(LogLevel level) {
  return level >= detail::least.load(std::memory_order_relaxed);
}

/// Whether anybody is told anything.
[[nodiscard]] inline bool heard() { return wants(LogLevel::error); }

/// Kept until this thread's next Delivery ends; lost where there is no memory for it.
void note(LogLevel level, std::string_view name, std::string const& pool, std::string message,
          std::vector<LogField> fields = {}) noexcept;

class Delivery {
 public:
  Delivery() = default;
  Delivery(Delivery const&) = delete;
  Delivery& operator=(Delivery const&) = delete;
  ~Delivery() {
    if (detail::kept.load(std::memory_order_relaxed) != 0) [[unlikely]]
      detail::deliver();
  }
};

}  // namespace perdure::log
