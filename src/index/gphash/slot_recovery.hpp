// What an opening finds in a table's slots, and how it mends what a crash leaves. What else may be
// wrong is damage (slot_damage.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "index/gphash/slots.hpp"

namespace perdure::gphash {

/// What an opening finds in the slots. Nothing has been changed.
struct Survey {
  std::uint64_t records = 0;
  std::uint64_t astray = 0;  // slots that lead to no record; left alone, never followed
  std::uint64_t sum = 0;  // of all slots: see Slots::sum_of
  std::vector<std::uint64_t> half;  // in_place: slots of state INSERT
  std::vector<std::uint64_t> again;  // slots that lead where another one leads as well
};
/// Marks every reachable record in the heap. In parallel; reads slots only.
[[nodiscard]] Survey survey(Slots const& slots, exec::Workers& workers);

/// What was changed, a line each, and how many slots lost their entry by it.
struct Mended {
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;
};
/// Mends what a crash may leave: clears half-inserted slots, and of equal words all but the valid
/// one.
[[nodiscard]] Mended mend_crash(Slots& slots, Survey const& found);

}  // namespace perdure::gphash
