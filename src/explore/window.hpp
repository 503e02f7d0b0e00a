// What a run wrote between two host ordering points, and what of it a crash may leave: the currency
// of recorder.hpp, crashed_medium.hpp and crashes.hpp.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace perdure::explore {

inline constexpr std::size_t kMostEvents = 1024;  // of one window
using EventSet = std::bitset<kMostEvents>;

struct Event {
  std::uint32_t word;
  std::uint32_t thread;  // 0 = host code
  std::uint64_t value;
  EventSet before;  // closed: with each of them all that must be there before that one
};

struct Window {
  std::vector<Event> events;
  std::uint64_t file_bytes = 0;  // of the pool when it ended
  std::size_t oracle = 0;  // index of what a crash in it may leave; kept by the caller
  bool too_large = false;  // more writes than kMostEvents: not to be explored
};

/// The window's first so many writes.
[[nodiscard]] EventSet first_writes(Window const& window, std::size_t count);
/// Of at most `most` writes, evenly spread: each with nothing but what must be there before it, and
/// all writes without it and what must come after it.
[[nodiscard]] std::vector<EventSet> lone_writes(Window const& window, std::size_t most);

/// Words and their values.
using Image = std::vector<std::pair<std::uint32_t, std::uint64_t>>;

[[nodiscard]] inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u + b * 0x94d049bb133111ebu;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace perdure::explore
