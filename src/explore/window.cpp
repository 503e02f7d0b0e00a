#include "explore/window.hpp"

#include <algorithm>

namespace perdure::explore {

EventSet first_writes(Window const& window, std::size_t count) {
  EventSet first;
  for (std::size_t e = 0; e < std::min(count, window.events.size()); ++e) first.set(e);
  return first;
}

std::vector<EventSet> lone_writes(Window const& window, std::size_t most) {
  std::size_t const writes = window.events.size();
  std::size_t const count = std::min(most, writes);
  std::vector<EventSet> sets;
  for (std::size_t n = 0; n < count; ++n) {
    std::size_t const e = n * writes / count;
    EventSet alone = window.events[e].before, others = first_writes(window, writes);
    alone.set(e);
    others.reset(e);
    for (std::size_t later = e + 1; later < writes; ++later)
      if (window.events[later].before[e]) others.reset(later);
    sets.push_back(alone);
    sets.push_back(others);
  }
  return sets;
}

}  // namespace perdure::explore
