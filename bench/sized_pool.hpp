// Pools whose top level has an exact number of buckets, for figures that depend on it.
#pragma once

#include <string>

#include "perdure/store.h"

namespace perdure::bench {

/// Slots of all live levels when the top one has 2^top_level buckets.
[[nodiscard]] std::uint64_t slots_of(Shape const& shape, std::uint32_t top_level);

/// Creates a pool at `path` (its other options are taken as given) with that top level. Throws
/// Failure when the store sizes its levels in no way that gives it.
[[nodiscard]] Store create_sized(std::string const& path, CreateOptions create,
                                 OpenOptions const& open, std::uint32_t top_level);

}  // namespace perdure::bench
