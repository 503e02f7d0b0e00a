// What repairs changed of a pool, kept in it, line by line, until somebody acknowledges them.
// Invariants: lines are durable when add() returns, so whoever repairs says so first and changes
// afterwards; one word says whether any wait, and no crash or flipped bit makes lines that wait
// look as if there were none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pm/pool.hpp"

namespace perdure::pm {

/// What a repair has begun, and has not finished.
enum class Unfinished : std::uint8_t {
  nothing,
  drops,  // of what it must; all else is what it was
  doubts,  // nothing vouches for what it has not looked at
};

class Repairs {
 public:
  explicit Repairs(Pool& pool) : pool_(&pool) {}

  /// Behind those that wait already. From then on, if no more is, `what` is unfinished.
  void add(std::span<std::string const> lines, Unfinished what = Unfinished::nothing);
  [[nodiscard]] Unfinished unfinished() const;
  /// Nothing is, durably.
  void finish();
  /// What waits to be acknowledged. Lines that are damaged themselves, or had no room, are one line
  /// that says so.
  [[nodiscard]] std::vector<std::string> waiting() const;
  /// Nothing waits from here on, durably.
  void acknowledge();

 private:
  struct Lines {
    std::vector<std::string> text;
    std::uint64_t count = 0;
    bool damaged = false;
  };
  [[nodiscard]] Lines read() const;

  Pool* pool_;
};

/// As Repairs::unfinished(), of the pool at `base`, which another process may have open.
[[nodiscard]] Unfinished unfinished_repair(std::byte const* base);

}  // namespace perdure::pm
