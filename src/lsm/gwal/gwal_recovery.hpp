// What an opening makes of the segments that an earlier process left (gwal.hpp says by which
// rules). Invariant: nothing is changed before all of it was found to be sound; and what is changed
// then, a crash may cut short anywhere: the next opening comes to the same end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/workers.hpp"
#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "lsm/gwal/gwal_scan.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

/// A segment of an earlier process.
struct GwalLeft {
  std::shared_ptr<GwalFile> file;
  GwalSegmentHeader header = {};
  GwalIntentRead intent = {};
  GwalScanned scanned = {};
};

/// All that are there, oldest first, with headers that pass.
Result<std::vector<GwalLeft>> find_gwal_segments(GwalFiles& files, GwalIdentity const& identity);

/// How many of them, the oldest, RocksDB has.
Result<std::size_t> ingested_gwal_segments(std::span<GwalLeft const> segments,
                                           std::uint64_t rocks_sequence);

/// Fills in what each of them holds. The workers may be none.
void scan_gwal_segments(std::span<GwalLeft> segments, GwalIdentity const& identity,
                        exec::Workers* workers);

/// Damage, if what is missing cannot be explained. Else the segment, if there is one, of which the
/// end of the system took what had not been synced: all behind that is to go.
Result<std::optional<std::size_t>> check_gwal_segments(std::span<GwalLeft const> segments,
                                                       std::uint64_t boot);

/// Both copies of each intent say what counts. Before anything follows from that: of an intent that
/// is written later a crash may tear the copy that counts, and an older one must not take its
/// place.
Status mend_gwal_intents(std::span<GwalLeft> segments);

/// Nothing behind the end of the first segment passes any more, and the others are gone.
Status cut_gwal_segments(std::span<GwalLeft> segments);

}  // namespace perdure::lsm
