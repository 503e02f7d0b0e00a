// How openings, repairs and verify say what they found and changed, whatever the index. Invariant:
// a report names kMostFaults at most, and counts all.
#pragma once

#include <string>
#include <vector>

#include "perdure/store.h"

namespace perdure {

inline constexpr std::size_t kMostFaults = 100;  // that reports name

/// Of a pool that was closed in order and has changed since: what `lines` say of it, and the way
/// out.
[[nodiscard]] Status changed_since_close(std::string const& path,
                                         std::vector<std::string> const& lines);
/// Of a pool that a repair was to drop more of.
[[nodiscard]] Status repair_cut_off(std::string const& path);
/// The same, to a reader beside its writer, which may be about to.
[[nodiscard]] Status repair_not_over(std::string const& path);
/// Of a pool that recovery would have to change, opened so that nothing may.
[[nodiscard]] Status unrecovered_read_only(std::string const& path);
/// Notes what recovery or a repair changed.
void note_changes(RecoveryReport& report, std::vector<std::string> const& lines);
/// What repairs changed and nobody has acknowledged are faults.
void add_unacknowledged(std::vector<std::string> const& lines, VerifyReport& report);

}  // namespace perdure
