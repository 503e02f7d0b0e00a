// A pass of a small batch of writes, and before the first the grouping, behind the last the records
// that nobody needs: one launch, for several would take longer than what they do. Invariant: the
// steps are those of a larger batch, in their order.
#pragma once

#include <cstdint>
#include <optional>

#include "store/gphash/engine/batch_entries_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/cache_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// What it works with beside the batch.
struct Chain {
  std::uint64_t grouped = 0;  // operations that are to be hashed and sorted
  std::uint64_t* left = nullptr;  // positions that lanes leave
  std::uint64_t* counters = nullptr;
  Deferred planned;  // gets
  std::optional<wal::UndoRegion> undo;
  std::uint64_t follows = 0;  // items of FollowChangesBody
  bool releases = false;  // the records of the batch, once nothing of it is pending
  std::uint8_t* statuses = nullptr;  // of the host
};

/// What stands between the phases: entries of the log, or what undoes them.
template <class Ops, class Machine>
auto between_phases(Launcher<Machine>& launcher, gphash::TableView const& table,
                    WriteView const& batch, std::optional<wal::UndoRegion> const& undo) {
  if constexpr (Ops::kLogged) {
    return entries_step<Ops>(launcher, batch, table);
  } else {
    UndoBody<Ops> const body{batch, undo.value_or(wal::UndoRegion{})};
    return launcher.template count_step<typename Machine::Solo>(body, undo ? batch.n : 0);
  }
}

template <class Ops, class Machine>
Status launch_chain(Launcher<Machine>& launcher, EngineState<Machine>& state,
                    WriteView const& batch, Chain const& chain) {
  using Warp = typename Machine::Warp;
  using Solo = typename Machine::Solo;
  gphash::TableView const& table = state.table;
  std::uint64_t const n = batch.n, gets = chain.planned.entries != nullptr ? n : 0;
  BeginPassBody const begin{launcher.counts_here(), chain.counters, 2, chain.planned.entries,
                            2 * gets};
  LanePerKeyPlanBody<Ops> const plan{batch, table, chain.left, chain.counters, chain.planned};
  PlanBody<Ops> const rest{batch, table, chain.left, chain.counters};
  GatherBody<Ops> const gather{batch, table, chain.planned, gets};
  FollowChangesBody<Ops> const follow{batch, table};
  PublishBody<Ops> const publish = phase_two<Machine, Ops>(batch, table);
  GiveBackWhenDoneBody const release{{state.records, batch.reserved, batch.unlinked, batch.used},
                                     launcher.counts_here()};
  TellHostBody const tell{launcher.counts_here(), launcher.counts_twin(), batch.status,
                          chain.statuses, n};
  return launcher.machine.chain(
      n,
      Machine::both_steps(Machine::threads_step(chain.grouped, HashBody{batch}),
                          Machine::threads_step(begin.items(), begin)),
      Machine::sort_step(batch.order, chain.grouped),
      launcher.template count_step<Warp>(plan, items_of(n)),
      launcher.template count_step<Warp>(rest, n, chain.counters),
      launcher.template count_step<Warp>(gather, items_of(gets)),
      Machine::both_steps(between_phases<Ops>(launcher, table, batch, chain.undo),
                          launcher.template run_step<Warp>(follow, chain.follows)),
      Machine::order_step(), launcher.template count_step<Solo>(publish, n), Machine::order_step(),
      Machine::both_steps(launcher.template run_step<Solo>(release, chain.releases ? n : 0),
                          Machine::threads_step(tell.items(), tell)));
}

}  // namespace perdure
