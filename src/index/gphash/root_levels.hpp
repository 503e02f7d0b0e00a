// A table's levels in the root: an entry a level, named after its size, for no two levels are of
// one size: a growth's new level is twice the highest, a wider one replaces the highest, and the
// lowest retires. Value: 1 = the level retires. Invariant: the levels that are read from here are
// as many as the pool has, from the largest down, and none but the last retires.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "index/gphash/layout.hpp"
#include "perdure/status.h"
#include "pm/pool_format.hpp"

namespace perdure::gphash {

struct RootLevels {
  std::vector<Level> levels;  // highest first
  bool retires = false;       // the last one
};

[[nodiscard]] bool is_level_name(std::string_view name);

/// Of a table with so many levels, beside one that retires. Where they lie is not looked at.
[[nodiscard]] Result<RootLevels> read_levels(pm::Root const& root, std::uint32_t live);
/// In place of those that it names.
void put_levels(pm::Root& root, std::span<Level const> levels, bool retires);

}  // namespace perdure::gphash
