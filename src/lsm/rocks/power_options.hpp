// Which log a database is opened with: the G-WAL of durability process, or the power log. Each
// knows what it has itself and not what the other has. Invariant: a database is opened with one of
// them only where the other has nothing that RocksDB lacks.
#pragma once

#include <optional>
#include <string>

#include "lsm/gwal/gwal.hpp"
#include "lsm/gwal/gwal_power_note.hpp"
#include "perdure/rocks.h"
#include "perdure/status.h"

namespace perdure::lsm {

/// Completes the options of a log whose directory and identity are there.
Status choose_log(GwalOptions& options, rocks::GpuOptions const& gpu, std::string const& path);

/// Of who only reads, and so no power log: nothing in it may be missing. `note`: what stood there
/// before RocksDB was opened.
Status check_no_power_log(std::optional<GwalPowerNoteRead> const& note, std::string const& identity,
                          std::string const& path);

}  // namespace perdure::lsm
