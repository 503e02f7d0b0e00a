// The log's entries of a batch of writes, on a machine: where they go, and, where single threads
// would write them badly, a launch of their own before phase two (kernels/batch_ops.hpp).
// Invariant: each position's entry is written once a pass, by this launch or by phase two.
#pragma once

#include "base/assert.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/engine/write_buffers.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "wal/entries.hpp"

namespace perdure {

template <class Machine>
Status show_entries(Launcher<Machine>& launcher, WriteBuffers<Machine>& writes,
                    Reservation const& reservation, WriteView& batch) {
  batch.entries = reservation.entries;
  batch.undoable = reservation.undoable;
  if (reservation.segments.empty()) return {};
  if (Status s = launcher.send(writes.segments, reservation.segments); !s.ok()) return s;
  batch.entries.segments = writes.segments.data();
  return {};
}

/// Afterwards phase two writes none, if they have been written.
template <class Machine, class Ops>
Status log_entries_apart(Launcher<Machine>& launcher, PublishBody<Ops>& phase_two) {
  if constexpr (Machine::kPoolIsFar && Ops::kLogged) {
    wal::EntryRegion& region = phase_two.batch.entries;
    if (region.segments == nullptr || region.cell_bytes == sizeof(wal::LogEntry)) return {};
    LogEntriesBody<Ops> const log{phase_two.batch, phase_two.table};
    region.segments = nullptr;
    return launcher.template count<typename Machine::Warp>(log, items_of(phase_two.batch.n));
  }
  return {};
}

}  // namespace perdure
