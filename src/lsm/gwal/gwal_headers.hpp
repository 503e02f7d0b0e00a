// What the G-WAL's headers must hold, and what is said of those that do not. Invariant: whatever is
// refused is named, with the way out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

[[nodiscard]] GwalIdentity gwal_identity(std::string const& identity);

/// The same error, which says whose it is.
[[nodiscard]] inline Status of_gwal(Status const& s) { return {s.code(), "G-WAL: " + s.message()}; }
/// A segment (by its path) that is damaged, and the way out.
[[nodiscard]] Status gwal_damaged(std::string const& path, std::string const& how);
[[nodiscard]] Status gwal_lock_damaged(std::string const& directory);

[[nodiscard]] Status check_gwal_lock(GwalLockHeader const& h, std::string const& directory,
                                     GwalIdentity const& identity);
[[nodiscard]] Status check_gwal_segment(GwalSegmentHeader const& h, std::string const& path,
                                        GwalIdentity const& identity, std::uint64_t number,
                                        std::uint64_t file_bytes);

/// What the two copies of the intent say: the sequence number, or kNoGwalIntent.
struct GwalIntentRead {
  std::uint64_t rocks_sequence = kNoGwalIntent;
  /// One copy passes, and the other holds something else: as a crash leaves them.
  std::optional<std::size_t> differs = {};  // the copy that does not count
};
[[nodiscard]] Result<GwalIntentRead> read_gwal_intent(std::byte const* segment,
                                                      std::string const& path,
                                                      GwalIdentity const& identity,
                                                      std::uint64_t number);

}  // namespace perdure::lsm
