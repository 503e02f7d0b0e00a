// A pass of a small batch of writes, and before the first the grouping, behind the last the records
// that nobody needs: one launch, for several would take longer than what they do. Invariant: the
// steps are those of a larger batch, in their order.
#pragma once

#include <cstdint>

#include "store/gphash/engine/batch_entries_on.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/cache_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// What it works with beside the batch.
struct Chain {
  std::uint64_t grouped = 0;  // operations that are to be hashed and brought together
  std::uint64_t* left = nullptr;  // positions that lanes leave
  std::uint64_t* counters = nullptr;
  Deferred planned;  // gets
  wal::UndoRegion undo;
  bool undoes = false;
  std::uint64_t follows = 0;  // items of FollowChangesBody
  bool releases = false;  // the records of the batch, once nothing of it is pending
  bool undoable = false;  // and so is undone where it found a damaged record
  std::uint8_t* statuses = nullptr;  // of the host
};

/// All that a launch is given. The steps' bodies are made where they run, and it lends them the
/// batch and the table: a launch takes longer the more it is given, and a kernel that copies a
/// table to its threads takes 6 us more each time. The launch's end is an ordering point, which the
/// host waits for; layout `log` needs no other.
template <class Ops, class Machine>
struct ChainSteps {
  using Solo = typename Machine::Solo;
  WriteView batch;
  gphash::TableView table;
  Chain chain;
  RecordMap records;
  exec::Counts* counts;
  exec::Counts* counts_twin;
  pm::Memory memory;

  /// run(step) for one after the other.
  template <class Run>
  PERDURE_FN void each(Run run) const {
    group(run);
    plan(run);
    between_phases(run);
    if constexpr (!Ops::kLogged) run(Machine::order_step());
    run(counted<Solo>(phase_two<Machine, Ops, Lent>(batch, table), batch.n));
    end(run);
  }

 private:
  /// Of so many items at most, where `listed` says how many there are.
  template <class W, class Body>
  PERDURE_FN auto counted(Body const& body, std::uint64_t items,
                          std::uint64_t const* listed = nullptr) const {
    return Machine::template warps_step<W>(items, body, memory, counts, listed);
  }
  template <class W, class Body>
  PERDURE_FN auto uncounted(Body const& body, std::uint64_t items) const {
    return Machine::template warps_step<W>(items, body, memory, nullptr);
  }
  [[nodiscard]] PERDURE_FN std::uint64_t gets() const {
    return chain.planned.entries != nullptr ? batch.n : 0;
  }

  template <class Run>
  PERDURE_FN void group(Run run) const {
    BeginPassBody const begin{counts, chain.counters, 3, chain.planned.entries, 2 * gets()};
    run(Machine::both_steps(Machine::threads_step(chain.grouped, HashBody{batch}),
                            Machine::threads_step(begin.items(), begin)));
    run(Machine::group_step(batch.order, chain.grouped, chain.counters + 2));
  }

  template <class Run>
  PERDURE_FN void plan(Run run) const {
    using Warp = typename Machine::Warp;
    using Lone = typename Machine::LoneWarp;
    LanePerKeyPlanBody<Ops, Lent> const lanes{batch, table, chain.left, chain.counters,
                                              chain.planned};
    run(counted<Lone>(lanes, items_of(batch.n)));
    PlanBody<Ops, Lent> const rest{batch, table, chain.left, chain.counters};
    run(counted<Warp>(rest, batch.n, chain.counters));
    run(counted<Warp>(GatherBody<Ops, Lent>{batch, table, chain.planned, gets()},
                      items_of(gets())));
  }

  /// Entries of the log, or what undoes them; and what the cache is to know.
  template <class Run>
  PERDURE_FN void between_phases(Run run) const {
    using Warp = typename Machine::Warp;
    auto const follow = uncounted<Warp>(FollowChangesBody<Ops, Lent>{batch, table}, chain.follows);
    if constexpr (Ops::kLogged) {
      std::uint64_t const items = entries_apart<Machine, Ops>(batch) ? items_of(batch.n) : 0;
      run(Machine::both_steps(counted<Warp>(LogEntriesBody<Ops, Lent>{batch, table}, items),
                              follow));
    } else {
      UndoBody<Ops, Lent> const body{batch, chain.undo};
      run(Machine::both_steps(counted<Solo>(body, chain.undoes ? batch.n : 0), follow));
    }
  }

  template <class Run>
  PERDURE_FN void end(Run run) const {
    GiveBackWhenDoneBody const release{
        {records, batch.reserved, batch.unlinked, batch.used}, counts, chain.undoable};
    TellHostBody const tell{counts, counts_twin, batch.status, chain.statuses, batch.n};
    // what crosses the link first
    run(Machine::both_steps(Machine::threads_step(tell.items(), tell),
                            uncounted<Solo>(release, chain.releases ? batch.n : 0)));
  }
};

template <class Ops, class Machine>
Status launch_chain(Launcher<Machine>& launcher, EngineState<Machine>& state,
                    WriteView const& batch, Chain const& chain) {
  return launcher.machine.chain(
      batch.n,
      ChainSteps<Ops, Machine>{batch, state.table, chain, state.records, launcher.counts_here(),
                               launcher.counts_twin(), launcher.memory()});
}

}  // namespace perdure
