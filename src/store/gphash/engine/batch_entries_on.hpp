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
  if (Status s = writes.segments.send(launcher, reservation.segments); !s.ok()) return s;
  batch.entries.segments = writes.segments.data();
  return {};
}

/// Whether a launch of their own writes them.
template <class Machine, class Ops>
PERDURE_FN bool entries_apart(WriteView const& batch) {
  return Machine::kPoolIsFar && Ops::kLogged && batch.entries.segments != nullptr &&
         batch.entries.cell_bytes > sizeof(wal::LogEntry);
}

template <class Ops, class Machine>
Status log_entries_apart(Launcher<Machine>& launcher, WriteView const& batch,
                         gphash::TableView const& table) {
  if constexpr (Machine::kPoolIsFar && Ops::kLogged) {
    LogEntriesBody<Ops> const body{batch, table};
    if (entries_apart<Machine, Ops>(batch))
      return launcher.template count<typename Machine::Warp>(body, items_of(batch.n));
  }
  return {};
}

template <class Machine, class Ops, template <class> class Has = Held>
PERDURE_FN PublishBody<Ops, Has> phase_two(WriteView const& batch, gphash::TableView const& table) {
  return {batch, table, entries_apart<Machine, Ops>(batch)};
}

}  // namespace perdure
