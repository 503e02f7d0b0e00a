// Finding the records of segments that an earlier process left, by all workers. Invariant: nothing
// is written, so that who looks again finds the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_format.hpp"

namespace perdure::lsm {

struct GwalScanned {
  std::vector<GwalRecord> records;  // that pass, one behind the other
  std::uint64_t end = kGwalRecords;  // of the last
  bool torn = false;  // another was being written there
  // Records that pass although one before them does not: their places, and how far the segment was
  // synced when the last of them was written.
  std::vector<std::uint64_t> behind = {};
  std::uint64_t synced_behind = 0;
  std::uint64_t synced = 0;  // the same of `records`
};

/// Segment i has the number first + i.
[[nodiscard]] std::vector<GwalScanned> scan_gwal(
    std::span<std::span<std::byte const> const> segments, std::uint64_t first,
    GwalIdentity const& identity, exec::Workers& workers);

}  // namespace perdure::lsm
