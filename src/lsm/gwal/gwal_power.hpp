// The G-WAL of durability `power`: the redo log on a disk is the log, and a segment is memory
// alone, the memtables' value buffer. So a process that is killed and a power loss are the same to
// it: what comes back is what the redo log has.
//
// Invariants, besides those of gwal.hpp:
//  1. commit() returns when the record, and all before it, is durable on the disk.
//  2. The log's images say which segment is the oldest that RocksDB may lack, and where it begins.
//     intend() writes that number into both of them, retire() the next segment into one, and each
//     is durable before the call returns. So whichever image counts, a segment that RocksDB has
//     comes with its intent, or not at all.
//  3. The ring is written over only before the place that both images name.
//  4. The note (gwal_power_note.hpp) is there from before the first record until close() finds all
//     segments retired.
#pragma once

#include <memory>

#include "lsm/gwal/gwal.hpp"
#include "perdure/status.h"

namespace perdure::lsm {

/// `options.power` says where.
[[nodiscard]] Result<std::unique_ptr<Gwal>> open_gwal_power(GwalOptions const& options);

}  // namespace perdure::lsm
