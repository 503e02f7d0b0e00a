// Finding the records of segments that an earlier process left, by all workers. Invariant: nothing
// is written, and what was found was read from the medium once, so that finding it again finds the
// same.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<std::uint64_t> behind;  // a record that passes there although one before it is not
};

/// Segment i has the number first + i.
[[nodiscard]] std::vector<GwalScanned> scan_gwal(
    std::span<std::span<std::byte const> const> segments, std::uint64_t first,
    GwalIdentity const& identity, exec::Workers& workers);

}  // namespace perdure::lsm
