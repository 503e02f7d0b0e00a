// The numbers of batches, which records carry. The root leases them, many at a time, before a
// record may have one, so that a store that was killed goes on above all of its records.
#pragma once

#include <cstdint>
#include <string_view>

#include "pm/pool.hpp"

namespace perdure::pm {

inline constexpr std::string_view kRecordNumbers = "record.numbers";  // value: the highest leased

/// Records may carry numbers up to this one.
[[nodiscard]] std::uint64_t leased_numbers(Pool const& pool);
/// From here on they may carry numbers up to `most`.
void lease_numbers(Pool& pool, std::uint64_t most);

}  // namespace perdure::pm
