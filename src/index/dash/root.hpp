// The constant part of a Dash index's superblock: which table it is, and of what shape. Invariant:
// whoever opens a table has checked here that its segments are what this build takes them for.
#pragma once

#include <cstddef>
#include <string_view>

#include "index/dash/layout.hpp"
#include "perdure/status.h"

namespace perdure::dash {

inline constexpr std::string_view kIndexName = "dash";  // of the root's entry: its superblock

/// Writes the 64 bytes that never change; the table writes the rest when it is created.
void write_root(std::byte* at, Kind kind, SegmentShape shape, bool records);

/// The shape of the table at `at`, if it is the one expected.
Result<SegmentShape> check_root(std::byte const* at, Kind kind, bool records,
                                std::uint64_t superblock_bytes);

/// Of the words of the index superblock that operations and closes change, and of `more` words at
/// kDirectories: the places of arrays. Not of the version, which openings change.
[[nodiscard]] std::uint64_t sum_of_index(std::byte const* superblock, std::uint32_t more);

}  // namespace perdure::dash
