// What the threads of launches did to one partition of a libGPM log, and whether some order of it
// explains the stack that is there. Invariant: an order keeps each thread's operations as the
// thread had them, puts what had ended before another began before it, and gives every operation
// the answer that it had.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "explore/gpm/gpm_scenario.hpp"
#include "gpm/gpm_log.hpp"

namespace perdure::explore {

struct GpmEntry {
  std::uint32_t words;
  GpmWords is;
  std::uint32_t taken = 0;  // of its last bytes
  [[nodiscard]] std::uint32_t left() const {
    return static_cast<std::uint32_t>(kGpmSizes[words - 1]) - taken;
  }
  friend auto operator<=>(GpmEntry const&, GpmEntry const&) = default;
};
using GpmStack = std::vector<GpmEntry>;
using GpmStacks = std::vector<GpmStack>;  // of all partitions
[[nodiscard]] std::string shown(GpmStack const& stack);
/// Of a partition: those of the entries and a length each.
[[nodiscard]] std::uint32_t words_in_use(GpmStack const& stack);
/// Whether `part` is the first so many bytes of the other, or with `entries` the first so many
/// entries.
[[nodiscard]] bool begins_with(GpmStack const& whole, GpmStack const& part, bool entries);
/// The last `bytes` bytes, taken off; false if there are fewer.
bool take_off(GpmStack& stack, std::size_t bytes);
/// These bytes, filled up with zeros.
[[nodiscard]] GpmWords last_bytes(GpmStack const& stack, std::size_t bytes);

struct GpmSeen {
  GpmOp op;
  gpm::GpmLogError answer;
  GpmWords got;  // by a read
  std::uint64_t began, ended;
  bool acknowledged;
};
using GpmHistory = std::vector<std::vector<GpmSeen>>;  // of each thread

/// Whether an order explains `found`: of all acknowledged operations, and of as many of the others
/// as there may be, of which one, a clear() or a removal of several entries, may have come as far
/// as it would.
[[nodiscard]] bool gpm_explained(GpmHistory const& of_partition, GpmStack const& old,
                                 GpmStack const& found, std::uint32_t partition_words);

/// What a medium may hold that is ordered by the host alone: entries where they stood in some such
/// order.
struct GpmPlaces {
  std::set<std::tuple<std::uint32_t, GpmEntry>> entries;  // by their first word
  std::size_t kept;  // of the old stack: so many nobody ever took off
};
[[nodiscard]] GpmPlaces gpm_places(GpmHistory const& of_partition, GpmStack const& old,
                                   std::uint32_t partition_words);

}  // namespace perdure::explore
