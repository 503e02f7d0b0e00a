// Pools of format versions 2 (GPHash) and 3 (Dash): snapshots and the images of durability `power`
// have them still. Their root had a field for each thing that version 4 names in an entry; all else
// is the same. Invariant: what becomes of such a pool here says what it said before, its closing
// note among it; and a file is converted only before it has its name, so no crash leaves half of
// it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "pm/pool_format.hpp"

namespace perdure::pm {

/// Whether convert_older() knows the version.
[[nodiscard]] bool is_convertible(PoolHeader const& header);

/// Gives the head of a pool of an older version this version's form. A pool of this version, or of
/// one that it does not know, stays as it is. Returns why it cannot, or nothing.
[[nodiscard]] std::string convert_older(std::span<std::byte> pool);

}  // namespace perdure::pm
